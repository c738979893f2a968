//! Memory held against memory asked for: the full caches, and everything that is kept about them.

use std::fs;

use anyhow::{Context, Result};
use os::size;

use super::host::TouchedMemory;
use super::job::{BenchJob, NAME};
use super::{software, tell};
use crate::host::{Goal, MeasuredFigure};

/// Bytes of a checkpoint.
pub(super) const SIZES: &[u64] = &[16 << 20, 1 << 20, 64 << 10, 4 << 10];

/// Bytes of the caches.
const CACHE: u64 = 1 << 30;

/// The most that may be held for each byte that is asked for.
const MOST: f64 = 1.02;

/// Measures a host buffer full of checkpoints of `size` bytes. Only the first job of the process
/// shows what a job takes; later ones use memory that it has left in the heap.
pub(super) fn host(size: u64, _repeats: u32) -> Result<()> {
    let application = TouchedMemory::new(size as usize)?;
    let before = resident()?;
    let job = BenchJob::start("mode = async\nephemeral = true\nhost_cache_size = 1G\n")?;
    // SAFETY: `application` outlives the job's last call, and nothing refers to its bytes.
    unsafe { job.protect(0, application.address(), size as usize)? };
    job.until_touched()?;
    let versions = CACHE / size;
    for version in 0..versions {
        job.checkpoint(NAME, version as i32)?;
    }
    let held = (resident()? - before) as f64;
    let of = format!("{versions} checkpoints of {}", size::show(size));
    let each = (held - CACHE as f64) / versions as f64;
    tell(&MeasuredFigure::new(format!("kept about each of {of}"), "bytes", vec![each]))?;
    tell(
        &MeasuredFigure::new(format!("host memory, {of}"), "x asked", vec![held / CACHE as f64])
            .with_goal(Goal::AtMost(MOST)),
    )
}

/// Measures a device cache that is mapped.
pub(super) fn device() -> Result<()> {
    let (device, _) = software::start()?;
    let free = device.free_memory()?;
    let job = BenchJob::start(
        "mode = async\nephemeral = true\nhost_cache_size = 0\ngpu_cache_size = 1G\n",
    )?;
    job.until("mapping the device cache", |metrics| metrics.device_capacity >= CACHE)?;
    let held = free.saturating_sub(device.free_memory()?) as f64;
    tell(
        &MeasuredFigure::new("device memory, cache of 1 GiB", "x asked", vec![held / CACHE as f64])
            .with_goal(Goal::AtMost(MOST)),
    )
}

/// Bytes of memory that this process has, exactly: the counters of /proc/self/status lag behind.
fn resident() -> Result<u64> {
    let path = "/proc/self/smaps_rollup";
    let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    resident_in(&text).with_context(|| format!("{path} has no line Rss"))
}

fn resident_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_in_kib() {
        let text = "00400000-7fff Ŧ\nRss:               10756 kB\nPss:     1 kB\n";
        assert_eq!(resident_in(text), Some(10756 * 1024));
        assert_eq!(resident_in("Pss: 1 kB\n"), None);
    }
}
