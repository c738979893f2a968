//! Schedules for a forward pass whose number of steps is not known before its end.
//!
//! The pass goes on step by step; at each state it is decided whether that is stored, and in place of which
//! other one. The end may come after any step. So at any moment the stored states must be such that no step
//! is repeated more often than if the end had been known: with `c` slots and repetition number `t`, the piece
//! behind stored state number `i` has at most `β(c - i + 1, t - 1)` steps. So that `t` suffices for all of
//! the `β(c, t) - 1` steps for which it can, the states at which such pieces begin if all have their full
//! length are kept once they are stored, until `t` grows. Of the other states, the one is given up whose loss
//! adds the fewest advances if the pass ended now.
//!
//! When a step is known to have been the last, it has been swept over already. So a pass of `l` steps repeats
//! its steps as often as a schedule that knew of `l + 1` steps, and cannot take fewer advances. It takes
//! somewhat more, as the best states depend on where the end is: over all ends up to 3000 steps, 12.2 % at
//! most and 1 % on average with 2 slots, 1.1 % and 0.2 % with 10, none if no step need be repeated more than
//! twice. If the application announces the last step before it is made, that step is recorded at once: a pass
//! of `l + 1` steps then takes the advances of one of `l` steps, and is compared with a schedule of as many
//! steps.
//!
//! The bound on the pieces and the least repetition number are from Wang, Moin, Iaccarino, "Minimal
//! repetition dynamic checkpointing algorithm for unsteady adjoint calculation", SIAM J. Sci. Comput. 31
//! (2009). They choose the state to give up by levels, which takes up to 43 % more advances.

use super::binomial::{advances, beta, repetitions, MAX_STEPS};
use super::loss::Losses;
use super::rule::Rule;
use super::schedule::{Action, Plan, Schedule, Stored};

/// A pass that has not come to its end.
#[derive(Clone, Debug)]
pub struct Online {
    pub(super) slots: u64,
    /// Ascending, each in a slot of its own; state 0 comes first.
    pub(super) stored: Vec<Stored>,
    /// Slots without a state below one with a state, descending.
    free: Vec<u64>,
    /// Slots from here on are free.
    unused: u64,
    /// The state that the application has; `None`: it must restore one.
    pub(super) at: Option<u64>,
    /// Whether it has been decided to store that state or not.
    pub(super) decided: bool,
    /// The repetition number that the pieces keep.
    pub(super) repetition: u64,
    /// The stored states that are kept until that number grows, without state 0.
    pub(super) fixed: Vec<u64>,
    /// Known losses of stored states.
    pub(super) losses: Losses,
}

impl Online {
    /// Begins at state 0, which the application has. `slots` is at least 1.
    pub fn new(slots: u64) -> Online {
        Online {
            slots,
            stored: Vec::new(),
            free: Vec::new(),
            unused: 0,
            at: Some(0),
            decided: false,
            repetition: 1,
            fixed: Vec::new(),
            losses: Losses::default(),
        }
    }

    /// Continues after a crash from the last of the states that are left. Without any, the application has
    /// state 0 and starts over. `None`: others are left, but not state 0.
    pub fn resumed(slots: u64, states: &[Stored]) -> Option<Online> {
        let mut stored: Vec<Stored> = states.iter().copied().filter(|s| s.slot < slots).collect();
        stored.sort_unstable_by_key(|stored| (stored.state, stored.slot));
        stored.dedup_by_key(|stored| stored.state);
        let Some(last) = stored.last().copied() else { return Some(Online::new(slots)) };
        (stored[0].state == 0).then(|| Online::at_some_point(slots, stored, None, last.state))
    }

