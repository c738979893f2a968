//! One block, and many in a row: what the processor spends its time with.
//!
//! The loops are over arrays of a known length, so that the compiler makes vectors of them; they are compiled for wide
//! registers, too, and what there is decides at run time.

use errors::Result;

use crate::header::{corrupt, BLOCK};
use crate::pack::{pack, unpack, Packed};
#[cfg(target_arch = "x86_64")]
use crate::pack_avx2::{pack_avx2, unpack_avx2};
use crate::real::Real;

/// The code of a block that is kept whole; its lowest byte where a code has one byte.
pub(crate) const WHOLE: u16 = u16::MAX;

/// A block's values as they lie in the array.
pub(crate) type Raw<const E: usize> = [[u8; E]; BLOCK];

/// As many as make the widest register.
const LANES: usize = 16;

/// What encoding some blocks has found.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    /// The largest error.
    pub error: f64,
    /// The largest finite magnitude.
    pub largest: f64,
    /// The blocks to be kept whole, ascending: which of these they are.
    pub whole: Vec<u32>,
}

/// Encodes blocks. Those to be kept whole have their code, and 0 for values.
pub(crate) fn encode<R: Real<E>, const E: usize, const B: usize>(
    content: &[u8],
    codes: &mut [u8],
    values: &mut [u8],
    bound: f64,
) -> Encoded {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function needs.
        return unsafe { encode_avx2::<R, E, B>(content, codes, values, bound) };
    }
    encode_plain::<R, E, B>(content, codes, values, bound, pack::<B>)
}

/// [`encode_plain`], compiled for wider registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn encode_avx2<R: Real<E>, const E: usize, const B: usize>(
    content: &[u8],
    codes: &mut [u8],
    values: &mut [u8],
    bound: f64,
) -> Encoded {
    let pack = |integers: &_, packed: &mut _| pack_avx2::<B>(integers, packed);
    encode_plain::<R, E, B>(content, codes, values, bound, pack)
}

#[inline(always)]
pub(crate) fn encode_plain<R: Real<E>, const E: usize, const B: usize>(
    content: &[u8],
    codes: &mut [u8],
    values: &mut [u8],
    bound: f64,
    pack: impl Fn(&[u32; BLOCK], &mut Packed<B>),
) -> Encoded {
    let mut encoded = Encoded::default();
    let (blocks, partial) = content.as_chunks::<E>().0.as_chunks::<BLOCK>();
    let (codes, last_code) = codes.split_at_mut(blocks.len() * (E / 4));
    let (values, last) = values.as_chunks_mut().0.as_chunks_mut().0.split_at_mut(blocks.len());
    let places = codes.chunks_exact_mut(E / 4).zip(values);
    for (nth, (block, (code, values))) in blocks.iter().zip(places).enumerate() {
        fetch_ahead(block);
        encoded.add(nth, encode_block::<R, E, B>(block, values, bound, &pack), code);
    }
    if let (false, Some(last)) = (partial.is_empty(), last.first_mut()) {
        let mut block = [[0; E]; BLOCK];
        block[..partial.len()].copy_from_slice(partial);
        encoded.add(blocks.len(), encode_block::<R, E, B>(&block, last, bound, &pack), last_code);
    }
    encoded
}

impl Encoded {
    #[inline(always)]
    fn add(&mut self, nth: usize, block: Block, to: &mut [u8]) {
        to.copy_from_slice(&block.code.to_le_bytes()[..to.len()]);
        if block.code == WHOLE {
            self.whole.push(nth as u32);
        }
        if block.error > self.error {
            self.error = block.error;
        }
        if block.largest > self.largest {
            self.largest = block.largest;
        }
    }
}

/// What encoding a block has found.
struct Block {
    code: u16,
    error: f64,
    largest: f64,
}

