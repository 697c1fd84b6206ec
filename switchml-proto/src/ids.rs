//! The names of things: jobs, ranks, lanes, slots, sequence numbers.
//!
//! Every type here can only hold a valid value, so the machines that use them need not check again.

use core::fmt;

/// Number of a session, given by the aggregator; it rests for [`MSL`](crate::MSL) after the session ends (W-3).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct JobId(pub u8);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// 64 random bits that name one session, so that an old message cannot touch a new session (C-3).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SessionId(pub u64);

/// 64 random bits that name one process which joins (C-2).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Nonce(pub u64);

/// Number of workers in a job, 1 to [`WorldSize::MAX`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WorldSize(u8);

impl WorldSize {
    /// The most workers that one aggregator serves in a job: one bit each in a [`WorkerSet`].
    pub const MAX: usize = 64;

    /// A world of `workers` workers.
    ///
    /// # Errors
    /// [`InvalidId`] if `workers` is 0 or more than [`WorldSize::MAX`].
    pub const fn new(workers: usize) -> Result<Self, InvalidId> {
        if workers == 0 || workers > Self::MAX {
            return Err(InvalidId::WorldSize { workers });
        }
        Ok(Self(workers as u8))
    }

    /// Workers, 1 to 64.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// h = ceil(log2 n), 0 to 6: the bits that a sum of n numbers may need beyond those of one (section 5).
    #[must_use]
    #[inline]
    pub const fn headroom(self) -> u32 {
        (self.0 as u32).next_power_of_two().trailing_zeros()
    }

    /// All ranks of this world, in order.
    pub fn ranks(self) -> impl ExactSizeIterator<Item = Rank> {
        (0..self.0).map(Rank)
    }
}

impl fmt::Display for WorldSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A worker's number in its job, 0 to 63.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rank(u8);

impl Rank {
    /// The first rank, which every job has.
    pub const ZERO: Self = Self(0);

    /// Rank `rank` of some world.
    ///
    /// # Errors
    /// [`InvalidId`] if `rank` is not below [`WorldSize::MAX`].
    pub const fn new(rank: usize) -> Result<Self, InvalidId> {
        if rank >= WorldSize::MAX {
            return Err(InvalidId::Rank { rank });
        }
        Ok(Self(rank as u8))
    }

    /// The number, 0 to 63.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number, as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A set of ranks: one bit for each, bit r for rank r.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WorkerSet(u64);

impl WorkerSet {
    /// No rank.
    pub const EMPTY: Self = Self(0);

    /// All ranks of a world.
    #[must_use]
    pub const fn all(world_size: WorldSize) -> Self {
        Self(u64::MAX >> (64 - world_size.0 as u32))
    }

    /// The set with these bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// One bit for each rank.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// This set and `rank`.
    #[must_use]
    pub const fn with(self, rank: Rank) -> Self {
        Self(self.0 | 1 << rank.0)
    }

    /// Whether `rank` is in the set.
    #[must_use]
    pub const fn contains(self, rank: Rank) -> bool {
        self.0 >> rank.0 & 1 == 1
    }

    /// Whether the set holds no rank.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many ranks.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The ranks of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The ranks in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The ranks in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The ranks, lowest first.
    pub fn iter(self) -> impl Iterator<Item = Rank> {
        (0..64).map(Rank).filter(move |&rank| self.contains(rank))
    }
}

/// `0, 3, 5`; nothing for the empty set.
impl fmt::Display for WorkerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, rank) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            fmt::Display::fmt(&rank, f)?;
        }
        Ok(())
    }
}

/// An independent stream of a job, 0 to 15: its own UDP port, its own slots (W-9).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LaneId(u8);

impl LaneId {
    /// The first lane, which every job has.
    pub const ZERO: Self = Self(0);

    /// Lane `lane`.
    ///
    /// # Errors
    /// [`InvalidId`] if `lane` is not below [`LaneCount::MAX`].
    pub const fn new(lane: usize) -> Result<Self, InvalidId> {
        if lane >= LaneCount::MAX {
            return Err(InvalidId::Lane { lane });
        }
        Ok(Self(lane as u8))
    }