    /// The same if the application has state 0, as at its beginning. If that is not among the states that are
    /// left, it is stored first, in place of another one if all slots are in use.
    pub(crate) fn resumed_at_start(slots: u64, states: &[Stored]) -> Online {
        let start = Stored { state: 0, slot: u64::MAX };
        let mut all = states.to_vec();
        all.retain(|stored| stored.slot < slots);
        all.sort_unstable_by_key(|stored| (stored.state, stored.slot));
        all.dedup_by_key(|stored| stored.state);
        let Some(last) = all.last().copied() else { return Online::new(slots) };
        if all[0].state == 0 {
            return Online::at_some_point(slots, all, None, last.state);
        }
        if slots == 1 {
            return Online::new(slots);
        }
        all.insert(0, start);
        if all.len() as u64 > slots {
            all.remove(dispensable(&all, slots));
        }
        all.remove(0);
        Online { at: Some(0), ..Online::at_some_point(slots, all, None, last.state) }
    }

    /// A pass with `stored` states, of which the first is state 0. What is stored has been decided up to
    /// state `decided`; the application has state `at`, if any.
    pub(super) fn at_some_point(
        slots: u64,
        stored: Vec<Stored>,
        at: Option<u64>,
        decided: u64,
    ) -> Online {
        let repetition = repetitions(decided + 2, slots).0;
        let (fixed, last) = (Vec::new(), stored.last().map_or(0, |last| last.state));
        let is_decided = at.is_none_or(|at| at == decided);
        let used = used_slots(&stored);
        let unused = used.last().map_or(0, |slot| slot + 1);
        let free = (0..unused).rev().filter(|slot| used.binary_search(slot).is_err()).collect();
        let (decided, losses) = (is_decided, Losses::default());
        let mut online =
            Online { slots, stored, free, unused, at, decided, repetition, fixed, losses };
        // Also those whose states were lost.
        for place in 1..slots {
            let state = online.fixed_state(place);
            if state > u128::from(last) {
                break;
            }
            online.fixed.push(state as u64);
        }
        online
    }

    /// Returns the next action: store a state, advance one step, or, after a crash, restore a state. Each
    /// state may be read again: that is decided by the end.
    pub fn next_action(&mut self) -> Action {
        let last = self.stored.last().copied();
        if self.lacks_start() {
            let slot = self.lowest_free();
            self.stored.insert(0, Stored { state: 0, slot });
            self.at = None;
            return Action::Takeshot { state: 0, slot, read_again: true };
        }
        let Some(at) = self.at.or(last.is_none().then_some(0)) else {
            let Stored { state, slot } = last.unwrap_or(Stored { state: 0, slot: 0 });
            self.at = Some(state);
            return Action::Restore { state, slot, read_again: true };
        };
        if !self.decided {
            self.decided = true;
            if let Some(slot) = self.slot_for(at) {
                self.stored.push(Stored { state: at, slot });
                if self.is_next_fixed(at) {
                    self.fixed.push(at);
                }
                return Action::Takeshot { state: at, slot, read_again: true };
            }
        }
        self.at = Some(at + 1);
        self.decided = false;
        Action::Advance { from: at, to: at + 1 }
    }

    /// The state that the application has, if it has one.
    pub fn at(&self) -> Option<u64> {
        self.at
    }

    /// The states that are stored, ascending.
    pub fn stored(&self) -> &[Stored] {
        &self.stored
    }

    /// How many states can be stored.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Ends the pass: the state that the application has is the last one. Returns the way back, which stores
    /// the adjoint every `adjoint` steps; `None` if no step was made.
    ///
    /// All stored states stay where they are. Moving some before they are used, as after a crash, saves next
    /// to nothing, and repeats some steps once more than necessary.
    pub fn end(&self, adjoint: Option<u64>) -> Option<Schedule> {
        let steps = self.at.filter(|steps| *steps > 0)?;
        Some(self.way_back(steps, adjoint))
    }

    /// Ends the pass with the next step: returns the way back, which begins by recording that step from the
    /// state that the application has. `None` if the application does not have the state from which the pass
    /// continues (after a crash it is restored first), or if that is the last possible state.
    pub fn end_after_next(&self, adjoint: Option<u64>) -> Option<Schedule> {
        let at = self.at.filter(|at| *at < MAX_STEPS && !self.lacks_start())?;
        Some(Schedule { at: Some(at), ..self.way_back(at + 1, adjoint) })
    }

