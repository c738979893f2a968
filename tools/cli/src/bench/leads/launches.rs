//! Short kernels that an application launches all the time, beside what the library does in the
//! background: how much slower do they become, and for how long does a launch wait?

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use device::Stream;
use serde::Serialize;

use super::pages::{Kind, Pages};
use super::staging::Slots;
use super::{rate, Bench, Times};
use crate::bench::cuda::{Buffer, Device, Kernels};
use crate::bench::host::number;
use crate::size;

/// Bytes that a kernel reads and writes: about 20 us of a GPU.
const KERNEL: u64 = 32 << 20;
/// The same on the software device, which is slower by far.
const KERNEL_SOFTWARE: u64 = 64 << 10;

/// Kernels that are launched before they are waited for, as an application queues some.
const QUEUED: usize = 16;

/// Kernels are launched for so long before the work begins.
const AHEAD: Duration = Duration::from_millis(50);

/// How long they are watched with nothing beside them.
const QUIET: Duration = Duration::from_millis(500);

/// Bytes of one registration.
const CHUNK: u64 = 64 << 20;
/// Bytes of one copy to memory that is registered, or never is.
const SLICE: u64 = 4 << 20;
/// Bytes of one of the two slots of the ring.
const SLOT: u64 = 1 << 20;

/// What goes on beside the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Beside {
    Nothing,
    /// Pages are made.
    Touching,
    /// Chunks whose pages exist are registered.
    Registering,
    /// Copies to memory that is registered.
    Registered,
    /// Copies through a ring, from which the processor moves the bytes on.
    Ring,
    /// Copies to memory that is not registered, which the driver stages.
    Unregistered,
}

impl Beside {
    const ALL: [Beside; 6] = [
        Beside::Nothing,
        Beside::Touching,
        Beside::Registering,
        Beside::Registered,
        Beside::Ring,
        Beside::Unregistered,
    ];

    fn text(self) -> &'static str {
        match self {
            Beside::Nothing => "nothing",
            Beside::Touching => "touching",
            Beside::Registering => "registering",
            Beside::Registered => "copies, registered",
            Beside::Ring => "copies through a ring",
            Beside::Unregistered => "copies, not registered",
        }
    }
}

/// One thing beside the kernels, with all repeats.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    beside: Beside,
    /// Bytes that it moves or makes in each repeat.
    bytes: u64,
    /// GB/s of each repeat.
    rates: Vec<f64>,
    /// Of the calls that launch a kernel.
    launches: Vec<Times>,
    /// Of kernels that were queued together, each time until all of them were done.
    kernels: Vec<Times>,
}

/// Measures all of them.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    println!(
        "short kernels, {QUEUED} at a time, beside {} of what the library does",
        size::show(bench.total)
    );
    println!(
        "{:<24} {:>8} {:>12} {:>15} {:>12} {:>9}",
        "beside", "GB/s", "launch, us", "longest, us", "kernel, us", "slower"
    );
    let mut quiet = None;
    for beside in Beside::ALL {
        let (rates, launches, kernels) = (Vec::new(), Vec::new(), Vec::new());
        let mut point = Point { beside, bytes: bench.total, rates, launches, kernels };
        for _ in 0..bench.repeats {
            measure(bench, &mut point)?;
        }
        print(&point, &mut quiet);
        bench.keep(super::Point::Launches(point))?;
    }
    Ok(())
}

/// With the first point's time of a kernel, which the others are compared with.
fn print(point: &Point, quiet: &mut Option<f64>) {
    let (beside, rate) = (point.beside.text(), number(Times::of(point.rates.clone()).median));
    if point.kernels.iter().any(|times| times.count == 0) {
        println!("{beside:<24} {rate:>8} {:>12}", "too short");
        return;
    }
    let each =
        1e6 * of_all(&point.kernels, |times| times.total / times.count as f64) / QUEUED as f64;
    let slower = each / *quiet.get_or_insert(each);
    println!(
        "{beside:<24} {rate:>8} {:>12} {:>15} {:>12} {:>9}",
        number(1e6 * of_all(&point.launches, |times| times.median)),
        number(1e6 * of_all(&point.launches, |times| times.longest)),
        number(each),
        format!("{slower:.2} x")
    );
}

