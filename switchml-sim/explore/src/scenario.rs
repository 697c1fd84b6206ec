//! What is explored: one job, one lane, one list of collectives.

use core::fmt;
use core::str::FromStr;

use anyhow::{Context, Result, ensure};
use switchml_proto::numeric::{ElementType, Reduction};
use switchml_proto::worker::{Collective, Conversion};
use switchml_proto::{ChunkSize, JobId, LaneLayout, Seq, Window, WorldSize};

/// The job's number; there is one job.
pub(crate) const JOB: JobId = JobId(7);

/// The most workers that a state has room for.
pub(crate) const MAX_WORKERS: usize = 3;

/// The most slots that inputs are numbered for; what is wider would take too long anyway.
pub(crate) const MAX_WINDOW: usize = 4;

/// Elements of a full chunk: few, so that states are cheap.
pub(crate) const CHUNK: ChunkSize = ChunkSize::MIN;

/// The last chunk of a tensor has as few elements as the symbols take: the rest of its packet is padding.
const LAST: u64 = 3;

/// How one tensor is reduced.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// Integers: packets 0..C-1 carry the chunks.
    Integer,
    /// Block floating point: each chunk's exponent goes ahead.
    Block,
}

/// One collective of the list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) form: Form,
    /// C.
    pub(crate) chunks: u32,
}

/// When a worker hands its packets to the network.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Sending {
    /// All that may be sent, at once.
    Prompt,
    /// One packet at a time, whenever the schedule wants it: a host may take several results before it sends.
    Late,
}

/// Where the lane's seqs begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Start {
    /// At 0.
    Zero,
    /// 2W before they wrap: they do so in the third phase of each slot.
    BeforeWrap,
}

/// How many packets a worker keeps in flight.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Flight {
    /// As many as the window has.
    Window,
    /// Any number from one to W, another one at any time and at each worker: whatever T-10 may come to.
    Any,
}

/// One job that is explored.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) workers: usize,
    pub(crate) window: usize,
    pub(crate) start: Start,
    pub(crate) sending: Sending,
    pub(crate) flight: Flight,
    pub(crate) tensors: Vec<Tensor>,
    /// What the last rank calls instead, where the members do not agree (D-1).
    pub(crate) dissent: Option<Vec<Tensor>>,
}

impl Tensor {
    pub(crate) fn collective(self) -> Collective {
        let len = match self.chunks {
            0 => 0,
            chunks => u64::from(chunks - 1) * CHUNK.elements() as u64 + LAST,
        };
        match self.form {
            Form::Integer => {
                Collective::all_reduce(len, ElementType::Int32, Reduction::Sum, Conversion::Integer)
            }
            Form::Block => {
                Collective::all_reduce(len, ElementType::Float32, Reduction::Sum, Conversion::Block)
            }
        }
        .expect("the conversion is one for the type")
    }

    /// T-3's number of packets.
    pub(crate) fn packets(self, window: usize) -> u32 {
        let ahead = match self.form {
            Form::Integer => 0,
            Form::Block => self.chunks.min(window as u32),
        };
        (ahead + self.chunks).max(1)
    }
}

impl Scenario {
    pub(crate) fn layout(&self) -> LaneLayout {
        let window = Window::new(self.window).expect("checked by whoever made the scenario");
        LaneLayout::new(0, window, CHUNK).expect("a small window fits")
    }

    pub(crate) fn world_size(&self) -> WorldSize {
        WorldSize::new(self.workers).expect("checked by whoever made the scenario")
    }

    pub(crate) fn initial_seq(&self) -> Seq {
        match self.start {
            Start::Zero => Seq(0),
            Start::BeforeWrap => Seq(0).minus(2 * self.window as u32),
        }
    }

    /// The list that a rank calls.
    pub(crate) fn list(&self, rank: usize) -> &[Tensor] {
        match &self.dissent {
            Some(dissent) if rank == self.workers - 1 => dissent,
            _ => &self.tensors,
        }
    }

    /// Packets of the longest list.
    pub(crate) fn packets(&self) -> u32 {
        let packets = |list: &[Tensor]| list.iter().map(|tensor| tensor.packets(self.window)).sum::<u32>();
        packets(&self.tensors).max(self.dissent.as_deref().map_or(0, packets))
    }

    /// # Errors
    /// Says which bound the scenario breaks.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!((1..=MAX_WORKERS).contains(&self.workers), "1 to {MAX_WORKERS} workers");
        Window::new(self.window)?;
        ensure!(self.window <= MAX_WINDOW, "a window of {MAX_WINDOW} at most");
        ensure!(self.packets() <= 32, "{self}: more than 32 packets");
        // Each packet is one request of each worker, and one result to each.
        ensure!(self.packets() as usize * self.workers <= 128, "{self}: more than 128 packets to tell apart");
        Ok(())
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workers, window, start, sending, .. } = self;
        let start = match start {
            Start::Zero => "zero",
            Start::BeforeWrap => "before-wrap",
        };
        let sending = match sending {
            Sending::Prompt => "prompt",
            Sending::Late => "late",
        };
        write!(f, "--workers {workers} --window {window} --start {start} --sending {sending}")?;
        if self.flight == Flight::Any {
            f.write_str(" --flight any")?;
        }
        f.write_str(" --tensors ")?;
        write_list(f, &self.tensors)?;
        if let Some(dissent) = &self.dissent {
            f.write_str(" --dissent ")?;
            write_list(f, dissent)?;
        }
        Ok(())
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, list: &[Tensor]) -> fmt::Result {
    for (index, tensor) in list.iter().enumerate() {
        write!(f, "{}{tensor}", if index == 0 { "" } else { "," })?;
    }
    Ok(())
}

/// A letter for the form, and C: `i3`, `b0`.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.form {
            Form::Integer => 'i',
            Form::Block => 'b',
        };
        write!(f, "{letter}{}", self.chunks)
    }
}

impl FromStr for Tensor {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (form, chunks) = match text.split_at_checked(1) {
            Some(("i", chunks)) => (Form::Integer, chunks),
            Some(("b", chunks)) => (Form::Block, chunks),
            _ => anyhow::bail!("'{text}' is no tensor: i or b, and its number of chunks, as in i3"),
        };
        Ok(Self { form, chunks: chunks.parse().with_context(|| format!("'{text}': no number of chunks"))? })
    }
}
