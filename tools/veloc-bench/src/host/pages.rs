//! `veloc-bench pages`: how fast the pages of a host buffer come into being.
//!
//! The library's own code does it: threads claim units of a host buffer and touch them in one of
//! three ways. For a floor, as many threads write to and copy between pages that exist already.

use std::ptr;
use std::thread;
use std::time::Instant;

use anyhow::{ensure, Context, Result};
use clap::Args;
use levels::host_buffer::{Claim, HostBuffer, TouchMethod, TOUCH_UNIT};
use os::interrupt;
use os::mapping::{supports_populate, Mapping};
use os::shared::SharedMemory;
use os::size;
use os::{affinity, memory};
use serde::Serialize;

use super::{number, CommonOptions, ResultsFile};
use crate::options::distinct;
use crate::output;
use crate::plan::shuffle;
use crate::results::Spread;

/// The share of the available memory that is used without `--bytes`, and the most.
const SHARE: u64 = 8;
const MOST: u64 = 1 << 30;

/// Options of the command.
#[derive(Debug, Args)]
pub(crate) struct PagesOptions {
    /// The size of the buffer [default: 1/8 of the available memory, at most 1G]
    #[arg(long, value_parser = size::parse)]
    bytes: Option<u64>,
    /// Numbers of threads [default: 1, 2, 4, .. up to the number of processors]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Vec<u32>,
    #[command(flatten)]
    common: CommonOptions,
}

/// The ways to make pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Method {
    /// `madvise(MADV_POPULATE_WRITE)`.
    Populate,
    /// One write for each 4 KiB.
    Write,
    /// All bytes are set to 0.
    Memset,
    /// All bytes are set to 0 in pages that exist: a floor.
    MemsetAgain,
    /// All bytes are copied between pages that exist: a floor.
    Memcpy,
}

/// The kind of mapping that the pages belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Of {
    /// Private to the process.
    Private,
    /// Shared, as in an async job with files.
    Shared,
}

/// One way to touch, with all its repeats.
#[derive(Clone, Debug, Serialize)]
struct TouchPoint {
    method: Method,
    of: Of,
    /// Whether huge pages were asked for.
    huge: bool,
    threads: u32,
    bytes: u64,
    /// GB/s of each repeat.
    rates: Vec<f64>,
    /// The share of the bytes that lay on huge pages, of each repeat.
    huge_shares: Vec<f64>,
}

impl Method {
    const ALL: [Method; 5] =
        [Method::Populate, Method::Write, Method::Memset, Method::MemsetAgain, Method::Memcpy];

    fn text(self) -> &'static str {
        match self {
            Method::Populate => "populate",
            Method::Write => "one write per page",
            Method::Memset => "memset",
            Method::MemsetAgain => "memset, pages there",
            Method::Memcpy => "memcpy, pages there",
        }
    }

    /// Whether this method makes pages; otherwise it is a floor.
    fn touches(self) -> bool {
        !matches!(self, Method::MemsetAgain | Method::Memcpy)
    }
}

pub(crate) fn run(options: &PagesOptions) -> Result<()> {
    distinct("--threads", &options.threads)?;
    let physical = memory::physical()?;
    let bytes = match options.bytes {
        Some(bytes) => bytes,
        None => (physical.available / SHARE).min(MOST),
    };
    ensure!(bytes > 0, "--bytes 0: there is nothing to touch");
    // A copy has two buffers.
    ensure!(
        bytes < physical.available / 2,
        "--bytes {}: {} of memory are available, and two buffers are needed",
        size::show(bytes),
        size::show(physical.available)
    );
    let processors = affinity::usable_cpus();
    let threads = match options.threads.as_slice() {
        [] => {
            (0..).map(|power| 1 << power).take_while(|count| *count <= processors as u32).collect()
        }
        given => given.to_vec(),
    };
    interrupt::watch()?;
    let mut report = ResultsFile::new("pages", options.common.out.as_deref())?;
    report.print_machine();
    println!("host buffer of {}, {} repeats in turns", size::show(bytes), options.common.repeats);
    for &threads in &threads {
        for huge in [false, true] {
            for method in Method::ALL {
                if method == Method::Populate && !supports_populate() {
                    continue;
                }
                for of in [Of::Private, Of::Shared] {
                    if of == Of::Private || method.touches() {
                        let (rates, huge_shares) = (Vec::new(), Vec::new());
                        report.points.push(TouchPoint {
                            method,
                            of,
                            huge,
                            threads,
                            bytes,
                            rates,
                            huge_shares,
                        });
                    }
                }
            }
        }
    }
    let steps = options.common.repeats as usize * report.points.len();
    let bar = output::steps_bar("measuring", steps as u64);
    for round in 1..=options.common.repeats {
        // In another order each time, so that a point does not always follow the same other one.
        let mut order: Vec<u32> = (0..report.points.len() as u32).collect();
        shuffle(&mut order, u64::from(round));
        for index in order {
            let point = &mut report.points[index as usize];
            let (rate, share) = measure(point)?;
            point.rates.push(rate);
            point.huge_shares.push(share);
            bar.inc(1);
        }
        report.save()?;
    }
    bar.finish_and_clear();
    print(&report.points);
    Ok(())
}

