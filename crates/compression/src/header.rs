//! The first bytes of an encoded array.
//!
//! | bytes | are |
//! | --- | --- |
//! | 8 | `VELOCbfp` |
//! | 4 | the layout: 1 |
//! | 1, 1, 2 | bits of a value; bytes of an element; 0 |
//! | 8 | bytes of the array |
//! | 8 | the bound that was applied: the most by which a value may differ |
//! | 8 | the most by which one does |
//! | 8, 8 | blocks that are kept whole, and for how many there is room |
//! | 8 | the largest absolute finite value, if the bound is a part of it; else 0 |
//! | | zeros up to 128 |

use super::layout::{Layout, HEADER};
use super::{Bits, Element};
use errors::{Error, ErrorKind, Result};

const MAGIC: [u8; 8] = *b"VELOCbfp";
const LAYOUT: u32 = 1;

/// What an encoded array says about itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    /// Its elements.
    pub element: Element,
    /// Bits of a value.
    pub bits: Bits,
    /// Bytes of the array.
    pub content: u64,
    /// The most by which a value may differ.
    pub bound: f64,
    /// The most by which one does.
    pub error: f64,
    /// Blocks that are kept whole.
    pub whole: u64,
    /// For how many there is room.
    pub capacity: u64,
    /// The largest absolute finite value, if the bound is a part of it; else 0.
    pub largest: f64,
}

impl Header {
    /// Reads the header of an encoded array.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: it is none, or its numbers contradict each other.
    pub fn read(encoded: &[u8]) -> Result<Header> {
        let Some(bytes) = encoded.first_chunk::<HEADER>() else {
            return Err(corrupt(format!("{} bytes are no encoded array", encoded.len())));
        };
        let number =
            |at: usize| bytes[at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
        let [begin, layout, content, bound, error, whole, capacity, largest] =
            [0, 8, 16, 24, 32, 40, 48, 56].map(number);
        let [layout, sizes] = [layout as u32, (layout >> 32) as u32];
        if begin.to_le_bytes() != MAGIC || layout != LAYOUT {
            return Err(corrupt("it does not begin like an encoded array"));
        }
        let bits = match sizes as u8 {
            8 => Bits::B8,
            12 => Bits::B12,
            16 => Bits::B16,
            other => return Err(corrupt(format!("its values would have {other} bits"))),
        };
        let element = match sizes >> 8 {
            4 => Element::F32,
            8 => Element::F64,
            other => return Err(corrupt(format!("its elements would have {other} bytes"))),
        };
        let layout =
            Layout::of(content, element, bits).map_err(|error| corrupt(error.to_string()))?;
        let [bound, error, largest] = [bound, error, largest].map(f64::from_bits);
        let fits = capacity == layout.capacity as u64 && whole <= capacity;
        if !fits || !(0.0..=bound).contains(&error) || !largest.is_finite() {
            return Err(corrupt("the numbers that it begins with contradict each other"));
        }
        Ok(Header { element, bits, content, bound, error, whole, capacity, largest })
    }

    /// Writes it to the beginning of an encoded array.
    pub(crate) fn write(&self, encoded: &mut [u8; HEADER]) {
        let sizes = u64::from(self.bits.number()) | (self.element.bytes() as u64) << 8;
        let numbers = [
            u64::from_le_bytes(MAGIC),
            u64::from(LAYOUT) | sizes << 32,
            self.content,
            self.bound.to_bits(),
            self.error.to_bits(),
            self.whole,
            self.capacity,
            self.largest.to_bits(),
        ];
        encoded.fill(0);
        for (to, number) in encoded.chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
    }
}

pub(crate) fn corrupt(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, text.into())
}
