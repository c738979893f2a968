//! Other strategies against failures, for comparison with a schedule: those of the paper's section 5, for the
//! same steps and the same number of slots in all.
//!
//! - **Continuous**: the schedule without a bound, whose free slot gets each state of the first sweep
//!   until it is needed.
//! - **Single recovery**: a schedule with a slot less, and in that slot the latest state of the first
//!   sweep, at distances as large as the plan's own largest.
//! - **Two-level**: the first sweep stores states at equal distances `l₂`, no larger than that; each
//!   piece is reversed with the slots that are left. With `n` pieces and `c₂` slots for one, its first
//!   state included, that takes `(n - 1) l₂` advances in the first sweep and `l₂ r₂ - β(c₂ + 1, r₂ - 1)`
//!   for each piece; the paper leaves out the former and has a `c₂` for the `c₂ + 1`. `n` is what takes
//!   the fewest advances.

use super::binomial;
use super::cost::PlanCost;
use super::remaining::Remaining;
use super::resume::{resume_soon, Survivors};
use super::rule::Rule;
use super::schedule::{Plan, Schedule};
use super::takeshots::takeshots;

/// Places of the reverse sweep at which a failure is evaluated.
const PLACES: u64 = 32;

/// The most slots of a plan that is compared: evaluating its crashes takes some seconds.
pub const MOST_SLOTS: u64 = 100_000;

/// A strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The plan's own.
    Chosen,
    /// Stores each state, as long as there is a slot.
    Continuous,
    /// A slot for the latest state of all `every` steps.
    SingleRecovery {
        /// How many steps there are between such states.
        every: u64,
    },
    /// Pieces of equal length.
    TwoLevel {
        /// The length.
        piece: u64,
        /// Slots for each, its first state included.
        slots: u64,
    },
}

/// The cost of a strategy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The strategy.
    pub strategy: Strategy,
    /// Steps that are not recorded, if nothing fails.
    pub advances: u128,
    /// States that are stored, if nothing fails.
    pub writes: u128,
    /// The most steps that a failure in the first sweep costs.
    pub most_lost: u64,
    /// The mean of that over the steps of the first sweep.
    pub mean_lost: f64,
    /// The steps, recorded ones included, that a failure in the reverse sweep costs, as the most and
    /// the mean over places that are spread evenly.
    pub reverse_lost: (u128, f64),
}

/// The costs of all strategies for a plan of which `cost` is known, except those for which there are too few
/// slots. Takes time in proportion to the slots.
pub fn compare(plan: &Plan, cost: &PlanCost) -> Vec<Costs> {
    let mut all = vec![chosen(plan, cost), continuous(plan)];
    all.extend((plan.slots > 1).then(|| single_recovery(plan, cost.max_gap)));
    all.push(two_level(plan, cost.max_gap));
    all
}

fn unbound(plan: &Plan, slots: u64) -> Plan {
    Plan { slots, resilience: u64::MAX, rule: Rule::Optimal, ..*plan }
}

fn chosen(plan: &Plan, cost: &PlanCost) -> Costs {
    let (most_lost, mean_lost) = lost(&cost.first_sweep, plan.steps);
    Costs {
        strategy: Strategy::Chosen,
        advances: cost.advances,
        writes: cost.takeshots,
        most_lost,
        mean_lost,
        reverse_lost: reverse_lost(plan),
    }
}

fn continuous(plan: &Plan) -> Costs {
    let plan = unbound(plan, plan.slots);
    let states = first_sweep(&plan);
    // Until the last slot is needed, only the step under way is lost.
    let last = match (states.len() as u64) < plan.slots {
        true => plan.steps - 1,
        false => states[states.len() - 1],
    };
    let (most_lost, mean_lost) = lost(&[last], plan.steps);
    Costs {
        strategy: Strategy::Continuous,
        advances: binomial::advances(plan.steps, plan.slots),
        writes: takeshots_of(&plan) + u128::from(last + 1) - states.len() as u128,
        most_lost,
        mean_lost: mean_lost * (plan.steps - last) as f64 / plan.steps as f64,
        reverse_lost: reverse_lost(&plan),
    }
}

fn single_recovery(plan: &Plan, every: u64) -> Costs {
    let plan = unbound(plan, plan.slots - 1);
    let mut states = first_sweep(&plan);
    let latest = (1..).map(|piece| piece * every).take_while(|state| *state < plan.steps);
    let writes = u128::from((plan.steps - 1) / every);
    // In a plan's own first sweep no more are listed either.
    states.extend(latest.take(super::cost::MOST_STATES as usize));
    states.sort_unstable();
    let (most_lost, mean_lost) = lost(&states, plan.steps);
    Costs {
        strategy: Strategy::SingleRecovery { every },
        advances: binomial::advances(plan.steps, plan.slots),
        writes: takeshots_of(&plan) + writes,
        most_lost,
        mean_lost,
        reverse_lost: reverse_lost(&plan),
    }
}

