//! Where what is in an encoded array.

use std::ops::Range;

use super::{Bits, Element, BLOCK};
use errors::{Error, Result};

/// Bytes of the header.
pub(crate) const HEADER: usize = 128;

/// One block in so many can be kept whole, and one more.
const OF_WHOLE: usize = 128;

/// The parts of an encoded array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub element: Element,
    pub bits: Bits,
    /// Bytes of the array.
    pub content: usize,
    /// Blocks.
    pub blocks: usize,
    /// Blocks that can be kept whole.
    pub capacity: usize,
}

impl Layout {
    /// # Errors
    /// The array has no whole elements, or more than this machine can address.
    pub(crate) fn of(content: u64, element: Element, bits: Bits) -> Result<Layout> {
        let size = element.bytes();
        let len = usize::try_from(content).ok().filter(|len| *len <= isize::MAX as usize / 2);
        let Some(content) = len.filter(|len| len.is_multiple_of(size)) else {
            return Err(Error::invalid(format!(
                "{content} bytes are no array of {size} bytes each"
            )));
        };
        let blocks = content.div_ceil(size * BLOCK);
        let capacity = blocks / OF_WHOLE + 1;
        Ok(Layout { element, bits, content, blocks, capacity })
    }

    /// Bytes of the code of a block.
    pub(crate) fn code_bytes(&self) -> usize {
        self.element.bytes() / 4
    }

    /// The codes of all blocks.
    pub(crate) fn codes(&self) -> Range<usize> {
        HEADER..HEADER + self.blocks * self.code_bytes()
    }

    /// The values of all blocks.
    pub(crate) fn values(&self) -> Range<usize> {
        let start = self.codes().end.next_multiple_of(64);
        start..start + self.blocks * self.bits.of_block()
    }

    /// The blocks that are kept whole.
    pub(crate) fn whole(&self) -> Range<usize> {
        let start = self.values().end;
        start..start + self.capacity * self.block_bytes()
    }

    /// Bytes of a block of the array.
    pub(crate) fn block_bytes(&self) -> usize {
        BLOCK * self.element.bytes()
    }
}

/// Bytes that an array of `content` bytes takes when it is encoded.
///
/// # Errors
/// It has no whole elements, or more than this machine can address.
pub fn encoded_len(content: u64, element: Element, bits: Bits) -> Result<u64> {
    Layout::of(content, element, bits).map(|layout| layout.whole().end as u64)
}
