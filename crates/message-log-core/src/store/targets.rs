//! Receive buffers in a restarted process, where addresses differ, for requests that began before a
//! part. Protected memory is identified by its region and offset; other buffers are lost.

use std::rc::Rc;

use message_abi::log::ProtectedRange;

use super::bytes::{NumberReader, NumberWriter, Result};
use super::layout::{ElementLayout, GappedTypes};
use crate::target::{CallTarget, ElementBlock};

/// The protected ranges.
#[derive(Clone, Copy, Debug)]
pub struct ProtectedRanges<'a>(pub &'a [ProtectedRange]);

impl ProtectedRanges<'_> {
    /// The range that contains all of these bytes, and the offset in it.
    fn find(&self, start: i64, len: i64) -> Option<(i32, u64)> {
        let (start, len) = (start as u64, u64::try_from(len).ok()?);
        self.0.iter().find_map(|region| {
            let place = start.checked_sub(region.address)?;
            let fits = place.checked_add(len)? <= region.len;
            fits.then_some((region.id, place))
        })
    }

    /// The address of an offset in a range that has this many bytes after it.
    fn address(&self, id: i32, place: u64, len: i64) -> Option<i64> {
        let region = self.0.iter().find(|region| region.id == id)?;
        let end = place.checked_add(u64::try_from(len).ok()?)?;
        (end <= region.len).then(|| region.address.wrapping_add(place) as i64)
    }
}

/// Bytes from the first element of a block to the end of the last.
fn span(count: i64, layout: &ElementLayout, extent: i64) -> Option<i64> {
    match count {
        0 => Some(0),
        _ if count < 0 || extent < 0 => None,
        _ => extent.checked_mul(count - 1)?.checked_add(layout.span),
    }
}

/// Writes a target. Returns whether it can be identified again.
pub(super) fn write(
    to: &mut NumberWriter,
    target: &CallTarget,
    types: &impl GappedTypes,
    regions: ProtectedRanges<'_>,
) -> bool {
    let blocks: Option<Vec<_>> =
        target.blocks().iter().map(|block| find(block, types, regions)).collect();
    let is_lost = matches!(target, CallTarget::Lost | CallTarget::Plain { .. });
    match blocks.filter(|_| !is_lost) {
        None => {
            to.u8(2);
            false
        }
        Some(blocks) if blocks.is_empty() => {
            to.u8(0);
            true
        }
        Some(blocks) => {
            to.u8(1);
            to.list(&blocks, |to, (id, place, count, layout)| {
                to.i32(*id);
                to.u64(*place);
                to.i64(*count);
                layout.write(to);
            });
            true
        }
    }
}

fn find(
    block: &ElementBlock,
    types: &impl GappedTypes,
    regions: ProtectedRanges<'_>,
) -> Option<(i32, u64, i64, ElementLayout)> {
    let layout = ElementLayout::of(&block.datatype, types)?;
    let len = span(block.count, &layout, block.datatype.extent)?;
    let start = (block.buf as i64).wrapping_add(layout.first);
    let (id, place) = regions.find(start, len)?;
    Some((id, place, block.count, layout))
}

/// Reads what [`write()`] has written, with the memory that is protected now.
///
/// # Errors
/// It is invalid.
pub(super) fn read(
    from: &mut NumberReader<'_>,
    types: &impl GappedTypes,
    regions: ProtectedRanges<'_>,
) -> Result<CallTarget> {
    match from.u8()? {
        0 => return Ok(CallTarget::Nothing),
        1 => {}
        2 => return Ok(CallTarget::Lost),
        other => return Err(format!("target {other}")),
    }
    // Types are made when all values were checked.
    let blocks = from.list(60, |from| {
        let (id, place, count) = (from.i32()?, from.u64()?, from.i64()?);
        let layout = ElementLayout::read(from)?;
        Ok((id, place, count, layout))
    })?;
    let found = blocks.into_iter().map(|(id, place, count, layout)| {
        let extent = layout.extent();
        let len = span(count, &layout, extent)?;
        // Larger counts are invalid.
        count.checked_mul(layout.size())?;
        let start = regions.address(id, place, len)?;
        Some((start.wrapping_sub(layout.first) as usize, count, layout))
    });
    let Some(found) = found.collect::<Option<Vec<_>>>() else { return Ok(CallTarget::Lost) };
    let blocks = found.into_iter().map(|(buf, count, layout)| {
        let datatype = Rc::new(layout.make(types));
        ElementBlock { buf, count, datatype }
    });
    let mut blocks: Vec<ElementBlock> = blocks.collect();
    Ok(match (blocks.pop(), blocks.is_empty()) {
        (None, _) => CallTarget::Nothing,
        (Some(one), true) => CallTarget::One(one),
        (Some(last), false) => {
            blocks.push(last);
            CallTarget::Many(blocks.into())
        }
    })
}
