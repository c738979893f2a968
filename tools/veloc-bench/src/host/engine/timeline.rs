//! What recording a timeline costs the thread that takes checkpoints: its processor time with a
//! timeline and without, in turns.

use anyhow::Result;
use os::size;

use super::job::{BenchJob, NAME};
use super::{median, tell};
use crate::host::{Goal, MeasuredFigure};
use crate::machine::processor_seconds;

/// Bytes of a checkpoint, and how many of them.
const SIZES: [(usize, i32); 3] = [(4 << 10, 20_000), (1 << 20, 500), (16 << 20, 40)];

/// The most that recording may cost checkpoints of the paper's size, in percent.
const MOST_PERCENT: f64 = 1.0;

/// Bytes from which on a checkpoint has to reach the goal: the paper's are eight times as large.
const MEANT: usize = 16 << 20;

/// Jobs with a timeline, and as many without, in one repeat; their medians are compared.
const JOBS: usize = 5;

/// Measures the cost for several sizes.
pub(super) fn run(repeats: u32) -> Result<()> {
    for (len, count) in SIZES {
        let (mut percent, mut extra) = (Vec::new(), Vec::new());
        for _ in 0..repeats {
            let mut times = [Vec::new(), Vec::new()];
            for job in 0..2 * JOBS {
                times[job % 2].push(one(len, count, job % 2 == 1)?);
            }
            let [without, with] = times.map(median);
            percent.push(100.0 * (with / without - 1.0));
            extra.push(1e6 * (with - without));
        }
        let what = |what: &str| format!("{what}, checkpoints of {}", size::show(len as u64));
        let cost = MeasuredFigure::new(what("cost of a timeline"), "%", percent);
        tell(&if len >= MEANT { cost.with_goal(Goal::AtMost(MOST_PERCENT)) } else { cost })?;
        tell(&MeasuredFigure::new(what("the same for each"), "us", extra))?;
    }
    Ok(())
}

/// Processor time of a checkpoint in seconds, with a timeline or without.
fn one(len: usize, count: i32, with: bool) -> Result<f64> {
    let mut text = "mode = async\nephemeral = true\nhost_cache_size = 1\n".to_owned();
    if with {
        text += "trace = DIR/timeline.json\n";
    }
    let mut application = vec![1u8; len];
    let job = BenchJob::start(&text)?;
    // SAFETY: the memory outlives the job, and nobody uses it meanwhile.
    unsafe { job.protect(0, application.as_mut_ptr().cast(), len)? };
    job.until_touched()?;
    let before = processor_seconds(libc::CLOCK_THREAD_CPUTIME_ID);
    for version in 0..count {
        job.checkpoint(NAME, version)?;
    }
    let used = processor_seconds(libc::CLOCK_THREAD_CPUTIME_ID) - before;
    drop(job);
    Ok(used / f64::from(count))
}
