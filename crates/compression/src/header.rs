//! The header of an encoded array, and where its parts lie.
//!
//! | bytes | are |
//! | --- | --- |
//! | 8 | [`MAGIC`] |
//! | 4 | the number of this layout, 1 |
//! | 1 | B, bits of an encoded value: 8, 12 or 16 |
//! | 1 | E, bytes of a value: 4 or 8 |
//! | 2 | 0 |
//! | 8 | bytes of the array |
//! | 8 | the bound, absolute as it was applied: a double |
//! | 8 | the largest error of a value: a double |
//! | 8 | how many blocks are kept whole |
//! | 8 | how many have room in the side area |
//! | 8 | the largest finite magnitude of the array if the bound is relative to it, else 0: a double |
//! | 64 | 0 |

use std::ops::Range;

use errors::{Error, ErrorKind, Result};

use crate::lossless::{self, LosslessHeader};

/// How an encoded array begins.
pub const MAGIC: [u8; 8] = *b"VELOCbfp";

/// Bytes of the header.
pub const HEADER_LEN: usize = 128;

/// Values of a block.
pub const BLOCK: usize = 64;

/// The layout that is written and read.
const LAYOUT: u32 = 1;

/// Codes are filled up to a multiple of this.
pub(crate) const ALIGNMENT: u64 = 64;

/// So many blocks share an entry of the side area.
const BLOCKS_PER_ENTRY: u64 = 128;

/// The type of the values of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl Element {
    /// Bytes of a value.
    pub fn bytes(self) -> usize {
        match self {
            Element::F32 => 4,
            Element::F64 => 8,
        }
    }

    /// The type with so many bytes. Says what is wrong with them.
    pub(crate) fn of(bytes: u8) -> std::result::Result<Element, String> {
        match bytes {
            4 => Ok(Element::F32),
            8 => Ok(Element::F64),
            _ => Err(format!("its values would have {bytes} bytes each")),
        }
    }
}

/// The bits of an encoded value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// 8.
    Eight,
    /// 12.
    Twelve,
    /// 16.
    Sixteen,
}

impl Bits {
    /// How many.
    pub fn number(self) -> u32 {
        match self {
            Bits::Eight => 8,
            Bits::Twelve => 12,
            Bits::Sixteen => 16,
        }
    }

    /// The bits of that number.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: it is another number.
    pub fn of(number: u32) -> Result<Bits> {
        let all = [Bits::Eight, Bits::Twelve, Bits::Sixteen];
        all.into_iter()
            .find(|bits| bits.number() == number)
            .ok_or_else(|| Error::invalid(format!("{number} bits a value: there are 8, 12 and 16")))
    }
}

/// Where the parts of an encoded array lie, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// How many blocks there are.
    pub blocks: u64,
    /// How many have room in the side area.
    pub capacity: u64,
    pub values: u64,
    pub side: u64,
    pub end: u64,
}

impl Layout {
    /// Says what is wrong with the length.
    fn of(content: u64, element: Element, bits: Bits) -> std::result::Result<Layout, String> {
        let bytes = element.bytes() as u64;
        if !content.is_multiple_of(bytes) {
            return Err(format!("{content} bytes are no whole number of values of {bytes} bytes"));
        }
        let blocks = content.div_ceil(bytes * BLOCK as u64);
        let capacity = blocks / BLOCKS_PER_ENTRY + 1;
        // All else is far from overflowing then.
        if capacity > u64::from(u32::MAX) {
            return Err(format!("{content} bytes are more than an encoded array can have"));
        }
        let codes = (blocks * code_len(element)).next_multiple_of(ALIGNMENT);
        let values = HEADER_LEN as u64 + codes;
        let side = values + blocks * values_len(bits);
        let end = side + capacity * bytes * BLOCK as u64;
        Ok(Layout { blocks, capacity, values, side, end })
    }
}

/// Bytes of a code.
fn code_len(element: Element) -> u64 {
    element.bytes() as u64 / 4
}

/// Bytes of the values of a block.
fn values_len(bits: Bits) -> u64 {
    BLOCK as u64 / 8 * u64::from(bits.number())
}

/// The bytes that an array of `content` bytes has when it is encoded.
///
/// # Errors
/// [`ErrorKind::Invalid`]: an array cannot have so many.
pub fn encoded_len(content: u64, element: Element, bits: Bits) -> Result<u64> {
    Layout::of(content, element, bits).map(|layout| layout.end).map_err(Error::invalid)
}

/// What an encoded array says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    /// The type of its values.
    pub element: Element,
    /// Their bits.
    pub bits: Bits,
    /// Bytes of the array.
    pub content_len: u64,
    /// No value is further off.
    pub bound: f64,
    /// The largest error of a value.
    pub error: f64,
    /// How many blocks are kept whole.
    pub whole: u64,
    /// The largest finite magnitude, if the bound is relative to it; else 0.
    pub largest: f64,
}

/// Where some blocks lie in an encoded array, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Their codes.
    pub codes: Range<u64>,
    /// Their values.
    pub values: Range<u64>,
    /// All blocks that are kept whole.
    pub side: Range<u64>,
    /// The blocks in the array itself.
    pub content: Range<u64>,
}

