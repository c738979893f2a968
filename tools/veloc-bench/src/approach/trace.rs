//! The timelines of the baselines, in the form of the library's own: the same variable of the
//! environment asks for them, and `python -m veloc.plot timeline` draws all alike (HiPC'22, figure 1).

use std::env;
use std::path::PathBuf;

use ::trace::{Recorder, Setup};
use anyhow::{anyhow, Result};

use crate::cuda::BenchDevice;
use crate::plan::PointPlan;
use crate::results::SOFTWARE_WARNING;
use crate::timelines::VARIABLE;

/// The name of checkpoints in timelines.
pub(super) const NAME: &str = "bench";

/// Starts recording, if the environment asks for it.
pub(super) fn start(plan: &PointPlan, process: u32, device: &BenchDevice) -> Result<Recorder> {
    let file = env::var_os(VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from);
    if file.is_none() {
        return Ok(Recorder::off());
    }
    let trace = Recorder::start(&Setup { file, rank: process, shown: None })
        .map_err(|error| anyhow!("{VARIABLE}: {error}"))?;
    trace.metadata("approach", plan.approach.text());
    trace.metadata("device", device.name());
    if device.is_software() {
        trace.metadata("warning", SOFTWARE_WARNING);
    }
    Ok(trace)
}
