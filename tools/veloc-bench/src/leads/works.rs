//! The library's background work, one kind at a time, beside copies on the device or short kernels:
//! how fast is it, and for how long does it stop them?

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use device::Stream;
use os::size;
use serde::Serialize;

use super::beside::{watch, Watched, QUEUED};
use super::pages::{LeadPages, PageKind};
use super::{rate, Bench, TimesSummary};
use crate::cuda::{BenchDevice, CudaBuffer, Pinned};
use crate::host::number;
use crate::machine::processor_seconds;

/// Bytes of a registration where the size is not what is measured.
const CHUNK: u64 = 64 << 20;

/// Bytes of a registration. Some kernels (Linux 6.11 to 6.13) refuse the largest.
const CHUNKS: [u64; 6] = [4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30, 2 << 30];

/// The most registrations of one repeat.
const MOST_CHUNKS: u64 = 64;

/// Threads that copy out of a ring.
const THREADS: [u32; 4] = [1, 2, 4, 8];

/// How long copies and kernels are watched with nothing beside them.
const QUIET: Duration = Duration::from_millis(500);

/// The kinds of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum BackgroundWork {
    Nothing,
    /// Pages are made.
    Touching,
    /// Chunks are registered.
    Registering,
    /// The registrations of chunks are ended.
    Unregistering,
    /// Each chunk is registered, then copied to from the device.
    RegisterAndCopy,
    /// Copies from the device to memory that was registered before.
    Registered,
    /// Copies from the device to memory that is not registered, through a buffer of the driver.
    Unregistered,
    /// Copies from the device through a pinned ring, from which threads move the bytes on.
    Ring,
}

/// One kind of work, with all repeats.
#[derive(Clone, Debug, Serialize)]
pub(super) struct WorkPoint {
    work: BackgroundWork,
    watched: Watched,
    pages: PageKind,
    /// Bytes of a registration, of a copy, or of the ring.
    chunk: u64,
    /// Threads that copy out of the ring; 0 without one.
    threads: u32,
    /// Bytes of each repeat.
    bytes: u64,
    /// GB/s of each repeat.
    rates: Vec<f64>,
    /// Seconds of processor time of each repeat, of the whole process.
    processor: Vec<f64>,
    /// Times of one chunk.
    steps: Vec<TimesSummary>,
    /// Times of the calls that queue the watched copy or kernels.
    calls: Vec<TimesSummary>,
    /// Times until the watched copy or kernels, queued together, were done.
    done: Vec<TimesSummary>,
    /// Why the point was given up, if it was.
    failure: Option<String>,
}

/// Points for registering beside copies, by kind of pages and size of chunk.
pub(super) fn registration(bench: &Bench<'_>) -> Vec<WorkPoint> {
    let mut points =
        vec![point(bench, BackgroundWork::Nothing, Watched::Copies, PageKind::HugeTouched, CHUNK)];
    for kind in [
        PageKind::HugeTouched,
        PageKind::SmallTouched,
        PageKind::HugeUntouched,
        PageKind::SmallUntouched,
    ] {
        for chunk in CHUNKS.into_iter().filter(|chunk| *chunk <= bench.total) {
            for work in [BackgroundWork::Registering, BackgroundWork::Unregistering] {
                points.push(point(bench, work, Watched::Copies, kind, chunk));
            }
        }
    }
    points
}

/// Points for the ways from the device into a large host buffer whose pages exist, beside copies.
pub(super) fn staging(bench: &Bench<'_>) -> Vec<WorkPoint> {
    let plain =
        [BackgroundWork::RegisterAndCopy, BackgroundWork::Registered, BackgroundWork::Unregistered];
    let new = |work| point(bench, work, Watched::Copies, PageKind::HugeTouched, CHUNK);
    let ring = |threads| WorkPoint { threads, ..new(BackgroundWork::Ring) };
    plain.map(new).into_iter().chain(THREADS.map(ring)).collect()
}

/// Points for all background work, beside kernels.
pub(super) fn launches(bench: &Bench<'_>) -> Vec<WorkPoint> {
    let new = |work, kind, chunk| point(bench, work, Watched::Kernels, kind, chunk);
    let touched = PageKind::HugeTouched;
    let mut points = vec![
        new(BackgroundWork::Nothing, touched, CHUNK),
        new(BackgroundWork::Touching, PageKind::HugeUntouched, CHUNK),
        new(BackgroundWork::Registered, touched, 4 << 20),
        WorkPoint { threads: 1, ..new(BackgroundWork::Ring, touched, 2 << 20) },
        new(BackgroundWork::Unregistered, touched, 4 << 20),
    ];
    for kind in [touched, PageKind::SmallTouched] {
        for chunk in [2 << 20, 8 << 20, CHUNK] {
            points.push(new(BackgroundWork::Registering, kind, chunk));
        }
    }
    points
}

