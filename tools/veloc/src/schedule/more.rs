//! Other strategies to compare a schedule with, and the run time.

use anyhow::{ensure, Context as _, Result};
use schedule::binomial::repetitions;
use schedule::cost::PlanCost;
use schedule::estimate::{Estimate, Times, MOST_STRETCHES};
use schedule::infeasible::too_many;
use schedule::strategy::{self, Costs, Strategy};
use serde::Serialize;

use super::plan::ScheduleProblem;

/// The most repetitions of a step in plans that are compared: 2 slots have as many with 5e9 steps.
/// The cost of a crash is found by going through them.
const MOST_REPEATED: u64 = 100_000;

/// The cost of a strategy. The field names are those of the JSON.
#[derive(Debug, Serialize)]
pub(super) struct StrategyCost {
    pub strategy: &'static str,
    /// Steps between two recovery states, or of a piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance: Option<u64>,
    /// Forward steps that are not recorded.
    pub advances: u128,
    /// States that are stored.
    pub takeshots: u128,
    /// The most steps that a failure in the first sweep costs.
    pub first_sweep_most_lost: u64,
    /// The mean number of steps that a failure in the first sweep costs.
    pub first_sweep_mean_lost: f64,
    /// The most steps that a failure in the reverse sweep costs, at 31 places.
    pub reverse_most_lost: u128,
    /// The mean number of steps that a failure in the reverse sweep costs, at the same places.
    pub reverse_mean_lost: f64,
}

/// The costs of all strategies.
pub(super) fn compare(problem: &ScheduleProblem) -> Result<Vec<StrategyCost>> {
    let slots = problem.plan.slots.min(problem.plan.steps);
    ensure!(
        slots <= strategy::MOST_SLOTS,
        "--compare: ways are compared for at most {} slots, not {slots}; what crashes cost with more, \
         --crash-after says one by one",
        strategy::MOST_SLOTS
    );
    let (repeated, _) = repetitions(problem.plan.steps, problem.plan.slots);
    ensure!(
        slots == 1 || repeated <= MOST_REPEATED,
        "--compare: with {slots} slots a step is repeated up to {repeated} times; ways are compared for at \
         most {MOST_REPEATED}"
    );
    let cost = PlanCost::of(&problem.plan).ok_or_else(|| too_many(&problem.plan))?;
    Ok(strategy::compare(&problem.plan, &cost).into_iter().map(StrategyCost::from).collect())
}

impl From<Costs> for StrategyCost {
    fn from(costs: Costs) -> StrategyCost {
        let (strategy, distance) = match costs.strategy {
            Strategy::Chosen => ("chosen", None),
            Strategy::Continuous => ("continuous", None),
            Strategy::SingleRecovery { every } => ("single recovery", Some(every)),
            Strategy::TwoLevel { piece, .. } => ("two-level", Some(piece)),
        };
        StrategyCost {
            strategy,
            distance,
            advances: costs.advances,
            takeshots: costs.writes,
            first_sweep_most_lost: costs.most_lost,
            first_sweep_mean_lost: costs.mean_lost,
            reverse_most_lost: costs.reverse_lost.0,
            reverse_mean_lost: costs.reverse_lost.1,
        }
    }
}

/// The run time. The field names are those of the JSON.
#[derive(Debug, Serialize)]
pub(super) struct Estimated {
    /// Seconds if nothing fails.
    pub undisturbed: f64,
    /// Seconds with failures.
    pub expected: f64,
    /// Seconds that failures cost, of the expected time.
    pub expected_loss: f64,
    /// The number of failures to expect.
    pub failures: f64,
    /// Adjoints that are stored if nothing fails.
    pub adjoints_stored: u64,
    /// Bytes of all slots, if the size of a state is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<u128>,
}

pub(super) fn estimate(
    problem: &ScheduleProblem,
    times: &Times,
    state_size: Option<u64>,
) -> Result<Estimated> {
    ensure!(
        problem.disk.is_none() && !problem.online,
        "--step-time: an estimate is for a known number of steps with slots that are all alike"
    );
    let plan = &problem.plan;
    let Estimate { undisturbed, expected, failures, adjoints } = Estimate::of(plan, times)
        .with_context(|| match times.mtbf.is_finite() {
            true => format!(
                "--mtbf {}: with {} steps and {} slots more than {MOST_STRETCHES} stretches would be looked at \
                 for where the adjoint is stored; it is stored less often with a larger --adjoint, or a larger \
                 --adjoint-time, and without --mtbf any number of steps is possible",
                times.mtbf, plan.steps, plan.slots
            ),
            false => format!("--step-time: {}", too_many(plan)),
        })?;
    ensure!(
        undisturbed.is_finite(),
        "--step-time {:e}: {} steps take longer than can be counted",
        times.step,
        plan.steps
    );
    ensure!(
        expected.is_finite(),
        "--mtbf {}: failures come so often that it never ends; store more often, or use more slots",
        times.mtbf
    );
    Ok(Estimated {
        undisturbed,
        expected,
        expected_loss: expected - undisturbed,
        failures,
        adjoints_stored: adjoints,
        storage: state_size.map(|size| u128::from(size) * u128::from(plan.slots.min(plan.steps))),
    })
}
