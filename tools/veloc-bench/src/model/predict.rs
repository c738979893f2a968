//! Predictions of the model for nodes that are not at hand.

use anyhow::Result;
use serde::Serialize;

use super::node::NodeFigures;
use super::scenario::{per_process, ProcessOutcome, Scenario};
use super::simulation::simulate;
use crate::plan::PointPlan;

/// The title of all predictions.
pub(super) const TITLE: &str = "predicted by a model, not measured";

/// The prediction for one plan. Times in seconds per process.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PlanPrediction {
    pub node: &'static str,
    pub plan: PointPlan,
    /// Time blocked by checkpoints, initialisation included.
    pub blocked_checkpoints: f64,
    /// Time blocked by checkpoints and restores, initialisation included.
    pub blocked_total: f64,
    /// The longest time that one checkpoint blocked any process.
    pub longest_checkpoint: f64,
    /// Time that checkpoints waited for room in the device cache.
    pub waited_for_room: f64,
    /// Bare copies on the device of the same bytes, there and back: the floor of `blocked_total`.
    pub bare: f64,
    /// Time during which a registration stopped all copies.
    pub stopped: f64,
    /// When all pages of all processes existed; 0 if a process ended before.
    pub touched_at: f64,
    /// When all pages of all processes were registered; 0 if a process ended before.
    pub registered_at: f64,
    /// When the last process had ended.
    pub end: f64,
}

/// Predicts the outcome of a plan.
pub(super) fn predict(plan: PointPlan, node: &NodeFigures) -> Result<PlanPrediction> {
    let outcomes = simulate(&Scenario::of(&plan, node.clone())?)?;
    let longest = outcomes.iter().flat_map(|outcome| &outcome.checkpoints).copied();
    let bytes: u64 = plan.sizes_of(0).iter().sum();
    Ok(PlanPrediction {
        node: node.name,
        plan,
        blocked_checkpoints: per_process(&outcomes, ProcessOutcome::checkpointing),
        blocked_total: per_process(&outcomes, ProcessOutcome::total),
        longest_checkpoint: longest.fold(0.0, f64::max),
        waited_for_room: per_process(&outcomes, |outcome| outcome.waited_for_room),
        // Processes on one GPU share its memory, but rarely copy at the same moment.
        bare: 2.0 * bytes as f64 / node.device_copy.value,
        stopped: per_process(&outcomes, |outcome| outcome.stopped),
        touched_at: when_all(&outcomes, |outcome| outcome.touched_at),
        registered_at: when_all(&outcomes, |outcome| outcome.registered_at),
        end: outcomes.iter().map(|outcome| outcome.end).fold(0.0, f64::max),
    })
}

/// The latest of the moments, or 0 if one of them never came.
fn when_all(outcomes: &[ProcessOutcome], moment: impl Fn(&ProcessOutcome) -> f64) -> f64 {
    let latest = outcomes.iter().map(&moment).fold(0.0, f64::max);
    if outcomes.iter().all(|outcome| moment(outcome) > 0.0) {
        latest
    } else {
        0.0
    }
}
