//! Continuing after a crash from the states and the adjoint that are left, with the least number of advances.
//!
//! Whatever states have survived, in whatever order they were stored, some of them are kept, and the adjoint
//! comes to them from the right. A kept state either stays where it is until the adjoint has passed it, or is
//! moved first: restored, advanced, and stored again farther on, which costs the way but leaves fewer steps
//! beyond it. So with `m` states kept the remaining computation costs
//!
//! ```text
//!     sum over the kept states p_i, stored again at x_i >= p_i, of
//!         (x_i - p_i) + what it costs to reverse from x_i to x_{i+1} with c - i + 1 slots
//! ```
//!
//! where the slots are those that are free once the adjoint is there. Dynamic programming over the survivors
//! finds the least cost: for each number of kept states and each choice of them, the cost of everything
//! before some `x` is a convex function of `x` (`convex`), and choices that are nowhere better than another
//! are dropped. So are those that could not become better than keeping all states, even if the states behind
//! them were at the best places: usually few are left. Where many are, they are about equally good; the
//! search ends after a number of evaluations that grows with the survivors up to a limit, and takes the best
//! found, which is never worse than keeping all. Of very many survivors some of the first are kept, each
//! where it is.
//!
//! The resilience distance binds only the rest of the first sweep: the way on from the last kept state, if
//! the adjoint has not begun. In later computations, a larger distance between stored states makes a crash no
//! more expensive. States stored by that sweep stay where they are, as without a crash.

use std::rc::Rc;

use super::convex::{Convex, Cost};
use super::schedule::{Plan, Schedule, Stored};

/// How many choices are evaluated per state that is left, in addition to [`FEW`]. Up to some thousands of
/// states no search needs that many.
const EVALUATIONS: usize = 1024;
/// At least this many are evaluated; under a resilience distance, no more.
const FEW: usize = 16_384;
/// The limit for any number of states, which takes some seconds.
const MOST_EVALUATIONS: usize = 1 << 20;
/// The limit of a short search, both of evaluations and of states.
const SHORT_SEARCH: usize = 512;
const FEW_STATES: usize = 256;
/// With more states than this, the search only chooses how many of the first are kept, which takes no memory
/// per state.
const MANY: usize = 50_000;

/// What is left after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivors {
    /// Stored states, in any order; of each slot the state that was stored last, needed or not.
    pub states: Vec<Stored>,
    /// The state that the last stored adjoint belongs to. `None`: none was stored.
    pub adjoint: Option<u64>,
    /// Whether the application has state 0, as at its beginning.
    pub at_start: bool,
}

/// Why a computation cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// State 0 is neither in a slot nor with the application.
    Start,
}

/// Continues what is left of a computation with `plan`.
pub fn resume(plan: Plan, survivors: &Survivors) -> Result<Schedule, Lost> {
    go_on(plan, survivors, best_chain)
}

/// The same by a short search, for estimates of the cost of many crashes: it may take somewhat more advances.
pub(super) fn resume_soon(plan: Plan, survivors: &Survivors) -> Result<Schedule, Lost> {
    go_on(plan, survivors, |plan, states, fine| match states.len() > FEW_STATES {
        true => (best_of_the_first(plan, states, fine), 0),
        false => search(plan, states, fine, SHORT_SEARCH),
    })
}

/// Chooses the states to keep, as [`best_chain`].
type Choosing = fn(&Plan, &[Stored], u64) -> (Vec<(usize, u64)>, usize);

fn go_on(plan: Plan, survivors: &Survivors, choose: Choosing) -> Result<Schedule, Lost> {
    let fine = survivors.adjoint.unwrap_or(plan.steps).min(plan.steps);
    let (mut useful, mut free, used) = sort(survivors, &plan, fine);
    if fine == 0 {
        return Ok(Schedule::resumed(plan, useful, Vec::new(), free, used, 0));
    }
    let stores_start = useful.first().is_none_or(|first| first.state > 0);
    if stores_start {
        if !survivors.at_start {
            return Err(Lost::Start);
        }
        useful.insert(0, Stored { state: 0, slot: u64::MAX });
    }
    let (kept, _) = choose(&plan, &useful, fine);
    let mut moves = Vec::new();
    let mut chain = Vec::with_capacity(kept.len());
    for &(place, to) in &kept {
        chain.push(useful[place]);
        if to > useful[place].state {
            moves.push((useful[place].state, to));
        }
    }
    let unkept = useful
        .iter()
        .enumerate()
        .filter(|(place, _)| kept.binary_search_by_key(place, |k| k.0).is_err());
    free.extend(unkept.map(|(_, stored)| *stored));
    // The lowest is used first.
    free.sort_unstable_by_key(|stored| std::cmp::Reverse(stored.slot));
    if stores_start {
        chain.remove(0);
    }
    Ok(Schedule::resumed(plan, chain, moves, free, used, fine))
}

