//! The cost of a plan, computed without going through its actions.
//!
//! Only the first sweep depends on the resilience distance and, in its repetition number, on the rule: its
//! pieces are so short that every rule reverses each with the least number of advances. So the sum over the
//! pieces of the first sweep is enough.

use super::binomial::{self, repetitions};
use super::disk::Disk;
use super::online::Online;
use super::rule::Rule;
use super::schedule::{Action, Plan};
use super::takeshots::takeshots;
use super::two_level_cost;

/// What a plan will cost if nothing goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanCost {
    /// Steps that are computed without being recorded.
    pub advances: u128,
    /// States that are stored, state 0 among them.
    pub takeshots: u128,
    /// An upper bound on how often one step is computed without being recorded.
    pub repetition: u64,
    /// The states that are stored before the adjoint begins, ascending.
    pub first_sweep: Vec<u64>,
    /// The largest distance between two of them, or from the last to the end.
    pub max_gap: u64,
}

/// The most states of a first sweep that are listed; they take 160 MB.
pub(crate) const MOST_STATES: u64 = 10_000_000;

/// The most actions of a two-level schedule that are gone through, and the most states that a pass with an
/// unknown end may store.
pub const MOST_ACTIONS: u64 = 20_000_000;

impl PlanCost {
    /// The same with slots on disk beside those of the plan. Takes time in proportion to the number of
    /// different stretches; `None` if these are more than a million and the actions more than
    /// [`MOST_ACTIONS`].
    pub fn of_levels(plan: &Plan, disk: Disk) -> Option<PlanCost> {
        two_level_cost::of_levels(plan, disk).map(|(cost, _)| cost)
    }

    /// With the states of a first sweep and zeros otherwise.
    pub(super) fn with(first_sweep: Vec<u64>, steps: u64) -> PlanCost {
        let max_gap = max_gap(&first_sweep, steps);
        PlanCost { advances: 0, takeshots: 0, repetition: 0, first_sweep, max_gap }
    }

    /// The cost of a pass of `steps` steps whose end is not known, with the way back. Takes time in
    /// proportion to the states that the pass stores; `None` if these are more than [`MOST_ACTIONS`].
    pub fn of_pass(steps: u64, slots: u64) -> Option<PlanCost> {
        if least_of_pass(steps, slots) > MOST_ACTIONS {
            return None;
        }
        let (mut online, mut shots) = (Online::new(slots), 0);
        while online.at() != Some(steps) {
            shots += u64::from(matches!(online.leap(steps), Action::Takeshot { .. }));
            if shots > MOST_ACTIONS {
                return None;
            }
        }
        let back = online.end(None)?;
        let first_sweep: Vec<u64> = online.stored().iter().map(|stored| stored.state).collect();
        let ends = first_sweep.iter().skip(1).chain([&steps]);
        let lengths = first_sweep.iter().zip(ends).map(|(from, to)| to - from);
        let advances = u128::from(steps) + back.advances_left();
        let (mut repetition, mut all_shots) = (0, u128::from(shots));
        for (length, slots) in lengths.zip((1..=slots).rev()) {
            repetition = repetition.max(1 + repetitions(length, slots).0);
            all_shots += takeshots(Rule::Optimal, length, slots, false) - 1;
        }
        let cost = PlanCost::with(first_sweep.clone(), steps);
        Some(PlanCost { advances, takeshots: all_shots, repetition, ..cost })
    }

    /// For a plan that [`Plan::check`] accepts. Takes time and memory in proportion to the states of
    /// the first sweep; `None` if these can be more than `MOST_STATES`.
    pub fn of(plan: &Plan) -> Option<PlanCost> {
        if plan.slots.min(plan.steps) > MOST_STATES {
            return None;
        }
        let pieces = pieces(plan);
        let mut cost = PlanCost {
            advances: 0,
            takeshots: 0,
            repetition: 0,
            first_sweep: Vec::with_capacity(pieces.len()),
            max_gap: 0,
        };
        let mut state = 0;
        for (index, (&length, slots)) in pieces.iter().zip((1..=plan.slots).rev()).enumerate() {
            let last = index + 1 == pieces.len();
            // The last state is not stored if the adjoint begins there.
            if index == 0 || !last || length > 1 {
                cost.first_sweep.push(state);
            }
            cost.advances += binomial::advances(length, slots);
            cost.advances += if last { 0 } else { u128::from(length) };
            let (r, _) = repetitions(length, slots);
            cost.repetition = cost.repetition.max(r + u64::from(!last));
            cost.takeshots += takeshots(plan.rule, length, slots, index > 0 && last);
            state += length;
        }
        cost.max_gap = max_gap(&cost.first_sweep, plan.steps);
        Some(cost)
    }
}

/// A lower bound on the number of states that a pass of `steps` steps stores, except with one slot.
fn least_of_pass(steps: u64, slots: u64) -> u64 {
    steps / (repetitions(steps + 1, slots).0 + 1)
}

/// The largest distance between stored states, or from the last to the end.
fn max_gap(states: &[u64], steps: u64) -> u64 {
    let ends = states.iter().skip(1).chain([&steps]);
    states.iter().zip(ends).map(|(from, to)| to - from).max().unwrap_or(steps)
}

