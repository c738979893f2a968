//! The schedule: which action comes next.

use super::adjoint_interval::{AdjointInterval, Threshold};
use super::rule::Rule;
use super::{binomial, bound};

/// What the application does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Compute the states from `from` to `to`, without recording.
    Advance {
        /// The state that the application has.
        from: u64,
        /// The state that the application has afterwards.
        to: u64,
    },
    /// Store the state that the application has.
    Takeshot {
        /// Its number.
        state: u64,
        /// Where.
        slot: u64,
        /// Whether it is read, or, before the end of a pass is known, may be.
        read_again: bool,
    },
    /// Read a stored state.
    Restore {
        /// Its number.
        state: u64,
        /// From where.
        slot: u64,
        /// Whether it is read from there once more, or, before the end of a pass is known, may be.
        read_again: bool,
    },
    /// Compute step `step` from state `step - 1`, which the application has, recording it, and store the
    /// record: what the adjoint of the step needs. Only in a [`super::mixed::Mixed`] schedule.
    Record {
        /// The step; the application has the state of this number afterwards.
        step: u64,
        /// Where the record is stored. It is read once.
        slot: u64,
    },
    /// Read a record, and take the adjoint's step to state `step - 1` without computing any forward step.
    Reverse {
        /// The step.
        step: u64,
        /// From where the record is read, for the only time.
        slot: u64,
    },
    /// Compute step `step` from state `step - 1`, which the application has, recording it, begin the
    /// adjoint and take its first step, with which it comes to state `step - 1`.
    Firsturn {
        /// The last step of all.
        step: u64,
        /// Whether to store the adjoint afterwards.
        check: bool,
    },
    /// Compute step `step` from state `step - 1`, which the application has, recording it, and take
    /// the adjoint's step to state `step - 1`.
    Youturn {
        /// The step.
        step: u64,
        /// Whether to store the adjoint afterwards.
        check: bool,
    },
    /// The adjoint has come to state 0.
    Terminate,
}

/// The input of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Steps of the sweep, at least 1.
    pub steps: u64,
    /// Slots for states, at least 1.
    pub slots: u64,
    /// The resilience distance: how many steps stored states may be apart in the first sweep. `u64::MAX` for
    /// any.
    pub resilience: u64,
    /// The adjoint distance: after how many of its steps the adjoint is stored. `None` for never.
    pub adjoint: Option<u64>,
    /// Where states are stored.
    pub rule: Rule,
}

/// Why there is no schedule for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The number of steps is not 1 to [`binomial::MAX_STEPS`].
    Steps(u64),
    /// The number of slots is not 1 to [`binomial::MAX_STEPS`].
    Slots(u64),
    /// The resilience distance is 0.
    Resilience,
    /// The slots cannot keep the resilience distance; this is the least number that can.
    TooFewSlots(u64),
    /// The adjoint distance is 0.
    Adjoint,
}

impl Plan {
    /// How many steps apart states may be stored when the adjoint is at `fine`: once it has begun, any
    /// number.
    pub(super) fn distance_at(&self, fine: u64) -> u64 {
        if fine < self.steps {
            u64::MAX
        } else {
            self.resilience
        }
    }

    /// Checks that there is a schedule for this plan.
    pub fn check(&self) -> Result<(), Unfit> {
        let fits = 1..=binomial::MAX_STEPS;
        if !fits.contains(&self.steps) {
            return Err(Unfit::Steps(self.steps));
        }
        if !fits.contains(&self.slots) {
            return Err(Unfit::Slots(self.slots));
        }
        if self.resilience == 0 {
            return Err(Unfit::Resilience);
        }
        if !bound::feasible(self.steps, self.slots, self.resilience) {
            return Err(Unfit::TooFewSlots(self.steps.div_ceil(self.resilience)));
        }
        if self.adjoint == Some(0) {
            return Err(Unfit::Adjoint);
        }
        Ok(())
    }
}

/// A state in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The state's number.
    pub state: u64,
    /// The slot's.
    pub slot: u64,
}

/// A schedule in progress.
///
/// The stored states that are still needed lie in ascending order, each in its own slot; the adjoint of what
/// lies beyond the last is computed first. Each action takes constant time, except those that choose the next
/// state to store, which take the logarithm of the number of steps.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub(super) plan: Plan,
    /// States that are stored and needed, ascending.
    pub(super) stored: Vec<Stored>,
    /// Slots that were used and are free again; the last is used next. They may still hold their last states.
    pub(super) free: Vec<Stored>,
    /// Slots from here on have never been used.
    pub(super) unused: u64,
    /// The state that the application has.
    pub(super) at: Option<u64>,
    /// States that are moved, ascending: stored again farther on, at the second state, before anything is
    /// stored behind them.
    pub(super) moves: Vec<(u64, u64)>,
    /// The state to go to before anything is stored.
    pub(super) target: Option<u64>,
    /// The state that the adjoint has come to.
    pub(super) fine: u64,
    /// When the adjoint is stored.
    pub(super) interval: AdjointInterval,
    /// What has been done.
    pub(super) done: Done,
}

/// What the application has done for a schedule so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Steps that were not recorded.
    pub advances: u128,
    /// States that were stored.
    pub takeshots: u64,
    /// Steps that were recorded and reversed.
    pub turns: u64,
    /// Adjoints that were stored.
    pub adjoints: u64,
}

