//! Mixed schedules: a slot has either a state, from which the application can go on, or the record of one
//! step, which is what the adjoint of that step needs. Both are assumed to have the same size.
//!
//! With `c` free slots, what lies ahead of a state is cut into pieces, each of which takes a slot, and a last
//! step. A piece is a single step, whose record is stored; or it is two steps or more, whose first state is
//! stored, and which are advanced over and later cut in the same way, with the piece's slot among the free
//! ones. So a step is advanced over as many times as pieces with a state contain it: its *depth*. By depth `d`
//! at the most, `β(c, d + 1)` steps can be reversed, as many as with revolve and a repetition number of one
//! more.
//!
//! Turning a record with `k` slots behind it (its own among them) at depth `d - 1` into a piece moves its step
//! to depth `d`, as the last of the piece, and makes room for up to `k` more steps at depth `d`. So of `l =
//! β(c, d) + m` steps, `m` are at depth `d`, and the fewest advances have as few such pieces as possible: those
//! with the most slots. There are `C(c - k + d - 1, d - 1)` with `k` slots. That gives the number of advances,
//! the first piece and the number of stores in closed form (`Cut`).
//!
//! Source: Maddison, "Step-based checkpointing with high-level algorithmic differentiation", J. Comput. Sci. 82
//! (2024), states the problem and solves it by dynamic programming; the closed form is this library's.

use super::binomial::{beta, repetitions};
use super::cost::{PlanCost, MOST_STATES};
use super::schedule::{Action, Done};

/// What comes first ahead of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstPiece {
    /// One step, whose record is stored.
    Record,
    /// So many steps, 2 or more, behind a stored state.
    Steps(u64),
}

/// How `l` steps are cut with `slots` free slots if these are too few for a record of each step but the last.
#[derive(Clone, Copy, Debug)]
struct Cut {
    l: u64,
    slots: u64,
    /// The largest depth, at least 1.
    depth: u64,
    /// Pieces at the last depth have all their steps if they begin with more slots than `slots - full`.
    full: u64,
    /// Steps that are in pieces with `slots - full` slots at the last depth.
    rest: u128,
    /// The number of these pieces.
    pieces: u128,
}

impl Cut {
    /// `None`: records do. `slots` is at least 1 if there are two steps or more.
    fn of(l: u64, slots: u64) -> Option<Cut> {
        if l <= slots.saturating_add(1) {
            return None;
        }
        let depth = repetitions(l, slots).0 - 1;
        let steps = u128::from(l) - beta(slots, depth);
        let (mut full, mut more) = (0, slots + 1);
        while more - full > 1 {
            let middle = full + (more - full) / 2;
            match steps_in_first(middle, slots, depth) <= steps {
                true => full = middle,
                false => more = middle,
            }
        }
        let rest = steps - steps_in_first(full, slots, depth);
        let pieces = if rest == 0 { 0 } else { rest.div_ceil((slots - full).into()) };
        Some(Cut { l, slots, depth, full, rest, pieces })
    }

    /// Steps of the first piece. Of the pieces with `slots - full` slots those are chosen first that begin at a
    /// state that is stored already.
    fn first_piece(&self) -> u64 {
        let Cut { slots, depth, full, pieces, .. } = *self;
        let each = u128::from(slots - full);
        // How many of them there can be in the first piece, and which of these need no store.
        let (within, stored_within) = (ways(full, depth - 1), ways(full, depth.wrapping_sub(2)));
        let behind = self.without_store() - stored_within;
        let pieces_within = match pieces <= self.without_store() {
            true => pieces.min(stored_within),
            false => within.min(pieces - behind),
        };
        let rest = if pieces_within == pieces { self.rest } else { pieces_within * each };
        let whole = beta(slots, depth - 1) + steps_in_first_within(full, slots, depth);
        // It is less than the steps.
        (whole + rest) as u64
    }

    /// How many of the pieces with `slots - full` slots at the last depth can begin at a state that is stored
    /// already: the first pieces of others.
    fn without_store(&self) -> u128 {
        match self.depth {
            1 => 0,
            depth => ways(self.full, depth - 1),
        }
    }