    fn way_back(&self, steps: u64, adjoint: Option<u64>) -> Schedule {
        let (slots, resilience, rule) = (self.slots, u64::MAX, Rule::Optimal);
        let plan = Plan { steps, slots, resilience, adjoint, rule };
        let free = self.free.iter().map(|&slot| Stored { state: u64::MAX, slot });
        let (mut free, unused): (Vec<Stored>, u64) = (free.collect(), self.unused);
        let mut stored = self.stored.clone();
        // The last state may have been stored before it was known to be the last.
        free.extend(stored.pop_if(|last| last.state == steps));
        Schedule::resumed(plan, stored, Vec::new(), free, unused, steps)
    }

    /// Whether states are stored, but not state 0, which the application has.
    fn lacks_start(&self) -> bool {
        self.stored.first().is_some_and(|first| first.state > 0)
    }

    /// Takes the lowest slot without a state.
    fn lowest_free(&mut self) -> u64 {
        self.free.pop().unwrap_or_else(|| {
            self.unused += 1;
            self.unused - 1
        })
    }

    /// The slot for `state`: a free one, or else that of a state that is given up. `None`: `state` is not
    /// stored.
    fn slot_for(&mut self, state: u64) -> Option<u64> {
        if (self.stored.len() as u64) < self.slots {
            return Some(self.lowest_free());
        }
        let given_up = self.given_up_for(state);
        (given_up < self.stored.len()).then(|| self.stored.remove(given_up).slot)
    }

    /// The index of the stored state that is given up for `state`; one beyond the last stands for `state`
    /// itself.
    fn given_up_for(&mut self, state: u64) -> usize {
        loop {
            if let Some(place) = self.given_up_within_repetition(state) {
                return place;
            }
            self.repetition += 1;
            self.fixed.clear();
        }
    }

    /// The state at which the piece behind stored state number `place` (from 0) begins if all before it have
    /// their full length.
    fn fixed_state(&self, place: u64) -> u128 {
        beta(self.slots, self.repetition) - beta(self.slots - place, self.repetition)
    }

    pub(super) fn is_next_fixed(&self, state: u64) -> bool {
        self.next_fixed() == Some(u128::from(state))
    }

    /// The next state that will be kept until the repetition number grows.
    pub(super) fn next_fixed(&self) -> Option<u128> {
        let place = self.fixed.len() as u64 + 1;
        (place < self.slots).then(|| self.fixed_state(place))
    }

    /// Whether a stored state is kept until the repetition number grows.
    pub(super) fn is_fixed(&self, state: u64) -> bool {
        self.fixed.binary_search(&state).is_ok()
    }
}

/// The slots in use, ascending.
fn used_slots(stored: &[Stored]) -> Vec<u64> {
    let mut used: Vec<u64> = stored.iter().map(|stored| stored.slot).collect();
    used.sort_unstable();
    used
}

/// The index of the one of `states`, neither the first nor the last, whose loss adds the fewest advances if
/// the pass ended at the last. There is one more than `slots`, which is at least 2.
fn dispensable(states: &[Stored], slots: u64) -> usize {
    let cost = |from: usize, to: usize, before: usize| {
        advances(states[to].state - states[from].state, slots - before as u64)
    };
    let inner = 1..states.len() - 1;
    // Behind the lost state there is one slot more.
    let mut behind: u128 = inner.clone().map(|place| cost(place, place + 1, place - 1)).sum();
    let (mut ahead, mut best) = (0, (u128::MAX, 1));
    for place in inner {
        behind -= cost(place, place + 1, place - 1);
        best = best.min((ahead + cost(place - 1, place + 1, place - 1) + behind, place));
        ahead += cost(place - 1, place, place - 1);
    }
    best.1
}

#[cfg(test)]
#[path = "online_tests.rs"]
mod tests;
