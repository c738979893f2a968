//! What the model says of nodes that are not at hand.

use anyhow::Result;
use serde::Serialize;

use super::scenario::{per_process, Outcome, Scenario};
use super::simulation::simulate;
use crate::bench::plan::ApproachName;

/// Said wherever a prediction is shown.
pub(super) const TITLE: &str = "predicted by a model, not measured";

/// What is predicted for one scenario. Times in seconds per process, sizes in bytes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Prediction {
    /// The node's name.
    pub node: &'static str,
    /// The way to keep checkpoints.
    pub approach: ApproachName,
    /// Processes that start together.
    pub processes: usize,
    /// Time between two checkpoints, and between two restores, in ms.
    pub interval_ms: f64,
    /// Checkpoints of each process.
    pub checkpoints: usize,
    /// Bytes of all checkpoints of the first process.
    pub bytes: u64,
    /// Bytes of the device cache.
    pub device_cache: u64,
    /// Bytes of the host buffer.
    pub host_cache: u64,
    /// The key `touch`.
    pub touch: String,
    /// The key `pin`.
    pub pin: String,
    /// Who stages copies with memory that is not registered.
    pub staging: String,
    /// The key `pin_chunk_size`, in bytes.
    pub pin_chunk: u64,
    /// The key `gpu_chunk_size`, in bytes.
    pub map_chunk: u64,
    /// Blocked by checkpoints, initialisation included.
    pub blocked_checkpoints: f64,
    /// Blocked by restores as well.
    pub blocked_total: f64,
    /// The longest that one checkpoint blocked any process.
    pub longest_checkpoint: f64,
    /// Bare copies on the device of the same bytes, there and back: the floor of `blocked_total`.
    pub bare: f64,
    /// During which a registration stopped all copies.
    pub stopped: f64,
    /// Of the intervals, how much launches of the application waited for the lock of their context.
    pub held: f64,
    /// When all pages of all processes existed; 0 if a process ended before.
    pub touched_at: f64,
    /// When all were registered; 0 if a process ended before.
    pub registered_at: f64,
    /// When the last process had ended.
    pub end: f64,
}

/// Predicts one.
pub(super) fn predict(scenario: &Scenario) -> Result<Prediction> {
    let outcomes = simulate(scenario)?;
    let longest = outcomes.iter().flat_map(|outcome| &outcome.checkpoints).copied();
    let bytes: u64 = scenario.sizes_of(0).iter().sum();
    // Processes on one GPU share its memory, but rarely copy at the same moment.
    let bare = 2.0 * bytes as f64 / scenario.node.device_copy.value;
    let lowercase = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    Ok(Prediction {
        node: scenario.node.name,
        approach: scenario.approach,
        processes: scenario.processes,
        interval_ms: scenario.interval * 1e3,
        checkpoints: scenario.sizes_of(0).len(),
        bytes,
        device_cache: scenario.device_cache,
        host_cache: scenario.host_cache,
        touch: lowercase(&scenario.touch),
        pin: lowercase(&scenario.pin),
        staging: lowercase(&scenario.staging),
        pin_chunk: scenario.pin_chunk,
        map_chunk: scenario.map_chunk,
        blocked_checkpoints: per_process(&outcomes, Outcome::checkpointing),
        blocked_total: per_process(&outcomes, Outcome::total),
        longest_checkpoint: longest.fold(0.0, f64::max),
        bare,
        stopped: per_process(&outcomes, |outcome| outcome.stopped),
        held: per_process(&outcomes, |outcome| outcome.held),
        touched_at: when_all(&outcomes, |outcome| outcome.touched_at),
        registered_at: when_all(&outcomes, |outcome| outcome.registered_at),
        end: outcomes.iter().map(|outcome| outcome.end).fold(0.0, f64::max),
    })
}

/// The latest of the moments, or 0 if one of them never came.
fn when_all(outcomes: &[Outcome], moment: impl Fn(&Outcome) -> f64) -> f64 {
    let latest = outcomes.iter().map(&moment).fold(0.0, f64::max);
    if outcomes.iter().all(|outcome| moment(outcome) > 0.0) {
        latest
    } else {
        0.0
    }
}
