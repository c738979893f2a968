//! A plan as a tree of stretches, of which only those of interest are visited.
//!
//! The steps from a stored state to some end are reversed by advancing to a state between, storing it,
//! reversing what lies beyond, and then what lies before it. So each stretch consists of two, and its totals
//! have closed forms: a visitor enters only the stretches that may contain what it searches for.

use super::binomial;
use super::schedule::Plan;
use super::takeshots::takeshots;

/// Steps that are reversed one after the other, the last ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The state that all of them are computed from. It is stored, unless there is one step only.
    pub base: u64,
    /// The state to which the adjoint comes: `base`, or, if there is one slot, possibly a later one.
    pub low: u64,
    /// The state from which the adjoint begins.
    pub end: u64,
    /// Slots for it, including that of `base`.
    pub slots: u64,
}

/// Receives the parts of a plan in order.
pub trait Visitor {
    /// Whether to enter a stretch, whose base the application has. If not, the whole stretch counts as done.
    /// `top` is the stored state from which the adjoint goes on behind it, unless it ends there.
    fn enters(&mut self, stretch: &Stretch, top: Option<u64>) -> bool;
    /// Steps are computed without being recorded.
    fn advances(&mut self, from: u64, to: u64);
    /// A state is stored.
    fn stores(&mut self, state: u64);
    /// A step is recorded and reversed; `top` is as for [`Visitor::enters`].
    fn turns(&mut self, step: u64, top: Option<u64>);
}

impl Stretch {
    /// How many steps are reversed.
    pub fn steps(&self) -> u64 {
        self.end - self.low
    }

    /// How many steps are computed in it without being recorded. The stretch must lie between two states of
    /// the first sweep.
    pub fn advances(&self) -> u128 {
        let before = binomial::advances(self.low - self.base, self.slots);
        binomial::advances(self.end - self.base, self.slots) - before
    }

    /// How many states are stored in it, not counting its base.
    pub fn takeshots(&self, plan: &Plan) -> u128 {
        match self.slots {
            1 => 0,
            _ => takeshots(plan.rule, self.end - self.base, self.slots, false) - 1,
        }
    }

    /// Its two parts, first the one that is reversed first. With one slot no state lies between them, and the
    /// stretch is halved.
    fn parts(&self, plan: &Plan) -> (Stretch, Stretch) {
        let steps = self.end - self.base;
        if self.slots == 1 {
            let middle = self.low + (self.end - self.low) / 2;
            return (Stretch { low: middle, ..*self }, Stretch { end: middle, ..*self });
        }
        let middle = self.base + plan.rule.first_piece(steps, self.slots, plan.resilience);
        let upper = Stretch { base: middle, low: middle, slots: self.slots - 1, ..*self };
        (upper, Stretch { end: middle, ..*self })
    }
}

