//! The position of a schedule at any place of its reverse sweep, and the work left there, without going
//! through its actions.
//!
//! The steps from a stored state `b` to `f` are reversed with `c` slots by advancing to some `b + p`, storing
//! that state, reversing from there to `f` with the `c - 1` other slots, and then from `b` to `b + p` with
//! all `c` again. One of these two parts contains the place; the cost of the other, if it comes before the
//! place, has a closed form. Each part has one slot or one repetition less than the whole. So there are at
//! most as many parts on the way as slots and repetitions together, however many steps there are.
//!
//! The slots are a stack: a state stored on top of `i` others is in slot `i`. So the slots above those in use
//! hold what was stored there last, which is searched from the place backwards.

use super::binomial;
use super::schedule::{Plan, Schedule, Stored};

/// The position when the adjoint has just come to a given state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// The state stored last in each slot that was used, by slot, needed or not.
    pub states: Vec<Stored>,
    /// The state that the last stored adjoint belongs to. `None`: none was stored.
    pub adjoint: Option<u64>,
    /// Steps that were not recorded.
    pub advances: u128,
}

/// A stretch of steps that was reversed, from a stored state unless it has only one step.
#[derive(Clone, Copy, Debug)]
struct ReversedStretch {
    base: u64,
    end: u64,
    /// Slots for it, including that of its first state.
    slots: u64,
    /// The slot of its first state.
    slot: usize,
}

impl Remaining {
    /// The position when the adjoint of a plan has just come to state `fine`, which is less than its steps.
    /// [`Plan::check`] must accept the plan. Takes time and memory in proportion to the slots in use and,
    /// where these are few, to the repetitions.
    pub fn at(plan: &Plan, fine: u64) -> Remaining {
        let mut open = ReversedStretch { base: 0, end: plan.steps, slots: plan.slots, slot: 0 };
        let (mut last, mut behind, mut advances) = (vec![0], Vec::new(), 0);
        while open.end > fine {
            let length = open.end - open.base;
            if length == 1 || open.slots == 1 {
                // From the stored state to each step in turn.
                let rest = binomial::advances(fine - open.base, 1);
                advances += binomial::advances(length, 1) - rest;
                break;
            }
            let upper = open.upper(plan);
            advances += u128::from(upper.base - open.base);
            if fine > upper.base {
                last.push(upper.base);
                open = upper;
            } else {
                advances += reversal(plan, plan.resilience, upper.end - upper.base, upper.slots);
                put(&mut behind, upper);
                open.end = upper.base;
            }
        }
        stored_last(plan, behind, &mut last);
        let states = last.into_iter().zip(0..).map(|(state, slot)| Stored { state, slot });
        Remaining { states: states.collect(), adjoint: stored_adjoint(plan, fine), advances }
    }
}

impl ReversedStretch {
    /// The part that is reversed first; there are at least two steps and two slots.
    fn upper(&self, plan: &Plan) -> ReversedStretch {
        let length = self.end - self.base;
        let piece = plan.rule.first_piece(length, self.slots, plan.resilience);
        ReversedStretch {
            base: self.base + piece,
            slots: self.slots - 1,
            slot: self.slot + 1,
            ..*self
        }
    }
}

/// Adds a part behind those reversed before it. A part with only one slot overwrites the earlier one in its
/// slot: with two slots there are millions of such parts.
fn put(parts: &mut Vec<ReversedStretch>, part: ReversedStretch) {
    let is_stored = part.end - part.base > 1;
    match parts.last_mut() {
        Some(last) if part.slots == 1 && is_stored && last.slot == part.slot => *last = part,
        _ => parts.push(part),
    }
}

/// Adds the states stored last in the slots above those of `last`, which goes by slot. `parts` were reversed
/// one after the other, and nothing was stored there since.
fn stored_last(plan: &Plan, mut parts: Vec<ReversedStretch>, last: &mut Vec<u64>) {
    // The part reversed last is on top. It is split only if it may have used further slots.
    while let Some(part) = parts.pop() {
        let length = part.end - part.base;
        let most = usize::try_from(part.slots.min(length - 1)).unwrap_or(usize::MAX);
        if part.slot.saturating_add(most) <= last.len() {
            continue;
        }
        if last.len() == part.slot {
            last.push(part.base);
        }
        if length <= part.slots + 1 {
            // Each state had a slot except the last, which was turned from at once.
            last.extend((part.base + (last.len() - part.slot) as u64)..part.end - 1);
            continue;
        }
        let mut rest = part;
        while part.slots > 1 && rest.end - rest.base > 1 {
            let upper = rest.upper(plan);
            put(&mut parts, upper);
            rest.end = upper.base;
        }
    }
}

/// The state of the adjoint that was stored last, by the adjoint distance, when the adjoint has come to
/// `fine`.
fn stored_adjoint(plan: &Plan, fine: u64) -> Option<u64> {
    let distance = plan.adjoint?;
    // At state 0 it is not stored any more.
    let turned = plan.steps - fine.max(1);
    match turned / distance * distance {
        // After the first turn it is.
        0 => (turned > 0).then_some(plan.steps - 1),
        stored => Some(plan.steps - stored),
    }
}

/// The advances in which a schedule of a plan reverses `steps` steps with `slots` slots: the least number, or
/// what its rule takes to keep a distance in a first sweep.
fn reversal(plan: &Plan, distance: u64, mut steps: u64, mut slots: u64) -> u128 {
    let mut sum = 0;
    while steps > distance && slots > 1 {
        let piece = plan.rule.first_piece(steps, slots, distance);
        sum += u128::from(piece) + binomial::advances(piece, slots);
        (steps, slots) = (steps - piece, slots - 1);
    }
    sum + binomial::advances(steps, slots)
}

impl Schedule {
    /// How many steps are still to be computed without being recorded. Takes time in proportion to the stored
    /// states, and to those that the first sweep will store to keep a resilience distance.
    pub fn advances_left(&self) -> u128 {
        if self.fine == 0 {
            return 0;
        }
        // For each piece, the stored state and the state to which it is moved.
        let has_start = self.stored.first().is_some_and(|first| first.state == 0);
        let mut begins = if has_start { Vec::new() } else { vec![(0, 0)] };
        let mut moves = self.moves.iter().peekable();
        begins.extend(self.stored.iter().map(|stored| {
            let to = moves.next_if(|(state, _)| *state == stored.state).map(|(_, to)| *to);
            (stored.state, to.unwrap_or(stored.state))
        }));
        let top = self.stored.last().map_or(0, |top| top.state);
        if let Some(at) = self.at.filter(|at| has_start && *at > top) {
            begins.push((at, self.target.map_or(at, |target| target.max(at))));
        }
        let ends = begins.iter().skip(1).map(|(_, to)| *to).chain([self.fine]);
        let pieces = begins.iter().zip(ends).zip(0..).map(|((&(from, begin), end), before)| {
            let distance = if end == self.fine { self.plan.distance_at(end) } else { u64::MAX };
            let slots = self.plan.slots - before;
            u128::from(begin - from) + reversal(&self.plan, distance, end - begin, slots)
        });
        pieces.sum()
    }
}

#[cfg(test)]
#[path = "remaining_tests.rs"]
mod tests;
