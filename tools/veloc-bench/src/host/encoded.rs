//! `veloc-bench snapshot --parts encoded`: how long an array of single precision takes to be encoded within an error
//! bound or without loss, and decoded, beside a copy of it by as many threads.
//!
//! Values are a wave, and bounds so wide that no block is kept whole. What is encoded without loss is 0 in its first
//! part.

use std::collections::BTreeMap;
use std::slice;
use std::thread;

use anyhow::{ensure, Context, Result};
use compression::{
    decode, encode, encode_lossless, encoded_len, is_worthwhile, Bits, Bound, Element, Outcome,
};
use os::mapping::Mapping;

use super::engine::median;
use super::snapshot::{seconds, tell, PageSize};
use super::Goal;

const THREADS: [usize; 2] = [1, 2];

/// So many bytes of a mapping whose pages exist.
struct Bytes(Mapping, usize);

impl Bytes {
    fn new(len: usize, pages: PageSize) -> Result<Bytes> {
        let mut bytes = Bytes(Mapping::reserve(len)?, len);
        // Without huge pages the figures are those of small ones.
        let _ = bytes.0.advise_huge(pages == PageSize::Huge);
        bytes.all_mut().fill(1);
        Ok(bytes)
    }

    fn all(&self) -> &[u8] {
        // SAFETY: no more than the mapping has, which nobody writes to meanwhile.
        unsafe { slice::from_raw_parts(self.0.base().as_ptr(), self.1) }
    }

    fn all_mut(&mut self) -> &mut [u8] {
        // SAFETY: no more than the mapping has, borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.0.base().as_ptr(), self.1) }
    }
}

fn copy(from: &[u8], to: &mut [u8], threads: usize) {
    let share = from.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let mut shares = from.chunks(share).zip(to.chunks_mut(share));
        let own = shares.next();
        for (from, to) in shares {
            scope.spawn(|| to.copy_from_slice(from));
        }
        if let Some((from, to)) = own {
            to.copy_from_slice(from);
        }
    });
}

/// Measures an array of this size, in pages of this kind.
pub(super) fn measure(bytes: usize, pages: PageSize, repeats: u32) -> Result<()> {
    let what =
        format!("{}, {} pages", os::size::show(bytes as u64), crate::options::name_of(&pages));
    let (mut content, mut back) = (Bytes::new(bytes, pages)?, Bytes::new(bytes, pages)?);
    for (n, value) in content.all_mut().as_chunks_mut().0.iter_mut().enumerate() {
        *value = ((n as f32 * 0.01).sin() * (n as f32 * 1e-5).cos()).to_le_bytes();
    }
    let mut times: BTreeMap<(usize, String), Vec<f64>> = BTreeMap::new();
    let mut floors: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let mut ways = Vec::new();
    for bits in [Bits::Eight, Bits::Twelve, Bits::Sixteen] {
        let len = encoded_len(bytes as u64, Element::F32, bits)?;
        let bounds = [
            ("absolute bound", Bound::absolute(0.01)?),
            ("relative bound", Bound::relative(0.01, bits)?),
        ];
        ways.push((bits, bounds, Bytes::new(len as usize, pages)?));
    }
    // What a wave is like when its front has come this far, and what is not worth it.
    let mut lossless = Vec::new();
    for (name, zeros, is_random) in
        [("half of it 0", bytes / 2, false), ("a wave", 0, false), ("random bits", 0, true)]
    {
        let mut from = Bytes::new(bytes, pages)?;
        let mut random = 1_u64;
        for (n, value) in from.all_mut().as_chunks_mut().0.iter_mut().enumerate() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *value = match 4 * n < zeros {
                true => [0; 4],
                false if is_random => ((random >> 32) as u32).to_le_bytes(),
                false => ((n as f32 * 0.1).sin() * (n as f32 * 1e-5).cos()).to_le_bytes(),
            };
        }
        lossless.push((name, from, Bytes::new(bytes / 8 * 9 + 4096, pages)?));
    }
    for threads in (0..repeats).flat_map(|_| THREADS) {
        let floor = seconds(|| {
            copy(content.all(), back.all_mut(), threads);
            Ok(())
        })?;
        floors.entry(threads).or_default().push(floor);
        for (bits, bounds, encoded) in &mut ways {
            let mut took = |what: String, time| {
                times.entry((threads, what)).or_default().push(time);
            };
            for (name, bound) in bounds {
                let time = seconds(|| {
                    let (from, into) = (content.all(), encoded.all_mut());
                    let outcome = encode(from, Element::F32, *bits, bound, threads, into)?;
                    ensure!(outcome != Outcome::Overflow, "the bench's wave is kept whole");
                    Ok(())
                })?;
                took(format!("encoded in {:2} bits, {name}", bits.number()), time);
            }
            let time = seconds(|| Ok(decode(encoded.all(), back.all_mut(), threads)?))?;
            took(format!("decoded of {:2} bits", bits.number()), time);
        }
        for (name, from, into) in &mut lossless {
            let mut took = |what: String, time| {
                times.entry((threads, what)).or_default().push(time);
            };
            let mut looked = false;
            let time = seconds(|| {
                looked = is_worthwhile(from.all(), Element::F32);
                Ok(())
            })?;
            took(format!("looked at, {name}: worth it: {looked}"), time);
            let mut len = 0;
            let time = seconds(|| {
                let done = encode_lossless(from.all(), Element::F32, threads, into.all_mut())?;
                len = done.context("there is room for more")? as usize;
                Ok(())
            })?;
            let part = format!("{name}: {:.3} of the bytes", len as f64 / bytes as f64);
            took(format!("encoded without loss, {part}"), time);
            let time = seconds(|| Ok(decode(&into.all()[..len], back.all_mut(), threads)?))?;
            took(format!("decoded without loss, {name}"), time);
            ensure!(back.all() == from.all(), "{name}: what comes back is not what it was");
        }
    }
    let threads_of = |threads| if threads == 1 { "1 thread" } else { "2 threads" };
    for (threads, floor) in &floors {
        let floor = floor.iter().map(|time| 1e3 * time).collect();
        tell(&format!("memcpy, {}", threads_of(*threads)), &what, "ms", floor, None)?;
    }
    for ((threads, name), times) in times {
        let floor = median(floors.get(&threads).cloned().unwrap_or_default());
        let name = format!("{name}, {}", threads_of(threads));
        let goal = Some(Goal::AtMost(1.0));
        tell(&name, &what, "ms", times.iter().map(|time| 1e3 * time).collect(), None)?;
        tell(&name, &what, "x memcpy", times.iter().map(|time| time / floor).collect(), goal)?;
    }
    Ok(())
}
