//! Decodes arrays.

use super::encode::in_parallel;
use super::header::{corrupt, Header};
use super::layout::Layout;
use super::value::Value;
use super::vector::vectorised;
use super::{block, Element};
use errors::{Error, Result};

/// Blocks that one thread decodes.
struct Piece<'a> {
    content: &'a mut [u8],
    codes: &'a [u8],
    values: &'a [u8],
}

/// Decodes an array, by at most so many threads.
///
/// # Errors
/// [`errors::ErrorKind::Corrupt`]: it is no encoded array of so many bytes. Part of `content` may be written then.
pub fn decode(encoded: &[u8], content: &mut [u8], threads: usize) -> Result<()> {
    let header = Header::read(encoded)?;
    if header.content != content.len() as u64 {
        let (has, wanted) = (header.content, content.len());
        return Err(Error::invalid(format!("it decodes to {has} bytes, not to {wanted}")));
    }
    let layout = Layout::of(header.content, header.element, header.bits)?;
    if encoded.len() != layout.whole().end {
        let (has, needed) = (encoded.len(), layout.whole().end);
        return Err(corrupt(format!("the encoded array has {has} of {needed} bytes")));
    }
    match header.element {
        Element::F32 => decode_as::<f32>(encoded, &layout, header.whole, content, threads),
        Element::F64 => decode_as::<f64>(encoded, &layout, header.whole, content, threads),
    }
}

fn decode_as<V: Value>(
    encoded: &[u8],
    layout: &Layout,
    whole: u64,
    content: &mut [u8],
    threads: usize,
) -> Result<()> {
    let each = layout.blocks.div_ceil(threads.max(1)).max(1024);
    let contents = content.chunks_mut(each * layout.block_bytes());
    let codes = encoded[layout.codes()].chunks(each * layout.code_bytes());
    let values = encoded[layout.values()].chunks(each * layout.bits.of_block());
    let pieces = contents.zip(codes).zip(values);
    let pieces =
        pieces.map(|((content, codes), values)| Piece { content, codes, values }).collect();
    let kept = &encoded[layout.whole()][..whole as usize * layout.block_bytes()];
    in_parallel(pieces, |piece| decode_piece::<V>(piece, layout, kept)).into_iter().collect()
}

vectorised! {
    fn decode_piece(piece: Piece<'_>, layout: &Layout, kept: &[u8]) -> Result<()> = decode_blocks
}

#[inline(always)]
fn decode_blocks<V: Value>(piece: Piece<'_>, layout: &Layout, kept: &[u8]) -> Result<()> {
    let Piece { content, codes, values } = piece;
    let contents = content.chunks_mut(layout.block_bytes());
    let codes = codes.chunks_exact(layout.code_bytes());
    let packed = values.chunks_exact(layout.bits.of_block());
    for ((to, code), packed) in contents.zip(codes).zip(packed) {
        let code = code.iter().rev().fold(0, |code, byte| code << 8 | u16::from(*byte));
        if code == V::WHOLE {
            let nth = packed.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize;
            let Some(bytes) = kept.chunks_exact(layout.block_bytes()).nth(nth) else {
                return Err(corrupt(format!("the encoded array has no whole block {nth}")));
            };
            to.copy_from_slice(&bytes[..to.len()]);
        } else if i32::from(code) > 2 * V::BIAS {
            return Err(corrupt(format!("the encoded array has a block of the code {code}")));
        } else {
            block::write(&block::decode::<V>(code, layout.bits, packed), to);
        }
    }
    Ok(())
}
