//! Decoding an array, or some blocks of it.

use std::ops::Range;

use errors::{Error, Result};

use crate::block;
use crate::header::{corrupt, AnyHeader, Bits, Element, Header, Places, BLOCK};
use crate::lossless;
use crate::pieces::{each, PIECE};
use crate::real::Real;
use crate::with_kind;

/// The bytes of some blocks of an encoded array: those at [`Places`].
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Their codes.
    pub codes: &'a [u8],
    /// Their values.
    pub values: &'a [u8],
    /// All blocks that are kept whole.
    pub side: &'a [u8],
}

impl<'a> Part<'a> {
    /// These of an array that is there as a whole.
    ///
    /// # Errors
    /// [`Corrupt`](errors::ErrorKind::Corrupt): it is shorter.
    pub fn of(encoded: &'a [u8], places: &Places) -> Result<Part<'a>> {
        let bytes = |place: &Range<u64>| {
            let place = usize::try_from(place.start).ok()?..usize::try_from(place.end).ok()?;
            encoded.get(place)
        };
        let all = bytes(&places.codes).zip(bytes(&places.values)).zip(bytes(&places.side));
        let ((codes, values), side) = all.ok_or_else(|| {
            let end = places.side.end;
            corrupt(format!("truncated: {} of at least {end} bytes", encoded.len()))
        })?;
        Ok(Part { codes, values, side })
    }
}

/// Decodes an array, of either encoding, with so many threads.
///
/// # Errors
/// [`Corrupt`](errors::ErrorKind::Corrupt): it is none, or damaged, or of an array of another length than `content`
/// has.
pub fn decode(encoded: &[u8], content: &mut [u8], threads: usize) -> Result<()> {
    let header = match AnyHeader::read(encoded)? {
        AnyHeader::Bounded(header) => header,
        AnyHeader::Lossless(header) => return lossless::decode(&header, encoded, content, threads),
    };
    let layout = header.layout()?;
    if encoded.len() as u64 != layout.end {
        return Err(corrupt(format!("truncated: {} of {} bytes", encoded.len(), layout.end)));
    }
    if content.len() as u64 != header.content_len {
        let (said, wanted) = (header.content_len, content.len());
        return Err(corrupt(format!("it is an array of {said} bytes, and not of {wanted}")));
    }
    let blocks = 0..layout.blocks;
    let part = Part::of(encoded, &header.places(blocks.clone())?)?;
    decode_blocks(&header, blocks, part, content, threads)
}

/// Decodes some blocks of an array with this header, with so many threads.
///
/// # Errors
/// [`Corrupt`](errors::ErrorKind::Corrupt): they are damaged; [`Invalid`](errors::ErrorKind::Invalid): there are no
/// such blocks, or `part` or `content` has another length than [`Header::places`] says.
pub fn decode_blocks(
    header: &Header,
    blocks: Range<u64>,
    part: Part<'_>,
    content: &mut [u8],
    threads: usize,
) -> Result<()> {
    let places = header.places(blocks.clone())?;
    for (what, place, found) in [
        ("codes", places.codes, part.codes.len()),
        ("values", places.values, part.values.len()),
        ("blocks kept whole", places.side, part.side.len()),
        ("content", places.content, content.len()),
    ] {
        if place.end - place.start != found as u64 {
            let has = place.end - place.start;
            return Err(Error::invalid(format!(
                "{found} bytes of {what} of the blocks {blocks:?}, which have {has}"
            )));
        }
    }
    with_kind!(header.element, header.bits, decode_part(part, content, blocks.start, threads))
}

fn decode_part<R: Real<E>, const E: usize, const B: usize>(
    part: Part<'_>,
    content: &mut [u8],
    first: u64,
    threads: usize,
) -> Result<()> {
    let codes = part.codes.chunks(PIECE * (E / 4)).zip(part.values.chunks(PIECE * 8 * B));
    let pieces = content.chunks_mut(PIECE * BLOCK * E).zip(codes).zip((first..).step_by(PIECE));
    let done = each(pieces, threads, |((content, (codes, values)), first)| {
        block::decode::<R, E, B>(codes, values, part.side, content, first)
    })?;
    done.into_iter().collect()
}
