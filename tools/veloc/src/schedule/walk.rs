//! Going through a schedule action by action.

use std::collections::BTreeMap;

use schedule::levels::TwoLevel;
use schedule::mixed::Mixed;
use schedule::online::Online;
use schedule::remaining::Remaining;
use schedule::schedule::{Action, Schedule, Stored};

use super::plan::{ScheduleProblem, Sweep};

/// The longest schedule that is walked through, in forward steps. There are no more actions than
/// steps, so this takes some seconds.
pub(super) const LONGEST: u128 = 200_000_000;

/// Whether a schedule with so many advances is short enough to be walked through.
pub(super) fn is_short(problem: &ScheduleProblem, advances: u128) -> bool {
    advances + u128::from(problem.plan.steps) <= LONGEST
}

/// Whether the state at a crash can be found: the schedule is short enough, or its state is known
/// without going through its actions. That is so if all slots are alike and the end is known, and
/// in a forward pass whose end is not known.
pub(super) fn is_known(problem: &ScheduleProblem, sweep: Sweep, advances: u128) -> bool {
    let is_pass = problem.online && sweep == Sweep::Forward;
    problem.is_plain() || is_pass || is_short(problem, advances)
}

/// A schedule of any kind.
#[derive(Clone, Debug)]
pub(super) enum AnySchedule {
    /// A schedule with a known end, whose slots are all alike.
    Known(Schedule),
    /// A schedule with slots in memory and on disk.
    Levels(TwoLevel),
    /// A schedule whose slots have states or records.
    Mixed(Mixed),
    /// A schedule whose end, this state, is not known before the pass comes to it; and the
    /// adjoint's interval.
    Open(Online, u64, Option<u64>),
}

impl AnySchedule {
    /// The schedule of a problem, from the beginning.
    pub(super) fn new(problem: &ScheduleProblem) -> AnySchedule {
        let plan = problem.plan;
        match problem.disk {
            _ if problem.mixed => AnySchedule::Mixed(Mixed::new(plan.steps, plan.slots)),
            Some(disk) => AnySchedule::Levels(TwoLevel::new(plan, disk)),
            None if problem.online => {
                AnySchedule::Open(Online::new(plan.slots), plan.steps, plan.adjoint)
            }
            None => AnySchedule::Known(Schedule::new(plan)),
        }
    }

    /// The next action. In a pass with an unknown end, all steps up to the next stored state are
    /// one action.
    pub(super) fn next_action(&mut self) -> Action {
        if let AnySchedule::Open(online, end, adjoint) = self {
            if online.at() == Some(*end) {
                if let Some(schedule) = online.end(*adjoint) {
                    *self = AnySchedule::Known(schedule);
                }
            }
        }
        match self {
            AnySchedule::Known(schedule) => schedule.next_action(),
            AnySchedule::Levels(schedule) => schedule.next_action(),
            AnySchedule::Mixed(schedule) => schedule.next_action(),
            AnySchedule::Open(online, end, _) => online.leap(*end),
        }
    }
}

/// Goes along a schedule, and keeps what its actions leave.
#[derive(Clone, Debug)]
pub(super) struct Walker {
    way: AnySchedule,
    slots: BTreeMap<u64, u64>,
    /// The state of the adjoint that was stored last.
    pub adjoint: Option<u64>,
    /// The state that the adjoint has come to.
    pub fine: u64,
    /// Steps that were not recorded.
    pub advances: u128,
}

impl Walker {
    /// A walker at the beginning of a schedule whose adjoint is at `fine`.
    pub(super) fn new(way: AnySchedule, fine: u64) -> Walker {
        let slots = BTreeMap::new();
        Walker { way, slots, adjoint: None, fine, advances: 0 }
    }

    /// Does the next action.
    pub(super) fn step(&mut self) -> Action {
        let action = self.way.next_action();
        match action {
            Action::Advance { from, to } => self.advances += u128::from(to - from),
            Action::Takeshot { state, slot, .. } => {
                self.slots.insert(slot, state);
            }
            Action::Record { step, slot } => {
                self.slots.insert(slot, step - 1);
            }
            Action::Reverse { step, .. } => self.fine = step - 1,
            Action::Firsturn { step, check } | Action::Youturn { step, check } => {
                self.fine = step - 1;
                self.adjoint = if check { Some(self.fine) } else { self.adjoint };
            }
            Action::Restore { .. } | Action::Terminate => {}
        }
        action
    }

    /// Goes on until `state` is computed for the first time, before it is stored.
    pub(super) fn until_the_forward_sweep_is_at(&mut self, state: u64) {
        loop {
            match self.step() {
                Action::Advance { to, .. } if to >= state => {
                    self.advances -= u128::from(to - state);
                    return;
                }
                Action::Firsturn { .. } | Action::Terminate => return,
                _ => {}
            }
        }
    }

    /// Goes from the beginning until the adjoint has come to `state`, and no further: at once, if
    /// all slots are alike and the end is known.
    pub(super) fn until_the_adjoint_is_at(&mut self, state: u64) {
        if let AnySchedule::Known(schedule) = &self.way {
            let left = Remaining::at(schedule.plan(), state);
            self.slots = left.states.iter().map(|stored| (stored.slot, stored.state)).collect();
            (self.adjoint, self.fine, self.advances) = (left.adjoint, state, left.advances);
            return;
        }
        while self.fine > state {
            self.step();
        }
    }

    /// Counts the steps to the end: at once from where all slots are alike and the end is known.
    pub(super) fn go_to_the_end(&mut self) {
        loop {
            if let AnySchedule::Known(schedule) = &self.way {
                self.advances += schedule.advances_left();
                return;
            }
            if self.step() == Action::Terminate {
                return;
            }
        }
    }

    /// The state stored last in each slot.
    pub(super) fn slots(&self) -> Vec<Stored> {
        self.slots.iter().map(|(&slot, &state)| Stored { state, slot }).collect()
    }
}