#[inline(always)]
fn encode_block<R: Real<E>, const E: usize, const B: usize>(
    block: &Raw<E>,
    values: &mut Packed<B>,
    bound: f64,
    pack: impl Fn(&[u32; BLOCK], &mut Packed<B>),
) -> Block {
    let largest = largest_magnitude::<R, E>(block);
    let exponent = R::exponent(largest);
    if largest == R::Magnitude::default() {
        *values = [[0; B]; BLOCK / 8];
        return Block { code: 0, error: 0.0, largest: 0.0 };
    }
    if exponent > 2 * R::OFFSET {
        *values = [[0; B]; BLOCK / 8];
        let largest = largest_plain::<R, E>(block.as_flattened());
        return Block { code: WHOLE, error: 0.0, largest };
    }
    let largest = R::of_magnitude(largest).into();
    let k = (exponent - R::OFFSET + 2 - B as i32).max(1 - R::OFFSET);
    let (step, per_step) = (R::power(k), R::power(-k));
    let most = R::ROUNDS + R::of_integer((1 << (B - 1)) - 1);
    let mut integers = [0; BLOCK];
    let mut errors = [R::default(); LANES];
    let sixteens = integers.as_chunks_mut::<LANES>().0;
    for (values, integers) in block.as_chunks::<LANES>().0.iter().zip(sixteens) {
        for ((value, integer), largest) in values.iter().zip(integers).zip(&mut errors) {
            let value = R::of(*value);
            let rounded = value * per_step + R::ROUNDS;
            let rounded = if rounded > most { most } else { rounded };
            let error = (value - (rounded - R::ROUNDS) * step).absolute();
            *largest = if error > *largest { error } else { *largest };
            *integer = rounded.lowest();
        }
    }
    // Integers, of which the largest is found without one by one.
    let error = errors.map(R::magnitude).into_iter().fold(R::Magnitude::default(), Ord::max);
    let error = R::of_magnitude(error).into();
    if error > bound {
        *values = [[0; B]; BLOCK / 8];
        return Block { code: WHOLE, error: 0.0, largest };
    }
    pack(&integers, values);
    Block { code: (k + R::OFFSET) as u16, error, largest }
}

/// Has the processor fetch what lies a page behind these values: it does so by itself within a page alone.
#[inline(always)]
pub(crate) fn fetch_ahead<const E: usize>(values: &[[u8; E]]) {
    #[cfg(target_arch = "x86_64")]
    for line in values.as_flattened().chunks(64) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        // SAFETY: an address that is none is not fetched from.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().wrapping_add(4096).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}

#[inline(always)]
fn largest_magnitude<R: Real<E>, const E: usize>(block: &Raw<E>) -> R::Magnitude {
    let mut largest = [R::Magnitude::default(); LANES];
    for values in block.as_chunks::<LANES>().0 {
        for (value, largest) in values.iter().zip(&mut largest) {
            *largest = R::of(*value).magnitude().max(*largest);
        }
    }
    largest.into_iter().fold(R::Magnitude::default(), Ord::max)
}

/// The largest finite magnitude of an array.
pub(crate) fn largest<R: Real<E>, const E: usize>(content: &[u8]) -> f64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function needs.
        return unsafe { largest_avx2::<R, E>(content) };
    }
    largest_plain::<R, E>(content)
}

/// [`largest_plain`], compiled for wider registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn largest_avx2<R: Real<E>, const E: usize>(content: &[u8]) -> f64 {
    largest_plain::<R, E>(content)
}

#[inline(always)]
pub(crate) fn largest_plain<R: Real<E>, const E: usize>(content: &[u8]) -> f64 {
    let finite = |value: &[u8; E]| {
        let magnitude = R::of(*value).magnitude();
        let is_finite = magnitude < R::power(R::OFFSET + 1).magnitude();
        if is_finite {
            magnitude
        } else {
            R::Magnitude::default()
        }
    };
    let (rows, rest) = content.as_chunks::<E>().0.as_chunks::<LANES>();
    let mut largest = [R::Magnitude::default(); LANES];
    for values in rows {
        fetch_ahead(values);
        for (value, largest) in values.iter().zip(&mut largest) {
            *largest = finite(value).max(*largest);
        }
    }
    let all = rest.iter().map(finite).chain(largest);
    R::of_magnitude(all.fold(R::Magnitude::default(), Ord::max)).into()
}