    fn advances(&self) -> u128 {
        let Cut { l, slots, depth, full, pieces, .. } = *self;
        let fully = if full == 0 { 0 } else { beta(full - 1, depth) };
        u128::from(depth) * u128::from(l) + beta(slots, depth - 1) + fully + pieces
            - beta(slots + 1, depth)
    }

    /// Pieces that begin at a state that is stored already.
    fn pieces_without_store(&self) -> u128 {
        let Cut { slots, depth, full, pieces, .. } = *self;
        if depth == 1 {
            return 0;
        }
        let fully = if full == 0 { 0 } else { beta(full - 1, depth - 1) };
        beta(slots, depth - 2) - 1 + fully + pieces.min(self.without_store())
    }
}

/// Steps at depth `depth` in pieces with more than `slots - full` slots: the sum of `(slots - j) C(j + depth -
/// 1, depth - 1)` over `j < full`.
fn steps_in_first(full: u64, slots: u64, depth: u64) -> u128 {
    let Some(last) = full.checked_sub(1) else { return 0 };
    // C(last + depth, depth + 1).
    let beyond = if last == 0 { 0 } else { beta(last - 1, depth + 1) };
    u128::from(slots) * beta(last, depth) - u128::from(depth) * beyond
}

/// Those of them that are in the first piece of all: the same for one depth less.
fn steps_in_first_within(full: u64, slots: u64, depth: u64) -> u128 {
    match (full, depth) {
        (0, _) => 0,
        (_, 1) => slots.into(),
        _ => steps_in_first(full, slots, depth - 1),
    }
}

/// C(j + depth - 1, depth - 1): in how many ways `depth` numbers ascend from 0 to at most `j`, the last being
/// `j`; for depth 0, one way to `j = 0`; for no depth (-1) none.
fn ways(j: u64, depth: u64) -> u128 {
    match depth {
        u64::MAX => 0,
        0 => u128::from(j == 0),
        _ => beta(j, depth - 1),
    }
}

fn first_piece(l: u64, slots: u64) -> FirstPiece {
    Cut::of(l, slots).map_or(FirstPiece::Record, |cut| FirstPiece::Steps(cut.first_piece()))
}

/// What a slot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotContent {
    /// The state, or the one from which the recorded step begins.
    pub state: u64,
    pub slot: u64,
    pub is_record: bool,
}

/// A schedule in progress. Each action takes the logarithm of the slots.
#[derive(Clone, Debug)]
pub struct Mixed {
    pub(super) steps: u64,
    pub(super) slots: u64,
    /// What is needed, ascending by state.
    pub(super) kept: Vec<SlotContent>,
    /// Slots that were used and are free; the last is used next.
    pub(super) free: Vec<u64>,
    /// Slots from here on have never been used.
    pub(super) unused: u64,
    /// The state that the application has.
    pub(super) at: Option<u64>,
    /// The state that the adjoint has come to.
    pub(super) fine: u64,
    pub(super) done: Done,
}

impl Mixed {
    /// Begins at state 0, which the application has. Both numbers are 1 to [`super::binomial::MAX_STEPS`].
    pub fn new(steps: u64, slots: u64) -> Mixed {
        Mixed {
            steps,
            slots,
            kept: Vec::new(),
            free: Vec::new(),
            unused: 0,
            at: Some(0),
            fine: steps,
            done: Done::default(),
        }
    }

    /// What `steps` steps cost; `None` if more than 10,000,000 slots can be used in the first sweep, which are
    /// listed. Stores are those of states and of records.
    pub fn cost(steps: u64, slots: u64) -> Option<PlanCost> {
        if slots.min(steps) > MOST_STATES {
            return None;
        }
        let (mut first_sweep, mut state) = (Vec::new(), 0);
        while state + 1 < steps {
            first_sweep.push(state);
            state += match first_piece(steps - state, slots - first_sweep.len() as u64 + 1) {
                FirstPiece::Record => 1,
                FirstPiece::Steps(steps) => steps,
            };
        }
        let cost = PlanCost::with(first_sweep, steps);
        let stores = u128::from(steps - 1);
        Some(match Cut::of(steps, slots) {
            None => PlanCost { takeshots: stores, ..cost },
            Some(cut) => PlanCost {
                advances: cut.advances(),
                takeshots: stores - cut.pieces_without_store(),
                repetition: cut.depth,
                ..cost
            },
        })
    }