/// Visits a plan that [`Plan::check`] accepts, up to `most` stretches; returns whether it came to the end.
/// Stretches that contain the very last step are entered without asking.
pub fn go_through(plan: &Plan, visitor: &mut impl Visitor, most: u64) -> bool {
    visitor.stores(0);
    let mut open = vec![Stretch { base: 0, low: 0, end: plan.steps, slots: plan.slots }];
    let mut looked_at = 0;
    while let Some(stretch) = open.pop() {
        looked_at += 1;
        if looked_at > most {
            return false;
        }
        // If the upper part has one slot, the one below begins at the same state.
        let top = open.last().map(|below| below.base);
        if stretch.end < plan.steps && !visitor.enters(&stretch, top) {
            continue;
        }
        if stretch.steps() == 1 {
            if stretch.end - 1 > stretch.base {
                visitor.advances(stretch.base, stretch.end - 1);
            }
            visitor.turns(stretch.end, top);
            continue;
        }
        let (upper, lower) = stretch.parts(plan);
        if upper.base > stretch.base {
            visitor.advances(stretch.base, upper.base);
            if upper.steps() > 1 {
                visitor.stores(upper.base);
            }
        }
        open.extend([lower, upper]);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::feasible;
    use crate::rule::Rule;
    use crate::schedule::{Action, Schedule};

    /// Enters stretches longer than `whole` steps, and records what is done.
    struct Seen {
        plan: Plan,
        whole: u64,
        actions: Vec<Action>,
        advances: u128,
        takeshots: u128,
        fine: u64,
    }

    impl Visitor for Seen {
        fn enters(&mut self, stretch: &Stretch, top: Option<u64>) -> bool {
            assert_eq!(stretch.end, self.fine);
            assert_eq!(top.is_none(), stretch.low == 0);
            if stretch.steps() > self.whole {
                return true;
            }
            self.advances += stretch.advances();
            self.takeshots += stretch.takeshots(&self.plan);
            self.fine = stretch.low;
            false
        }

        fn advances(&mut self, from: u64, to: u64) {
            self.advances += u128::from(to - from);
            self.actions.push(Action::Advance { from, to });
        }

        fn stores(&mut self, state: u64) {
            self.takeshots += 1;
            self.actions.push(Action::Takeshot { state, slot: 0, read_again: true });
        }

        fn turns(&mut self, step: u64, top: Option<u64>) {
            self.fine = step - 1;
            // Checks what is on top of the stack then.
            assert!(top.is_none_or(|top| top < step - 1) && top.is_none() == (step == 1));
            self.actions.push(Action::Youturn { step, check: false });
        }
    }

    /// Catches a state that is stored although it is turned from at once, parts in the wrong order, and a
    /// stretch whose totals are not those of its actions.
    #[test]
    fn stretches_are_what_the_actions_do() {
        for (rule, _) in Rule::ALL {
            for slots in 1..=6 {
                for steps in (1..=30).chain([57, 90]) {
                    for resilience in [3, 8, 20, u64::MAX] {
                        if !feasible(steps, slots, resilience) {
                            continue;
                        }
                        let plan = Plan { steps, slots, resilience, adjoint: None, rule };
                        let mut schedule = Schedule::new(plan);
                        let all = (&mut schedule).filter_map(|action| match action {
                            Action::Advance { .. } => Some(action),
                            Action::Takeshot { state, .. } => {
                                Some(Action::Takeshot { state, slot: 0, read_again: true })
                            }
                            Action::Firsturn { step, .. } | Action::Youturn { step, .. } => {
                                Some(Action::Youturn { step, check: false })
                            }
                            _ => None,
                        });
                        let all: Vec<Action> = all.collect();
                        for whole in [0, 1, 2, 5, 13, 100] {
                            let (actions, fine) = (Vec::new(), steps);
                            let mut seen =
                                Seen { plan, whole, actions, advances: 0, takeshots: 0, fine };
                            assert!(go_through(&plan, &mut seen, u64::MAX));
                            assert_eq!(seen.fine, 0);
                            assert_eq!(
                                seen.advances,
                                schedule.done().advances,
                                "{plan:?}, {whole}"
                            );
                            let takeshots = u128::from(schedule.done().takeshots);
                            assert_eq!(seen.takeshots, takeshots, "{plan:?}, {whole}");
                            assert!(whole > 0 || seen.actions == all, "{plan:?}");
                        }
                    }
                }
            }
        }
    }

    /// Each stretch that is entered has two parts, down to one for each step. Catches a bound that is off by
    /// one, and a stretch that is visited twice.
    #[test]
    fn stretches_are_counted() {
        for slots in [1, 2, 5, 40] {
            for steps in [1, 2, 3, 17, 30] {
                let rule = Rule::Optimal;
                let plan = Plan { steps, slots, resilience: u64::MAX, adjoint: None, rule };
                let go = |most| {
                    let (actions, fine) = (Vec::new(), steps);
                    let mut seen =
                        Seen { plan, whole: 0, actions, advances: 0, takeshots: 0, fine };
                    go_through(&plan, &mut seen, most)
                };
                assert!(go(2 * steps - 1) && !go(2 * steps - 2), "{steps} steps, {slots} slots");
            }
        }
    }

    /// Catches a visit of all stretches.
    #[test]
    fn what_is_not_entered_takes_no_time() {
        let steps = 1_000_000_000_000;
        for slots in [1, 4, 100, 10_000] {
            let plan =
                Plan { steps, slots, resilience: u64::MAX, adjoint: None, rule: Rule::Optimal };
            let (actions, whole) = (Vec::new(), steps / 1000);
            let mut seen = Seen { plan, whole, actions, advances: 0, takeshots: 0, fine: steps };
            assert!(go_through(&plan, &mut seen, 1_000_000), "{slots}");
            assert_eq!(seen.advances, binomial::advances(steps, slots));
        }
    }
}