/// The states that can be of use, ascending and without duplicates; the other slots that were used or lie
/// below one that was; and how many slots these are together.
pub(super) fn sort(
    survivors: &Survivors,
    plan: &Plan,
    fine: u64,
) -> (Vec<Stored>, Vec<Stored>, u64) {
    let mut states = survivors.states.clone();
    states.retain(|stored| stored.slot < plan.slots);
    states.sort_unstable_by_key(|stored| stored.slot);
    let mut free = Vec::new();
    let mut used = 0;
    for stored in &states {
        free.extend((used..stored.slot).map(|slot| Stored { state: u64::MAX, slot }));
        used = stored.slot + 1;
    }
    states.sort_unstable_by_key(|stored| (stored.state, stored.slot));
    let mut useful = Vec::<Stored>::new();
    for stored in states {
        let twice = useful.last().is_some_and(|last| last.state == stored.state);
        if twice || stored.state >= fine { &mut free } else { &mut useful }.push(stored);
    }
    (useful, free, used)
}

/// A choice of states to keep, as indices among the survivors, with the cost of everything before some state.
#[derive(Clone, Debug)]
struct Choice {
    cost: Convex,
    last: usize,
    before: Option<Rc<Choice>>,
}

/// Iterative: recursive drops of a long chain would overflow the stack.
impl Drop for Choice {
    fn drop(&mut self) {
        let mut next = self.before.take();
        while let Some(mut choice) = next.and_then(Rc::into_inner) {
            next = choice.before.take();
        }
    }
}

/// The states to keep, as indices in `states`, ascending, each with the state to which it is moved; and how
/// many choices were evaluated.
pub(super) fn best_chain(plan: &Plan, states: &[Stored], fine: u64) -> (Vec<(usize, u64)>, usize) {
    let most = match plan.distance_at(fine) {
        u64::MAX => MOST_EVALUATIONS.min(FEW + EVALUATIONS * states.len()),
        // With states closer together than is best, moving them is about as good as keeping them.
        _ => FEW,
    };
    match states.len() > MANY {
        true => (best_of_the_first(plan, states, fine), 0),
        false => search(plan, states, fine, most),
    }
}

/// The same with at most `most` evaluations.
fn search(plan: &Plan, states: &[Stored], fine: u64, most: usize) -> (Vec<(usize, u64)>, usize) {
    let (slots, d) = (plan.slots, plan.distance_at(fine));
    let longest = states.len().min(usize::try_from(slots).unwrap_or(usize::MAX));
    if longest == 1 {
        return (vec![(0, 0)], 0);
    }
    let mut evaluations = 0;
    let first = Rc::new(Choice { cost: Convex::reversal(fine, slots), last: 0, before: None });
    let mut best = best_of_all(plan, &states[..longest], fine, &first);
    let mut choices = vec![first];
    for length in 2..=longest {
        // Slots for what lies beyond the last of this many states.
        let left = slots - length as u64 + 1;
        let mut longer = Vec::new();
        let (mut behind, mut open) = (choices.iter().peekable(), Vec::new());
        for (last, &Stored { state, .. }) in states.iter().enumerate().skip(1) {
            while let Some(choice) = behind.next_if(|choice| choice.last < last) {
                add(&mut open, choice.clone(), state);
            }
            evaluations += open.len();
            if evaluations > most {
                return (unwind(plan, states, best), evaluations);
            }
            // Leaves out what cannot become cheaper than the best known, wherever the next state is kept and
            // however well those behind it lie.
            let behind_it = (states.len() - last) as u64;
            open.retain(|before| {
                let rest = |from: u64| Cost::without_ways(fine - from, left, behind_it);
                before.cost.least_from(state, fine - 1, rest).1 < best.0
            });
            if open.is_empty() && behind.peek().is_none() {
                break;
            }
            let mut ending = Vec::new();
            for before in &open {
                let moved = before.cost.moved_from(state);
                let rest = |from: u64| Cost::of_sweep(fine - from, left, d);
                let (to, cost) = moved.least_with(farthest(state, fine, d), rest);
                if cost < best.0 {
                    best = (cost, to, before.clone(), last);
                }
                if length < longest && last + 1 < states.len() {
                    let reversal = Convex::reversal(fine - state, left);
                    let cost = moved.followed_by(&reversal, fine);
                    let choice = Choice { cost, last, before: Some(before.clone()) };
                    add(&mut ending, Rc::new(choice), state);
                }
            }
            longer.append(&mut ending);
        }
        choices = longer;
    }
    (unwind(plan, states, best), evaluations)
}

