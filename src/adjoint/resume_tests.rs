//! Restarts, against a search over everything that can be done.

use super::*;
use crate::adjoint::leap::Left;
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
                let left = advances_left(&plan(steps, slots as u64), &survivors, false);
                assert_eq!(left, Some(done.advances), "{states:?}, adjoint {fine}");
                let mut schedule = keep(plan(steps, slots as u64), &survivors).unwrap();
                let stored: Vec<u64> = schedule.stored().iter().map(|s| s.state).collect();
                assert_eq!(stored, needed, "adjoint {fine}");
                let mut player = Player::with(&survivors.states, fine, None);
                let left = advances_left(&plan(steps, slots as u64), &survivors, true);
                let done = player.play(&mut schedule);
                assert_eq!(left, Some(done.advances), "{states:?}, adjoint {fine}");
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
    for (steps, slots, d) in [(9, 2, 5), (9, 3, 3), (9, 3, 4), (8, 4, 2), (8, 4, 3), (10, 4, 3)] {
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
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
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
            // The search has come to its end: the way is the shortest.
            assert!(looks < FEW + LOOKS * stored.len(), "{looks} looks");
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

/// As many steps as there can be, and nothing stored of the adjoint. Catches a piece of a function for each
/// step, which takes all memory.
#[test]
fn all_steps_again_of_long_plans() {
    for (steps, slots) in [(1_000_000_000_000, 2), (binomial::MAX_STEPS, 3), (1_000_000_000, 12)] {
        let plan = plan(steps, slots);
        for fine in [steps - 1, steps / 2, 1] {
            let states = Left::at(&plan, fine).states;
            let survivors = Survivors { states, adjoint: None, at_start: false };
            let advances = resume(plan, &survivors).unwrap().advances_left();
            // At the most state 0 alone is of use; and costs are known to 1 in 25,000.
            let most = binomial::advances(steps, slots) / 25_000 * 25_001;
            assert!(advances <= most, "{plan:?}, {fine}: {advances}");
        }
    }
}

/// With more states than are searched. Catches a state beyond those that leave slots for what is ahead, and
/// a cost that is not what comes.
#[test]
fn the_best_of_the_first() {
    let plan = Plan { resilience: 40, ..plan(300, 8) };
    for fine in [290, 200, 130] {
        let states = Left::at(&plan, fine).states;
        let (useful, ..) = sort(&Survivors { states, adjoint: None, at_start: false }, &plan, 300);
        let kept = best_of_the_first(&plan, &useful, 300);
        let cost = |count: usize| {
            let states = useful[..count].iter().map(|stored| stored.state);
            let ends = states.clone().skip(1).chain([300]);
            let pieces = states.zip(ends).zip(0..).map(|((from, to), before)| {
                let (length, left) = (to - from, plan.slots - before);
                match to == 300 {
                    true => Cost::of_sweep(length, left, 40),
                    false => Cost::of_piece(length, left, 40),
                }
            });
            pieces.fold(Cost::default(), |sum, piece| sum + piece)
        };
        let least = (1..=useful.len()).map(cost).min();
        assert_eq!(Some(cost(kept.len())), least, "{fine}");
        assert!(kept.iter().zip(&useful).all(|((_, to), stored)| *to == stored.state));
    }
}

/// Catches a choice that is dropped inside the drop of the next one: the stack has no room for so many.
#[test]
fn a_long_chain_is_dropped() {
    let cost = Convex::reversal(1, 1, u64::MAX);
    let mut chain = Choice { cost: cost.clone(), last: 0, before: None };
    for last in 1..1_000_000 {
        chain = Choice { cost: cost.clone(), last, before: Some(Rc::new(chain)) };
    }
    drop(chain);
}