impl Schedule {
    /// Begins at state 0, which the application has. The plan is one that [`Plan::check`] accepts.
    pub fn new(plan: Plan) -> Schedule {
        Schedule {
            plan,
            stored: Vec::new(),
            free: Vec::new(),
            unused: 0,
            at: Some(0),
            moves: Vec::new(),
            target: None,
            fine: plan.steps,
            interval: AdjointInterval::default(),
            done: Done::default(),
        }
    }

    /// Continues with the `kept` states in their slots and with the slots of `free`, although their states
    /// may still be there; slots from `unused` on have none. The adjoint is at `fine`. If state 0 is not
    /// among those kept, the application has it.
    pub(super) fn resumed(
        plan: Plan,
        kept: Vec<Stored>,
        moves: Vec<(u64, u64)>,
        free: Vec<Stored>,
        unused: u64,
        fine: u64,
    ) -> Schedule {
        let at = (kept.first().is_none_or(|first| first.state > 0)).then_some(0);
        let (interval, done) = (AdjointInterval::default(), Done::default());
        Schedule { plan, stored: kept, free, unused, at, moves, target: None, fine, interval, done }
    }

    /// Stores the adjoint by the work that a crash would lose, instead of by its distance.
    pub(crate) fn store_adjoint_by_work(&mut self, threshold: Threshold) {
        self.interval.threshold = Some(threshold);
    }

    /// Returns the next action.
    pub fn next_action(&mut self) -> Action {
        if self.fine == 0 {
            return Action::Terminate;
        }
        if self.stored.first().is_none_or(|first| first.state > 0) {
            // A single step is turned from at once, unless another state is worked on.
            let read_again = self.fine > 1 || !self.stored.is_empty();
            let action = self.takeshot(0, read_again);
            // State 0 comes first; if there are others, one of them is restored.
            self.stored.rotate_right(1);
            self.at = self.at.filter(|_| self.stored.len() == 1);
            return action;
        }
        let top = self.stored[self.stored.len() - 1];
        let Some(at) = self.at else { return self.restore(top) };
        if let Some(to) = self.target.take().filter(|&to| to > at) {
            return self.advance(at, to);
        }
        if at + 1 == self.fine {
            return self.turn();
        }
        let slots = self.plan.slots - self.stored.len() as u64 + 1;
        if slots == 1 {
            return self.advance(at, self.fine - 1);
        }
        if at > top.state {
            // It is not turned from, so it is restored for the step behind it.
            return self.takeshot(at, true);
        }
        let distance = self.plan.distance_at(self.fine);
        let piece = self.plan.rule.first_piece(self.fine - at, slots, distance);
        self.advance(at, at + piece)
    }

    fn restore(&mut self, top: Stored) -> Action {
        self.at = Some(top.state);
        // What is not turned from at once is restored again for the step behind it.
        let mut read_again = top.state + 1 < self.fine;
        if let Some(&(_, to)) = self.moves.last().filter(|(state, _)| *state == top.state) {
            self.moves.pop();
            self.target = Some(to);
            self.free.extend(self.stored.pop());
            read_again = false;
        }
        Action::Restore { state: top.state, slot: top.slot, read_again }
    }

    fn advance(&mut self, from: u64, to: u64) -> Action {
        self.at = Some(to);
        self.done.advances += u128::from(to - from);
        Action::Advance { from, to }
    }

    fn takeshot(&mut self, state: u64, read_again: bool) -> Action {
        let slot = match self.free.pop() {
            Some(free) => free.slot,
            None => {
                self.unused += 1;
                self.unused - 1
            }
        };
        self.stored.push(Stored { state, slot });
        self.done.takeshots += 1;
        Action::Takeshot { state, slot, read_again }
    }

    fn turn(&mut self) -> Action {
        let step = self.fine;
        self.fine -= 1;
        self.at = None;
        self.done.turns += 1;
        if self.stored.last().is_some_and(|top| top.state == self.fine) {
            self.free.extend(self.stored.pop());
        }
        let top = self.stored.last().map_or(0, |top| top.state);
        let ahead = self.fine.saturating_sub(top + 1);
        let place = (self.fine, self.plan.steps);
        let check = self.interval.is_due(self.plan.adjoint, place, self.done, ahead);
        self.done.adjoints += u64::from(check);
        if step == self.plan.steps {
            Action::Firsturn { step, check }
        } else {
            Action::Youturn { step, check }
        }
    }

    /// The plan of this schedule.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The state that the adjoint has come to; the number of steps if it has not begun.
    pub fn fine(&self) -> u64 {
        self.fine
    }

    /// The states that are stored and will be restored, ascending.
    pub fn stored(&self) -> &[Stored] {
        &self.stored
    }

    /// States that are not needed any more and not overwritten yet.
    pub fn stale(&self) -> &[Stored] {
        &self.free
    }

    /// What has been done.
    pub fn done(&self) -> Done {
        self.done
    }
}

impl Iterator for Schedule {
    type Item = Action;

    /// All actions but the last, [`Action::Terminate`].
    fn next(&mut self) -> Option<Action> {
        Some(self.next_action()).filter(|action| *action != Action::Terminate)
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
