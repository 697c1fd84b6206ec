//! What the application asks for: one collective, as all ranks must call it.

use core::fmt;

use crate::ids::{ChunkSize, Rank};
use crate::numeric::{ElementType, Reduction, ScalingFactor};

/// Running number of a collective in its session, from 0.
///
/// Every rank and every lane of a job starts the same collectives in the same order (D-1), so the number names the
/// same collective everywhere.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CollectiveId(pub u64);

impl fmt::Display for CollectiveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One collective: what [`Worker::start`](super::Worker::start) starts on every lane of every rank.
///
/// Combinations that the protocol does not know cannot be built.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Collective {
    len: u64,
    element: ElementType,
    operation: Operation,
    conversion: Conversion,
    tag: u32,
}

/// What the members compute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Operation {
    /// The sum over all ranks.
    Sum,
    /// The sum divided by the number of ranks; floating point only.
    Mean,
    /// Everybody receives the root's tensor, octet for octet.
    Broadcast {
        /// Whose tensor it is.
        root: Rank,
    },
    /// Nothing: all ranks wait for each other.
    Barrier,
}

/// How elements become the integers that an aggregator adds (section 5).
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Conversion {
    /// They are integers, or octets taken as such (N-1, broadcast).
    Integer,
    /// Block floating point: the ranks first agree on an exponent for each chunk (N-2 to N-5).
    Block,
    /// All elements are multiplied with one factor (N-6).
    Fixed(ScalingFactor),
}

impl Collective {
    /// An all-reduce of `len` elements.
    ///
    /// # Errors
    /// [`InvalidCollective`] unless `conversion` is [`Conversion::Integer`] and `reduction` is [`Reduction::Sum`] for
    /// `int32`, and `conversion` is one of the others for floating point.
    pub const fn all_reduce(
        len: u64,
        element: ElementType,
        reduction: Reduction,
        conversion: Conversion,
    ) -> Result<Self, InvalidCollective> {
        let operation = match reduction {
            Reduction::Sum => Operation::Sum,
            Reduction::Mean => Operation::Mean,
        };
        match (element, conversion) {
            (ElementType::Int32, Conversion::Integer) => {
                if matches!(operation, Operation::Mean) {
                    return Err(InvalidCollective::MeanOfIntegers);
                }
            }
            (ElementType::Int32, _) | (_, Conversion::Integer) => return Err(InvalidCollective::Conversion),
            (_, Conversion::Block | Conversion::Fixed(_)) => {}
        }
        Ok(Self { len, element, operation, conversion, tag: 0 })
    }

    /// A broadcast of `len` elements from rank `root`, which must be a rank of the job: of a root that does not exist,
    /// everybody receives zeros.
    #[must_use]
    pub const fn broadcast(len: u64, element: ElementType, root: Rank) -> Self {
        Self {
            len,
            element,
            operation: Operation::Broadcast { root },
            conversion: Conversion::Integer,
            tag: 0,
        }
    }

    /// A barrier: no elements.
    #[must_use]
    pub const fn barrier() -> Self {
        Self {
            len: 0,
            element: ElementType::Float32, // D-1: a barrier has type 0
            operation: Operation::Barrier,
            conversion: Conversion::Integer,
            tag: 0,
        }
    }

    /// The same collective with a number of the caller's in its digest, so that members that call different things of
    /// equal shape learn of it (D-1).
    #[must_use]
    pub const fn with_tag(self, tag: u32) -> Self {
        Self { tag, ..self }
    }

    /// Elements of the tensor, over all lanes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no elements.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Type of the elements.
    #[must_use]
    pub const fn element(&self) -> ElementType {
        self.element
    }

    /// What is computed.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// How elements become integers.
    #[must_use]
    pub const fn conversion(&self) -> Conversion {
        self.conversion
    }

    /// The caller's number, 0 unless given.
    #[must_use]
    pub const fn tag(&self) -> u32 {
        self.tag
    }

    /// Elements of the tensor that a full chunk carries: k, or in a broadcast as many as 4 * k octets hold.
    #[must_use]
    pub const fn elements_per_chunk(&self, chunk: ChunkSize) -> usize {
        match self.operation {
            Operation::Broadcast { .. } => chunk.octets() / self.element.octets(),
            _ => chunk.elements(),
        }
    }
}

/// A combination that the protocol does not know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum InvalidCollective {
    /// The mean is for floating point only.
    MeanOfIntegers,
    /// `int32` with a conversion for floating point, or floating point without one.
    Conversion,
}

impl fmt::Display for InvalidCollective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MeanOfIntegers => "the mean is for floating point only",
            Self::Conversion => {
                "int32 goes with the integer conversion, floating point with block or fixed factor"
            }
        })
    }
}

impl core::error::Error for InvalidCollective {}