impl Header {
    /// Reads the header at the beginning of an encoded array.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: it is none, or its numbers contradict each other.
    pub fn read(encoded: &[u8]) -> Result<Header> {
        let mut rest = encoded.get(..HEADER_LEN).ok_or_else(|| {
            let found = encoded.len();
            corrupt(format!("{found} bytes are fewer than the header of an encoded array has"))
        })?;
        if take(&mut rest) != MAGIC {
            return Err(corrupt("it does not begin like an encoded array"));
        }
        let layout = u32::from_le_bytes(take(&mut rest));
        if layout != LAYOUT {
            return Err(corrupt(format!(
                "its layout has the number {layout}, and this version of the library knows {LAYOUT}"
            )));
        }
        let [bits, element, zeros @ ..]: [u8; 4] = take(&mut rest);
        let bits = Bits::of(bits.into()).map_err(|error| corrupt(error.to_string()))?;
        let element = Element::of(element).map_err(corrupt)?;
        let content_len = u64::from_le_bytes(take(&mut rest));
        let [bound, error] = [take(&mut rest), take(&mut rest)].map(f64::from_le_bytes);
        let [whole, capacity] = [take(&mut rest), take(&mut rest)].map(u64::from_le_bytes);
        let largest = f64::from_le_bytes(take(&mut rest));
        let layout = Layout::of(content_len, element, bits).map_err(corrupt)?;
        if zeros != [0; 2] || rest.iter().any(|byte| *byte != 0) {
            return Err(corrupt("its header has numbers that this version of the library lacks"));
        }
        let is_size = |number: f64| number >= 0.0 && number.is_finite();
        if !(is_size(bound) && is_size(largest) && error >= 0.0 && error <= bound) {
            return Err(corrupt(format!(
                "it would have an error of {error:?} within {bound:?}, and a magnitude of {largest:?}"
            )));
        }
        if capacity != layout.capacity || whole > capacity.min(layout.blocks) {
            return Err(corrupt(format!(
                "it would have {whole} of {} blocks whole, with room for {capacity}",
                layout.blocks
            )));
        }
        Ok(Header { element, bits, content_len, bound, error, whole, largest })
    }

    /// The bytes of the header.
    pub(crate) fn encode(&self, layout: Layout) -> [u8; HEADER_LEN] {
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&LAYOUT.to_le_bytes());
        bytes.extend_from_slice(&[self.bits.number() as u8, self.element.bytes() as u8, 0, 0]);
        bytes.extend_from_slice(&self.content_len.to_le_bytes());
        bytes.extend_from_slice(&self.bound.to_le_bytes());
        bytes.extend_from_slice(&self.error.to_le_bytes());
        bytes.extend_from_slice(&self.whole.to_le_bytes());
        bytes.extend_from_slice(&layout.capacity.to_le_bytes());
        bytes.extend_from_slice(&self.largest.to_le_bytes());
        let mut header = [0; HEADER_LEN];
        header[..bytes.len()].copy_from_slice(&bytes);
        header
    }

    /// How many blocks the array has.
    pub fn blocks(&self) -> u64 {
        self.content_len.div_ceil(self.block_bytes())
    }

    /// The bytes of the encoded array.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: not of a header that was read: an array cannot have [`Header::content_len`].
    pub fn encoded_len(&self) -> Result<u64> {
        encoded_len(self.content_len, self.element, self.bits)
    }

    /// Bytes of a block in the array.
    fn block_bytes(&self) -> u64 {
        (BLOCK * self.element.bytes()) as u64
    }

    pub(crate) fn layout(&self) -> Result<Layout> {
        Layout::of(self.content_len, self.element, self.bits).map_err(Error::invalid)
    }

    /// Where some blocks lie.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there are no such blocks.
    pub fn places(&self, blocks: Range<u64>) -> Result<Places> {
        let layout = self.layout()?;
        if blocks.start > blocks.end || blocks.end > layout.blocks {
            let there = layout.blocks;
            return Err(Error::invalid(format!("the blocks {blocks:?} of an array of {there}")));
        }
        let of = |from: u64, each: u64| from + blocks.start * each..from + blocks.end * each;
        let content = of(0, self.block_bytes());
        Ok(Places {
            codes: of(HEADER_LEN as u64, code_len(self.element)),
            values: of(layout.values, values_len(self.bits)),
            side: layout.side..layout.side + self.whole.min(layout.capacity) * self.block_bytes(),
            content: content.start.min(self.content_len)..content.end.min(self.content_len),
        })
    }
}

/// The header of an array of either encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AnyHeader {
    /// Within an error bound.
    Bounded(Header),
    /// Without loss.
    Lossless(LosslessHeader),
}

impl AnyHeader {
    /// Reads the header at the beginning of an encoded array.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: it is none, or its numbers contradict each other.
    pub fn read(encoded: &[u8]) -> Result<AnyHeader> {
        if encoded
            .get(MAGIC.len()..)
            .is_some_and(|rest| rest.starts_with(&lossless::LAYOUT.to_le_bytes()))
        {
            return LosslessHeader::read(encoded).map(AnyHeader::Lossless);
        }
        Header::read(encoded).map(AnyHeader::Bounded)
    }

    /// Bytes of the array.
    pub fn content_len(&self) -> u64 {
        match self {
            AnyHeader::Bounded(header) => header.content_len,
            AnyHeader::Lossless(header) => header.content_len,
        }
    }

    /// How many blocks the array has.
    pub fn blocks(&self) -> u64 {
        match self {
            AnyHeader::Bounded(header) => header.blocks(),
            AnyHeader::Lossless(header) => header.blocks(),
        }
    }

    /// The bytes of the encoded array.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: not of a header that was read.
    pub fn encoded_len(&self) -> Result<u64> {
        match self {
            AnyHeader::Bounded(header) => header.encoded_len(),
            AnyHeader::Lossless(header) => Ok(header.encoded_len),
        }
    }
}

/// The next bytes, which are there.
pub(crate) fn take<const COUNT: usize>(bytes: &mut &[u8]) -> [u8; COUNT] {
    let mut taken = [0; COUNT];
    let (first, rest) = bytes.split_at(COUNT);
    taken.copy_from_slice(first);
    *bytes = rest;
    taken
}

pub(crate) fn corrupt(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, text.into())
}
