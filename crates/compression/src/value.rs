//! Floats and doubles, as blocks need them. The loops over blocks are compiled to vector instructions: what they call is
//! inlined and has no branches.

use super::Element;

/// A float or a double.
pub(crate) trait Value: Copy + Default + Send + Sync {
    /// What it is.
    const ELEMENT: Element;
    /// Its bits without the sign: as numbers they have the order of absolute values.
    type Magnitude: Copy + Default + Ord + Send;
    /// Those of infinity.
    const INFINITE: Self::Magnitude;
    /// The exponent of the smallest normal value, which is that of the smallest step.
    const LEAST: i32;
    /// What is added to an exponent to store it.
    const BIAS: i32;
    /// The code of a block that is kept whole.
    const WHOLE: u16;

    /// From little-endian bytes, of which there are enough.
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
    fn magnitude(self) -> Self::Magnitude;
    /// The value of these bits.
    fn of_magnitude(bits: Self::Magnitude) -> Self;
    /// The exponent of a magnitude, at least [`Value::LEAST`].
    fn exponent(magnitude: Self::Magnitude) -> i32;
    /// Two to the power of a normal exponent.
    fn power(exponent: i32) -> Self;
    /// The nearest whole number, the even one of two, if its absolute value is below 2^20.
    fn round(self) -> i32;
    fn of_integer(number: i32) -> Self;
    fn times(self, other: Self) -> Self;
    /// The absolute difference.
    fn distance(self, other: Self) -> Self;
    /// The larger of two that are no NaN.
    fn larger(self, other: Self) -> Self;
    fn to_f64(self) -> f64;
}

impl Value for f32 {
    const ELEMENT: Element = Element::F32;
    type Magnitude = u32;
    const INFINITE: u32 = 0x7f80_0000;
    const LEAST: i32 = -126;
    const BIAS: i32 = 127;
    const WHOLE: u16 = 255;

    #[inline(always)]
    fn read(bytes: &[u8]) -> f32 {
        bytes.first_chunk().map_or(0.0, |chunk| f32::from_le_bytes(*chunk))
    }
    #[inline(always)]
    fn write(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }
    #[inline(always)]
    fn magnitude(self) -> u32 {
        self.to_bits() & 0x7fff_ffff
    }
    #[inline(always)]
    fn of_magnitude(bits: u32) -> f32 {
        f32::from_bits(bits)
    }
    #[inline(always)]
    fn exponent(magnitude: u32) -> i32 {
        ((magnitude >> 23) as i32).max(1) - Self::BIAS
    }
    #[inline(always)]
    fn power(exponent: i32) -> f32 {
        f32::from_bits(((exponent + Self::BIAS) as u32) << 23)
    }
    #[inline(always)]
    fn round(self) -> i32 {
        // Its last place is that of ones.
        const UNIT: f32 = (3 << 22) as f32;
        (self + UNIT).to_bits() as i32 - UNIT.to_bits() as i32
    }
    #[inline(always)]
    fn of_integer(number: i32) -> f32 {
        number as f32
    }
    #[inline(always)]
    fn times(self, other: f32) -> f32 {
        self * other
    }
    #[inline(always)]
    fn distance(self, other: f32) -> f32 {
        (self - other).abs()
    }
    #[inline(always)]
    fn larger(self, other: f32) -> f32 {
        if self < other {
            other
        } else {
            self
        }
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Value for f64 {
    const ELEMENT: Element = Element::F64;
    type Magnitude = u64;
    const INFINITE: u64 = 0x7ff0_0000_0000_0000;
    const LEAST: i32 = -1022;
    const BIAS: i32 = 1023;
    const WHOLE: u16 = u16::MAX;

    #[inline(always)]
    fn read(bytes: &[u8]) -> f64 {
        bytes.first_chunk().map_or(0.0, |chunk| f64::from_le_bytes(*chunk))
    }
    #[inline(always)]
    fn write(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }
    #[inline(always)]
    fn magnitude(self) -> u64 {
        self.to_bits() & 0x7fff_ffff_ffff_ffff
    }
    #[inline(always)]
    fn of_magnitude(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
    #[inline(always)]
    fn exponent(magnitude: u64) -> i32 {
        ((magnitude >> 52) as i32).max(1) - Self::BIAS
    }
    #[inline(always)]
    fn power(exponent: i32) -> f64 {
        f64::from_bits(((exponent + Self::BIAS) as u64) << 52)
    }
    #[inline(always)]
    fn round(self) -> i32 {
        // Its last place is that of ones.
        const UNIT: f64 = (3_u64 << 51) as f64;
        ((self + UNIT).to_bits() as i64 - UNIT.to_bits() as i64) as i32
    }
    #[inline(always)]
    fn of_integer(number: i32) -> f64 {
        number.into()
    }
    #[inline(always)]
    fn times(self, other: f64) -> f64 {
        self * other
    }
    #[inline(always)]
    fn distance(self, other: f64) -> f64 {
        (self - other).abs()
    }
    #[inline(always)]
    fn larger(self, other: f64) -> f64 {
        if self < other {
            other
        } else {
            self
        }
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
}
