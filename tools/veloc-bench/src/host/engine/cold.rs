//! Small checkpoints between which the application computes: the library's code and data have left the caches, which a
//! tight loop does not show.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use os::memory::page_faults;

use super::host::TouchedMemory;
use super::job::{BenchJob, NAME};
use super::{median, tell};
use crate::host::{Goal, MeasuredFigure};

/// Bytes of a checkpoint.
const SMALL: usize = 4 << 10;

/// The most that a checkpoint may take after a pause, in microseconds.
const MOST_US: f64 = 40.0;

/// Calls of which a repeat takes the median.
const CALLS: usize = 50;

/// Measures checkpoints and bare copies after pauses, in turns, and the page faults of a job's first checkpoint.
pub(super) fn run(repeats: u32) -> Result<()> {
    let mut faults = Vec::new();
    let pauses = [5, 20].map(Duration::from_millis);
    let mut times = vec![[Vec::new(), Vec::new(), Vec::new()]; pauses.len()];
    for _ in 0..repeats {
        let job = BenchJob::start("mode = async\nephemeral = true\nhost_cache_size = 64M\n")?;
        let (application, plain) = (TouchedMemory::new(SMALL)?, TouchedMemory::new(16 << 20)?);
        // SAFETY: `application` outlives the job's last call, and nothing refers to its bytes.
        unsafe { job.protect(0, application.address(), SMALL)? };
        job.until_touched()?;
        let before = page_faults();
        job.checkpoint(NAME, 0)?;
        faults.push((page_faults() - before) as f64);
        for (pause, times) in pauses.iter().zip(&mut times) {
            let mut one = [Vec::new(), Vec::new(), Vec::new()];
            for call in 0..CALLS {
                let version = call as i32;
                thread::sleep(*pause);
                let since = Instant::now();
                plain.copy_from(call * SMALL, &application, 0, SMALL);
                one[0].push(since.elapsed().as_secs_f64());
                thread::sleep(*pause);
                let since = Instant::now();
                job.checkpoint(NAME, version)?;
                one[1].push(since.elapsed().as_secs_f64());
                thread::sleep(*pause);
                let since = Instant::now();
                job.restart(version)?;
                one[2].push(since.elapsed().as_secs_f64());
            }
            for (all, one) in times.iter_mut().zip(one) {
                all.push(1e6 * median(one));
            }
        }
    }
    tell(&MeasuredFigure::new("page faults of a job's first checkpoint", "", faults))?;
    for (pause, [copy, checkpoint, restart]) in pauses.iter().zip(times) {
        let after = format!("of 4 KiB after {} ms", pause.as_millis());
        let goal = Goal::AtMost(MOST_US);
        tell(&MeasuredFigure::new(format!("memcpy {after}"), "us", copy))?;
        let checkpoint = MeasuredFigure::new(format!("checkpoint {after}"), "us", checkpoint);
        tell(&checkpoint.with_goal(goal))?;
        tell(&MeasuredFigure::new(format!("restart {after}"), "us", restart).with_goal(goal))?;
    }
    Ok(())
}
