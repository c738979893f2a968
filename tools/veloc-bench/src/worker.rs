//! A measuring process: one application with its buffer, its compute intervals and one approach.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use device::Stream;

use super::approach;
use super::bare;
use super::child::{self, hear, wait};
use super::content::ContentCheck;
use super::cuda::{BenchDevice, CudaBuffer, Kernels};
use super::machine;
use super::message::{Barrier, WorkerMessage, WorkerRequest};
use super::plan::{Compute, HintAmount, PointPlan};
use super::results::{self, CallKind, ProcessFigures};
use super::waits::Account;

/// Compute intervals that are measured with nothing in the background.
const QUIET_INTERVALS: usize = 9;
/// Bytes that the busy kernel goes over, again and again: more than the device's caches hold.
const BUSY_BYTES: u64 = 256 << 20;
/// Bytes that the busy kernel goes over on the software device.
const BUSY_BYTES_SOFTWARE: u64 = 64 << 10;
/// The most rounds of the busy kernel in one interval.
const MOST_ROUNDS: u32 = 1 << 26;
/// Progress is reported after so many steps.
const SAY_EVERY: u64 = 8;

/// Answers the request on the standard input.
pub(super) fn run() -> Result<()> {
    let request: WorkerRequest =
        serde_json::from_str(&hear()?).context("this is no request of the bench")?;
    let answer = measure(&request.plan, request.process);
    let answer = answer.map(|figures| WorkerMessage::Done(Box::new(figures)));
    say(&answer.unwrap_or_else(|error| WorkerMessage::Failed(format!("{error:#}"))))
}

fn say(message: &WorkerMessage) -> Result<()> {
    child::say(&serde_json::to_string(message)?)
}

/// Waits until all processes have come to this barrier.
fn meet(barrier: Barrier) -> Result<()> {
    say(&WorkerMessage::At(barrier))?;
    wait()
}

fn timed<T>(what: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let since = Instant::now();
    let value = what()?;
    Ok((value, since.elapsed()))
}

fn seconds<T>(what: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    timed(what).map(|(value, time)| (value, time.as_secs_f64()))
}

/// The time between two checkpoints or restores.
struct ComputeInterval<'a> {
    length: Duration,
    busy: Option<(CudaBuffer, u32)>,
    kernels: &'a Kernels,
    stream: &'a Stream,
}

impl<'a> ComputeInterval<'a> {
    /// An interval. With a busy device it is a fixed amount of work, found by trying: so much that
    /// it takes the length with nothing else on the device.
    fn new(
        plan: &PointPlan,
        device: &BenchDevice,
        kernels: &'a Kernels,
        stream: &'a Stream,
    ) -> Result<Self> {
        let length = Duration::from_secs_f64(plan.interval_ms / 1e3);
        let mut interval = ComputeInterval { length, busy: None, kernels, stream };
        if plan.compute == Compute::Sleep {
            return Ok(interval);
        }
        let bytes = if device.is_software() { BUSY_BYTES_SOFTWARE } else { BUSY_BYTES };
        let buffer =
            CudaBuffer::new(device, bytes).context("memory for the kernel between checkpoints")?;
        let burn = |rounds| {
            kernels.burn(stream, &buffer, rounds)?;
            anyhow::Ok(stream.synchronize()?)
        };
        burn(1)?;
        let mut rounds = 1;
        let took = loop {
            let (_, took) = seconds(|| burn(rounds))?;
            // Long enough to tell the rate from the cost of a launch.
            if took * 4.0 >= length.as_secs_f64() || rounds >= MOST_ROUNDS / 2 {
                break took;
            }
            rounds *= 2;
        };
        let fitting = f64::from(rounds) * length.as_secs_f64() / took.max(1e-9);
        let rounds = fitting.round().clamp(1.0, f64::from(MOST_ROUNDS)) as u32;
        interval.busy = Some((buffer, rounds));
        Ok(interval)
    }

