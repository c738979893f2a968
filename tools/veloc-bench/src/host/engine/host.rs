//! Checkpoints and restores of host memory beside the copies of the same bytes.

use std::ffi::c_void;
use std::ptr;
use std::time::Instant;

use anyhow::Result;
use os::mapping::Mapping;

use super::job::{BenchJob, NAME};
use super::{median, tell};
use crate::host::{Goal, MeasuredFigure};

/// The most that a checkpoint may cost beside its copy, in microseconds.
pub(super) const OWN_COST_US: f64 = 10.0;

/// Bytes of a large checkpoint.
const LARGE: usize = 256 << 20;

/// Bytes of a small checkpoint.
const SMALL: usize = 4 << 10;

/// Calls of which a repeat takes the median.
const CALLS: usize = 2000;

/// Checkpoints that are taken to count those in a second.
const COUNT: i32 = 50_000;

/// Small checkpoints: the library's own cost of each, and how many there are in a second.
pub(super) fn small(repeats: u32) -> Result<()> {
    for regions in [1, 16] {
        own_cost(repeats, regions)?;
    }
    let job = BenchJob::start("mode = async\nephemeral = true\nhost_cache_size = 1\n")?;
    let application = TouchedMemory::new(SMALL)?;
    // SAFETY: `application` outlives the job's last call, and nothing refers to its bytes.
    unsafe { job.protect(0, application.address(), SMALL)? };
    job.until_touched()?;
    let mut rates = Vec::new();
    for _ in 0..repeats {
        let since = Instant::now();
        for version in 0..COUNT {
            job.checkpoint(NAME, version)?;
        }
        rates.push(f64::from(COUNT) / since.elapsed().as_secs_f64());
    }
    tell(
        &MeasuredFigure::new("checkpoints of 4 KiB, ephemeral", "a second", rates)
            .with_goal(Goal::AtLeast(50_000.0)),
    )
}

