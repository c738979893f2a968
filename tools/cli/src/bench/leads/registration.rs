//! How long registering takes by size of chunk and kind of pages, and for how long it stops copies
//! on the device.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::pages::{Kind, Pages};
use super::{beside, rate, Bench, Times};
use crate::bench::host::number;
use crate::size;

/// Bytes of a chunk. The largest is what some kernels (Linux 6.11 to 6.13) refuse.
const CHUNKS: [u64; 6] = [4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30, 2 << 30];

/// Chunks of one repeat at the most.
const MOST_CHUNKS: u64 = 64;

/// How long copies are watched with nothing beside them.
const QUIET: Duration = Duration::from_millis(500);

/// One size of chunk and kind of pages, with all repeats.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    /// Bytes of a chunk; 0: nothing is registered.
    chunk: u64,
    pages: Kind,
    /// Bytes registered in each repeat.
    bytes: u64,
    /// GB/s of each repeat.
    rates: Vec<f64>,
    /// Of one chunk.
    register: Vec<Times>,
    /// Of ending the registration of one chunk.
    unregister: Vec<Times>,
    /// Of a copy of 4 MiB on the device meanwhile.
    copies: Vec<Times>,
    /// The same while registrations were ended.
    copies_at_end: Vec<Times>,
    /// Why it was given up, if it was.
    failure: Option<String>,
}

/// Measures all of them.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    println!("registering host memory, and copies of 4 MiB on the device beside it");
    println!(
        "{:>10}  {:<17} {:>7} {:>11} {:>12} {:>15} {:>17}",
        "chunk", "pages", "GB/s", "chunk, ms", "copy, ms", "longest copy", "longest, at end"
    );
    for kind in [Kind::HugeTouched, Kind::SmallTouched, Kind::HugeUntouched, Kind::SmallUntouched] {
        let total = bench.total;
        for chunk in [0].into_iter().chain(CHUNKS.into_iter().filter(|chunk| *chunk <= total)) {
            if chunk == 0 && kind != Kind::HugeTouched {
                continue;
            }
            let bytes = total.min(chunk * MOST_CHUNKS);
            let bytes = bytes - bytes.checked_rem(chunk).unwrap_or(0);
            let mut point = Point {
                chunk,
                pages: kind,
                bytes,
                rates: Vec::new(),
                register: Vec::new(),
                unregister: Vec::new(),
                copies: Vec::new(),
                copies_at_end: Vec::new(),
                failure: None,
            };
            for _ in 0..bench.repeats {
                if let Err(error) = measure(bench, &mut point) {
                    point.failure = Some(format!("{error:#}"));
                    break;
                }
            }
            print(&point);
            bench.keep(super::Point::Registration(point))?;
        }
    }
    Ok(())
}

fn measure(bench: &Bench<'_>, point: &mut Point) -> Result<()> {
    if point.chunk == 0 {
        let quiet = || {
            thread::sleep(QUIET);
            Ok(())
        };
        point.copies.push(beside::copies(bench.device, quiet)?.1);
        return Ok(());
    }
    let mut pages = Pages::new(point.bytes, point.pages)?;
    let (times, copies) = beside::copies(bench.device, || {
        let mut times = Vec::new();
        for start in (0..point.bytes).step_by(point.chunk as usize) {
            let since = Instant::now();
            pages.register(start, point.chunk)?;
            times.push(since.elapsed().as_secs_f64());
        }
        Ok(Times::of(times))
    })?;
    point.rates.push(rate(point.bytes, times.total));
    point.register.push(times);
    point.copies.push(copies);
    let (seconds, copies) = beside::copies(bench.device, || {
        let since = Instant::now();
        pages.unregister()?;
        Ok(since.elapsed().as_secs_f64())
    })?;
    let count = point.bytes / point.chunk;
    point.unregister.push(Times::of(vec![seconds / count as f64; count as usize]));
    point.copies_at_end.push(copies);
    Ok(())
}

fn print(point: &Point) {
    if let Some(failure) = &point.failure {
        println!("{:>10}  {:<17} {failure}", size::show(point.chunk), point.pages.text());
        return;
    }
    let ms = |times: &[Times], of: fn(&Times) -> f64| {
        let median = Times::of(times.iter().map(of).collect()).median;
        if times.is_empty() {
            "-".to_owned()
        } else {
            number(1e3 * median)
        }
    };
    let (chunk, pages, rate) = if point.chunk == 0 {
        ("none".to_owned(), "", "-".to_owned())
    } else {
        let rate = Times::of(point.rates.clone()).median;
        (size::show(point.chunk), point.pages.text(), number(rate))
    };
    println!(
        "{chunk:>10}  {pages:<17} {rate:>7} {:>11} {:>12} {:>15} {:>17}",
        ms(&point.register, |times| times.median),
        ms(&point.copies, |times| times.median),
        ms(&point.copies, |times| times.longest),
        ms(&point.copies_at_end, |times| times.longest)
    );
}