    /// The number, 0 to 15.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number, as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// How many lanes, 1 to [`LaneCount::MAX`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LaneCount(u8);

impl LaneCount {
    /// The most lanes of an aggregator (W-9).
    pub const MAX: usize = 16;

    /// `lanes` lanes.
    ///
    /// # Errors
    /// [`InvalidId`] if `lanes` is 0 or more than [`LaneCount::MAX`].
    pub const fn new(lanes: usize) -> Result<Self, InvalidId> {
        if lanes == 0 || lanes > Self::MAX {
            return Err(InvalidId::Lanes { lanes });
        }
        Ok(Self(lanes as u8))
    }

    /// Lanes, 1 to 16.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The lanes, in order.
    pub fn lanes(self) -> impl ExactSizeIterator<Item = LaneId> {
        (0..self.0).map(LaneId)
    }
}

/// Running number of a packet in its lane, modulo 2^32; never reset in a session (T-1).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Seq(pub u32);

impl Seq {
    /// The number `packets` later.
    #[must_use]
    pub const fn plus(self, packets: u32) -> Self {
        Self(self.0.wrapping_add(packets))
    }

    /// The number `packets` earlier.
    #[must_use]
    pub const fn minus(self, packets: u32) -> Self {
        Self(self.0.wrapping_sub(packets))
    }

    /// How many packets `self` comes after `earlier`, modulo 2^32.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Which of a slot's two buffers is addressed; the other one is the shadow copy.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[allow(clippy::exhaustive_enums, reason = "one bit on the wire")]
pub enum Version {
    /// Version bit clear.
    Zero,
    /// Version bit set.
    One,
}

impl Version {
    /// The other buffer of the slot.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Zero => Self::One,
            Self::One => Self::Zero,
        }
    }

    /// 0 or 1.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Elements of a full packet, k = 32 * 2^code with code 0 to 6 (W-2).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ChunkSize(u8);

impl ChunkSize {
    /// 32 elements, 128 octets.
    pub const MIN: Self = Self(0);
    /// 2,048 elements, 8,192 octets.
    pub const MAX: Self = Self(6);
    /// 256 elements, 1,024 octets: fits an Ethernet frame.
    pub const DEFAULT: Self = Self(3);

    /// The size of `elements` elements.
    ///
    /// # Errors
    /// [`InvalidId`] if `elements` is none of 32, 64, 128, 256, 512, 1024 and 2048.
    pub const fn from_elements(elements: usize) -> Result<Self, InvalidId> {
        if !elements.is_power_of_two() || elements < 32 || elements > 2048 {
            return Err(InvalidId::ChunkSize { elements });
        }
        Ok(Self((elements.trailing_zeros() - 5) as u8))
    }

    /// The size with this code on the wire, if 0 to 6.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        if code > Self::MAX.0 { None } else { Some(Self(code)) }
    }

    /// The code on the wire, 0 to 6.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Elements, 32 to 2,048.
    #[must_use]
    pub const fn elements(self) -> usize {
        32 << self.0
    }

    /// Octets of the elements, 128 to 8,192.
    #[must_use]
    pub const fn octets(self) -> usize {
        4 * self.elements()
    }

    /// Octets of a data packet that carries such a chunk, 138 to 8,202.
    #[must_use]
    pub const fn datagram_len(self) -> usize {
        crate::wire::HEADER_LEN + self.octets()
    }

    /// The largest size whose data packet fits `octets` octets of UDP payload, if any does.
    #[must_use]
    pub const fn largest_within(octets: usize) -> Option<Self> {
        let mut code = Self::MAX.0;
        loop {
            if Self(code).datagram_len() <= octets {
                return Some(Self(code));
            }
            if code == 0 {
                return None;
            }
            code -= 1;
        }
    }
}

/// The slots of a lane, W: a power of two, 1 to 16,384.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Window(u16);

impl Window {
    /// The most slots that 14 bits can name.
    pub const MAX: usize = 1 << 14;
    /// 128 slots.
    pub const DEFAULT: Self = Self(128);

