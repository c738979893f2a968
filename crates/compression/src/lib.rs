//! Arrays of floats with fewer bits of each value, within a bound on the error ("block floating point").
//!
//! An encoded array, little-endian; N blocks of 64 values, the last one filled with zeros, of E = 4 or 8 bytes, in B = 8, 12 or
//! 16 bits a value:
//!
//! | bytes | are |
//! | --- | --- |
//! | 128 | the [`Header`] |
//! | N times 1 (E = 4) or 2 (E = 8) | the code of each block; then zeros up to a multiple of 64 |
//! | N times 8 B | the values of each block |
//! | ([`Header::capacity`]) times 64 E | blocks that are kept whole |
//!
//! A code of 0: all values are 0. The largest code: the block is kept whole, as it has an infinity or NaN, or its error
//! would be above the bound; its values are the number of its place among those, as `u32`, then zeros. Any other code is the
//! exponent of the block's step, as floats have it; each value is a signed number of steps in B bits, two in three bytes if
//! B is 12.
//!
//! The length follows from that of the array alone, so that room for it is known before its values are. An array with more
//! than one block in 128 to be kept whole is not encoded.
//!
//! | file | has |
//! | --- | --- |
//! | `layout` | where what is |
//! | [`header`] | the first 128 bytes |
//! | `value` | floats and doubles |
//! | `block` | 64 values |
//! | `encode`, `decode` | arrays, by several threads |
//! | `vector` | loops with vector instructions |

mod block;
mod decode;
mod encode;
pub mod header;
mod layout;
#[cfg(test)]
mod tests;
mod value;
mod vector;

pub use decode::decode;
pub use encode::{encode, Encoded, Outcome};
pub use header::Header;
pub use layout::encoded_len;

use errors::{Error, Result};

/// Values of a block.
pub const BLOCK: usize = 64;

/// What an array consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Of 4 bytes.
    F32,
    /// Of 8 bytes.
    F64,
}

impl Element {
    /// Its bytes.
    pub fn bytes(self) -> usize {
        match self {
            Element::F32 => 4,
            Element::F64 => 8,
        }
    }
}

/// Bits of an encoded value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// 8.
    B8,
    /// 12.
    B12,
    /// 16.
    B16,
}

impl Bits {
    /// Their number.
    pub fn number(self) -> u32 {
        match self {
            Bits::B8 => 8,
            Bits::B12 => 12,
            Bits::B16 => 16,
        }
    }

    /// Bytes of the values of a block.
    fn of_block(self) -> usize {
        BLOCK / 8 * self.number() as usize
    }
}

/// The most by which a value may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound(Kind);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Absolute(f64),
    /// Of the array's largest absolute value.
    Relative(f64),
}

impl Bound {
    /// By so much.
    ///
    /// # Errors
    /// It is not above 0 and finite.
    pub fn absolute(most: f64) -> Result<Bound> {
        if most.is_finite() && most > 0.0 {
            return Ok(Bound(Kind::Absolute(most)));
        }
        Err(Error::invalid(format!("the bound is {most}, not above 0 and finite")))
    }

    /// By this part of the largest absolute value of the array, which is to have so many bits of each value.
    ///
    /// # Errors
    /// It is not above 0 and finite, or so small that nearly every block would be kept whole.
    pub fn relative(part: f64, bits: Bits) -> Result<Bound> {
        let Bound(_) = Bound::absolute(part)?;
        let least = (-f64::from(bits.number())).exp2();
        if part < least {
            return Err(Error::invalid(format!(
                "the bound is {part} of the largest value, which is below one bit of {}: {least}",
                bits.number()
            )));
        }
        Ok(Bound(Kind::Relative(part)))
    }
}
