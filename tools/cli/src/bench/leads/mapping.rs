//! How long it takes to make device memory usable by size of chunk, and whether that stops copies
//! on the device.

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use super::{beside, rate, Bench, Times};
use crate::bench::cuda::{Buffer, Range};
use crate::bench::host::number;
use crate::size;

/// Chunks of one repeat at the most.
const MOST_CHUNKS: u64 = 512;

/// How a chunk comes into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Method {
    /// `cuMemCreate`, `cuMemMap` and `cuMemSetAccess` in a reserved range.
    Map,
    /// `cuMemAlloc`.
    Alloc,
}

/// One size of chunk, with all repeats.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    method: Method,
    /// Bytes of a chunk.
    chunk: u64,
    /// Bytes made in each repeat.
    bytes: u64,
    /// GB/s of each repeat.
    rates: Vec<f64>,
    /// Of one chunk.
    times: Vec<Times>,
    /// Of a copy of 4 MiB on the device meanwhile.
    copies: Vec<Times>,
}

/// Measures all of them.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    println!("making device memory usable, and copies of 4 MiB on the device beside it");
    println!(
        "{:<10} {:>10} {:>10} {:>14} {:>16} {:>15}",
        "", "chunk", "GB/s", "chunk, us", "longest, us", "longest copy, ms"
    );
    for method in [Method::Map, Method::Alloc] {
        let largest = bench.total.min(1 << 30);
        let chunks = (0..).map(|power| (2 << 20) << power);
        for chunk in chunks.take_while(|chunk| *chunk <= largest) {
            let bytes = bench.total.min(chunk * MOST_CHUNKS) / chunk * chunk;
            let (rates, times, copies) = (Vec::new(), Vec::new(), Vec::new());
            let mut point = Point { method, chunk, bytes, rates, times, copies };
            for _ in 0..bench.repeats {
                measure(bench, &mut point)?;
            }
            print(&point);
            bench.keep(super::Point::Mapping(point))?;
        }
    }
    Ok(())
}

fn measure(bench: &Bench<'_>, point: &mut Point) -> Result<()> {
    let mut buffers = Vec::new();
    let range = match point.method {
        Method::Map => Some(Range::reserve(bench.device, point.bytes)?),
        Method::Alloc => None,
    };
    let (times, copies) = beside::copies(bench.device, || {
        let mut times = Vec::new();
        for _ in 0..point.bytes / point.chunk {
            let since = Instant::now();
            match &range {
                Some(range) => drop(range.map_next(point.chunk)?),
                None => buffers.push(Buffer::new(bench.device, point.chunk)?),
            }
            times.push(since.elapsed().as_secs_f64());
        }
        Ok(Times::of(times))
    })?;
    point.rates.push(rate(point.bytes, times.total));
    point.times.push(times);
    point.copies.push(copies);
    Ok(())
}

fn print(point: &Point) {
    let median = |of: &dyn Fn(&Times) -> f64, times: &[Times]| {
        Times::of(times.iter().map(of).collect()).median
    };
    println!(
        "{:<10} {:>10} {:>10} {:>14} {:>16} {:>15}",
        match point.method {
            Method::Map => "mapped",
            Method::Alloc => "allocated",
        },
        size::show(point.chunk),
        number(Times::of(point.rates.clone()).median),
        number(1e6 * median(&|times| times.median, &point.times)),
        number(1e6 * median(&|times| times.longest, &point.times)),
        number(1e3 * median(&|times| times.longest, &point.copies))
    );
}