/// The library's own cost: calls and bare copies of the same bytes take turns; the difference is
/// the cost.
fn own_cost(repeats: u32, regions: usize) -> Result<()> {
    let len = SMALL / regions;
    let job = BenchJob::start("mode = async\nephemeral = true\nhost_cache_size = 64M\n")?;
    let (application, plain) = (TouchedMemory::new(SMALL)?, TouchedMemory::new(16 << 20)?);
    for region in 0..regions {
        // SAFETY: `application` outlives the job's last call, and nothing refers to its bytes.
        unsafe { job.protect(region as i32, application.at(region * len), len)? };
    }
    job.until_touched()?;
    let (mut checkpoints, mut restores, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repeats {
        let (mut checkpoint, mut restore, mut copy) = (Vec::new(), Vec::new(), Vec::new());
        for call in 0..CALLS {
            let version = call as i32;
            let since = Instant::now();
            for region in 0..regions {
                // As the library does: each version goes to another place.
                let at = (call * SMALL + region * len) % (16 << 20);
                plain.copy_from(at, &application, region * len, len);
            }
            copy.push(since.elapsed().as_secs_f64());
            let since = Instant::now();
            job.checkpoint(NAME, version)?;
            checkpoint.push(since.elapsed().as_secs_f64());
            let since = Instant::now();
            job.restart(version)?;
            restore.push(since.elapsed().as_secs_f64());
        }
        let copy = median(copy);
        checkpoints.push(1e6 * (median(checkpoint) - copy));
        restores.push(1e6 * (median(restore) - copy));
        copies.push(1e6 * copy);
    }
    let of = match regions {
        1 => "4 KiB of host memory".to_owned(),
        _ => format!("4 KiB of host memory in {regions} regions"),
    };
    let goal = Goal::AtMost(OWN_COST_US);
    tell(&MeasuredFigure::new(format!("memcpy, {of}"), "us", copies))?;
    tell(
        &MeasuredFigure::new(format!("checkpoint beside it, {of}"), "us", checkpoints)
            .with_goal(goal),
    )?;
    tell(&MeasuredFigure::new(format!("restart beside it, {of}"), "us", restores).with_goal(goal))
}

/// Measures large checkpoints against plain copies of the same bytes between pages of the same
/// size, in turns.
pub(super) fn large(repeats: u32) -> Result<()> {
    const VERSIONS: i32 = 4;
    let job = BenchJob::start("mode = async\nephemeral = true\nhost_cache_size = 2\n")?;
    let (application, plain) = (TouchedMemory::new(LARGE)?, TouchedMemory::new(LARGE)?);
    // SAFETY: `application` outlives the job's last call, and nothing refers to its bytes.
    unsafe { job.protect(0, application.address(), LARGE)? };
    job.until_touched()?;
    let (mut rates, mut checkpoints, mut restores) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..3 * repeats as i32 {
        let since = Instant::now();
        plain.copy_from(0, &application, 0, LARGE);
        let copy = since.elapsed().as_secs_f64();
        let since = Instant::now();
        job.checkpoint(NAME, round % VERSIONS)?;
        let checkpoint = since.elapsed().as_secs_f64();
        let since = Instant::now();
        job.restart(round % VERSIONS)?;
        let restore = since.elapsed().as_secs_f64();
        rates.push(LARGE as f64 / copy / 1e9);
        checkpoints.push(checkpoint / copy);
        restores.push(restore / copy);
    }
    let goal = Goal::AtMost(1.2);
    tell(&MeasuredFigure::new("memcpy of 256 MiB, huge pages", "GB/s", rates))?;
    tell(&MeasuredFigure::new("checkpoint of 256 MiB", "x memcpy", checkpoints).with_goal(goal))?;
    tell(&MeasuredFigure::new("restart of 256 MiB", "x memcpy", restores).with_goal(goal))
}

/// Memory of the application, all touched, on huge pages if the system has any.
pub(super) struct TouchedMemory(Mapping);

impl TouchedMemory {
    /// `len` bytes that are not all 0.
    pub(super) fn new(len: usize) -> Result<TouchedMemory> {
        let mapping = Mapping::reserve(len)?;
        // Without huge pages it is as slow as the host buffer then is.
        let _ = mapping.advise_huge(true);
        // SAFETY: the mapping has `len` bytes, and nobody else knows of it.
        unsafe { ptr::write_bytes(mapping.base().as_ptr(), 1, len) };
        Ok(TouchedMemory(mapping))
    }

    /// The first byte, for the library.
    pub(super) fn address(&self) -> *mut c_void {
        self.0.base().as_ptr().cast()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn at(&self, offset: usize) -> *mut c_void {
        assert!(offset <= self.0.len());
        // SAFETY: within the mapping, or its end.
        unsafe { self.0.base().as_ptr().add(offset) }.cast()
    }

    /// `len` bytes from `offset` on.
    pub(super) fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        assert!(offset + len <= self.0.len());
        // SAFETY: within the mapping, all of which was written; the library only reads it while
        // it takes a checkpoint.
        unsafe { std::slice::from_raw_parts(self.at(offset).cast(), len) }
    }

    /// `len` bytes from `offset` on, to be written to.
    ///
    /// # Safety
    /// Nobody else refers to these bytes.
    #[allow(clippy::mut_from_ref)] // The memory is the mapping's, not this struct's.
    pub(super) unsafe fn bytes_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        assert!(offset + len <= self.0.len());
        // SAFETY: within the mapping, and by the caller's promise nobody else's.
        unsafe { std::slice::from_raw_parts_mut(self.at(offset).cast(), len) }
    }

    /// Copies `len` bytes from `from` of `source` to `to` of this, in a way that the compiler
    /// cannot leave out.
    pub(super) fn copy_from(&self, to: usize, source: &TouchedMemory, from: usize, len: usize) {
        assert!(to + len <= self.0.len() && from + len <= source.0.len());
        // SAFETY: both ranges are within their mappings, which are not the same; no references to
        // their bytes exist.
        unsafe {
            ptr::copy_nonoverlapping(source.at(from).cast::<u8>(), self.at(to).cast::<u8>(), len);
        }
        std::hint::black_box(self.address());
    }
}
