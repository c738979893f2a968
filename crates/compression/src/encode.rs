//! Encoding an array.

use std::sync::atomic::{AtomicU64, Ordering};

use errors::{Error, Result};

use crate::block::{self, Encoded};
use crate::header::{Bits, Element, Header, Layout, BLOCK, HEADER_LEN};
use crate::pieces::{each, PIECE};
use crate::real::Real;
use crate::with_kind;

/// How far off a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound(Limit);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    Absolute(f64),
    Relative(f64),
}

impl Bound {
    /// No value is off by more than `bound`.
    ///
    /// # Errors
    /// [`Invalid`](errors::ErrorKind::Invalid): it is no finite number above 0.
    pub fn absolute(bound: f64) -> Result<Bound> {
        Ok(Bound(Limit::Absolute(checked(bound)?)))
    }

    /// No value is off by more than `bound` times the largest finite magnitude of the array.
    ///
    /// # Errors
    /// [`Invalid`](errors::ErrorKind::Invalid): it is no number above 0 and below 1, or so small that most blocks would
    /// be kept whole.
    pub fn relative(bound: f64, bits: Bits) -> Result<Bound> {
        let bits = bits.number();
        let least = 0.5_f64.powi(bits as i32);
        if checked(bound)? >= 1.0 {
            return Err(Error::invalid(format!(
                "the relative error bound {bound:?} is not below 1: zeros would be within it"
            )));
        }
        if bound < least {
            return Err(Error::invalid(format!(
                "the relative error bound {bound:?} is below one bit of {bits} ({least:?})"
            )));
        }
        Ok(Bound(Limit::Relative(bound)))
    }

    /// Its number, and whether it is relative to the largest finite magnitude.
    pub fn number(&self) -> (f64, bool) {
        match self.0 {
            Limit::Absolute(bound) => (bound, false),
            Limit::Relative(bound) => (bound, true),
        }
    }
}

fn checked(bound: f64) -> Result<f64> {
    if bound > 0.0 && bound.is_finite() {
        return Ok(bound);
    }
    Err(Error::invalid(format!("the error bound {bound:?} is no finite number above 0")))
}

/// What became of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It is encoded.
    Done {
        /// The largest error of a value.
        error: f64,
        /// How many blocks are kept whole.
        whole: u64,
        /// How many there are.
        blocks: u64,
    },
    /// More blocks would have to be kept whole than there is room for. What was written means nothing.
    Overflow,
}

/// Encodes an array, which need not be aligned, into `out`, with so many threads. The same array becomes the same bytes
/// with any number of them.
///
/// # Errors
/// [`Invalid`](errors::ErrorKind::Invalid): the array is no whole number of values, or `out` has not the length of
/// [`encoded_len`](crate::encoded_len).
pub fn encode(
    content: &[u8],
    element: Element,
    bits: Bits,
    bound: &Bound,
    threads: usize,
    out: &mut [u8],
) -> Result<Outcome> {
    let (bound, error, whole, largest) = (0.0, 0.0, 0, *bound);
    let content_len = content.len() as u64;
    let header = Header { element, bits, content_len, bound, error, whole, largest: 0.0 };
    let layout = header.layout()?;
    if out.len() as u64 != layout.end {
        return Err(Error::invalid(format!(
            "{} bytes for an encoded array that has {}",
            out.len(),
            layout.end
        )));
    }
    with_kind!(element, bits, encode_array(content, header, layout, largest, threads, out))
}

/// The pieces of an array that is encoded, but for the side area.
struct Written {
    pieces: Vec<Encoded>,
    whole: u64,
    error: f64,
    largest: f64,
}

fn encode_array<R: Real<E>, const E: usize, const B: usize>(
    content: &[u8],
    mut header: Header,
    layout: Layout,
    Bound(limit): Bound,
    threads: usize,
    out: &mut [u8],
) -> Result<Outcome> {
    let (head, rest) = out.split_at_mut(HEADER_LEN);
    let (codes, rest) = rest.split_at_mut(layout.values as usize - HEADER_LEN);
    let (values, side) = rest.split_at_mut((layout.side - layout.values) as usize);
    let (codes, padding) = codes.split_at_mut(layout.blocks as usize * (E / 4));
    padding.fill(0);
    let pieces = || content.chunks(PIECE * BLOCK * E);
    let mut write = |bound| -> Result<Written> {
        let whole = AtomicU64::new(0);
        let places = codes.chunks_mut(PIECE * (E / 4)).zip(values.chunks_mut(PIECE * 8 * B));
        let pieces = each(pieces().zip(places), threads, |(content, (codes, values))| {
            if whole.load(Ordering::Relaxed) > layout.capacity {
                return Encoded::default();
            }
            let encoded = block::encode::<R, E, B>(content, codes, values, bound);
            whole.fetch_add(encoded.whole.len() as u64, Ordering::Relaxed);
            encoded
        })?;
        let error = pieces.iter().map(|piece| piece.error).fold(0.0, f64::max);
        let largest = pieces.iter().map(|piece| piece.largest).fold(0.0, f64::max);
        Ok(Written { pieces, whole: whole.into_inner(), error, largest })
    };
    let written = match limit {
        Limit::Absolute(bound) => {
            header.bound = bound;
            write(bound)?
        }
        Limit::Relative(relative) => {
            let of = |largest: f64| relative * largest;
            // So wide a bound all finite blocks keep, but for denormals: it need not be known before.
            let is_wide = relative >= 0.5_f64.powi(B as i32 - 1);
            let at_once = if is_wide { Some(write(f64::MAX)?) } else { None };
            let is_done = |written: &Written| {
                written.error <= of(written.largest) || written.whole > layout.capacity
            };
            let (largest, written) = match at_once.filter(is_done) {
                Some(written) => (written.largest, written),
                None => {
                    let found = each(pieces(), threads, block::largest::<R, E>)?;
                    let largest = found.into_iter().fold(0.0, f64::max);
                    (largest, write(of(largest))?)
                }
            };
            (header.largest, header.bound) = (largest, of(largest));
            written
        }
    };
    if written.whole > layout.capacity {
        return Ok(Outcome::Overflow);
    }
    (header.error, header.whole) = (written.error, written.whole);
    let whole = written.pieces.iter().zip(0..).flat_map(|(piece, nth)| {
        piece.whole.iter().map(move |block| nth * PIECE + *block as usize)
    });
    let mut entries = side.chunks_exact_mut(BLOCK * E);
    for ((block, index), entry) in whole.zip(0_u32..).zip(&mut entries) {
        let from = &content[block * BLOCK * E..];
        let (there, missing) = entry.split_at_mut(from.len().min(BLOCK * E));
        there.copy_from_slice(&from[..there.len()]);
        missing.fill(0);
        values[block * 8 * B..][..4].copy_from_slice(&index.to_le_bytes());
    }
    entries.for_each(|entry| entry.fill(0));
    head.copy_from_slice(&header.encode(layout));
    let Header { error, whole, .. } = header;
    Ok(Outcome::Done { error, whole, blocks: layout.blocks })
}
