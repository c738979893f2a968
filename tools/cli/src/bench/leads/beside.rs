//! Copies on the device, over and over, beside something else: how long does that stop them?

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use device::Stream;

use super::Times;
use crate::bench::cuda::{Buffer, Device};

/// Bytes of one copy: far below what a stop lasts.
const BYTES: u64 = 4 << 20;

/// The pause behind a copy, so that the copies are no load of their own.
const PAUSE: Duration = Duration::from_micros(200);

/// Copies that are timed before the work begins.
const AHEAD: Duration = Duration::from_millis(20);

/// Does `work` beside copies on the device. Gives its result, and the times of the copies.
pub(super) fn copies<T>(device: &Device, work: impl FnOnce() -> Result<T>) -> Result<(T, Times)> {
    let [from, to] = [Buffer::new(device, BYTES)?, Buffer::new(device, BYTES)?];
    let stream = Stream::new(device)?;
    from.clear(&stream)?;
    stream.synchronize()?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let copier = scope.spawn(|| -> Result<Vec<f64>> {
            device.bind()?;
            let mut seconds = Vec::new();
            while !over.load(Ordering::Acquire) {
                let since = Instant::now();
                // SAFETY: both buffers have so many bytes, and this waits for the copy.
                unsafe { stream.copy_on_device(to.address(), from.address(), BYTES)? };
                stream.synchronize()?;
                seconds.push(since.elapsed().as_secs_f64());
                thread::sleep(PAUSE);
            }
            Ok(seconds)
        });
        thread::sleep(AHEAD);
        let done = work();
        over.store(true, Ordering::Release);
        let seconds = copier.join().ok().context("the thread that copies panicked")??;
        Ok((done?, Times::of(seconds)))
    })
}
