//! What a schedule has left at a place of its reverse sweep, and what it has still to do, without going through
//! its actions.
//!
//! The steps from a stored state `b` to `f` are reversed with `c` slots by advancing to some `b + p`, storing
//! that state, reversing from there to `f` with the `c - 1` other slots, and then from `b` to `b + p` with all
//! `c` again. Of these two parts one has the place in it, and the other, if it lies before the place, costs
//! what has a closed form. Each part has a slot or a repetition less than the whole: so the parts on the way
//! are at most as many as the slots and the repetitions together, however many steps there are.
//!
//! The slots are a stack: a state that is stored on top of `i` others lies in slot `i`. So what was left in the
//! slots above those that are needed is what was stored there last, which is looked for from the place back.

use super::binomial;
use super::schedule::{Plan, Schedule, Stored};

/// What is there when the adjoint has just come to a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// What was stored last in each slot that was used, by slot, needed or not.
    pub states: Vec<Stored>,
    /// The state that the last stored adjoint belongs to. `None`: none was stored.
    pub adjoint: Option<u64>,
    /// Steps that were not recorded.
    pub advances: u128,
}

/// A stretch of steps that was reversed, from a state that was stored unless there is one step only.
#[derive(Clone, Copy, Debug)]
struct Part {
    base: u64,
    end: u64,
    /// Slots for it, that of its first state included.
    slots: u64,
    /// The slot of its first state.
    slot: usize,
}

impl Remaining {
    /// When the adjoint of a plan has just come to state `fine`, which is less than its steps. The plan is one
    /// that [`Plan::check`] accepts. Takes time and memory in proportion to the slots that are used, and, where
    /// there are few of them, to the repetitions.
    pub fn at(plan: &Plan, fine: u64) -> Remaining {
        let mut open = Part { base: 0, end: plan.steps, slots: plan.slots, slot: 0 };
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

impl Part {
    /// The part of it that is reversed first; there are two steps and two slots at least.
    fn upper(&self, plan: &Plan) -> Part {
        let length = self.end - self.base;
        let piece = plan.rule.first_piece(length, self.slots, plan.resilience);
        Part { base: self.base + piece, slots: self.slots - 1, slot: self.slot + 1, ..*self }
    }
}

/// Puts a part behind those that were reversed before it. If it has one slot alone, nothing is left of what was
/// in that: with two slots there are millions of such parts.
fn put(parts: &mut Vec<Part>, part: Part) {
    let is_stored = part.end - part.base > 1;
    match parts.last_mut() {
        Some(last) if part.slots == 1 && is_stored && last.slot == part.slot => *last = part,
        _ => parts.push(part),
    }
}

/// Adds to the states that were stored last, by slot, those of the slots above. `parts` were reversed one
/// after the other, and nothing was stored there since.
fn stored_last(plan: &Plan, mut parts: Vec<Part>, last: &mut Vec<u64>) {
    // The one that was reversed last is on top. It is cut in turn only if it may have used further slots.
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
            // Each state had a slot, but the last, which was turned from at once.
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

/// The state of the adjoint that was stored last, by the adjoint distance, when it has come to `fine`.
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

/// The advances in which a schedule of a plan reverses so many steps with so many slots: at the least number, or
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
    /// How many steps it will still have computed without recording them. Takes time in proportion to the
    /// states that are stored, and to those that the first sweep will store to keep a resilience distance.
    pub fn advances_left(&self) -> u128 {
        if self.fine == 0 {
            return 0;
        }
        // From where to where each piece begins.
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