/// The best of the chains that keep all of the first states, from state 0 alone up to all of them, each moved
/// if that is better: its cost, the state to which the last is moved, the choice before it, and its index.
/// Usually nothing is better; other choices are evaluated only while they may be.
fn best_of_all(
    plan: &Plan,
    states: &[Stored],
    fine: u64,
    first: &Rc<Choice>,
) -> (Cost, u64, Rc<Choice>, usize) {
    let (slots, d) = (plan.slots, plan.distance_at(fine));
    let mut best = (Cost::of_sweep(fine, slots, d), fine, first.clone(), 0);
    let mut chain = first.clone();
    for (last, &Stored { state, .. }) in states.iter().enumerate().skip(1) {
        let left = slots - last as u64;
        let moved = chain.cost.moved_from(state);
        let rest = |from: u64| Cost::of_sweep(fine - from, left, d);
        let (to, cost) = moved.least_with(farthest(state, fine, d), rest);
        if cost < best.0 {
            best = (cost, to, chain.clone(), last);
        }
        // The last has nothing behind it; and with one slot each step would be a piece.
        if last + 1 < states.len() {
            let cost = moved.followed_by(&Convex::reversal(fine - state, left), fine);
            chain = Rc::new(Choice { cost, last, before: Some(chain) });
        }
    }
    best
}

/// The last state to which the last kept state may be moved: while the first sweep is not over, the way there
/// is part of it, and nothing is stored on that way.
fn farthest(state: u64, fine: u64, d: u64) -> u64 {
    (fine - 1).min(state.saturating_add(d))
}

/// As many of the first states as give the fewest advances, each where it is.
fn best_of_the_first(plan: &Plan, states: &[Stored], fine: u64) -> Vec<(usize, u64)> {
    let (mut before, mut best) = (Cost::default(), None::<(Cost, usize)>);
    let slots = usize::try_from(plan.slots).unwrap_or(usize::MAX);
    for (last, &Stored { state, .. }) in states.iter().enumerate().take(slots) {
        let left = plan.slots - last as u64;
        let cost = before + Cost::of_sweep(fine - state, left, plan.distance_at(fine));
        if best.is_none_or(|(least, _)| cost <= least) {
            best = Some((cost, last));
        }
        if let Some(next) = states.get(last + 1) {
            before = before + Cost::of_piece(next.state - state, left);
        }
    }
    let kept = best.map_or(1, |(_, last)| last + 1);
    states[..kept].iter().map(|stored| stored.state).enumerate().collect()
}

/// Adds a choice unless another one is as good from `state` on, and drops those that are nowhere better
/// there.
fn add(choices: &mut Vec<Rc<Choice>>, choice: Rc<Choice>, state: u64) {
    if choices.iter().any(|other| choice.cost.is_nowhere_less(&other.cost, state)) {
        return;
    }
    choices.retain(|other| !other.cost.is_nowhere_less(&choice.cost, state));
    choices.push(choice);
}

/// Follows the best choice back. `best` has the cost, the state to which the last is moved, the choice before
/// it, and its index.
fn unwind(
    plan: &Plan,
    states: &[Stored],
    (_, to, mut choice, last): (Cost, u64, Rc<Choice>, usize),
) -> Vec<(usize, u64)> {
    let mut kept = Vec::new();
    if last > 0 {
        kept.push((last, to));
    }
    let mut next = to;
    let mut chain = vec![choice.clone()];
    while let Some(before) = choice.before.clone() {
        chain.push(before.clone());
        choice = before;
    }
    for (index, choice) in chain.iter().enumerate() {
        let Some(before) = &choice.before else { break };
        let length = (chain.len() - index) as u64;
        let left = plan.slots - length + 1;
        let state = states[choice.last].state;
        let reversal = Convex::reversal(next - state, left);
        let moved = before.cost.moved_from(state);
        (next, _) = moved.least_with(next - 1, |from| reversal.at(next - from));
        kept.push((choice.last, next));
    }
    kept.push((0, 0));
    kept.reverse();
    kept
}

#[cfg(test)]
#[path = "resume_tests.rs"]
mod tests;
