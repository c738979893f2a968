//! Going on after a crash, with the states and the adjoint that are left, at the least number of
//! advances.
//!
//! Whatever states have survived, in whatever order they were stored, some of them are kept, and the
//! adjoint comes to them from the right. A state that it comes to either stays where it is until the
//! adjoint has passed it, or is moved first: restored, advanced, and stored again farther on, which
//! costs the way but makes the steps beyond it fewer. So with `m` states kept the computation that
//! remains costs
//!
//! ```text
//!     sum over the kept states p_i, stored again at x_i >= p_i, of
//!         (x_i - p_i) + what it costs to reverse from x_i to x_{i+1} with c - i + 1 slots
//! ```
//!
//! where the slots are those that are free once the adjoint is there. The least is found by dynamic
//! programming over the survivors: for each number of kept states, the cost of all before some `x` is
//! a convex function of `x` for each choice of states (`convex`), and choices that are nowhere
//! better than another are left out. So are those that could not become better than keeping all states,
//! even if the states behind them lay where they are of most use: as a rule few are left. Where many are,
//! which are then about as good, the search ends after a number of looks that grows with the survivors
//! up to a limit, and takes the best that it has found, which is never worse than keeping all. Of very many
//! survivors some of the first are kept, each where it is.
//!
//! The resilience distance binds what is left of the first sweep alone: the way on from the last kept state,
//! if the adjoint has not begun. Whatever is computed later, a crash costs no more for the distance between
//! states that are stored. What that sweep stores stays where it is, as without a crash.

use std::rc::Rc;

use super::convex::{Convex, Cost};
use super::schedule::{Plan, Schedule, Stored};

/// How many choices are looked at for each state that is left, beside [`FEW`]. Up to some thousands of states
/// no search comes to that.
const LOOKS: usize = 1024;
/// So many are looked at in any case, and no more under a resilience distance.
const FEW: usize = 16_384;
/// No more are: that takes some seconds.
const MOST_LOOKS: usize = 1 << 20;
/// As many are looked at in a short search, of so many states at the most.
const FEW_LOOKS: usize = 512;
const FEW_STATES: usize = 256;
/// Of more states than these the choice is which of the first are kept, which takes no memory for each.
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

/// Why there is no way on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// State 0 is neither in a slot nor with the application.
    Start,
}

/// Goes on with what is left of a computation that had `plan`.
pub fn resume(plan: Plan, survivors: &Survivors) -> Result<Schedule, Lost> {
    go_on(plan, survivors, best_chain)
}

/// The same by a short search, for those who ask what many crashes would cost: it may take somewhat more
/// advances.
pub(super) fn resume_soon(plan: Plan, survivors: &Survivors) -> Result<Schedule, Lost> {
    go_on(plan, survivors, |plan, states, fine| match states.len() > FEW_STATES {
        true => (best_of_the_first(plan, states, fine), 0),
        false => search(plan, states, fine, FEW_LOOKS),
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

/// States that can be of use, ascending and each once; the other slots that were used or have a lower
/// number than one that was; and how many slots these are together.
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

/// A choice of states to keep, as places among the survivors, and what all before some state costs
/// with it.
#[derive(Clone, Debug)]
struct Choice {
    cost: Convex,
    last: usize,
    before: Option<Rc<Choice>>,
}

/// One by one: of a long chain each would be dropped inside the drop of the next, until the stack is full.
impl Drop for Choice {
    fn drop(&mut self) {
        let mut next = self.before.take();
        while let Some(mut choice) = next.and_then(Rc::into_inner) {
            next = choice.before.take();
        }
    }
}

/// The states to keep, as places in `states`, ascending, each with the state to which it is moved; and how
/// many choices were looked at for that.
pub(super) fn best_chain(plan: &Plan, states: &[Stored], fine: u64) -> (Vec<(usize, u64)>, usize) {
    let most = match plan.distance_at(fine) {
        u64::MAX => MOST_LOOKS.min(FEW + LOOKS * states.len()),
        // States that are closer than would be best are about as good to move on as to keep, all of them.
        _ => FEW,
    };
    match states.len() > MANY {
        true => (best_of_the_first(plan, states, fine), 0),
        false => search(plan, states, fine, most),
    }
}

/// The same with at most so many looks.
fn search(plan: &Plan, states: &[Stored], fine: u64, most: usize) -> (Vec<(usize, u64)>, usize) {
    let (slots, d) = (plan.slots, plan.distance_at(fine));
    let longest = states.len().min(usize::try_from(slots).unwrap_or(usize::MAX));
    if longest == 1 {
        return (vec![(0, 0)], 0);
    }
    let mut looks = 0;
    let first = Rc::new(Choice { cost: Convex::reversal(fine, slots), last: 0, before: None });
    let mut best = best_of_all(plan, &states[..longest], fine, &first);
    let mut choices = vec![first];
    for length in 2..=longest {
        // Slots for what lies beyond the last of so many states.
        let left = slots - length as u64 + 1;
        let mut longer = Vec::new();
        let (mut behind, mut open) = (choices.iter().peekable(), Vec::new());
        for (last, &Stored { state, .. }) in states.iter().enumerate().skip(1) {
            while let Some(choice) = behind.next_if(|choice| choice.last < last) {
                add(&mut open, choice.clone(), state);
            }
            looks += open.len();
            if looks > most {
                return (unwind(plan, states, best), looks);
            }
            // What cannot become cheaper than the best that is known, wherever the next state is kept, and
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
    (unwind(plan, states, best), looks)
}

/// The best of the chains that have all of the first states, of state 0 alone up to all of them, each moved
/// on if that is better: its cost, the state to which the last is moved, the choice before it, and its
/// place. As a rule nothing is better, which others need only be looked at for as long as they may be.
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

/// The last state to which the last kept state may be moved: the way there is one of the first sweep, if that
/// is not over, and nothing is stored on it.
fn farthest(state: u64, fine: u64, d: u64) -> u64 {
    (fine - 1).min(state.saturating_add(d))
}

/// As many of the first states as take the fewest advances, each where it is.
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

/// Adds a choice, unless one of the others is as good from `state` on; and drops those of them that are
/// nowhere better there.
fn add(choices: &mut Vec<Rc<Choice>>, choice: Rc<Choice>, state: u64) {
    if choices.iter().any(|other| choice.cost.is_nowhere_less(&other.cost, state)) {
        return;
    }
    choices.retain(|other| !other.cost.is_nowhere_less(&choice.cost, state));
    choices.push(choice);
}

/// Follows the best choice back. `best` has the cost, the state to which the last is moved, the choice
/// before it, and its place.
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
