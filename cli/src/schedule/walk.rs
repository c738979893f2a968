//! Going through a schedule action by action.

use std::collections::BTreeMap;

use veloc_client::adjoint::outlook::Outlook;
use veloc_client::adjoint::schedule::{Action, Done, Plan, Schedule, Stored};

/// The longest way that is gone, in forward steps: some seconds, as there are no more actions than
/// that.
pub const LONGEST: u128 = 200_000_000;

/// Whether the way to the end is short enough to be gone.
pub fn is_short(plan: &Plan, outlook: &Outlook) -> bool {
    outlook.advances + u128::from(plan.steps) <= LONGEST
}

/// What is done from here to the end.
pub fn to_the_end(mut schedule: Schedule) -> Done {
    while schedule.next_action() != Action::Terminate {}
    schedule.done()
}

/// What there is at some moment.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// What was stored in each slot last.
    pub slots: Vec<Stored>,
    /// The state of the adjoint that was stored last.
    pub adjoint: Option<u64>,
    /// Steps that were not recorded.
    pub advances: u128,
}

/// Goes on from the beginning until the adjoint has come to `state`.
pub fn until_the_adjoint_is_at(plan: &Plan, state: u64) -> Left {
    let mut schedule = Schedule::new(*plan);
    let mut walker = Walker::default();
    while schedule.fine() > state {
        walker.step(&mut schedule);
    }
    Left { slots: walker.slots(), adjoint: walker.adjoint, advances: schedule.done().advances }
}

/// Keeps what actions leave.
#[derive(Clone, Debug, Default)]
pub struct Walker {
    slots: BTreeMap<u64, u64>,
    adjoint: Option<u64>,
}

impl Walker {
    /// Does the next action.
    pub fn step(&mut self, schedule: &mut Schedule) -> Action {
        let action = schedule.next_action();
        match action {
            Action::Takeshot { state, slot } => {
                self.slots.insert(slot, state);
            }
            Action::Firsturn { step, check: true } | Action::Youturn { step, check: true } => {
                self.adjoint = Some(step - 1);
            }
            _ => {}
        }
        action
    }

    /// What is in the slots.
    pub fn slots(&self) -> Vec<Stored> {
        self.slots.iter().map(|(&slot, &state)| Stored { state, slot }).collect()
    }
}