/// Decodes blocks, of which the first is the block `first` of the array.
///
/// # Errors
/// `Corrupt`: a code that cannot be, or an entry that the side area lacks.
pub(crate) fn decode<R: Real<E>, const E: usize, const B: usize>(
    codes: &[u8],
    values: &[u8],
    side: &[u8],
    content: &mut [u8],
    first: u64,
) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function needs.
        return unsafe { decode_avx2::<R, E, B>(codes, values, side, content, first) };
    }
    decode_plain::<R, E, B>(codes, values, side, content, first, unpack::<B>)
}

/// [`decode_plain`], compiled for wider registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn decode_avx2<R: Real<E>, const E: usize, const B: usize>(
    codes: &[u8],
    values: &[u8],
    side: &[u8],
    content: &mut [u8],
    first: u64,
) -> Result<()> {
    let unpack = |packed: &_, integers: &mut _| unpack_avx2::<B>(packed, integers);
    decode_plain::<R, E, B>(codes, values, side, content, first, unpack)
}

#[inline(always)]
pub(crate) fn decode_plain<R: Real<E>, const E: usize, const B: usize>(
    codes: &[u8],
    values: &[u8],
    side: &[u8],
    content: &mut [u8],
    first: u64,
    unpack: impl Fn(&Packed<B>, &mut [i32; BLOCK]),
) -> Result<()> {
    let side = side.as_chunks::<E>().0.as_chunks::<BLOCK>().0;
    let (blocks, partial) = content.as_chunks_mut::<E>().0.as_chunks_mut::<BLOCK>();
    let places = codes.chunks_exact(E / 4).zip(values.as_chunks().0.as_chunks().0);
    let mut places = places.zip(first..);
    for (block, ((code, values), number)) in blocks.iter_mut().zip(&mut places) {
        decode_block::<R, E, B>(code, values, side, block, number, &unpack)?;
    }
    if let (false, Some(((code, values), number))) = (partial.is_empty(), places.next()) {
        let mut block = [[0; E]; BLOCK];
        decode_block::<R, E, B>(code, values, side, &mut block, number, &unpack)?;
        partial.copy_from_slice(&block[..partial.len()]);
    }
    Ok(())
}

#[inline(always)]
fn decode_block<R: Real<E>, const E: usize, const B: usize>(
    code: &[u8],
    values: &Packed<B>,
    side: &[Raw<E>],
    block: &mut Raw<E>,
    number: u64,
    unpack: impl Fn(&Packed<B>, &mut [i32; BLOCK]),
) -> Result<()> {
    let code = match *code {
        [u8::MAX] => WHOLE,
        [code] => code.into(),
        [low, high] => u16::from_le_bytes([low, high]),
        _ => 0,
    };
    let k = i32::from(code) - R::OFFSET;
    if code == 0 {
        *block = [[0; E]; BLOCK];
    } else if k <= R::OFFSET + 2 - B as i32 {
        let step = R::power(k);
        let mut integers = [0; BLOCK];
        unpack(values, &mut integers);
        for (value, integer) in block.iter_mut().zip(integers) {
            *value = (R::of_integer(integer) * step).bytes();
        }
    } else if code == WHOLE {
        let index =
            values.as_flattened().first_chunk().map_or(0, |index| u32::from_le_bytes(*index));
        *block = *side.get(index as usize).ok_or_else(|| no_entry(number, index, side.len()))?;
    } else {
        return Err(no_code(number, code));
    }
    Ok(())
}

#[cold]
fn no_entry(number: u64, index: u32, entries: usize) -> errors::Error {
    corrupt(format!("block {number} is kept whole as entry {index} of {entries}"))
}

#[cold]
fn no_code(number: u64, code: u16) -> errors::Error {
    corrupt(format!("block {number} has the code {code}, which means nothing"))
}
