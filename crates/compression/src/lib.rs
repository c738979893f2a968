//! Arrays of floats in fewer bits: within an error bound ("block floating point"), which is the subject here, or
//! [without loss](LosslessHeader).
//!
//! A block is 64 values in a row; the last one of an array may be partial, and its missing values count as 0. Its
//! values are integers of [`Bits`] bits times a step, which is a power of two. A block of which a value would be
//! further off than the bound allows is kept whole, in the side area; so is one with an infinity or a NaN.
//!
//! Little-endian, of N blocks, E bytes a value and B bits:
//!
//! | bytes | are |
//! | --- | --- |
//! | 128 | the [`Header`] |
//! | N times E / 4, up to a multiple of 64 | the code of each block |
//! | N times 8 B | the values of each block |
//! | (N / 128 + 1) times 64 E | the side area: blocks as they are, their missing values 0; unused ones 0 |
//!
//! - A code of 0: all values are 0. All bits 1: the block is kept whole. Else it is k + 127 (E = 4) or k + 1023
//!   (E = 8), and the step is 2^k.
//! - Values are integers q in two's complement of B bits, each one the value q * 2^k. Of 12 bits, two are three bytes:
//!   the number a + 2^12 b, where a and b are the 12 bits of the values 2 i and 2 i + 1.
//! - A block kept whole has the number of its entry in the side area there, in 4 bytes. This crate counts them in the
//!   order of the blocks, and reads any order. What is left is 0, as in a block whose code is 0.
//!
//! The largest magnitude m of a block decides: 2^e <= m < 2^(e + 1), k = e + 2 - B, but at least that of the smallest
//! normal number (-126, -1022). q is x / 2^k rounded to the nearest integer, of two such the even one, and at most
//! 2^(B - 1) - 1. So:
//!
//! - The error |x - q * 2^k| is a number of the array's own type: nothing is rounded where it is computed. The one
//!   exception is q = -2^(B - 1) in a block with the largest exponent, whose value would be infinite. So is its error,
//!   and the block is kept whole.
//! - The error is at most 2^(1 - B) m, or half the smallest normal number if that is more. A relative bound from
//!   2^(1 - B) on keeps no other blocks whole than those with an infinity, a NaN or that exception, unless the array
//!   has hardly more than denormals. Below, blocks near the largest value are kept, and those are often too many: take
//!   more bits.
//! - A negative zero comes back as a positive one, unless its block is kept whole.
//!
//! A thread that takes denormals for 0 (as compilers of Fortran set it) does so here.

#![deny(clippy::disallowed_methods)]

mod block;
mod decode;
mod delta;
#[cfg(target_arch = "x86_64")]
mod delta_avx2;
mod encode;
mod header;
mod lossless;
mod pack;
#[cfg(target_arch = "x86_64")]
mod pack_avx2;
mod pieces;
mod real;

pub use decode::{decode, decode_blocks, Part};
pub use encode::{encode, Bound, Outcome};
pub use header::{encoded_len, AnyHeader, Bits, Element, Header, Places, BLOCK, HEADER_LEN, MAGIC};
pub use lossless::{encode_lossless, is_worthwhile, lossless_room, LosslessHeader, GROUP};

/// Calls a function that is generic over type, bytes and bits of the values.
macro_rules! with_kind {
    ($element:expr, $bits:expr, $function:ident $arguments:tt) => {
        match ($element, $bits) {
            (Element::F32, Bits::Eight) => $function::<f32, 4, 8> $arguments,
            (Element::F32, Bits::Twelve) => $function::<f32, 4, 12> $arguments,
            (Element::F32, Bits::Sixteen) => $function::<f32, 4, 16> $arguments,
            (Element::F64, Bits::Eight) => $function::<f64, 8, 8> $arguments,
            (Element::F64, Bits::Twelve) => $function::<f64, 8, 12> $arguments,
            (Element::F64, Bits::Sixteen) => $function::<f64, 8, 16> $arguments,
        }
    };
}
use with_kind;

#[cfg(test)]
mod exact;
#[cfg(test)]
mod lossless_tests;
#[cfg(test)]
mod tests;
