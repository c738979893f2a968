//! What the application waits for when it maps memory while the host buffer is touched: the lock
//! of the address space, which every thread of the process shares. Larger heaps, stacks of new
//! threads and mapped files need it.

use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use levels::host_buffer::{HostBuffer, TouchMethod, TOUCH_UNIT};
use os::mapping::Mapping;

use super::tell;
use crate::host::pages::touch_all;
use crate::host::{Figure, Goal};
use crate::results::quantile;

/// Bytes of the host buffer.
const BUFFER: u64 = 1 << 30;

/// Bytes that are mapped and unmapped again.
const BYTES: usize = 64 << 10;

/// The pause between two mappings.
const PAUSE: Duration = Duration::from_micros(200);

/// The most that a mapping may take beside touching, in microseconds, as the median.
const MEDIAN_US: f64 = 50.0;

/// Whether huge pages are used: the library's choice (1) and populating calls without them (0), in
/// turns.
pub(super) const HUGE: &[u64] = &[0, 1];

/// Measures with huge pages, or without.
pub(super) fn run(huge: u64, repeats: u32) -> Result<()> {
    let huge = huge == 1;
    let methods = ["auto", "populate"];
    let mut figures = methods.map(|_| [Vec::new(), Vec::new(), Vec::new()]);
    for _ in 0..repeats {
        for (method, [medians, longest, rates]) in methods.iter().zip(&mut figures) {
            let (mut times, rate) = beside_touching(method, huge)?;
            times.sort_by(f64::total_cmp);
            medians.push(1e6 * quantile(&times, 0.5));
            longest.push(1e6 * quantile(&times, 1.0));
            rates.push(rate);
        }
    }
    let pages = if huge { "huge pages" } else { "4 KiB pages" };
    for (method, [medians, longest, rates]) in methods.iter().zip(figures) {
        let what = format!("beside touching ({method}, {pages})");
        let median = Figure::new(format!("mapping memory {what}, median"), "us", medians);
        tell(&match *method {
            "auto" => median.with_goal(Goal::AtMost(MEDIAN_US)),
            _ => median,
        })?;
        tell(&Figure::new(format!("... {what}, longest"), "us", longest))?;
        tell(&Figure::new(format!("... touching itself ({method}, {pages})"), "GB/s", rates))?;
    }
    Ok(())
}

/// The times of mappings in seconds, until a host buffer is touched as the library touches it, and the rate of
/// touching in GB/s.
fn beside_touching(method: &str, huge: bool) -> Result<(Vec<f64>, f64)> {
    // A hypervisor may have to find the memory first. Memory that was used just now is there.
    let before = HostBuffer::reserve(BUFFER, TOUCH_UNIT, huge)?;
    touch_all(&before, 1, |unit| before.touch(unit, TouchMethod::here()))?;
    drop(before);
    let buffer = HostBuffer::reserve(BUFFER, TOUCH_UNIT, huge)?;
    let method = match method {
        "auto" => buffer.touch_method(),
        _ => TouchMethod::Populate,
    };
    let mut times = Vec::new();
    let took = scope(|scope| {
        let touching = scope.spawn(|| {
            let since = Instant::now();
            touch_all(&buffer, 1, |unit| buffer.touch(unit, method)).map(|()| since.elapsed())
        });
        while !touching.is_finished() {
            let since = Instant::now();
            drop(Mapping::reserve(BYTES)?);
            times.push(since.elapsed().as_secs_f64());
            sleep(PAUSE);
        }
        touching.join().ok().context("the thread that touches pages panicked")?
    })?;
    ensure!(!times.is_empty(), "touching took no time");
    Ok((times, BUFFER as f64 / took.as_nanos() as f64))
}