fn buffer_of(point: &TouchPoint) -> Result<HostBuffer> {
    Ok(match point.of {
        Of::Private => HostBuffer::reserve(point.bytes, TOUCH_UNIT, point.huge)?,
        Of::Shared => {
            let memory = SharedMemory::create("veloc-bench", point.bytes)?;
            HostBuffer::over(Mapping::of(&memory)?, TOUCH_UNIT, point.huge)
        }
    })
}

/// The rate in GB/s, and the share of huge pages.
fn measure(point: &TouchPoint) -> Result<(f64, f64)> {
    // A hypervisor that has to find memory first takes longer than all that is measured here, in
    // the first measurement. Memory that was used just now is there.
    let before = buffer_of(point)?;
    touch_all(&before, point.threads, |unit| before.touch(unit, TouchMethod::here()))?;
    drop(before);
    let buffer = buffer_of(point)?;
    let other = HostBuffer::reserve(point.bytes, TOUCH_UNIT, point.huge)?;
    if !point.method.touches() {
        touch_all(&buffer, point.threads, |unit| buffer.touch(unit, TouchMethod::here()))?;
    }
    if point.method == Method::Memcpy {
        touch_all(&other, point.threads, |unit| other.touch(unit, TouchMethod::here()))?;
    }
    let since = Instant::now();
    match point.method {
        Method::Populate => {
            touch_all(&buffer, point.threads, |unit| buffer.touch(unit, TouchMethod::Populate))?;
        }
        Method::Write => {
            let method = TouchMethod::Write(memory::page_size());
            touch_all(&buffer, point.threads, |unit| buffer.touch(unit, method))?;
        }
        Method::Memset => touch_all(&buffer, point.threads, |unit| {
            // SAFETY: the unit lies within the buffer, and one thread has claimed it.
            unsafe { ptr::write_bytes(buffer.address(unit.start), 0, len(unit)) };
            Ok(())
        })?,
        Method::MemsetAgain => in_parts(point, |start, len| {
            // SAFETY: the parts lie within the buffer, and none overlaps another.
            unsafe { ptr::write_bytes(buffer.address(start), 1, len) };
        })?,
        Method::Memcpy => in_parts(point, |start, len| {
            // SAFETY: as above; the buffers are two mappings.
            unsafe {
                ptr::copy_nonoverlapping(other.address(start), buffer.address(start), len);
            }
        })?,
    }
    let seconds = since.elapsed().as_secs_f64();
    let base = buffer.address(0) as usize;
    let huge = memory::huge_bytes_of(base..base + point.bytes as usize)?;
    Ok((point.bytes as f64 / seconds / 1e9, huge as f64 / point.bytes as f64))
}

fn len(unit: &std::ops::Range<u64>) -> usize {
    (unit.end - unit.start) as usize
}

/// Threads claim units and touch them until all are touched, as the library's do.
pub(crate) fn touch_all(
    buffer: &HostBuffer,
    threads: u32,
    touch: impl Fn(&std::ops::Range<u64>) -> errors::Result<()> + Sync,
) -> Result<()> {
    on_threads(threads, |_| {
        while let Claim::Unit(unit) = buffer.claim() {
            touch(&unit)?;
        }
        Ok(())
    })
}

/// Each thread does `work` on its part of all bytes.
fn in_parts(point: &TouchPoint, work: impl Fn(u64, usize) + Sync) -> Result<()> {
    let threads = u64::from(point.threads);
    on_threads(point.threads, |thread| {
        let [start, end] = [thread, thread + 1].map(|n| point.bytes * u64::from(n) / threads);
        work(start, (end - start) as usize);
        Ok(())
    })
}

fn on_threads(threads: u32, work: impl Fn(u32) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        started.into_iter().try_for_each(|thread| {
            thread.join().ok().context("a thread that touches pages panicked")?
        })
    })
}

fn print(points: &[TouchPoint]) {
    println!(
        "{:<22} {:>8} {:>6} {:>7} {:>8} {:>16} {:>12}",
        "", "memory", "pages", "threads", "GB/s", "least .. most", "huge got"
    );
    for point in points {
        let (Some(rate), Some(huge)) =
            (Spread::of(point.rates.clone()), Spread::of(point.huge_shares.clone()))
        else {
            continue;
        };
        println!(
            "{:<22} {:>8} {:>6} {:>7} {:>8} {:>16} {:>11.0}%",
            point.method.text(),
            if point.of == Of::Shared { "shared" } else { "private" },
            if point.huge { "huge" } else { "4 KiB" },
            point.threads,
            number(rate.median),
            format!("{} .. {}", number(rate.least), number(rate.greatest)),
            100.0 * huge.median
        );
    }
}