/// The median of the repeats.
fn of_all(repeats: &[Times], of: impl Fn(&Times) -> f64) -> f64 {
    Times::of(repeats.iter().map(of).collect()).median
}

fn measure(bench: &Bench<'_>, point: &mut Point) -> Result<()> {
    let (device, bytes) = (bench.device, point.bytes);
    let kind =
        if point.beside == Beside::Touching { Kind::HugeUntouched } else { Kind::HugeTouched };
    let mut pages = Pages::new(bytes, kind)?;
    if point.beside == Beside::Registered {
        register(&mut pages, bytes)?;
    }
    let source = Buffer::new(device, SLICE)?;
    let slots = Slots::new(device, SLOT)?;
    let stream = Stream::new(device)?;
    let (seconds, [launches, kernels]) = kernels_beside(device, || {
        let since = Instant::now();
        match point.beside {
            Beside::Nothing => thread::sleep(QUIET),
            Beside::Touching => pages.touch()?,
            Beside::Registering => register(&mut pages, bytes)?,
            Beside::Ring => {
                for start in (0..bytes).step_by(SLICE as usize) {
                    // SAFETY: the pages have so many bytes, which nothing else uses.
                    unsafe { slots.copy(&source, pages.at(start), SLICE.min(bytes - start)) }?;
                }
            }
            Beside::Registered | Beside::Unregistered => {
                for start in (0..bytes).step_by(SLICE as usize) {
                    let len = SLICE.min(bytes - start);
                    // SAFETY: both have so many bytes, and no registration ends within them; this waits
                    // before the pages go.
                    let queued =
                        unsafe { stream.copy_to_host(pages.at(start), source.address(), len) };
                    let waited = stream.synchronize();
                    queued.and(waited)?;
                }
            }
        }
        Ok(since.elapsed().as_secs_f64())
    })?;
    if point.beside != Beside::Nothing {
        point.rates.push(rate(bytes, seconds));
    }
    point.launches.push(launches);
    point.kernels.push(kernels);
    Ok(())
}

fn register(pages: &mut Pages, bytes: u64) -> Result<()> {
    let chunk = CHUNK.min(bytes);
    (0..bytes)
        .step_by(chunk as usize)
        .try_for_each(|start| pages.register(start, chunk.min(bytes - start)))
}

/// Does `work` beside kernels that another thread launches. Gives its result, and the times of
/// launches and of kernels queued together while it went on.
fn kernels_beside<T>(device: &Device, work: impl FnOnce() -> Result<T>) -> Result<(T, [Times; 2])> {
    let bytes = if device.is_software() { KERNEL_SOFTWARE } else { KERNEL };
    let (buffer, stream) = (Buffer::new(device, bytes)?, Stream::new(device)?);
    buffer.clear(&stream)?;
    stream.synchronize()?;
    let [begun, over] = [(); 2].map(|()| AtomicBool::new(false));
    thread::scope(|scope| {
        let launcher = scope.spawn(|| -> Result<[Times; 2]> {
            device.bind()?;
            let kernels = Kernels::load(device)?;
            let (mut launches, mut together) = (Vec::new(), Vec::new());
            while !over.load(Ordering::Acquire) {
                let counts = begun.load(Ordering::Acquire);
                let first = Instant::now();
                for _ in 0..QUEUED {
                    let since = Instant::now();
                    kernels.burn(&stream, &buffer, 1)?;
                    if counts {
                        launches.push(since.elapsed().as_secs_f64());
                    }
                }
                stream.synchronize()?;
                if counts {
                    together.push(first.elapsed().as_secs_f64());
                }
            }
            Ok([launches, together].map(Times::of))
        });
        thread::sleep(AHEAD);
        begun.store(true, Ordering::Release);
        let done = work();
        over.store(true, Ordering::Release);
        let times = launcher.join().ok().context("the thread that launches panicked")??;
        Ok((done?, times))
    })
}
