//! From the device into a large host buffer: registered in the background of copies, never
//! registered, or through a small pinned ring that threads copy out of.

use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use device::Stream;
use serde::Serialize;

use super::pages::{Kind, Pages};
use super::{beside, rate, Bench, Times};
use crate::bench::cuda::{Buffer, Device, Pinned};
use crate::bench::host::number;
use crate::size;

/// Bytes of the ring in all.
const RING: u64 = 64 << 20;

/// Bytes of one registration.
const CHUNK: u64 = 64 << 20;

/// Threads that copy out of the ring.
const THREADS: [u32; 4] = [1, 2, 4, 8];

/// A way into the host buffer. Its pages exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    /// Each chunk is registered, then copied to.
    RegisterAndCopy,
    /// All chunks were registered before.
    Registered,
    /// None is ever registered.
    Unregistered,
    /// Through a pinned ring.
    Ring,
}

/// One way, with all repeats.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    way: Way,
    /// Threads that copy out of the ring; 0 without one.
    threads: u32,
    /// Bytes of each repeat.
    bytes: u64,
    /// GB/s of each repeat.
    rates: Vec<f64>,
    /// Seconds of processor time of each repeat, of the whole process.
    processor: Vec<f64>,
    /// Of a copy of 4 MiB on the device meanwhile.
    copies: Vec<Times>,
}

/// Measures all of them.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    println!(
        "from the device into {} of host memory, and copies of 4 MiB on the device beside it",
        size::show(bench.total)
    );
    println!(
        "{:<34} {:>8} {:>9} {:>16} {:>17}",
        "", "threads", "GB/s", "processor, s/GB", "longest copy, ms"
    );
    let source = Buffer::new(bench.device, CHUNK)?;
    let stream = Stream::new(bench.device)?;
    source.clear(&stream)?;
    stream.synchronize()?;
    let plain = [Way::RegisterAndCopy, Way::Registered, Way::Unregistered];
    let rings = THREADS.map(|threads| (Way::Ring, threads));
    for (way, threads) in plain.map(|way| (way, 0)).into_iter().chain(rings) {
        let bytes = bench.total / CHUNK.min(bench.total) * CHUNK.min(bench.total);
        let (rates, processor, copies) = (Vec::new(), Vec::new(), Vec::new());
        let mut point = Point { way, threads, bytes, rates, processor, copies };
        for _ in 0..bench.repeats {
            measure(bench, &source, &stream, &mut point)?;
        }
        print(&point);
        bench.keep(super::Point::Staging(point))?;
    }
    Ok(())
}

fn measure(bench: &Bench<'_>, source: &Buffer, stream: &Stream, point: &mut Point) -> Result<()> {
    let bytes = point.bytes;
    let chunk = CHUNK.min(bytes);
    let mut pages = Pages::new(bytes, Kind::HugeTouched)?;
    if point.way == Way::Registered {
        (0..bytes).step_by(chunk as usize).try_for_each(|start| pages.register(start, chunk))?;
    }
    let rings = (0..point.threads)
        .map(|_| Slots::new(bench.device, RING / u64::from(point.threads) / 2))
        .collect::<Result<Vec<_>>>()?;
    let ((seconds, processor), copies) = beside::copies(bench.device, || {
        let (since, before) = (Instant::now(), processor_seconds());
        if point.way == Way::Ring {
            through_ring(bench.device, source, &pages, bytes, &rings)?;
        } else {
            for start in (0..bytes).step_by(chunk as usize) {
                if point.way == Way::RegisterAndCopy {
                    pages.register(start, chunk)?;
                }
                // SAFETY: source and chunk have so many bytes, and no registration ends within
                // them; this waits before the pages go.
                let queued =
                    unsafe { stream.copy_to_host(pages.at(start), source.address(), chunk) };
                let waited = stream.synchronize();
                queued.and(waited)?;
            }
        }
        Ok((since.elapsed().as_secs_f64(), processor_seconds() - before))
    })?;
    point.rates.push(rate(bytes, seconds));
    point.processor.push(processor);
    point.copies.push(copies);
    Ok(())
}

