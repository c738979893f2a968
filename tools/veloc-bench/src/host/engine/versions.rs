//! Many checkpoints at once: no call may take longer because of their number.

use std::ffi::CStr;
use std::time::Instant;

use anyhow::Result;
use veloc_client::capi::{VELOC_Checkpoint_finished, VELOC_Next_prefetched};

use super::host::TouchedMemory;
use super::job::{BenchJob, NAME};
use super::{median, tell};
use crate::host::{Goal, MeasuredFigure};
use crate::machine;
use crate::plan::splitmix;

/// Bytes of a checkpoint.
const BYTES: usize = 64;

/// Calls of which the median is taken. Few against the least number of checkpoints, as some calls
/// add one.
const CALLS: usize = 201;

/// The longest that any checkpoint may take, in microseconds: nothing is put in order at once.
const LONGEST_US: f64 = 1000.0;

/// The name of other checkpoints.
const OTHER: &CStr = c"other";

/// A call: its name, the versions that it adds, and the call itself, with the number of versions
/// that exist and a random one among them.
type TimedCall = (&'static str, i32, fn(&BenchJob, i32, i32) -> Result<()>);

const CALLS_IN_MEMORY: [TimedCall; 9] = [
    ("checkpoint, a new version", 1, |job, count, _| job.checkpoint(NAME, count)),
    ("checkpoint, an old version again", 0, |job, _, any| job.checkpoint(NAME, any)),
    ("restart", 0, |job, _, any| job.restart(any)),
    ("restart test, the newest", 0, |job, _, _| job.restart_test(0).map(drop)),
    ("restart test, up to a version", 0, |job, _, any| job.restart_test(any.max(1)).map(drop)),
    ("size of a region of a version", 0, |job, _, any| {
        job.recover_size(any);
        Ok(())
    }),
    ("hint", 0, |job, _, any| job.hint(any)),
    ("question whether it is prefetched", 0, |_, _, any| {
        // SAFETY: the name ends with NUL.
        unsafe { VELOC_Next_prefetched(NAME.as_ptr(), any, 0) };
        Ok(())
    }),
    ("question whether all is finished", 0, |_, _, _| {
        VELOC_Checkpoint_finished();
        Ok(())
    }),
];

const CALLS_IN_FILES: [TimedCall; 4] = [
    ("checkpoint, a new version", 1, |job, count, _| job.checkpoint(NAME, count)),
    ("restart", 0, |job, _, any| job.restart(any)),
    ("restart test, the newest", 0, |job, _, _| job.restart_test(0).map(drop)),
    ("restart test, up to a version", 0, |job, _, any| job.restart_test(any.max(1)).map(drop)),
];

/// Checkpoints of an ephemeral job.
pub(super) fn in_memory(repeats: u32) -> Result<()> {
    // In no order: old ones are read again.
    let configuration =
        "mode = async\nephemeral = true\nhost_cache_size = 128M\nrestore_order = random\n";
    measure(repeats, configuration, &[1_000, 10_000, 100_000], &CALLS_IN_MEMORY, "in memory")
}

/// Checkpoints of a job that keeps each in a file.
pub(super) fn in_files(repeats: u32) -> Result<()> {
    let configuration = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 128M\n";
    measure(repeats.min(3), configuration, &[1_000, 10_000], &CALLS_IN_FILES, "in files")
}

/// Microseconds: for each count of checkpoints, each call, each repeat.
struct CallTimes {
    calls: Vec<Vec<Vec<f64>>>,
    longest: Vec<Vec<f64>>,
    other: Vec<Vec<f64>>,
    all: Vec<f64>,
}

fn measure(
    repeats: u32,
    configuration: &str,
    counts: &[i32],
    calls: &[TimedCall],
    place: &str,
) -> Result<()> {
    let mut times = CallTimes {
        calls: vec![vec![Vec::new(); calls.len()]; counts.len()],
        longest: vec![Vec::new(); counts.len()],
        other: vec![Vec::new(); counts.len()],
        all: Vec::new(),
    };
    let application = TouchedMemory::new(BYTES)?;
    for _ in 0..repeats {
        once(configuration, &application, counts, calls, &mut times)?;
    }
    for (call, (what, ..)) in calls.iter().enumerate() {
        let of = |count: usize| times.calls[count][call].clone();
        tell_growth(what, place, counts, of)?;
    }
    tell_growth("cleanup of another name", place, counts, |count| times.other[count].clone())?;
    for (count, longest) in counts.iter().zip(times.longest) {
        let what = format!("processor time of the longest checkpoint up to {count} {place}");
        tell(&MeasuredFigure::new(what, "us", longest).with_goal(Goal::AtMost(LONGEST_US)))?;
    }
    let what = format!("cleanup of {} {place}, each", counts[counts.len() - 1]);
    tell(&MeasuredFigure::new(what, "us", times.all))
}

/// Measures in one job: takes checkpoints up to each count, and then makes each of the calls.
fn once(
    configuration: &str,
    application: &TouchedMemory,
    counts: &[i32],
    calls: &[TimedCall],
    times: &mut CallTimes,
) -> Result<()> {
    let job = BenchJob::start(configuration)?;
    // SAFETY: `application` outlives the job, and nothing refers to its bytes.
    unsafe { job.protect(0, application.address(), BYTES)? };
    job.until_touched()?;
    let (mut live, mut seed) = (0, 1);
    for (index, &count) in counts.iter().enumerate() {
        let mut longest = 0.0_f64;
        while live < count {
            let since = processor_seconds();
            job.checkpoint(NAME, live)?;
            longest = longest.max(1e6 * (processor_seconds() - since));
            live += 1;
        }
        job.drain()?;
        times.longest[index].push(longest);
        for ((_, adds, call), times) in calls.iter().zip(&mut times.calls[index]) {
            let mut seconds = Vec::new();
            for _ in 0..CALLS {
                let any = (splitmix(&mut seed) % live as u64) as i32;
                let since = Instant::now();
                call(&job, live, any)?;
                seconds.push(since.elapsed().as_secs_f64());
                live += adds;
            }
            times.push(1e6 * median(seconds));
        }
        let mut seconds = Vec::new();
        for _ in 0..CALLS / 4 {
            job.checkpoint(OTHER, 0)?;
            job.drain()?;
            let since = Instant::now();
            job.cleanup(OTHER)?;
            seconds.push(since.elapsed().as_secs_f64());
        }
        times.other[index].push(1e6 * median(seconds));
    }
    let since = Instant::now();
    job.cleanup(NAME)?;
    times.all.push(1e6 * since.elapsed().as_secs_f64() / f64::from(live));
    Ok(())
}

/// Processor time of this thread in seconds: by the clock, the longest of many calls would be the
/// one during which others had the processor.
pub(super) fn processor_seconds() -> f64 {
    machine::processor_seconds(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The time of a call with each count of checkpoints, and how much longer it is with the most.
fn tell_growth(
    what: &str,
    place: &str,
    counts: &[i32],
    times: impl Fn(usize) -> Vec<f64>,
) -> Result<()> {
    for (index, count) in counts.iter().enumerate() {
        tell(&MeasuredFigure::new(format!("{what}, {count} {place}"), "us", times(index)))?;
    }
    // Half way between a call whose time stays and one that goes through all checkpoints. A search
    // by halves takes 1.7 times as long in 100,000 as in 1,000, and misses the processor's caches
    // more often.
    let last = counts.len() - 1;
    let most = (f64::from(counts[last]) / f64::from(counts[0])).sqrt();
    let growth = times(last).iter().zip(times(0)).map(|(all, few)| all / few).collect();
    let what = format!("{what}, {} against {} {place}", counts[last], counts[0]);
    tell(&MeasuredFigure::new(what, "x", growth).with_goal(Goal::AtMost(most)))
}
