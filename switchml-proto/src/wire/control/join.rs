//! Join and welcome: how a lane of a rank becomes a member (C-1, C-2).

use core::fmt::{self, Write};

use zerocopy::IntoBytes;

use super::{ControlError, Writer, kind, prefix, unused, zeros};
use crate::ids::{
    ChunkSize, JobId, LaneCount, LaneId, LaneLayout, Nonce, Rank, Seq, SessionId, Window, WorkerSet,
    WorldSize,
};
use crate::wire::raw;

/// What a member asks for (C-1). Each lane of each rank joins from its own address.
///
/// The rank must be below the world size, and the lane below the number of lanes: other joins do not parse.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_structs, reason = "the fields of the message")]
pub struct Join {
    /// Name of the job: with `run`, its key.
    pub name: JobName,
    /// Tells runs of one name apart.
    pub run: u64,
    /// Number of workers.
    pub world_size: WorldSize,
    /// Which of them this is.
    pub rank: Rank,
    /// Number of lanes.
    pub lanes: LaneCount,
    /// Which of them this is.
    pub lane: LaneId,
    /// Elements of a packet.
    pub chunk: ChunkSize,
    /// Slots of a lane.
    pub window: Window,
    /// Of the process that joins.
    pub nonce: Nonce,
    /// From the challenge; 0 before there was one.
    pub cookie: u64,
}

/// What a member needs to know to take part (C-2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_structs, reason = "the fields of the message")]
pub struct Welcome {
    /// The job's number.
    pub job: JobId,
    /// Rank of the join.
    pub rank: Rank,
    /// Lane of the join.
    pub lane: LaneId,
    /// Nonce of the join.
    pub nonce: Nonce,
    /// The session.
    pub session: SessionId,
    /// First slot in each lane.
    pub base: u16,
    /// s0 in each lane.
    pub initial_seq: Seq,
    /// How long a member may be silent, in milliseconds.
    pub lease_millis: u32,
    /// Ranks of which some lane has not joined; none once all have joined.
    pub missing: WorkerSet,
    /// Whether all have joined and the slots are set up: data may flow.
    pub ready: bool,
}

impl Join {
    pub(super) fn parse(head: &raw::Head, body: &[u8]) -> Result<Self, ControlError> {
        let (raw, rest) = prefix::<raw::Join>(body)?;
        let options_len = usize::from(raw.options_len.get());
        let Some((name, rest)) = rest.split_at_checked(raw.name_len.into()) else {
            return Err(ControlError::Length);
        };
        if options_len > rest.len() {
            return Err(ControlError::Length);
        }
        if options_len > 0 {
            let nonce = Nonce(head.token.get());
            return Err(ControlError::Option { rank: head.rank, lane: head.lane, nonce });
        }
        zeros(rest)?;
        unused(&[head.job])?;
        let name = core::str::from_utf8(name).ok().and_then(JobName::new).ok_or(ControlError::Value)?;
        let invalid = |_| ControlError::Value;
        let join = Self {
            name,
            run: raw.run.get(),
            world_size: WorldSize::new(raw.world_size.into()).map_err(invalid)?,
            rank: Rank::new(head.rank.into()).map_err(invalid)?,
            lanes: LaneCount::new(raw.lanes.into()).map_err(invalid)?,
            lane: LaneId::new(head.lane.into()).map_err(invalid)?,
            chunk: ChunkSize::from_code(raw.chunk).ok_or(ControlError::Value)?,
            window: Window::new(raw.window.get().into()).map_err(invalid)?,
            nonce: Nonce(head.token.get()),
            cookie: raw.cookie.get(),
        };
        if join.rank.get() >= join.world_size.get() || join.lane.get() >= join.lanes.get() {
            return Err(ControlError::Value);
        }
        Ok(join)
    }

    pub(super) fn emit(&self, out: &mut Writer<'_>) {
        out.head(kind::JOIN, JobId(0), self.rank, self.lane, self.nonce.0);
        out.put(&raw::Join {
            world_size: self.world_size.get(),
            lanes: self.lanes.get(),
            chunk: self.chunk.code(),
            name_len: self.name.len,
            window: self.window.get().into(),
            options_len: 0.into(),
            run: self.run.into(),
            cookie: self.cookie.into(),
        });
        out.put(self.name.as_octets());
    }
}

impl Welcome {
    pub(super) fn parse(head: &raw::Head, body: &[u8]) -> Result<Self, ControlError> {
        let (raw, padding) = prefix::<raw::Welcome>(body)?;
        zeros(padding)?;
        unused(&[raw.reserved])?;
        unused(raw.reserved_word.as_bytes())?;
        let invalid = |_| ControlError::Value;
        Ok(Self {
            job: JobId(head.job),
            rank: Rank::new(head.rank.into()).map_err(invalid)?,
            lane: LaneId::new(head.lane.into()).map_err(invalid)?,
            nonce: Nonce(head.token.get()),
            session: SessionId(raw.session.get()),
            base: raw.base.get(),
            initial_seq: Seq(raw.initial_seq.get()),
            lease_millis: raw.lease_millis.get(),
            missing: WorkerSet::from_bits(raw.missing.get()),
            ready: match raw.ready {
                0 => false,
                1 => true,
                _ => return Err(ControlError::Value),
            },
        })
    }

    pub(super) fn emit(&self, out: &mut Writer<'_>) {
        out.head(kind::WELCOME, self.job, self.rank, self.lane, self.nonce.0);
        out.put(&raw::Welcome {
            session: self.session.0.into(),
            missing: self.missing.bits().into(),
            initial_seq: self.initial_seq.0.into(),
            lease_millis: self.lease_millis.into(),
            base: self.base.into(),
            ready: self.ready.into(),
            reserved: 0,
            reserved_word: 0.into(),
        });
    }

    /// The layout of the job's lanes, if the slots it names exist.
    #[must_use]
    pub fn layout(&self, window: Window, chunk: ChunkSize) -> Option<LaneLayout> {
        LaneLayout::new(self.base, window, chunk).ok()
    }
}

/// Name of a job: 1 to 64 octets of UTF-8 (C-1).
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct JobName {
    len: u8,
    octets: [u8; JobName::MAX_LEN],
}

impl JobName {
    /// The most octets of a name.
    pub const MAX_LEN: usize = 64;

    /// The name `name`, if it has 1 to 64 octets.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        if name.is_empty() {
            return None;
        }
        let mut octets = [0; Self::MAX_LEN];
        octets.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(Self { len: name.len() as u8, octets })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // `new` takes nothing but UTF-8, so the fallback is never seen.
        core::str::from_utf8(self.as_octets()).unwrap_or_default()
    }

    fn as_octets(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

impl fmt::Debug for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// The name with control characters escaped: it comes from the network, and must neither forge a line of a log nor
/// move a terminal's cursor. [`as_str`](Self::as_str) has it as it is.
impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.as_str().chars() {
            if c.is_control() { fmt::Display::fmt(&c.escape_default(), f)? } else { f.write_char(c)? }
        }
        Ok(())
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for JobName {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{=str}", self.as_str());
    }
}
