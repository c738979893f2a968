//! Encodes arrays.

use super::header::Header;
use super::layout::{Layout, HEADER};
use super::value::Value;
use super::vector::vectorised;
use super::{block, Bits, Bound, Element, Kind, BLOCK};
use errors::{Error, Result};

/// An array that was encoded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Encoded {
    /// The most by which a value differs.
    pub error: f64,
    /// Blocks that are kept whole.
    pub whole: u64,
    /// All blocks.
    pub blocks: u64,
}

/// What has become of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It is encoded.
    Done(Encoded),
    /// There is no room for so many blocks that have to be kept whole.
    Overflow,
}

/// Blocks that one thread encodes.
struct Piece<'a> {
    content: &'a [u8],
    codes: &'a mut [u8],
    values: &'a mut [u8],
    /// The number of the first.
    first: usize,
}

/// What a thread has encoded.
struct Encoding {
    error: f64,
    /// The numbers of the blocks that are to be kept whole.
    whole: Vec<usize>,
}

/// Encodes an array into `out`, which has as many bytes as [`encoded_len`](super::encoded_len) says, by at most so many
/// threads. The result does not depend on their number.
///
/// # Errors
/// The lengths do not fit.
pub fn encode(
    content: &[u8],
    element: Element,
    bits: Bits,
    bound: &Bound,
    threads: usize,
    out: &mut [u8],
) -> Result<Outcome> {
    let layout = Layout::of(content.len() as u64, element, bits)?;
    if out.len() != layout.whole().end {
        let (has, needed) = (out.len(), layout.whole().end);
        return Err(Error::invalid(format!(
            "there are {has} bytes for {needed} of an encoded array"
        )));
    }
    match element {
        Element::F32 => encode_as::<f32>(content, &layout, bound, threads, out),
        Element::F64 => encode_as::<f64>(content, &layout, bound, threads, out),
    }
}

fn encode_as<V: Value>(
    content: &[u8],
    layout: &Layout,
    bound: &Bound,
    threads: usize,
    out: &mut [u8],
) -> Result<Outcome> {
    // Fewer blocks than this are not worth a thread.
    let each = layout.blocks.div_ceil(threads.max(1)).max(1024);
    let (largest, bound) = match bound.0 {
        Kind::Absolute(bound) => (0.0, bound),
        Kind::Relative(part) => {
            let pieces: Vec<_> = content.chunks(each * layout.block_bytes()).collect();
            let found = in_parallel(pieces, |bytes| largest_finite::<V>(bytes));
            let largest = V::of_magnitude(found.into_iter().max().unwrap_or_default()).to_f64();
            (largest, part * largest)
        }
    };
    let mut pieces = Vec::new();
    let (head, whole) = out.split_at_mut(layout.whole().start);
    let (head, values) = head.split_at_mut(layout.values().start);
    let (header, codes) = head.split_at_mut(HEADER);
    codes[layout.codes().len()..].fill(0);
    let of_values = values.chunks_mut(each * layout.bits.of_block());
    let of_codes = codes.chunks_mut(each * layout.code_bytes());
    let contents = content.chunks(each * layout.block_bytes());
    for (nth, ((content, codes), values)) in contents.zip(of_codes).zip(of_values).enumerate() {
        pieces.push(Piece { content, codes, values, first: nth * each });
    }
    let encoded = in_parallel(pieces, |piece| encode_piece::<V>(piece, layout, bound));
    let error = encoded.iter().map(|one| one.error).fold(0.0, f64::max);
    let kept: Vec<usize> = encoded.into_iter().flat_map(|one| one.whole).collect();
    if kept.len() > layout.capacity {
        return Ok(Outcome::Overflow);
    }
    let size = layout.block_bytes();
    whole[kept.len() * size..].fill(0);
    for ((nth, number), place) in kept.iter().enumerate().zip(whole.chunks_exact_mut(size)) {
        let bytes = &content[number * size..content.len().min((number + 1) * size)];
        place[..bytes.len()].copy_from_slice(bytes);
        place[bytes.len()..].fill(0);
        let values = &mut values[number * layout.bits.of_block()..][..layout.bits.of_block()];
        values.fill(0);
        values[..4].copy_from_slice(&(nth as u32).to_le_bytes());
    }
    let done = Encoded { error, whole: kept.len() as u64, blocks: layout.blocks as u64 };
    if let Some(header) = header.first_chunk_mut::<HEADER>() {
        Header {
            element: layout.element,
            bits: layout.bits,
            content: content.len() as u64,
            bound,
            error,
            whole: done.whole,
            capacity: layout.capacity as u64,
            largest,
        }
        .write(header);
    }
    Ok(Outcome::Done(done))
}

/// Does `work` on each piece in a thread of its own, the last one in this.
pub(crate) fn in_parallel<P: Send, R: Send>(
    pieces: Vec<P>,
    work: impl Fn(P) -> R + Sync,
) -> Vec<R> {
    let (mut pieces, work) = (pieces, &work);
    let Some(last) = pieces.pop() else { return Vec::new() };
    std::thread::scope(|scope| {
        let others: Vec<_> = pieces.into_iter().map(|piece| scope.spawn(|| work(piece))).collect();
        let last = work(last);
        let join = |thread: std::thread::ScopedJoinHandle<'_, R>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        others.into_iter().map(join).chain([last]).collect()
    })
}

vectorised! {
    /// The largest finite magnitude.
    fn largest_finite(content: &[u8]) -> V::Magnitude = largest_of
}

#[inline(always)]
fn largest_of<V: Value>(content: &[u8]) -> V::Magnitude {
    let mut largest = V::Magnitude::default();
    for bytes in content.chunks(BLOCK * V::ELEMENT.bytes()) {
        let values = block::read::<V>(bytes);
        let of_block = block::largest(&values);
        if of_block < V::INFINITE {
            largest = largest.max(of_block);
        } else {
            let finite = values.iter().map(|value| value.magnitude());
            largest = finite.filter(|magnitude| *magnitude < V::INFINITE).fold(largest, Ord::max);
        }
    }
    largest
}

vectorised! {
    fn encode_piece(piece: Piece<'_>, layout: &Layout, bound: f64) -> Encoding = encode_blocks
}

#[inline(always)]
fn encode_blocks<V: Value>(piece: Piece<'_>, layout: &Layout, bound: f64) -> Encoding {
    let Piece { content, codes, values, first } = piece;
    let (mut error, mut whole) = (V::default(), Vec::new());
    let contents = content.chunks(layout.block_bytes());
    let codes = codes.chunks_exact_mut(layout.code_bytes());
    let packed = values.chunks_exact_mut(layout.bits.of_block());
    for (nth, ((bytes, to), out)) in contents.zip(codes).zip(packed).enumerate() {
        let code = match block::encode(&block::read::<V>(bytes), layout.bits, bound, out) {
            Some((code, of_block)) => {
                error = error.larger(of_block);
                code
            }
            None => {
                // More than can be kept at all need not be told.
                if whole.len() <= layout.capacity {
                    whole.push(first + nth);
                }
                V::WHOLE
            }
        };
        to.copy_from_slice(&code.to_le_bytes()[..to.len()]);
    }
    Encoding { error: error.to_f64(), whole }
}
