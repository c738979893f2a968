//! Work that the device repeats, beside other work: how long does the other work stop it?

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use device::Stream;
use serde::Serialize;

use super::TimesSummary;
use crate::cuda::{BenchDevice, CudaBuffer, Kernels};

/// The work of the device whose times are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Watched {
    /// Copies of 4 MiB on the device, far below what a stop lasts, each waited for.
    Copies,
    /// Short kernels, of which some are launched before they are waited for, as an application does.
    Kernels,
}

/// Bytes of one copy.
const COPY: u64 = 4 << 20;

/// The pause behind a copy, so that the copies are no load of their own.
const PAUSE: Duration = Duration::from_micros(200);

/// Bytes that a kernel reads and writes: about 20 us of a GPU.
const KERNEL: u64 = 32 << 20;
/// Bytes that a kernel reads and writes on the software device, which is slower by far.
const KERNEL_SOFTWARE: u64 = 64 << 10;

/// Kernels that are launched before they are waited for.
pub(super) const QUEUED: usize = 16;

/// How long the watched work goes on before the other work begins.
const AHEAD: Duration = Duration::from_millis(50);

/// Does `work` beside the watched work of the device. Returns its result, and the times during it
/// of calls that queue a copy or a kernel, and of batches until they were done.
pub(super) fn watch<T>(
    device: &BenchDevice,
    watched: Watched,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, [TimesSummary; 2])> {
    let (bytes, queued) = match watched {
        Watched::Copies => (COPY, 1),
        Watched::Kernels if device.is_software() => (KERNEL_SOFTWARE, QUEUED),
        Watched::Kernels => (KERNEL, QUEUED),
    };
    let [from, to] = [CudaBuffer::new(device, bytes)?, CudaBuffer::new(device, bytes)?];
    let stream = Stream::new(device)?;
    from.clear(&stream)?;
    stream.synchronize()?;
    let [begun, over] = [(); 2].map(|()| AtomicBool::new(false));
    thread::scope(|scope| {
        let watcher = scope.spawn(|| -> Result<[TimesSummary; 2]> {
            device.bind()?;
            let kernels = Kernels::load(device)?;
            let (mut calls, mut together) = (Vec::new(), Vec::new());
            while !over.load(Ordering::Acquire) {
                let (mut round, first) = (Vec::new(), Instant::now());
                for _ in 0..queued {
                    let since = Instant::now();
                    match watched {
                        // SAFETY: both buffers have so many bytes, and this waits for the copy.
                        Watched::Copies => unsafe {
                            stream.copy_on_device(to.address(), from.address(), bytes)?;
                        },
                        Watched::Kernels => kernels.burn(&stream, &from, 1)?,
                    }
                    round.push(since.elapsed().as_secs_f64());
                }
                stream.synchronize()?;
                // Counts the batch that was under way when the work began as well.
                if begun.load(Ordering::Acquire) {
                    calls.append(&mut round);
                    together.push(first.elapsed().as_secs_f64());
                }
                if watched == Watched::Copies {
                    thread::sleep(PAUSE);
                }
            }
            Ok([calls, together].map(TimesSummary::of))
        });
        thread::sleep(AHEAD);
        begun.store(true, Ordering::Release);
        let done = work();
        over.store(true, Ordering::Release);
        let times = watcher.join().ok().context("the thread that is watched panicked")??;
        Ok((done?, times))
    })
}