/// The lengths into which the first sweep cuts the steps.
fn pieces(plan: &Plan) -> Vec<u64> {
    let (mut left, mut slots, mut pieces) = (plan.steps, plan.slots, Vec::new());
    while slots > 1 && left > 1 {
        let piece = plan.rule.first_piece(left, slots, plan.resilience);
        pieces.push(piece);
        left -= piece;
        slots -= 1;
    }
    pieces.push(left);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::feasible;
    use crate::schedule::Schedule;
    use std::collections::BTreeSet;

    /// How far a step of the first sweep is from the state before it at the most, step by step.
    fn farthest(states: &[u64], steps: u64) -> u64 {
        let last_before = |step: u64| states.iter().rev().find(|state| **state < step).unwrap();
        (1..=steps).map(|step| step - last_before(step)).max().unwrap()
    }

    /// Catches a plan that is refused because it has more slots than steps, and bounds that are off by one.
    #[test]
    fn figures_are_for_so_many_states() {
        let plan = |steps, slots| {
            let (resilience, rule) = (u64::MAX, Rule::Optimal);
            Plan { steps, slots, resilience, adjoint: None, rule }
        };
        let few = PlanCost::of(&plan(10, 1 << 48)).unwrap();
        assert_eq!((few.advances, few.takeshots, few.max_gap), (9, 9, 2));
        assert!(PlanCost::of(&plan(1 << 40, MOST_STATES)).is_some());
        assert_eq!(PlanCost::of(&plan(1 << 40, MOST_STATES + 1)), None);
    }

    /// A pass is refused in advance only if it stores too many states. Catches a lower bound that is too
    /// high.
    #[test]
    fn a_pass_stores_as_many_states_as_it_is_refused_for() {
        for slots in 2..=12 {
            let (mut online, mut shots) = (Online::new(slots), 0);
            for steps in 1..=2000 {
                while online.at() != Some(steps) {
                    let action = online.next_action();
                    shots += u64::from(matches!(action, Action::Takeshot { .. }));
                }
                let least = least_of_pass(steps, slots);
                assert!(shots >= least, "{steps} steps, {slots} slots: {shots}, {least}");
            }
        }
    }

    /// Each pass and its way back, action by action. Catches a state counted twice, and a piece computed with
    /// the slots of another.
    #[test]
    fn the_outlook_of_a_pass_is_what_comes() {
        for slots in 1..=9 {
            for steps in (1..=60).chain([200, 333]) {
                let cost = PlanCost::of_pass(steps, slots).unwrap();
                let mut online = Online::new(slots);
                let (mut advances, mut takeshots, mut states) = (0, 0, BTreeSet::new());
                while online.at() != Some(steps) {
                    takeshots +=
                        u128::from(matches!(online.next_action(), Action::Takeshot { .. }));
                }
                states.extend(online.stored().iter().map(|stored| stored.state));
                let mut times = vec![1; steps as usize];
                for action in online.end(None).unwrap() {
                    match action {
                        Action::Takeshot { .. } => takeshots += 1,
                        Action::Advance { from, to } => {
                            (from..to).for_each(|step| times[step as usize] += 1);
                        }
                        _ => {}
                    }
                }
                times.iter().for_each(|times| advances += u128::from(*times));
                let case = format!("{steps} steps, {slots} slots");
                assert_eq!((cost.advances, cost.takeshots), (advances, takeshots), "{case}");
                assert_eq!(Some(cost.repetition), times.into_iter().max(), "{case}");
                assert!(cost.first_sweep.iter().eq(states.iter()), "{case}");
                let begins: Vec<u64> = states.into_iter().collect();
                assert_eq!(cost.max_gap, farthest(&begins, steps), "{case}");
            }
        }
        // Also where few states are stored, or few given up.
        for (steps, slots) in [(1_000_000_000_000, 1), (2_000_000_000, 2), (100_000, 1_000_000)] {
            assert!(PlanCost::of_pass(steps, slots).is_some());
        }
        // Refused before the work is done.
        assert_eq!(PlanCost::of_pass(1_000_000_000_000, 100), None);
    }

    #[test]
    fn the_outlook_is_what_comes() {
        for rule in Rule::ALL.map(|(rule, _)| rule) {
            for slots in 1..=8 {
                for steps in 1..=70 {
                    for resilience in [1, 2, 4, 7, 12, 30, u64::MAX] {
                        if !feasible(steps, slots, resilience) {
                            continue;
                        }
                        let plan = Plan { steps, slots, resilience, adjoint: None, rule };
                        let cost = PlanCost::of(&plan).unwrap();
                        let (mut schedule, mut sweep) = (Schedule::new(plan), Vec::new());
                        let mut times = vec![0; steps as usize + 1];
                        while let Some(action) = Iterator::next(&mut schedule) {
                            match action {
                                Action::Takeshot { state, .. } if schedule.fine() == steps => {
                                    sweep.push(state);
                                }
                                Action::Advance { from, to } => {
                                    (from..to).for_each(|step| times[step as usize] += 1);
                                }
                                _ => {}
                            }
                        }
                        let done = schedule.done();
                        assert_eq!(cost.advances, done.advances, "{plan:?}");
                        assert_eq!(cost.first_sweep, sweep, "{plan:?}");
                        assert_eq!(cost.max_gap, farthest(&sweep, steps), "{plan:?}");
                        assert_eq!(cost.takeshots, u128::from(done.takeshots), "{plan:?}");
                        let most = times.into_iter().max().unwrap_or(0);
                        assert!(cost.repetition >= most, "{plan:?}, {most}");
                        if resilience == u64::MAX {
                            assert_eq!(cost.repetition, most, "{plan:?}");
                        }
                    }
                }
            }
        }
    }
}
