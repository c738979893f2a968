//! Checkpoints and restores of device memory beside the driver calls that are needed in any case:
//! waiting for the application's work, the copy, and waiting for the copy.

use std::ffi::c_void;
use std::time::Instant;

use anyhow::Result;
use device::{ApplicationStream, DeviceRange, Event, Stream, WaitMode};
use veloc_client::capi::VELOC_Set_stream;

use super::awake::Awake;
use super::host::OWN_COST_US;
use super::job::{check, BenchJob, NAME};
use super::{median, software, tell};
use crate::host::{Goal, MeasuredFigure};

/// Bytes of a checkpoint. No byte is moved.
const BYTES: u64 = 1 << 20;

/// Versions that take turns; the device cache has room for more.
const VERSIONS: i32 = 16;

/// Calls of which a repeat takes the median.
const CALLS: i32 = 1000;

/// Measures checkpoints behind the work in a stream, alone and beside flushes. Not behind all work
/// of the context: a driver and the software device wait for that in different ways, and the rest
/// would say nothing.
pub(super) fn run(repeats: u32) -> Result<()> {
    let (opened, device) = software::start()?;
    let _awake = Awake::start()?;
    let mut memory = DeviceRange::reserve(&device, 2 * BYTES)?;
    while memory.map_next(2 * BYTES)? > 0 {}
    let applications = Stream::new(&opened)?;
    let stream = applications.raw();
    // SAFETY: the stream outlives the jobs.
    let application = unsafe { ApplicationStream::new(&device, stream) }?;
    let bare = BareCopy { own: Stream::new(&device)?, event: Event::new(&device, WaitMode::Spin)? };
    let quiet = "mode = async\nephemeral = true\ngpu_cache_size = 64M\nhost_cache_size = 0\n";
    let flushing = "mode = async\nephemeral = true\ngpu_cache_size = 64M\nhost_cache_size = 256M\n";
    let goal = Some(Goal::AtMost(OWN_COST_US));
    for (what, configuration, goal) in [
        ("in order with a stream", quiet, goal),
        ("with a stream, flushes beside it", flushing, None),
    ] {
        let job = BenchJob::start(configuration)?;
        // SAFETY: `memory` outlives the job. The driver has no idea of references.
        unsafe { job.protect(0, memory.base() as *mut c_void, BYTES as usize)? };
        job.until("mapping the device cache", |metrics| metrics.device_capacity >= 64 << 20)?;
        // SAFETY: the stream outlives the job.
        check(unsafe { VELOC_Set_stream(stream) })?;
        let times = measure(&job, &bare, &memory, application, repeats)?;
        tell(&MeasuredFigure::new(format!("bare driver calls, {what}"), "us", times[0].clone()))?;
        // Restores beside flushes compete for the same streams: their times say nothing of the
        // library.
        let calls = if goal.is_some() { &["checkpoint", "restart"][..] } else { &["checkpoint"] };
        for (call, times) in calls.iter().zip(&times[1..]) {
            let mut figure = MeasuredFigure::new(
                format!("{call} of device memory beside them, {what}"),
                "us",
                times.clone(),
            );
            figure.goal = goal;
            tell(&figure)?;
        }
    }
    let ordered = format!("{quiet}stream_ordered = true\n");
    let job = BenchJob::start(&ordered)?;
    // SAFETY: `memory` outlives the job.
    unsafe { job.protect(0, memory.base() as *mut c_void, BYTES as usize)? };
    job.until("mapping the device cache", |metrics| metrics.device_capacity >= 64 << 20)?;
    // SAFETY: the stream outlives the job.
    check(unsafe { VELOC_Set_stream(stream) })?;
    let times = measure_ordered(&job, &bare, &memory, application, &applications, repeats)?;
    let what = "in the order of a stream";
    tell(&MeasuredFigure::new(format!("bare driver calls, {what}"), "us", times[0].clone()))?;
    for (call, times) in ["checkpoint", "restart"].iter().zip(&times[1..]) {
        let what = format!("{call} of device memory beside them, {what}");
        tell(&MeasuredFigure { goal, ..MeasuredFigure::new(what, "us", times.clone()) })?;
    }
    Ok(())
}

/// As [`measure`], of calls that only queue: what they have queued is waited for between them.
fn measure_ordered(
    job: &BenchJob,
    bare: &BareCopy,
    memory: &DeviceRange,
    application: ApplicationStream,
    stream: &Stream,
    repeats: u32,
) -> Result<[Vec<f64>; 3]> {
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..repeats {
        let mut one = [Vec::new(), Vec::new(), Vec::new()];
        for call in 0..CALLS {
            let version = call % VERSIONS;
            let since = Instant::now();
            bare.queue(memory, application)?;
            one[0].push(since.elapsed().as_secs_f64());
            stream.synchronize()?;
            let since = Instant::now();
            job.checkpoint(NAME, version)?;
            one[1].push(since.elapsed().as_secs_f64());
            job.drain()?;
            let since = Instant::now();
            job.restart(version)?;
            one[2].push(since.elapsed().as_secs_f64());
            stream.synchronize()?;
        }
        let [calls, checkpoint, restart] = one.map(median);
        times[0].push(1e6 * calls);
        times[1].push(1e6 * (checkpoint - calls));
        times[2].push(1e6 * (restart - calls));
    }
    Ok(times)
}

/// Microseconds of the bare calls, and those that checkpoints and restores take beyond them.
fn measure(
    job: &BenchJob,
    bare: &BareCopy,
    memory: &DeviceRange,
    application: ApplicationStream,
    repeats: u32,
) -> Result<[Vec<f64>; 3]> {
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..repeats {
        let [mut calls, mut checkpoints, mut restores] = [Vec::new(), Vec::new(), Vec::new()];
        for call in 0..CALLS {
            let version = call % VERSIONS;
            let since = Instant::now();
            bare.copy(memory, application)?;
            calls.push(since.elapsed().as_secs_f64());
            let since = Instant::now();
            job.checkpoint(NAME, version)?;
            checkpoints.push(since.elapsed().as_secs_f64());
            let since = Instant::now();
            job.restart(version)?;
            restores.push(since.elapsed().as_secs_f64());
        }
        let calls = median(calls);
        times[0].push(1e6 * calls);
        times[1].push(1e6 * (median(checkpoints) - calls));
        times[2].push(1e6 * (median(restores) - calls));
    }
    Ok(times)
}

/// A copy on the device without the library.
struct BareCopy {
    own: Stream,
    event: Event,
}

impl BareCopy {
    /// Copies from one half of the memory to the other, behind the application's work.
    fn copy(&self, memory: &DeviceRange, application: ApplicationStream) -> Result<()> {
        self.event.record_in(application)?;
        self.own.wait(&self.event)?;
        // SAFETY: both halves are mapped, and this waits for the copy.
        unsafe { self.own.copy_on_device(memory.base() + BYTES, memory.base(), BYTES)? };
        Ok(self.own.synchronize()?)
    }

    /// Queues the copy between what the application's stream has and what it gets later.
    fn queue(&self, memory: &DeviceRange, application: ApplicationStream) -> Result<()> {
        self.event.record_in(application)?;
        self.own.wait(&self.event)?;
        // SAFETY: both halves are mapped, and stay so until the stream was waited for.
        unsafe { self.own.copy_on_device(memory.base() + BYTES, memory.base(), BYTES)? };
        self.event.record(&self.own)?;
        Ok(application.wait(&self.event)?)
    }
}
