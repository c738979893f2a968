//! One block, and many in a row: what the processor spends its time with.
//!
//! The loops are over arrays of a known length, so that the compiler makes vectors of them; they are compiled for wide
//! registers, too, and what there is decides at run time.

use errors::Result;

use crate::header::{corrupt, BLOCK};
use crate::pack::{pack, unpack, Packed};
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
    encode_plain::<R, E, B>(content, codes, values, bound)
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
    encode_plain::<R, E, B>(content, codes, values, bound)
}

#[inline(always)]
pub(crate) fn encode_plain<R: Real<E>, const E: usize, const B: usize>(
    content: &[u8],
    codes: &mut [u8],
    values: &mut [u8],
    bound: f64,
) -> Encoded {
    let mut encoded = Encoded::default();
    let (blocks, partial) = content.as_chunks::<E>().0.as_chunks::<BLOCK>();
    let places = codes.chunks_exact_mut(E / 4).zip(values.as_chunks_mut().0.as_chunks_mut().0);
    let mut places = places.enumerate();
    for (block, (nth, (code, values))) in blocks.iter().zip(&mut places) {
        encoded.add(nth, encode_block::<R, E, B>(block, values, bound), code);
    }
    if let (false, Some((nth, (code, values)))) = (partial.is_empty(), places.next()) {
        let mut block = [[0; E]; BLOCK];
        block[..partial.len()].copy_from_slice(partial);
        encoded.add(nth, encode_block::<R, E, B>(&block, values, bound), code);
    }
    encoded
}

impl Encoded {
    #[inline(always)]
    fn add(&mut self, nth: usize, (code, error): (u16, f64), to: &mut [u8]) {
        to.copy_from_slice(&code.to_le_bytes()[..to.len()]);
        if code == WHOLE {
            self.whole.push(nth as u32);
        } else if error > self.error {
            self.error = error;
        }
    }
}

/// The code of a block, and its largest error.
#[inline(always)]
fn encode_block<R: Real<E>, const E: usize, const B: usize>(
    block: &Raw<E>,
    values: &mut Packed<B>,
    bound: f64,
) -> (u16, f64) {
    let largest = largest_magnitude::<R, E>(block);
    let exponent = R::exponent(largest);
    if largest == R::Magnitude::default() || exponent > 2 * R::OFFSET {
        *values = [[0; B]; BLOCK / 8];
        return (if exponent == 0 { 0 } else { WHOLE }, 0.0);
    }
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
    let error = errors.into_iter().fold(R::default(), |a, b| if b > a { b } else { a }).into();
    if error > bound {
        *values = [[0; B]; BLOCK / 8];
        return (WHOLE, 0.0);
    }
    pack::<B>(&integers, values);
    ((k + R::OFFSET) as u16, error)
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
    decode_plain::<R, E, B>(codes, values, side, content, first)
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
    decode_plain::<R, E, B>(codes, values, side, content, first)
}

#[inline(always)]
pub(crate) fn decode_plain<R: Real<E>, const E: usize, const B: usize>(
    codes: &[u8],
    values: &[u8],
    side: &[u8],
    content: &mut [u8],
    first: u64,
) -> Result<()> {
    let side = side.as_chunks::<E>().0.as_chunks::<BLOCK>().0;
    let (blocks, partial) = content.as_chunks_mut::<E>().0.as_chunks_mut::<BLOCK>();
    let places = codes.chunks_exact(E / 4).zip(values.as_chunks().0.as_chunks().0);
    let mut places = places.zip(first..);
    for (block, ((code, values), number)) in blocks.iter_mut().zip(&mut places) {
        decode_block::<R, E, B>(code, values, side, block, number)?;
    }
    if let (false, Some(((code, values), number))) = (partial.is_empty(), places.next()) {
        let mut block = [[0; E]; BLOCK];
        decode_block::<R, E, B>(code, values, side, &mut block, number)?;
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
        unpack::<B>(values, &mut integers);
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
