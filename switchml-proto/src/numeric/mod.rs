//! Numbers.

/// "No exponent to tell" (W-6).
pub const NO_EXPONENT: i8 = -128;

/// Type of a tensor's elements.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum ElementType {
    /// IEEE 754 binary32.
    Float32 = 0,
    /// IEEE 754 binary16.
    Float16 = 1,
    /// bfloat16.
    BFloat16 = 2,
    /// Signed 32-bit integer.
    Int32 = 3,
}

impl ElementType {
    /// Octets of an element.
    #[must_use]
    pub const fn octets(self) -> usize {
        match self {
            Self::Float32 | Self::Int32 => 4,
            Self::Float16 | Self::BFloat16 => 2,
        }
    }
}

/// What the results are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The sum, divided by the number of workers.
    Mean,
}

/// A fixed scaling factor (N-6).
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ScalingFactor(f32);

/// Not finite, normal and positive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InvalidScalingFactor(f32);

impl ScalingFactor {
    /// # Errors
    /// [`InvalidScalingFactor`] unless finite, normal and positive.
    pub const fn new(factor: f32) -> Result<Self, InvalidScalingFactor> {
        if factor.is_normal() && factor > 0.0 { Ok(Self(factor)) } else { Err(InvalidScalingFactor(factor)) }
    }

    /// Its binary32 pattern.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0.to_bits()
    }
}

/// N-1, out.
pub fn encode_integer(chunk: &[i32], wire: &mut [u8]) {
    wire.fill(0);
    for (word, element) in wire.chunks_exact_mut(4).zip(chunk) {
        word.copy_from_slice(&element.to_be_bytes());
    }
}

/// N-1, back.
pub fn decode_integer(wire: &[u8], chunk: &mut [i32]) {
    for (word, element) in wire.as_chunks::<4>().0.iter().zip(chunk) {
        *element = i32::from_be_bytes(*word);
    }
}
