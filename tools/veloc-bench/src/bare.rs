//! The floor: the same bytes copied within the device and waited for, and nothing else.

use std::time::Instant;

use anyhow::{Context, Result};
use device::Stream;

use super::cuda::{BenchDevice, CudaBuffer};

/// Copies before those that count.
const WARM_UP: usize = 3;
/// Passes over all checkpoints.
const PASSES: usize = 5;

/// How long each copy took, in seconds, by pass; `begin` is called before each pass. Every copy goes to a place of its own in a ring, as a
/// cache's would, rather than to lines that the device still has in its own caches.
pub(super) fn copies(
    device: &BenchDevice,
    stream: &Stream,
    buffer: &CudaBuffer,
    sizes: &[u64],
    mut begin: impl FnMut() -> Result<()>,
) -> Result<Vec<Vec<f64>>> {
    const PLACES: u64 = 4;
    let step = buffer.bytes().next_multiple_of(256);
    let ring = CudaBuffer::new(device, PLACES * step).context("memory for bare copies")?;
    let copy = |number: usize, bytes: u64| {
        let to = ring.address() + (number as u64 % PLACES) * step;
        let since = Instant::now();
        // SAFETY: both buffers have the bytes, and live until the stream was waited for.
        unsafe { stream.copy_on_device(to, buffer.address(), bytes) }?;
        stream.synchronize()?;
        anyhow::Ok(since.elapsed().as_secs_f64())
    };
    for (number, &bytes) in sizes.iter().cycle().take(WARM_UP).enumerate() {
        copy(number, bytes)?;
    }
    let mut pass = || {
        begin()?;
        sizes.iter().enumerate().map(|(number, &bytes)| copy(number, bytes)).collect()
    };
    (0..PASSES).map(|_| pass()).collect()
}
