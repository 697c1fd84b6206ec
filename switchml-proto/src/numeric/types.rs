//! The parameters of a conversion. Values that break a rule cannot be built.

use core::fmt;

/// The type of a tensor's elements, with its code in the digest (D-1).
///
/// The enum is exhaustive: the codes are the protocol's, and a host that forgets one should not compile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum ElementType {
    /// IEEE 754 binary32, Rust's `f32`.
    Float32 = 0,
    /// IEEE 754 binary16, `half::f16`.
    Float16 = 1,
    /// The upper half of a binary32, `half::bf16`.
    BFloat16 = 2,
    /// Signed 32-bit integer in two's complement, Rust's `i32`.
    Int32 = 3,
}

impl ElementType {
    /// The type with this code, if there is one.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Float32),
            1 => Some(Self::Float16),
            2 => Some(Self::BFloat16),
            3 => Some(Self::Int32),
            _ => None,
        }
    }

    /// The size of an element in the caller's tensor, in octets. On the wire every element takes 4 octets, except
    /// in a broadcast.
    #[inline]
    pub const fn octets(self) -> usize {
        match self {
            Self::Float32 | Self::Int32 => 4,
            Self::Float16 | Self::BFloat16 => 2,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::BFloat16 => "bfloat16",
            Self::Int32 => "int32",
        })
    }
}

/// What a floating point all-reduce returns.
///
/// The enum is exhaustive: the aggregator adds, so the protocol has no others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Reduction {
    /// The sum over the workers.
    Sum,
    /// The sum divided by the world size.
    Mean,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
        })
    }
}

/// The factor that elements are multiplied with before they are rounded to integers (N-6): finite, normal and
/// positive.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ScalingFactor(f32);

impl ScalingFactor {
    /// # Errors
    ///
    /// [`InvalidScalingFactor`] unless the factor is finite, normal and greater than zero.
    pub const fn new(factor: f32) -> Result<Self, InvalidScalingFactor> {
        if factor.is_normal() && factor > 0.0 {
            Ok(Self(factor))
        } else {
            Err(InvalidScalingFactor { factor })
        }
    }

    /// The factor.
    #[inline]
    pub const fn get(self) -> f32 {
        self.0
    }

    /// The factor's binary32 pattern, which goes into the digest (D-1).
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0.to_bits()
    }
}

/// The scaling factor is zero, negative, subnormal, infinite, or not a number (N-6).
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct InvalidScalingFactor {
    /// The factor that was refused.
    pub factor: f32,
}

impl fmt::Display for InvalidScalingFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a scaling factor is finite, normal and greater than zero, and {:e} is not", self.factor)
    }
}

impl core::error::Error for InvalidScalingFactor {}