    fn pass(&self) -> Result<f64> {
        let (_, took) = seconds(|| match &self.busy {
            None => {
                // What the application has queued runs meanwhile.
                thread::sleep(self.length);
                Ok(self.stream.synchronize()?)
            }
            Some((buffer, rounds)) => {
                self.kernels.burn(self.stream, buffer, *rounds)?;
                Ok(self.stream.synchronize()?)
            }
        })?;
        Ok(took)
    }
}

fn measure(plan: &PointPlan, process: u32) -> Result<ProcessFigures> {
    let sizes = plan.sizes_of(process);
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let devices = BenchDevice::count()?.max(1);
    let device = BenchDevice::open(process % devices)?;
    let stream = Stream::new(&device)?;
    let buffer = CudaBuffer::new(&device, largest).context("memory for the application's state")?;
    let content = ContentCheck::new(&device, &stream, sizes.len() as u64)?;
    let interval = ComputeInterval::new(plan, &device, &content.kernels, &stream)?;
    let mut figures = ProcessFigures::default();

    meet(Barrier::Quiet)?;
    let mut quiet = (0..QUIET_INTERVALS).map(|_| interval.pass()).collect::<Result<Vec<_>>>()?;
    quiet.sort_by(f64::total_cmp);
    figures.quiet_interval = results::quantile(&quiet, 0.5);

    let copies = bare::copies(&device, &stream, &buffer, sizes, || meet(Barrier::Copies))?;
    say(&WorkerMessage::Copies(copies))?;

    meet(Barrier::Start)?;
    let free_before = device.free_memory()?;
    let mut account = Account::default();
    let (mut store, took) = timed(|| approach::start(plan, process, &device, &stream, &buffer))?;
    figures.init = took.as_secs_f64();
    account.call(CallKind::Init, took, store.waits()?)?;
    let mut done = 0;
    for (version, &bytes) in sizes.iter().enumerate() {
        let version = version as u32;
        content.kernels.fill(&stream, &buffer, bytes, version)?;
        stream.synchronize()?;
        figures.forward_intervals.push(interval.pass()?);
        let what = || format!("checkpoint {version} of {bytes} bytes");
        let (_, took) = timed(|| store.checkpoint(version, bytes)).with_context(what)?;
        figures.checkpoints.push(took.as_secs_f64());
        account.call(CallKind::Checkpoint, took, store.waits()?).with_context(what)?;
        step(&mut done)?;
    }
    let alone =
        (0..plan.processes).filter(|other| other % devices == process % devices).count() == 1;
    let used = free_before.saturating_sub(device.free_memory()?);
    figures.device_used = alone.then_some(used);
    let insight = store.insight()?;
    (figures.decisions, figures.device_cache) = (insight.decisions, insight.device_cache);

    let order = plan.restores(process);
    for (position, &version) in order.iter().enumerate() {
        let bytes = sizes[version as usize];
        // The hints that come before this restore are part of what it costs.
        let ahead = match (plan.hints, position) {
            (HintAmount::All, 0) => &order[..],
            (HintAmount::One, _) => order.get(position + 1..position + 2).unwrap_or_default(),
            _ => &[],
        };
        let what = || format!("restore of {version}, {bytes} bytes");
        let (_, took) = timed(|| {
            store.expect(ahead)?;
            store.restore(version, bytes)
        })
        .with_context(what)?;
        figures.restores.push(took.as_secs_f64());
        account.call(CallKind::Restore, took, store.waits()?).with_context(what)?;
        if plan.verify {
            content.compare(&stream, &buffer, bytes, version)?;
            stream.synchronize()?;
        }
        figures.backward_intervals.push(interval.pass()?);
        step(&mut done)?;
    }
    if plan.verify {
        figures.wrong_versions = content.wrong_versions(&stream)?;
    }
    let insight = store.insight()?;
    (figures.managed, figures.hops, figures.notes) = (insight.managed, insight.hops, insight.notes);
    figures.causes = account.causes();
    figures.peak_host = machine::peak_memory();
    let (_, finish) = seconds(|| store.finish())?;
    figures.finish = finish;
    Ok(figures)
}

fn step(done: &mut u64) -> Result<()> {
    *done += 1;
    if (*done).is_multiple_of(SAY_EVERY) {
        say(&WorkerMessage::Progress(*done))?;
    }
    Ok(())
}
