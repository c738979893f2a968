//! Restarts, compared with a search over all sequences of actions.

use super::*;
use crate::binomial;
use crate::brute_force::{least_advances, Player};
use crate::remaining::Remaining;
use crate::rule::Rule;
use crate::schedule::Action;

fn plan(steps: u64, slots: u64) -> Plan {
    Plan { steps, slots, resilience: u64::MAX, adjoint: None, rule: Rule::Optimal }
}

/// Each set of up to `slots` states with state 0 among them.
fn sets(steps: u64, slots: usize) -> impl Iterator<Item = Vec<u64>> {
    (0..1_u64 << steps)
        .filter(move |set| set & 1 == 1 && set.count_ones() as usize <= slots)
        .map(move |set| (0..steps).filter(|state| set >> state & 1 == 1).collect())
}

/// Whether everything is to run, as before a release (`cargo xtask test --all`).
const IS_ALL: bool = option_env!("VELOC_TEST_ALL").is_some();

/// With any survivors, no sequence of actions takes fewer advances; with a resilience distance, none that
/// keeps it in the rest of the first sweep, and after that none at all.
#[test]
fn no_way_is_shorter() {
    let mut bound = 0;
    let sizes = [(7, 1), (9, 2), (14, 2), (8, 3), (7, 4), (12, 2), (9, 3), (8, 4)];
    for (steps, slots) in sizes.into_iter().take(if IS_ALL { 8 } else { 5 }) {
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
                let least = least_advances(&needed, fine, slots, None).unwrap();
                assert_eq!(done.advances, u128::from(least), "{states:?}, adjoint {fine}");
                let closest = steps.div_ceil(slots as u64);
                for d in closest..closest + 3 {
                    let within = || least_advances(&needed, fine, slots, Some(d)).unwrap();
                    let least_within = if fine < steps { least } else { within() };
                    bound += u64::from(least_within > least);
                    for (rule, _) in Rule::ALL {
                        let plan = Plan { resilience: d, rule, ..plan(steps, slots as u64) };
                        compare(&plan, &states, fine, least_within);
                    }
                }
            }
        }
    }
    assert!(bound > 2, "{bound}");
}

/// Carries out the rest from these states. A rule other than the optimal one may take more in the first
/// sweep.
fn compare(plan: &Plan, states: &[u64], fine: u64, least: u64) {
    let stored = states.iter().zip(0..).map(|(&state, slot)| Stored { state, slot });
    let adjoint = Some(fine).filter(|fine| *fine < plan.steps);
    let survivors = Survivors { states: stored.collect(), adjoint, at_start: false };
    let case = format!("{states:?}, adjoint {fine}, {plan:?}");
    let mut schedule = resume(*plan, &survivors).unwrap();
    let left = schedule.advances_left();
    let mut player = Player::with(&survivors.states, fine, None);
    while let Some(action) = Iterator::next(&mut schedule) {
        player.act(&schedule, action);
        let Some(at) = player.at.filter(|_| schedule.fine() == plan.steps) else { continue };
        let last = player.slots.values().filter(|state| **state <= at).max();
        assert!(at - last.unwrap() <= plan.resilience, "{case}: state {at}");
    }
    let advances = player.done.advances;
    assert_eq!((player.fine, left), (0, advances), "{case}");
    let least = u128::from(least);
    assert!(
        advances == least || (advances > least && adjoint.is_none() && plan.rule != Rule::Optimal),
        "{case}: {advances}, and {least} do"
    );
}

/// Catches a distance that still binds behind the first sweep, where states are farther apart after a crash.
#[test]
fn a_distance_binds_nothing_in_the_reverse_sweep() {
    let bound = Plan { resilience: 5, ..plan(15, 3) };
    assert_eq!(least_advances(&[0, 1, 7], 14, 3, None), Some(20));
    compare(&bound, &[0, 1, 7], 14, 20);
    let mut seed = 7;
    for _ in 0..2000 {
        let (steps, slots) = (10 + random(&mut seed) % 200, 1 + random(&mut seed) % 7);
        let least = steps.div_ceil(slots);
        let d = least + random(&mut seed) % (steps - least + 1);
        let bound = Plan { resilience: d, ..plan(steps, slots) };
        let fine = 1 + random(&mut seed) % (steps - 1);
        let states: Vec<Stored> = (0..slots)
            .map(|slot| Stored {
                state: if slot == 0 { 0 } else { random(&mut seed) % steps },
                slot,
            })
            .collect();
        let survivors = Survivors { states, adjoint: Some(fine), at_start: false };
        let found = resume(bound, &survivors).unwrap().advances_left();
        let free = resume(plan(steps, slots), &survivors).unwrap().advances_left();
        assert_eq!(found, free, "{bound:?}, {survivors:?}");
    }
}

/// Pseudo-random numbers.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// Crashes at any action, repeatedly, also with lost slots: the adjoint always comes to the end, and no
/// missing state is read.
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
            // Some slots are lost; the application has a copy of state 0.
            let all = player.survivors();
            let left = all.into_iter().filter(|_| !random(&mut seed).is_multiple_of(8)).collect();
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
    assert_eq!(schedule.next_action(), Action::Takeshot { state: 0, slot: 0, read_again: true });
    assert_eq!(schedule.next_action(), Action::Restore { state: 3, slot: 1, read_again: true });
}