fn point(
    bench: &Bench<'_>,
    work: BackgroundWork,
    watched: Watched,
    pages: PageKind,
    chunk: u64,
) -> WorkPoint {
    let chunk = chunk.min(bench.total);
    let bytes = match work {
        BackgroundWork::Registering | BackgroundWork::Unregistering => {
            bench.total.min(chunk * MOST_CHUNKS)
        }
        _ => bench.total,
    };
    WorkPoint {
        work,
        watched,
        pages,
        chunk,
        threads: 0,
        bytes: bytes / chunk * chunk,
        rates: Vec::new(),
        processor: Vec::new(),
        steps: Vec::new(),
        calls: Vec::new(),
        done: Vec::new(),
        failure: None,
    }
}

/// Measures all points.
pub(super) fn run(bench: &mut Bench<'_>, points: Vec<WorkPoint>) -> Result<()> {
    let Some(first) = points.first() else { return Ok(()) };
    let (what, call) = match first.watched {
        Watched::Copies => ("copies of 4 MiB on the device".to_owned(), "copy"),
        Watched::Kernels => (format!("short kernels, {QUEUED} at a time"), "kernels"),
    };
    println!("{what}, beside {} of what the library does", size::show(bench.total));
    println!(
        "{:<16} {:<17} {:>9} {:>7} {:>8} {:>10} {:>10} {:>9} {:>11} {:>10} {:>12}",
        "beside",
        "pages",
        "chunk",
        "threads",
        "GB/s",
        "chunk, ms",
        "CPU s/GB",
        "call, us",
        "longest, us",
        format!("{call}, ms"),
        "longest, ms"
    );
    for mut point in points {
        for _ in 0..bench.repeats {
            if let Err(error) = measure(bench, &mut point) {
                point.failure = Some(format!("{error:#}"));
                break;
            }
        }
        print(&point);
        bench.keep(super::LeadPoint::Works(point))?;
    }
    Ok(())
}

fn measure(bench: &Bench<'_>, point: &mut WorkPoint) -> Result<()> {
    let WorkPoint { work, bytes, chunk, .. } = *point;
    let mut pages = LeadPages::new(bytes, point.pages)?;
    let registered = match work {
        BackgroundWork::Registered => CHUNK.min(bytes),
        _ => chunk,
    };
    if matches!(work, BackgroundWork::Registered | BackgroundWork::Unregistering) {
        register(&mut pages, bytes, registered)?;
    }
    let (source, stream) = (CudaBuffer::new(bench.device, chunk)?, Stream::new(bench.device)?);
    source.clear(&stream)?;
    stream.synchronize()?;
    let rings = (0..point.threads)
        .map(|_| RingShare::new(bench.device, chunk / u64::from(point.threads) / 2))
        .collect::<Result<Vec<_>>>()?;
    let ((seconds, processor, steps), [calls, done]) = watch(bench.device, point.watched, || {
        let (since, before) = (Instant::now(), processor_seconds(libc::CLOCK_PROCESS_CPUTIME_ID));
        let mut steps = Vec::new();
        match work {
            BackgroundWork::Nothing => thread::sleep(QUIET),
            BackgroundWork::Touching => pages.touch()?,
            BackgroundWork::Registering => steps = register(&mut pages, bytes, chunk)?,
            BackgroundWork::Unregistering => pages.unregister()?,
            BackgroundWork::Ring => through_ring(bench.device, &source, &pages, bytes, &rings)?,
            BackgroundWork::RegisterAndCopy
            | BackgroundWork::Registered
            | BackgroundWork::Unregistered => {
                for start in (0..bytes).step_by(chunk as usize) {
                    let since = Instant::now();
                    if work == BackgroundWork::RegisterAndCopy {
                        pages.register(start, chunk)?;
                    }
                    // SAFETY: source and chunk have so many bytes, and no registration ends within
                    // them; this waits before the pages go.
                    let queued =
                        unsafe { stream.copy_to_host(pages.at(start), source.address(), chunk) };
                    let waited = stream.synchronize();
                    queued.and(waited)?;
                    steps.push(since.elapsed().as_secs_f64());
                }
            }
        }
        Ok((
            since.elapsed().as_secs_f64(),
            processor_seconds(libc::CLOCK_PROCESS_CPUTIME_ID) - before,
            steps,
        ))
    })?;
    if work != BackgroundWork::Nothing {
        point.rates.push(rate(bytes, seconds));
        point.processor.push(processor);
    }
    if !steps.is_empty() {
        point.steps.push(TimesSummary::of(steps));
    }
    point.calls.push(calls);
    point.done.push(done);
    Ok(())
}

