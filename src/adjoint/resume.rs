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
//! which are then about as good, the search ends after a number of looks that grows with the survivors,
//! and takes the best that it has found, which is never worse than keeping all.
//!
//! If too few states are left to keep the resilience distance, it is exceeded by as little as can be.

use std::rc::Rc;

use super::convex::{Convex, Cost};
use super::schedule::{Plan, Schedule, Stored};

/// How many choices are looked at for each state that is left, beside [`FEW`]. Up to some hundreds of states
/// no search comes to that.
const LOOKS: usize = 64;
/// So many are looked at in any case.
const FEW: usize = 16_384;

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
    let (kept, _) = best_chain(&plan, &useful, fine);
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

/// The states to keep, as places in `states`, ascending, each with the state to which it is moved; and how
/// many choices were looked at for that.
fn best_chain(plan: &Plan, states: &[Stored], fine: u64) -> (Vec<(usize, u64)>, usize) {
    let (slots, d) = (plan.slots, plan.resilience);
    let longest = states.len().min(usize::try_from(slots).unwrap_or(usize::MAX));
    if longest == 1 {
        return (vec![(0, 0)], 0);
    }
    let (mut looks, most) = (0, FEW + LOOKS * states.len());
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
    use crate::adjoint::oracle::{least_advances, Player};
    use crate::adjoint::rule::Rule;
    use crate::adjoint::schedule::Action;

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

    /// After a crash anywhere, in the first sweep and behind it, of schedules with and without a distance.
    /// Catches a search that looks at each state with each number of those that are kept: that is more than
    /// a million times with 2,400 slots.
    #[test]
    fn looks_grow_with_the_slots_and_not_with_their_square() {
        for (slots, resilience) in [(300, u64::MAX), (300, 500), (2400, u64::MAX), (2400, 60)] {
            let plan = Plan { resilience, ..plan(100_000, slots) };
            let mut schedule = Schedule::new(plan);
            let mut ends = vec![slots / 8, slots / 2, slots - 3];
            while schedule.fine() > 0 {
                schedule.next_action();
                let (stored, fine) = (schedule.stored(), schedule.fine());
                let first = fine == plan.steps && ends.contains(&(stored.len() as u64));
                let reverse = fine < plan.steps && fine.is_multiple_of(9973);
                if !first && !reverse || stored.is_empty() {
                    continue;
                }
                ends.retain(|end| reverse || *end != stored.len() as u64);
                let (kept, looks) = best_chain(&plan, stored, fine);
                let most = if resilience == 60 { 4 } else { LOOKS + 1 } * stored.len() + FEW + 2400;
                assert!(looks <= most, "{slots} slots, {} states: {looks} looks", stored.len());
                // With few of them the search has come to its end.
                assert!(slots > 300 || looks < FEW, "{looks} looks");
                // Whatever is left out, nothing is worse than to keep all.
                if first && resilience == u64::MAX {
                    let states = stored.to_vec();
                    let survivors = Survivors { states, adjoint: None, at_start: false };
                    let mut resumed = resume(plan, &survivors).unwrap();
                    let mut left = schedule.clone();
                    let before = left.done().advances;
                    while left.next_action() != Action::Terminate {}
                    while resumed.next_action() != Action::Terminate {}
                    let again = u128::from(schedule.at.unwrap() - stored[stored.len() - 1].state);
                    assert!(resumed.done().advances <= left.done().advances - before + again);
                }
                assert!(!kept.is_empty());
            }
            assert!(ends.is_empty());
        }
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