    /// A window of `slots` slots.
    ///
    /// # Errors
    /// [`InvalidId`] if `slots` is not a power of two from 1 to [`Window::MAX`].
    pub const fn new(slots: usize) -> Result<Self, InvalidId> {
        if !slots.is_power_of_two() || slots > Self::MAX {
            return Err(InvalidId::Window { slots });
        }
        Ok(Self(slots as u16))
    }

    /// Slots, 1 to 16,384.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// Where the packets of one lane of one job go: its slots and the size of its chunks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LaneLayout {
    base: u16,
    window: Window,
    chunk: ChunkSize,
}

impl LaneLayout {
    /// The slots `base` up to, not including, `base + window`.
    ///
    /// # Errors
    /// [`InvalidId`] if they go beyond the 14 bits that name a slot.
    pub const fn new(base: u16, window: Window, chunk: ChunkSize) -> Result<Self, InvalidId> {
        if base as usize + window.0 as usize > Window::MAX {
            return Err(InvalidId::Base { base, window });
        }
        Ok(Self { base, window, chunk })
    }

    /// First slot.
    #[must_use]
    pub const fn base(self) -> u16 {
        self.base
    }

    /// Number of slots, W.
    #[must_use]
    pub const fn window(self) -> Window {
        self.window
    }

    /// Elements of a full packet, k.
    #[must_use]
    pub const fn chunk(self) -> ChunkSize {
        self.chunk
    }

    /// Index of the packet's slot within the lane's window: seq mod W.
    #[must_use]
    pub const fn index(self, seq: Seq) -> usize {
        (seq.0 & (self.window.0 as u32 - 1)) as usize
    }

    /// The packet's slot: base + seq mod W (W-5).
    #[must_use]
    pub const fn slot(self, seq: Seq) -> u16 {
        self.base + self.index(seq) as u16
    }

    /// The packet's version: (seq / W) mod 2 (W-5).
    #[must_use]
    pub const fn version(self, seq: Seq) -> Version {
        if seq.0 & self.window.0 as u32 == 0 { Version::Zero } else { Version::One }
    }

    /// Octets of a full data packet: header and elements.
    #[must_use]
    pub const fn datagram_len(self) -> usize {
        self.chunk.datagram_len()
    }
}

/// A number that names nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum InvalidId {
    /// The world size is not 1 to 64.
    WorldSize {
        /// Workers asked for.
        workers: usize,
    },
    /// The rank is not 0 to 63.
    Rank {
        /// Rank asked for.
        rank: usize,
    },
    /// The lane is not 0 to 15.
    Lane {
        /// Lane asked for.
        lane: usize,
    },
    /// The number of lanes is not 1 to 16.
    Lanes {
        /// Lanes asked for.
        lanes: usize,
    },
    /// The chunk size is none of the seven that exist.
    ChunkSize {
        /// Elements asked for.
        elements: usize,
    },
    /// The window is no power of two, or too large.
    Window {
        /// Slots asked for.
        slots: usize,
    },
    /// The slots go beyond the last that can be named.
    Base {
        /// First slot.
        base: u16,
        /// Number of slots.
        window: Window,
    },
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::WorldSize { workers } => {
                write!(f, "world size {workers} is not from 1 to {}", WorldSize::MAX)
            }
            Self::Rank { rank } => write!(f, "rank {rank} is not from 0 to {}", WorldSize::MAX - 1),
            Self::Lane { lane } => write!(f, "lane {lane} is not from 0 to {}", LaneCount::MAX - 1),
            Self::Lanes { lanes } => write!(f, "{lanes} lanes are not from 1 to {}", LaneCount::MAX),
            Self::ChunkSize { elements } => {
                write!(f, "chunk size {elements} is none of 32, 64, 128, 256, 512, 1024 and 2048 elements")
            }
            Self::Window { slots } => {
                write!(f, "window {slots} is not a power of two from 1 to {} slots", Window::MAX)
            }
            Self::Base { base, window } => write!(
                f,
                "slots {base} to {} go beyond slot {}",
                base as usize + window.get() as usize - 1,
                Window::MAX - 1
            ),
        }
    }
}

impl core::error::Error for InvalidId {}

#[cfg(test)]
mod tests;
