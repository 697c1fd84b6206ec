//! Which processors threads run on.

use core::fmt;
use core::str::FromStr;
use std::io;

/// Processors by the system's numbers, for threads to be placed on: the thread of lane l gets the l-th of them, and after
/// the last one comes the first again. On Linux only.
///
/// In text they are `0`, `0,2` or `4-7,12`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cpus(Vec<usize>);

impl Cpus {
    /// The most processors that Linux counts here.
    const MOST: usize = 1024;

    /// These processors, in this order. That the system has them shows when a thread is placed.
    ///
    /// # Errors
    /// [`InvalidCpus`] if there is none, or one has a number from 1,024 on.
    pub fn new(cpus: impl IntoIterator<Item = usize>) -> Result<Self, InvalidCpus> {
        // One more than there can be is enough to see that they are too many.
        let cpus: Vec<_> = cpus.into_iter().take(Self::MOST + 1).collect();
        let valid = !cpus.is_empty() && cpus.len() <= Self::MOST && cpus.iter().all(|&cpu| cpu < Self::MOST);
        if valid { Ok(Self(cpus)) } else { Err(InvalidCpus) }
    }

    /// The processor for lane `lane`.
    fn of(&self, lane: usize) -> usize {
        self.0[lane % self.0.len()] // there is at least one
    }

    /// Places the calling thread on the processor for lane `lane`; threads that it starts from now on begin there too.
    ///
    /// A call that blocks for a short tensor serves lane 0 on the caller's thread, which only the caller can place.
    ///
    /// # Errors
    /// [`CannotPlace`] if there is no such processor, or the system does not let a thread choose.
    pub fn place(&self, lane: usize) -> Result<(), CannotPlace> {
        let cpu = self.of(lane);
        run_on(cpu).map_err(|source| CannotPlace { cpu, source })
    }
}

#[cfg(target_os = "linux")]
fn run_on(cpu: usize) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

#[cfg(not(target_os = "linux"))]
fn run_on(_: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl FromStr for Cpus {
    type Err = InvalidCpus;

    fn from_str(list: &str) -> Result<Self, InvalidCpus> {
        let number =
            |text: &str| text.parse().ok().filter(|&cpu: &usize| cpu < Self::MOST).ok_or(InvalidCpus);
        let mut cpus = Vec::new();
        for part in list.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last || cpus.len() > Self::MOST {
                return Err(InvalidCpus);
            }
            cpus.extend(first..=last);
        }
        Self::new(cpus)
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, cpu) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{cpu}")?;
        }
        Ok(())
    }
}

/// No list of processors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InvalidCpus;

impl fmt::Display for InvalidCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a list of processors from 0 to 1023, as 0,2 or 4-7")
    }
}

impl core::error::Error for InvalidCpus {}

/// A thread cannot be placed.
#[derive(Debug)]
#[non_exhaustive]
pub struct CannotPlace {
    /// The processor on which it was to be.
    pub cpu: usize,
    /// What the system says.
    pub source: io::Error,
}

impl fmt::Display for CannotPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, source } = self;
        match source.kind() {
            io::ErrorKind::InvalidInput => {
                write!(
                    f,
                    "no thread can run on processor {cpu}: this machine has none, or this process may not use it"
                )
            }
            io::ErrorKind::Unsupported => {
                write!(f, "no thread can be placed on processor {cpu}: this system does not let it choose")
            }
            _ => write!(f, "no thread can be placed on processor {cpu}: {source}"),
        }
    }
}

/// The message has the cause in it: as a `source` too, it would stand twice where a chain of errors is printed.
impl core::error::Error for CannotPlace {}

#[cfg(test)]
mod tests;
