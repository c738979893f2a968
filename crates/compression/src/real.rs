//! What encoding needs of the two types of floats.

use std::ops::{Add, Mul, Sub};

/// A float of `E` bytes.
pub(crate) trait Real<const E: usize>:
    Copy
    + Default
    + PartialOrd
    + Into<f64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
{
    /// What the exponent has added to it where it is stored.
    const OFFSET: i32;

    /// Added to a number of at most 16 bits, this rounds it to an integer, which is then in the lowest bits.
    const ROUNDS: Self;

    /// A magnitude as an integer: they have the same order.
    type Magnitude: Copy + Default + Ord;

    fn of(bytes: [u8; E]) -> Self;
    fn bytes(self) -> [u8; E];
    fn of_integer(integer: i32) -> Self;

    /// 2^k, a normal number.
    fn power(k: i32) -> Self;
    fn magnitude(self) -> Self::Magnitude;
    fn of_magnitude(magnitude: Self::Magnitude) -> Self;

    /// The exponent as it is stored: 0 of denormals, and [`Real::OFFSET`] twice and one more of infinities and NaN.
    fn exponent(magnitude: Self::Magnitude) -> i32;
    fn absolute(self) -> Self;

    /// The lowest bits.
    fn lowest(self) -> u32;
}

impl Real<4> for f32 {
    const OFFSET: i32 = 127;
    const ROUNDS: f32 = 1.5 * (1 << 23) as f32;
    type Magnitude = i32;

    #[inline(always)]
    fn of(bytes: [u8; 4]) -> f32 {
        f32::from_le_bytes(bytes)
    }

    #[inline(always)]
    fn bytes(self) -> [u8; 4] {
        self.to_le_bytes()
    }

    #[inline(always)]
    fn of_integer(integer: i32) -> f32 {
        integer as f32
    }

    #[inline(always)]
    fn power(k: i32) -> f32 {
        f32::from_bits(((k + Self::OFFSET) as u32) << 23)
    }

    #[inline(always)]
    fn magnitude(self) -> i32 {
        (self.to_bits() << 1 >> 1) as i32
    }

    #[inline(always)]
    fn of_magnitude(magnitude: i32) -> f32 {
        f32::from_bits(magnitude as u32)
    }

    #[inline(always)]
    fn exponent(magnitude: i32) -> i32 {
        magnitude >> 23
    }

    #[inline(always)]
    fn absolute(self) -> f32 {
        self.abs()
    }

    #[inline(always)]
    fn lowest(self) -> u32 {
        self.to_bits()
    }
}

impl Real<8> for f64 {
    const OFFSET: i32 = 1023;
    const ROUNDS: f64 = 1.5 * (1_u64 << 52) as f64;
    type Magnitude = i64;

    #[inline(always)]
    fn of(bytes: [u8; 8]) -> f64 {
        f64::from_le_bytes(bytes)
    }

    #[inline(always)]
    fn bytes(self) -> [u8; 8] {
        self.to_le_bytes()
    }

    #[inline(always)]
    fn of_integer(integer: i32) -> f64 {
        f64::from(integer)
    }

    #[inline(always)]
    fn power(k: i32) -> f64 {
        f64::from_bits(((k + Self::OFFSET) as u64) << 52)
    }

    #[inline(always)]
    fn magnitude(self) -> i64 {
        (self.to_bits() << 1 >> 1) as i64
    }

    #[inline(always)]
    fn of_magnitude(magnitude: i64) -> f64 {
        f64::from_bits(magnitude as u64)
    }

    #[inline(always)]
    fn exponent(magnitude: i64) -> i32 {
        (magnitude >> 52) as i32
    }

    #[inline(always)]
    fn absolute(self) -> f64 {
        self.abs()
    }

    #[inline(always)]
    fn lowest(self) -> u32 {
        self.to_bits() as u32
    }
}