/// One thread's part of the ring: while one half is being filled, the other is copied out.
pub(super) struct Slots {
    memory: Pinned,
    half: u64,
    streams: [Stream; 2],
}

impl Slots {
    /// Two halves of so many bytes each.
    pub(super) fn new(device: &Device, half: u64) -> Result<Slots> {
        let streams = [Stream::new(device)?, Stream::new(device)?];
        Ok(Slots { memory: Pinned::new(device, 2 * half)?, half, streams })
    }

    /// Copies `bytes` from the device to `to`.
    ///
    /// # Safety
    /// `to` has so many bytes that nothing else uses.
    pub(super) unsafe fn copy(&self, source: &Buffer, to: *mut u8, bytes: u64) -> Result<()> {
        let piece = |index: u64| {
            let start = index * self.half;
            (start, self.half.min(bytes.saturating_sub(start)))
        };
        let fill = |index: u64| {
            let (_, len) = piece(index);
            let side = index % 2;
            // SAFETY: half of this memory, which has been copied out and waited for; the source
            // has more than a half's bytes.
            unsafe {
                self.streams[side as usize].copy_to_host(
                    self.memory.at(side * self.half),
                    source.address(),
                    len,
                )
            }
        };
        let count = bytes.div_ceil(self.half);
        let mut done = fill(0);
        for index in 0..count {
            if done.is_ok() && index + 1 < count {
                done = fill(index + 1);
            }
            let waited = self.streams[(index % 2) as usize].synchronize();
            done = done.and(waited);
            if done.is_err() {
                break;
            }
            let (start, len) = piece(index);
            // SAFETY: this half was filled and waited for; the target is the caller's promise.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.memory.at(index % 2 * self.half),
                    to.add(start as usize),
                    len as usize,
                );
            }
        }
        // Whatever happened, nothing is under way when the memory goes.
        Ok(self.streams.iter().fold(done, |done, stream| done.and(stream.synchronize()))?)
    }
}

/// Each thread does its part of all bytes, through its part of the ring.
fn through_ring(
    device: &Device,
    source: &Buffer,
    pages: &Pages,
    bytes: u64,
    rings: &[Slots],
) -> Result<()> {
    let parts = rings.len() as u64;
    thread::scope(|scope| {
        let threads: Vec<_> = rings
            .iter()
            .enumerate()
            .map(|(index, slots)| {
                let [start, end] =
                    [index as u64, index as u64 + 1].map(|part| bytes * part / parts);
                let target = Target(pages.at(start));
                scope.spawn(move || -> Result<()> {
                    device.bind()?;
                    // SAFETY: each thread has a part of its own, which lies within the pages.
                    unsafe { slots.copy(source, target.address(), end - start) }
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().ok().context("a thread that copies panicked")?)
    })
}

/// An address that goes to another thread.
struct Target(*mut u8);

// SAFETY: an address; whoever writes to it answers for that.
unsafe impl Send for Target {}

impl Target {
    fn address(&self) -> *mut u8 {
        self.0
    }
}

/// What this process has used of all processors, in seconds.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a struct that is ours to write to. This clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

fn print(point: &Point) {
    let way = match point.way {
        Way::RegisterAndCopy => "each chunk registered, then copied",
        Way::Registered => "registered before",
        Way::Unregistered => "never registered",
        Way::Ring => "through a pinned ring of 64 MiB",
    };
    let threads = if point.threads == 0 { "-".to_owned() } else { point.threads.to_string() };
    let per_gb = Times::of(point.processor.clone()).median / (point.bytes as f64 / 1e9);
    let longest = Times::of(point.copies.iter().map(|copies| copies.longest).collect()).median;
    println!(
        "{way:<34} {threads:>8} {:>9} {:>16} {:>17}",
        number(Times::of(point.rates.clone()).median),
        number(per_gb),
        number(1e3 * longest)
    );
}
