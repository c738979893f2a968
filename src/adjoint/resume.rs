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
//! even if the ways to what is stored behind them cost nothing: as a rule few are left.
//!
//! If too few states are left to keep the resilience distance, it is exceeded by as little as can be.

use std::rc::Rc;

use super::convex::{Convex, Cost};
use super::schedule::{Plan, Schedule, Stored};

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
    let kept = best_chain(&plan, &useful, fine);
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
fn sort(survivors: &Survivors, plan: &Plan, fine: u64) -> (Vec<Stored>, Vec<Stored>, u64) {
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

/// The states to keep, as places in `states`, ascending, each with the state to which it is moved.
fn best_chain(plan: &Plan, states: &[Stored], fine: u64) -> Vec<(usize, u64)> {
    let (slots, d) = (plan.slots, plan.resilience);
    let longest = states.len().min(usize::try_from(slots).unwrap_or(usize::MAX));
    if longest == 1 {
        return vec![(0, 0)];
    }
    let first = Rc::new(Choice { cost: Convex::reversal(fine, slots, d), last: 0, before: None });
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
            // What cannot become cheaper than the best that is known, wherever the next state is kept.
            open.retain(|before| {
                let rest = |from: u64| Cost::without_ways(fine - from, left);
                before.cost.least_from(state, fine - 1, rest).1 < best.0
            });
            if open.is_empty() && behind.peek().is_none() {
                break;
            }
            let mut ending = Vec::new();
            for before in &open {
                let moved = before.cost.moved_from(state);
                let rest = |from: u64| Cost::of_sweep(fine - from, left, d);
                let (to, cost) = moved.least_with(fine - 1, rest);
                if cost < best.0 {
                    best = (cost, to, before.clone(), last);
                }
                if length < longest && last + 1 < states.len() {
                    let reversal = Convex::reversal(fine - state, left, d);
                    let cost = moved.followed_by(&reversal, fine);
                    let choice = Choice { cost, last, before: Some(before.clone()) };
                    add(&mut ending, Rc::new(choice), state);
                }
            }
            longer.append(&mut ending);
        }
        choices = longer;
    }
    unwind(plan, states, best)
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
    let (slots, d) = (plan.slots, plan.resilience);
    let mut best = (Cost::of_sweep(fine, slots, d), fine, first.clone(), 0);
    let mut chain = first.clone();
    for (last, &Stored { state, .. }) in states.iter().enumerate().skip(1) {
        let left = slots - last as u64;
        let moved = chain.cost.moved_from(state);
        let rest = |from: u64| Cost::of_sweep(fine - from, left, d);
        let (to, cost) = moved.least_with(fine - 1, rest);
        if cost < best.0 {
            best = (cost, to, chain.clone(), last);
        }
        let cost = moved.followed_by(&Convex::reversal(fine - state, left, d), fine);
        chain = Rc::new(Choice { cost, last, before: Some(chain) });
    }
    best
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
        let reversal = Convex::reversal(next - state, left, plan.resilience);
        let moved = before.cost.moved_from(state);
        (next, _) = moved.least_with(next - 1, |from| reversal.at(next - from));
        kept.push((choice.last, next));
    }
    kept.push((0, 0));
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adjoint::oracle::{least_advances, Player, Table};
    use crate::adjoint::rule::Rule;
    use crate::adjoint::schedule::Action;
    use crate::adjoint::{binomial, bound};

    fn plan(steps: u64, slots: u64) -> Plan {
        Plan { steps, slots, resilience: u64::MAX, adjoint: None, rule: Rule::Optimal }
    }

    /// Each set of up to `slots` states with state 0 among them.
    fn sets(steps: u64, slots: usize) -> impl Iterator<Item = Vec<u64>> {
        (0..1_u64 << steps)
            .filter(move |set| set & 1 == 1 && set.count_ones() as usize <= slots)
            .map(move |set| (0..steps).filter(|state| set >> state & 1 == 1).collect())
    }

    /// Whatever has survived: nothing that can be done at all takes fewer advances.
    #[test]
    fn no_way_is_shorter() {
        for (steps, slots) in [(7, 1), (9, 2), (9, 3), (8, 4)] {
            for states in sets(steps, slots) {
                for fine in 1..=steps {
                    let stored = states.iter().zip((0..slots as u64).rev());
                    let survivors = Survivors {
                        states: stored.map(|(&state, slot)| Stored { state, slot }).collect(),
                        adjoint: Some(fine),
                        at_start: false,
                    };
                    let mut schedule = resume(plan(steps, slots as u64), &survivors).unwrap();
                    let mut player = Player::with(&survivors.states, fine, None);
                    let done = player.play(&mut schedule);
                    let needed: Vec<u64> = states.iter().copied().filter(|&s| s < fine).collect();
                    let least = least_advances(&needed, fine, slots).unwrap();
                    assert_eq!(done.advances, u128::from(least), "{states:?}, adjoint {fine}");
                }
            }
        }
    }

    /// What it takes at least to go on from a kept state at `x`, the `place`th of `states`, with `left`
    /// slots, straight from the sum above: the steps beyond the distance, and the advances.
    fn least_from(
        table: &Table,
        (states, fine, d): (&[u64], u64, u64),
        (place, x, left): (usize, u64, u64),
    ) -> (u64, u128) {
        let sweep = fine - x;
        let mut least = match bound::feasible(sweep, left, d) {
            true => (0, table.advances(sweep, left)),
            false => (sweep - left * d, 0),
        };
        for (next, &state) in states.iter().enumerate().skip(place + 1).filter(|_| left > 1) {
            for moved in state.max(x + 1)..fine {
                let piece = moved - x;
                let (excess, rest) = least_from(table, (states, fine, d), (next, moved, left - 1));
                let way = u128::from(moved - state) + binomial::advances(piece, left);
                least = least.min((piece.saturating_sub(d) + excess, way + rest));
            }
        }
        least
    }

    /// With a resilience distance that what is left can keep: of all states to keep, and places to move
    /// them to, the best. Catches a distance that is forgotten where a crash was.
    #[test]
    fn under_a_distance_no_choice_is_better() {
        let mut compared = 0;
        for (steps, slots, d) in [(9, 2, 5), (9, 3, 3), (9, 3, 4), (8, 4, 2), (8, 4, 3), (10, 4, 3)]
        {
            let table = Table::new(steps, slots, d);
            for states in sets(steps, slots as usize) {
                for fine in 1..=steps {
                    let needed: Vec<u64> = states.iter().copied().filter(|&s| s < fine).collect();
                    let (excess, least) = least_from(&table, (&needed, fine, d), (0, 0, slots));
                    if excess > 0 {
                        continue;
                    }
                    let stored = states.iter().zip(0..);
                    let survivors = Survivors {
                        states: stored.map(|(&state, slot)| Stored { state, slot }).collect(),
                        adjoint: Some(fine).filter(|fine| *fine < steps),
                        at_start: false,
                    };
                    let plan = Plan { resilience: d, ..plan(steps, slots) };
                    let mut schedule = resume(plan, &survivors).unwrap();
                    let mut player = Player::with(&survivors.states, fine, None);
                    let name = format!("{states:?}, adjoint {fine}, distance {d}");
                    assert_eq!(player.play(&mut schedule).advances, least, "{name}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 1000, "{compared}");
    }

    /// Numbers without a pattern.
    fn random(seed: &mut u64) -> u64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    /// Crashes at any action, again and again, with slots lost as well: the adjoint always comes to
    /// the end, and nothing is read that is not there.
    #[test]
    fn any_number_of_crashes_anywhere() {
        let mut seed = 1;
        for _ in 0..3000 {
            let (steps, slots) = (1 + random(&mut seed) % 150, 1 + random(&mut seed) % 8);
            let least = steps.div_ceil(slots);
            let resilience = [u64::MAX, least + random(&mut seed) % 20][seed as usize >> 40 & 1];
            let rule = Rule::ALL[random(&mut seed) as usize % 4].0;
            let adjoint = Some(1 + random(&mut seed) % 20);
            let plan = Plan { steps, slots, resilience, adjoint, rule };
            plan.check().unwrap();
            let (mut schedule, mut player) = (Schedule::new(plan), Player::new(steps));
            for _ in 0..random(&mut seed) % 5 {
                for _ in 0..random(&mut seed) % 200 {
                    let action = schedule.next_action();
                    player.act(&schedule, action);
                }
                // Some slots are lost; of state 0 the application has a copy.
                let all = player.survivors();
                let left =
                    all.into_iter().filter(|_| !random(&mut seed).is_multiple_of(8)).collect();
                let survivors = Survivors { states: left, adjoint: player.adjoint, at_start: true };
                schedule = resume(plan, &survivors).unwrap();
                let fine = player.adjoint.unwrap_or(steps);
                let adjoint = player.adjoint;
                player = Player::with(&survivors.states, fine, Some(0));
                player.adjoint = adjoint;
            }
            player.play(&mut schedule);
        }
    }

    #[test]
    fn without_state_0_there_is_no_way() {
        let states = vec![Stored { state: 3, slot: 1 }];
        let survivors = Survivors { states, adjoint: Some(7), at_start: false };
        assert_eq!(resume(plan(10, 3), &survivors).unwrap_err(), Lost::Start);
        let survivors = Survivors { at_start: true, ..survivors };
        let mut schedule = resume(plan(10, 3), &survivors).unwrap();
        assert_eq!(schedule.next_action(), Action::Takeshot { state: 0, slot: 0 });
        assert_eq!(schedule.next_action(), Action::Restore { state: 3, slot: 1 });
    }

    /// A crash in the first sweep: it goes on from the last state, as if nothing had happened.
    #[test]
    fn the_first_sweep_goes_on() {
        let plan = Plan { resilience: 30, ..plan(100, 5) };
        let states = [(0, 0), (30, 1), (60, 2)].map(|(state, slot)| Stored { state, slot });
        let survivors = Survivors { states: states.to_vec(), adjoint: None, at_start: true };
        let mut schedule = resume(plan, &survivors).unwrap();
        assert_eq!(schedule.next_action(), Action::Restore { state: 60, slot: 2 });
        assert_eq!(schedule.next_action(), Action::Advance { from: 60, to: 80 });
        assert_eq!(schedule.next_action(), Action::Takeshot { state: 80, slot: 3 });
    }

    /// The breakdown of the paper's section 3, with the adjoint stored at state 64.
    #[test]
    fn the_breakdown_of_the_paper() {
        let states = [(0, 0), (30, 1), (44, 2), (51, 3), (56, 4)];
        let states = states.map(|(state, slot)| Stored { state, slot });
        let survivors = Survivors { states: states.to_vec(), adjoint: Some(64), at_start: false };
        let mut schedule = resume(Plan { resilience: 30, ..plan(100, 5) }, &survivors).unwrap();
        let mut player = Player::with(&states, 64, None);
        assert_eq!(player.play(&mut schedule).advances, 119);
    }

    /// With as many slots as large computations have, at no more steps than are left without the crash.
    /// Catches choices that are looked at without end: a million and more would be.
    #[test]
    fn many_slots() {
        let plan = plan(200_000, 600);
        let mut schedule = Schedule::new(plan);
        while schedule.fine() == plan.steps {
            schedule.next_action();
        }
        for places in [0, 70_000] {
            let fine = schedule.fine() - places;
            while schedule.fine() > fine {
                schedule.next_action();
            }
            let states = schedule.stored().to_vec();
            let survivors = Survivors { states, adjoint: Some(fine), at_start: false };
            let mut resumed = resume(plan, &survivors).unwrap();
            let mut left = schedule.clone();
            let before = left.done().advances;
            while left.next_action() != Action::Terminate {}
            while resumed.next_action() != Action::Terminate {}
            assert!(resumed.done().advances <= left.done().advances - before);
        }
    }
}
