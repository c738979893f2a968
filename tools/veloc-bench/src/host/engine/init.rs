//! How long a program waits for `VELOC_Init_single`, and for `VELOC_Finalize` at once.

use std::time::Instant;

use anyhow::Result;
use os::memory::physical;

use super::job::BenchJob;
use super::tell;
use crate::host::{Goal, MeasuredFigure};

/// Sizes of the host buffer in GiB, as far as this machine has so much.
const SIZES: [u32; 3] = [1, 16, 32];

/// The longest that initialising may take, in ms.
const MOST_MS: f64 = 10.0;

/// Measures the wait for buffers of several sizes, in turns.
pub(super) fn run(repeats: u32) -> Result<()> {
    let memory = physical()?.total;
    let sizes: Vec<u32> =
        SIZES.into_iter().filter(|size| u64::from(*size) << 30 <= memory).collect();
    let mut init = vec![Vec::new(); sizes.len()];
    let mut finalize = init.clone();
    for _ in 0..repeats {
        for (index, size) in sizes.iter().enumerate() {
            let job = BenchJob::start(&format!(
                "mode = async\nephemeral = true\nhost_cache_size = {size}\n"
            ))?;
            init[index].push(1e3 * job.init);
            let since = Instant::now();
            drop(job);
            finalize[index].push(1e3 * since.elapsed().as_secs_f64());
        }
    }
    for ((size, init), finalize) in sizes.iter().zip(init).zip(finalize) {
        let what = format!("VELOC_Init_single, host buffer of {size} GiB");
        tell(&MeasuredFigure::new(what, "ms", init).with_goal(Goal::AtMost(MOST_MS)))?;
        let what = format!("VELOC_Finalize at once, host buffer of {size} GiB");
        tell(&MeasuredFigure::new(what, "ms", finalize))?;
    }
    Ok(())
}
