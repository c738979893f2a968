//! What a plan will cost, without going through its actions.
//!
//! Only the first sweep depends on the resilience distance and, in how often a step is repeated, on
//! the rule: its pieces are so short that each is reversed with the least number of advances, by any
//! rule. So the sum over the pieces of the first sweep is all there is to be known.

use super::binomial::{self, repetitions};
use super::disk::Disk;
use super::levels::TwoLevel;
use super::schedule::{Action, Plan};
use super::shots::takeshots;

/// What a plan will cost if nothing goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Steps that are computed without being recorded.
    pub advances: u128,
    /// States that are stored, state 0 among them.
    pub takeshots: u128,
    /// How often the step that is repeated most is computed without being recorded, at the most.
    pub repetition: u64,
    /// The states that are stored before the adjoint begins, ascending.
    pub first_sweep: Vec<u64>,
    /// The largest distance between two of them, or from the last to the end.
    pub max_gap: u64,
}

/// The most states of a first sweep that are looked at, for 160 MB.
pub const MOST_STATES: u64 = 10_000_000;

/// The most actions of a schedule with two levels that are gone through.
pub const MOST_ACTIONS: u64 = 20_000_000;

impl Outlook {
    /// The same with slots on disk beside those of the plan. Goes through the actions; `None` if there
    /// are more than [`MOST_ACTIONS`].
    pub fn of_levels(plan: &Plan, disk: Disk) -> Option<Outlook> {
        // Each step is reversed by an action of its own.
        if plan.steps > MOST_ACTIONS {
            return None;
        }
        let mut schedule = TwoLevel::new(*plan, disk);
        // How many more or fewer advances begin than end at each state.
        let mut more = vec![0_i64; plan.steps as usize + 1];
        let mut first_sweep = Vec::new();
        for action in (&mut schedule).take(MOST_ACTIONS as usize) {
            match action {
                Action::Advance { from, to } => {
                    more[from as usize] += 1;
                    more[to as usize] -= 1;
                }
                Action::Takeshot { state, .. } => first_sweep.push(state),
                _ => {}
            }
        }
        if schedule.fine() > 0 {
            return None;
        }
        // Later states come before the last of the first sweep.
        let ascending = first_sweep.windows(2).take_while(|pair| pair[0] < pair[1]).count();
        first_sweep.truncate(ascending + 1);
        let times = more.iter().scan(0, |times, more| {
            *times += more;
            Some(*times)
        });
        Some(Outlook {
            advances: schedule.done().advances,
            takeshots: schedule.done().takeshots.into(),
            repetition: times.max().unwrap_or(0) as u64,
            max_gap: max_gap(&first_sweep, plan.steps),
            first_sweep,
        })
    }

    /// For a plan that [`Plan::check`] accepts. Takes time and memory in proportion to the states of
    /// the first sweep; `None` if these can be more than [`MOST_STATES`].
    pub fn of(plan: &Plan) -> Option<Outlook> {
        if plan.slots.min(plan.steps) > MOST_STATES {
            return None;
        }
        let pieces = pieces(plan);
        let mut outlook = Outlook {
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
                outlook.first_sweep.push(state);
            }
            outlook.advances += binomial::advances(length, slots);
            outlook.advances += if last { 0 } else { u128::from(length) };
            let (r, _) = repetitions(length, slots);
            outlook.repetition = outlook.repetition.max(r + u64::from(!last));
            outlook.takeshots += takeshots(plan.rule, length, slots, index > 0 && last);
            state += length;
        }
        outlook.max_gap = max_gap(&outlook.first_sweep, plan.steps);
        Some(outlook)
    }
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
    use crate::adjoint::bound::feasible;
    use crate::adjoint::rule::Rule;
    use crate::adjoint::schedule::{Action, Schedule};

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
                        let outlook = Outlook::of(&plan).unwrap();
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
                        assert_eq!(outlook.advances, done.advances, "{plan:?}");
                        assert_eq!(outlook.first_sweep, sweep, "{plan:?}");
                        assert_eq!(outlook.takeshots, u128::from(done.takeshots), "{plan:?}");
                        let most = times.into_iter().max().unwrap_or(0);
                        assert!(outlook.repetition >= most, "{plan:?}, {most}");
                        if resilience == u64::MAX {
                            assert_eq!(outlook.repetition, most, "{plan:?}");
                        }
                    }
                }
            }
        }
    }
}