fn two_level(plan: &Plan, longest: u64) -> Costs {
    let cost = |piece: u64, slots: u64| {
        let whole = (plan.steps - 1) / piece;
        let last = plan.steps - whole * piece;
        u128::from(whole) * (u128::from(piece) + binomial::advances(piece, slots))
            + binomial::advances(last, slots)
    };
    // The first state of each piece takes a slot; those left over reverse one piece.
    let ways = (1..=plan.slots.min(plan.steps)).map(|pieces| {
        let piece = plan.steps.div_ceil(pieces);
        (piece, plan.slots - plan.steps.div_ceil(piece) + 1)
    });
    let allowed = ways.filter(|(piece, _)| *piece <= longest);
    let (piece, slots) = allowed
        .min_by_key(|&(piece, slots)| cost(piece, slots))
        .unwrap_or((plan.steps, plan.slots));
    let whole = (plan.steps - 1) / piece;
    let last = plan.steps - whole * piece;
    let stored = |steps: u64| takeshots(Rule::Optimal, steps, slots, false);
    Costs {
        strategy: Strategy::TwoLevel { piece, slots },
        advances: cost(piece, slots),
        writes: u128::from(whole) * stored(piece) + stored(last),
        most_lost: piece.min(plan.steps),
        mean_lost: lost(&[0], piece).1,
        reverse_lost: two_level_lost(plan, piece, slots),
    }
}

/// The states that are stored in the first sweep of a schedule without a bound.
fn first_sweep(plan: &Plan) -> Vec<u64> {
    let mut states = vec![0];
    let (mut left, mut slots) = (plan.steps, plan.slots);
    while slots > 1 && left > 2 {
        left -= plan.rule.first_piece(left, slots, u64::MAX);
        slots -= 1;
        if left > 1 {
            states.push(plan.steps - left);
        }
    }
    states
}

/// How many states a schedule without a bound stores.
fn takeshots_of(plan: &Plan) -> u128 {
    takeshots(plan.rule, plan.steps, plan.slots, false)
}

/// The most and the mean number of steps between a place of the first sweep and the last state stored before
/// it, from the first of these on.
fn lost(states: &[u64], steps: u64) -> (u64, f64) {
    let ends = states.iter().skip(1).chain([&steps]);
    let pieces = states.iter().zip(ends).map(|(from, to)| to - from);
    let all = (steps - states[0]) as f64;
    let (most, squares) = pieces.fold((0, 0.0), |(most, squares), piece| {
        (piece.max(most), squares + piece as f64 * piece as f64)
    });
    (most, squares / 2.0 / all)
}

/// Places spread evenly over the steps, and over those between two stored adjoints.
fn places(plan: &Plan) -> impl Iterator<Item = u64> {
    let steps = u128::from(plan.steps);
    let stretch = plan.adjoint.map_or(0, u128::from).min(steps / u128::from(PLACES));
    // Less than the number of steps.
    (1..PLACES).map(move |place| {
        ((steps - stretch) * u128::from(place) / u128::from(PLACES)
            + stretch * u128::from(place * 7 % PLACES) / u128::from(PLACES)) as u64
    })
}

/// The steps that a failure costs at some places of the reverse sweep: the most and the mean.
fn reverse_lost(plan: &Plan) -> (u128, f64) {
    let all = Schedule::new(*plan).advances_left();
    of_several(places(plan).map(|place| lost_at(plan, all, place)).collect())
}

fn of_several(lost: Vec<u128>) -> (u128, f64) {
    let mean = lost.iter().sum::<u128>() as f64 / lost.len().max(1) as f64;
    (lost.into_iter().max().unwrap_or(0), mean)
}

/// The cost of a failure when the adjoint has just come to state `fine`, for a plan with `all` advances in
/// total.
fn lost_at(plan: &Plan, all: u128, fine: u64) -> u128 {
    let Remaining { states, adjoint, advances } = Remaining::at(plan, fine);
    let turned = u128::from(adjoint.unwrap_or(plan.steps) - fine);
    let survivors = Survivors { states, adjoint, at_start: true };
    // At worst the application starts over, which it always can.
    let again = resume_soon(*plan, &survivors).map_or(all, |schedule| schedule.advances_left());
    (again + turned).saturating_sub(all - advances)
}

/// The same for pieces that are reversed one by one, with the adjoint also stored after each.
fn two_level_lost(plan: &Plan, piece: u64, slots: u64) -> (u128, f64) {
    let lost = places(plan).map(|place| {
        let begin = place / piece * piece;
        let steps = piece.min(plan.steps - begin);
        let within = Plan { steps, slots, resilience: u64::MAX, rule: Rule::Optimal, ..*plan };
        lost_at(&within, binomial::advances(steps, slots), place - begin)
    });
    of_several(lost.collect())
}

#[cfg(test)]
#[path = "strategy_tests.rs"]
mod tests;