/// Registers all bytes, chunk by chunk. Returns the seconds of each chunk.
fn register(pages: &mut LeadPages, bytes: u64, chunk: u64) -> Result<Vec<f64>> {
    let each = |start| {
        let since = Instant::now();
        pages.register(start, chunk.min(bytes - start))?;
        Ok(since.elapsed().as_secs_f64())
    };
    (0..bytes).step_by(chunk as usize).map(each).collect()
}

/// One thread's part of the ring: while one half is filled, the other is copied out.
struct RingShare {
    memory: Pinned,
    half: u64,
    streams: [Stream; 2],
}

impl RingShare {
    /// Two halves of `half` bytes each.
    fn new(device: &BenchDevice, half: u64) -> Result<RingShare> {
        let streams = [Stream::new(device)?, Stream::new(device)?];
        Ok(RingShare { memory: Pinned::new(device, 2 * half)?, half, streams })
    }

    /// Copies `bytes` from the device to `to`.
    ///
    /// # Safety
    /// `to` has so many bytes that nothing else uses.
    unsafe fn copy(&self, source: &CudaBuffer, to: *mut u8, bytes: u64) -> Result<()> {
        let piece = |index: u64| {
            let start = index * self.half;
            (start, self.half.min(bytes.saturating_sub(start)))
        };
        let fill = |index: u64| {
            let (side, (_, len)) = (index % 2, piece(index));
            let half = self.memory.at(side * self.half);
            // SAFETY: half of this memory, which has been copied out and waited for; the source
            // has more than a half's bytes.
            unsafe { self.streams[side as usize].copy_to_host(half, source.address(), len) }
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
            let ((start, len), half) = (piece(index), self.memory.at(index % 2 * self.half));
            // SAFETY: this half was filled and waited for; the target is the caller's promise.
            unsafe { to.add(start as usize).copy_from_nonoverlapping(half, len as usize) };
        }
        // Whatever happened, no copy is under way when the memory is freed.
        Ok(self.streams.iter().fold(done, |done, stream| done.and(stream.synchronize()))?)
    }
}

/// Copies all bytes through the ring, each thread its part.
fn through_ring(
    device: &BenchDevice,
    source: &CudaBuffer,
    pages: &LeadPages,
    bytes: u64,
    rings: &[RingShare],
) -> Result<()> {
    let part = |index: usize| bytes * index as u64 / rings.len() as u64;
    let copy = |index: usize| -> Result<()> {
        device.bind()?;
        let (start, end) = (part(index), part(index + 1));
        // SAFETY: each thread has a part of its own, which lies within the pages.
        unsafe { rings[index].copy(source, pages.at(start), end - start) }
    };
    let copy = &copy;
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..rings.len()).map(|index| scope.spawn(move || copy(index))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().ok().context("a thread that copies panicked")?)
    })
}

/// Prints one line, of medians over the repeats.
fn print(point: &WorkPoint) {
    let name = format!("{:?}", point.work);
    let (pages, chunk) = (point.pages.text(), size::show(point.chunk));
    if let Some(failure) = &point.failure {
        println!("{name:<16} {pages:<17} {chunk:>9} {failure}");
        return;
    }
    let median = |values: Vec<f64>, unit: f64| match values.is_empty() {
        true => "-".to_owned(),
        false => number(unit * TimesSummary::of(values).median),
    };
    let of = |all: &[TimesSummary], what: fn(&TimesSummary) -> f64, unit| {
        median(all.iter().filter(|times| times.count > 0).map(what).collect(), unit)
    };
    println!(
        "{name:<16} {pages:<17} {chunk:>9} {:>7} {:>8} {:>10} {:>10} {:>9} {:>11} {:>10} {:>12}",
        point.threads,
        median(point.rates.clone(), 1.0),
        of(&point.steps, |times| times.median, 1e3),
        median(point.processor.clone(), 1e9 / point.bytes as f64),
        of(&point.calls, |times| times.median, 1e6),
        of(&point.calls, |times| times.longest, 1e6),
        of(&point.done, |times| times.median, 1e3),
        of(&point.done, |times| times.longest, 1e3),
    );
}