/// A crash in the first sweep. Under a distance that costs nothing it goes on from the last state, as if nothing
/// had happened; under a shorter one that state is moved on: the distance to those before it binds no more.
#[test]
fn the_first_sweep_goes_on() {
    for distance in [33, 30] {
        let plan = Plan { resilience: distance, ..plan(100, 5) };
        let mut schedule = Schedule::new(plan);
        while schedule.stored().len() < 3 {
            schedule.next_action();
        }
        let states = schedule.stored().to_vec();
        let Stored { state, slot } = states[2];
        let survivors = Survivors { states, adjoint: None, at_start: true };
        let mut resumed = resume(plan, &survivors).unwrap();
        let (left, all) = (resumed.advances_left(), schedule.advances_left());
        // It is not read again where it is moved.
        let read_again = distance == 33;
        assert_eq!(resumed.next_action(), Action::Restore { state, slot, read_again });
        if distance == 33 {
            assert_eq!(left, all);
            assert!(schedule.eq(resumed));
        } else {
            assert_eq!((state, left, all), (60, 256, 261));
            assert_eq!(resumed.next_action(), Action::Advance { from: 60, to: 65 });
            assert_eq!(
                resumed.next_action(),
                Action::Takeshot { state: 65, slot, read_again: true }
            );
        }
    }
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
/// Catches a search that evaluates each state with each number of kept states: that is more than a million
/// evaluations with 2,400 slots.
#[test]
fn evaluations_grow_with_the_slots_and_not_with_their_square() {
    let plans = [(300, 500), (2400, u64::MAX), (2400, 60), (300, u64::MAX)];
    for (slots, resilience) in plans.into_iter().take(if IS_ALL { 4 } else { 3 }) {
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
            let (kept, evaluations) = best_chain(&plan, stored, fine);
            let more = if first && resilience < u64::MAX { 0 } else { EVALUATIONS * stored.len() };
            let most = FEW + more + 2400;
            assert!(
                evaluations <= most,
                "{slots} slots, {} states: {evaluations} evaluations",
                stored.len()
            );
            // The search was completed: the way is the shortest.
            assert!(more == 0 || evaluations < FEW + more, "{evaluations} evaluations");
            // Whatever is left out, the result is no worse than keeping all.
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

/// With as many slots as large computations have: at most the steps that were left without the crash. Catches
/// an unlimited search, which would evaluate more than a million choices.
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

/// The largest number of steps, and no adjoint stored. Catches a piece of a function for each step, which
/// takes all memory.
#[test]
fn all_steps_again_of_long_plans() {
    for (steps, slots) in [(1_000_000_000_000, 2), (binomial::MAX_STEPS, 3), (1_000_000_000, 12)] {
        let plan = plan(steps, slots);
        for fine in [steps - 1, steps / 2, 1] {
            let states = Remaining::at(&plan, fine).states;
            let survivors = Survivors { states, adjoint: None, at_start: false };
            let advances = resume(plan, &survivors).unwrap().advances_left();
            // At most state 0 alone is of use; and costs are known to 1 in 25,000.
            let most = binomial::advances(steps, slots) / 25_000 * 25_001;
            assert!(advances <= most, "{plan:?}, {fine}: {advances}");
        }
    }
}

/// With more states than are searched. Catches a kept state that leaves no slots for the steps ahead, and a
/// predicted cost that differs from the real one.
#[test]
fn the_best_of_the_first() {
    let plan = Plan { resilience: 40, ..plan(300, 8) };
    for fine in [290, 200, 130] {
        let states = Remaining::at(&plan, fine).states;
        let (useful, ..) = sort(&Survivors { states, adjoint: None, at_start: false }, &plan, 300);
        let kept = best_of_the_first(&plan, &useful, 300);
        let cost = |count: usize| {
            let states = useful[..count].iter().map(|stored| stored.state);
            let ends = states.clone().skip(1).chain([300]);
            let pieces = states.zip(ends).zip(0..).map(|((from, to), before)| {
                let (length, left) = (to - from, plan.slots - before);
                match to == 300 {
                    true => Cost::of_sweep(length, left, 40),
                    false => Cost::of_piece(length, left),
                }
            });
            pieces.fold(Cost::default(), |sum, piece| sum + piece)
        };
        let least = (1..=useful.len()).map(cost).min();
        assert_eq!(Some(cost(kept.len())), least, "{fine}");
        assert!(kept.iter().zip(&useful).all(|((_, to), stored)| *to == stored.state));
    }
}

/// Catches recursive drops of choices, for which the stack is too small.
#[test]
fn a_long_chain_is_dropped() {
    let cost = Convex::reversal(1, 1);
    let mut chain = Choice { cost: cost.clone(), last: 0, before: None };
    for last in 1..1_000_000 {
        chain = Choice { cost: cost.clone(), last, before: Some(Rc::new(chain)) };
    }
    drop(chain);
}
