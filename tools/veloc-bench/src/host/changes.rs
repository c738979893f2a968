//! `veloc-bench snapshot --parts changes`: what a checkpoint costs of which little has changed (`incremental = true`),
//! against one that has everything, and what it costs the application that writes are noted.
//!
//! Between two checkpoints the application reads all of its memory and writes to 1 % of its pages, at random places or
//! in one run.

use std::fs;

use anyhow::Result;
use os::mapping::Mapping;
use tempfile::TempDir;

use super::engine::job::{BenchJob, NAME};
use super::engine::median;
use super::snapshot::{seconds, tell, PageSize};
use super::Goal;

const PAGE: usize = 4096;

/// The application's memory.
struct ChangingMemory {
    memory: Mapping,
    seed: u64,
}

impl ChangingMemory {
    fn words(&mut self) -> &mut [u64] {
        let (base, count) = (self.memory.base().as_ptr().cast(), self.memory.len() / 8);
        // SAFETY: the whole mapping, aligned to pages; nobody else has a reference to it.
        unsafe { std::slice::from_raw_parts_mut(base, count) }
    }

    /// A step of a computation.
    fn step(&mut self, scattered: bool) {
        let pages = self.memory.len() / PAGE;
        let mut seed = self.seed;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize
        };
        let first = random() % (pages - pages / 100);
        let written: Vec<usize> = (0..pages / 100)
            .map(|n| if scattered { random() % pages } else { first + n })
            .collect();
        self.seed = seed;
        let words = self.words();
        let sum = words.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
        for page in written {
            words[page * PAGE / 8] = sum ^ page as u64;
        }
    }
}

/// What a job has cost.
#[derive(Default)]
struct JobCost {
    calls: Vec<f64>,
    steps: Vec<f64>,
    bytes: Vec<f64>,
}

fn run(state: &mut ChangingMemory, keys: &str, scattered: bool, repeats: u32) -> Result<JobCost> {
    let folder = TempDir::new()?;
    let bytes = state.memory.len();
    let job = BenchJob::start_in(
        folder.path(),
        &format!(
            "mode = async\nscratch = DIR/scratch\nscratch_versions = 2\nhost_cache_size = {}B\n{keys}",
            3 * bytes + (64 << 20)
        ),
    )?;
    // SAFETY: the memory outlives the job, and nobody has a reference to it during its calls.
    unsafe { job.protect(0, state.memory.base().as_ptr().cast(), bytes)? };
    let mut cost = JobCost::default();
    // Pages of the host buffer exist from the third on.
    for version in 0..repeats as i32 + 4 {
        let step = seconds(|| {
            state.step(scattered);
            Ok(())
        })?;
        let call = seconds(|| job.checkpoint(NAME, version))?;
        job.drain()?;
        if version > 3 {
            cost.calls.push(call);
            cost.steps.push(step);
            let name = format!("{}-0-{version}.dat", NAME.to_string_lossy());
            cost.bytes.push(fs::metadata(folder.path().join("scratch").join(name))?.len() as f64);
        }
    }
    Ok(cost)
}

/// Measures memory of this size, in pages of this kind.
pub(super) fn measure(bytes: usize, pages: PageSize, repeats: u32) -> Result<()> {
    let mut state = ChangingMemory { memory: Mapping::reserve(bytes)?, seed: 7 };
    // Without huge pages the figures are those of small ones.
    let _ = state.memory.advise_huge(pages == PageSize::Huge);
    for (place, word) in state.words().iter_mut().enumerate() {
        *word = place as u64;
    }
    for scattered in [true, false] {
        let what = format!(
            "{}, {} pages, 1 % written {}",
            os::size::show(bytes as u64),
            crate::options::name_of(&pages),
            if scattered { "at random" } else { "in one run" }
        );
        let full = run(&mut state, "", scattered, repeats)?;
        let delta =
            run(&mut state, "incremental = true\nincremental_chain = 64\n", scattered, repeats)?;
        let milliseconds = |times: &[f64]| times.iter().map(|time| 1e3 * time).collect();
        tell("everything: blocked", &what, "ms", milliseconds(&full.calls), None)?;
        tell("changes: blocked", &what, "ms", milliseconds(&delta.calls), None)?;
        let against = |values: Vec<f64>, full: Vec<f64>| {
            let full = median(full);
            values.into_iter().map(|value| value / full).collect::<Vec<_>>()
        };
        let calls = against(delta.calls, full.calls);
        tell("changes: blocked", &what, "x everything", calls, Some(Goal::AtMost(0.05)))?;
        let bytes = against(delta.bytes, full.bytes);
        tell("changes: bytes", &what, "x everything", bytes, Some(Goal::AtMost(0.03)))?;
        let steps = against(delta.steps, full.steps);
        let goal = Some(Goal::AtMost(1.03));
        tell("changes: the application between two", &what, "x everything", steps, goal)?;
    }
    Ok(())
}