    /// Returns the next action.
    pub fn next_action(&mut self) -> Action {
        if self.fine == 0 {
            return Action::Terminate;
        }
        let Some(at) = self.at else { return self.read() };
        let left = self.fine - at;
        if left == 1 {
            return self.turn();
        }
        let is_stored = self.kept.last().is_some_and(|top| top.state == at && !top.is_record);
        match first_piece(left, self.free_slots() + u64::from(is_stored)) {
            FirstPiece::Steps(steps) if is_stored => {
                self.at = Some(at + steps);
                self.done.advances += u128::from(steps);
                Action::Advance { from: at, to: at + steps }
            }
            FirstPiece::Steps(_) => {
                let slot = self.store(at, false);
                // It is read when all behind the piece is reversed.
                Action::Takeshot { state: at, slot, read_again: true }
            }
            FirstPiece::Record => {
                self.at = Some(at + 1);
                let slot = self.store(at, true);
                Action::Record { step: at + 1, slot }
            }
        }
    }

    /// Whether the schedule, read from bytes with slots that are all in order, runs to its end from here: all
    /// steps before the adjoint lie behind something that is kept, and there is a slot for what comes next.
    pub(super) fn runs_to_its_end(&self) -> bool {
        let (mut end, mut is_top) = (self.at.unwrap_or(self.fine), true);
        if self.fine == 0 || end > self.fine || self.at == Some(self.fine) {
            return self.fine == 0 && self.at.is_none() && self.kept.is_empty();
        }
        let left = self.fine - end;
        for kept in self.kept.iter().rev() {
            let is_at = is_top && !kept.is_record && self.at == Some(kept.state);
            let advances = || first_piece(left, self.free_slots() + 1) != FirstPiece::Record;
            let fits = match kept.is_record {
                true => kept.state + 1 == end,
                false if is_at => left > 1 && advances(),
                false => kept.state < end,
            };
            if !fits {
                return false;
            }
            (end, is_top) = (kept.state, false);
        }
        let is_stored = self.kept.last().is_some_and(|top| Some(top.state) == self.at);
        let has_slot = self.at.is_none() || left == 1 || is_stored || self.free_slots() > 0;
        end == 0 && has_slot
    }

    fn free_slots(&self) -> u64 {
        self.slots - self.kept.len() as u64
    }

    fn store(&mut self, state: u64, is_record: bool) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.unused += 1;
            self.unused - 1
        });
        self.kept.push(SlotContent { state, slot, is_record });
        self.done.takeshots += 1;
        slot
    }

    /// Reads what was stored last.
    fn read(&mut self) -> Action {
        // Until the adjoint has come to state 0, there is something.
        let start = SlotContent { state: 0, slot: 0, is_record: false };
        let SlotContent { state, slot, is_record } = self.kept.last().copied().unwrap_or(start);
        let left = self.fine - state;
        // A record is read once, and a state until records of the steps behind it take its place.
        let read_again = !is_record
            && left > 1
            && first_piece(left, self.free_slots() + 1) != FirstPiece::Record;
        if !read_again {
            self.free.extend(self.kept.pop().map(|top| top.slot));
        }
        if is_record {
            let step = self.fine;
            self.fine -= 1;
            self.done.turns += 1;
            return Action::Reverse { step, slot };
        }
        self.at = Some(state);
        Action::Restore { state, slot, read_again }
    }

    fn turn(&mut self) -> Action {
        let step = self.fine;
        self.fine -= 1;
        self.at = None;
        self.done.turns += 1;
        match step == self.steps {
            true => Action::Firsturn { step, check: false },
            false => Action::Youturn { step, check: false },
        }
    }

    /// The state that the adjoint has come to; the number of steps if it has not begun.
    pub fn fine(&self) -> u64 {
        self.fine
    }

    /// What has been done; records count as states that were stored.
    pub fn done(&self) -> Done {
        self.done
    }
}

impl Iterator for Mixed {
    type Item = Action;

    /// All actions but the last, [`Action::Terminate`].
    fn next(&mut self) -> Option<Action> {
        Some(self.next_action()).filter(|action| *action != Action::Terminate)
    }
}

#[cfg(test)]
#[path = "mixed_tests.rs"]
mod tests;
