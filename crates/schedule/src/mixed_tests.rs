//! Mixed schedules, compared with dynamic programming and played action by action.

use super::*;
use crate::binomial::MAX_STEPS;
use crate::configured::{ActiveSchedule, ConfiguredSchedule};
use crate::pack::sealed;
use std::collections::{HashMap, HashSet};

/// The least numbers of all forward steps, those that are recorded among them, by slots and steps: straight
/// from the problem. A piece is a record, or a state and two steps or more.
fn table(steps: usize, slots: usize) -> Vec<Vec<u64>> {
    const NONE: u64 = 1 << 40;
    let mut least = vec![vec![NONE; steps + 1]; slots + 1];
    for c in 0..=slots {
        least[c][1] = 1;
        for l in 2..=steps {
            let cut = |piece: usize, cost: u64| cost + least[c - 1][l - piece];
            let best = (1..l).filter(|_| c > 0).map(|piece| match piece {
                1 => cut(1, 1),
                _ => cut(piece, piece as u64 + least[c][piece]),
            });
            least[c][l] = best.min().unwrap_or(NONE);
        }
    }
    least
}

/// What a schedule has done.
#[derive(Debug, Default, PartialEq, Eq)]
struct Played {
    forward: u128,
    advances: u128,
    stores: u128,
    repetition: u64,
    first_sweep: Vec<u64>,
}

/// Carries out a schedule, and panics if an action is impossible, a slot is read after its last time, or
/// something is stored that is never read.
fn play(steps: u64, slots: u64, schedule: impl Iterator<Item = Action>) -> Played {
    let mut played = Played::default();
    // By slot the state, or the one from which the recorded step begins.
    let mut kept = HashMap::<u64, (u64, bool)>::new();
    let mut unread = HashSet::new();
    let mut times = vec![0; steps as usize + 1];
    let (mut at, mut fine) = (Some(0), steps);
    for action in schedule {
        match action {
            Action::Advance { from, to } => {
                assert!(at == Some(from) && from < to && to < fine, "{action:?}");
                at = Some(to);
                (from..to).for_each(|step| times[step as usize] += 1);
                played.advances += u128::from(to - from);
            }
            Action::Takeshot { slot, .. } | Action::Record { slot, .. } => {
                let (state, is_record) = match action {
                    Action::Record { step, .. } => (step - 1, true),
                    Action::Takeshot { state, .. } => (state, false),
                    _ => unreachable!(),
                };
                assert_eq!(at, Some(state), "{action:?}");
                assert!(slot < slots && kept.insert(slot, (state, is_record)).is_none());
                assert!(unread.insert(slot));
                assert!(!matches!(action, Action::Takeshot { read_again: false, .. }));
                if is_record {
                    at = Some(state + 1);
                    played.forward += 1;
                }
                played.stores += 1;
                if fine == steps {
                    played.first_sweep.push(state);
                }
            }
            Action::Restore { state, slot, read_again } => {
                assert_eq!(kept.get(&slot), Some(&(state, false)), "{action:?}");
                at = Some(state);
                unread.remove(&slot);
                if read_again {
                    unread.insert(slot);
                } else {
                    kept.remove(&slot);
                }
            }
            Action::Firsturn { step, check: false } | Action::Youturn { step, check: false } => {
                assert_eq!((at, fine), (Some(step - 1), step), "{action:?}");
                assert_eq!(matches!(action, Action::Firsturn { .. }), step == steps);
                (at, fine) = (None, step - 1);
                played.forward += 1;
            }
            Action::Reverse { step, slot } => {
                assert_eq!((at, fine), (None, step), "{action:?}");
                assert!(fine < steps, "the adjoint has not begun");
                assert_eq!(kept.remove(&slot), Some((step - 1, true)), "{action:?}");
                unread.remove(&slot);
                fine = step - 1;
            }
            _ => panic!("{action:?}"),
        }
    }
    assert_eq!((fine, kept.len(), unread.len()), (0, 0, 0));
    played.forward += played.advances;
    played.repetition = times.into_iter().max().unwrap();
    played
}

/// For all up to 250 steps: what is done is what dynamic programming finds, and the cost said before. Catches a
/// closed form that is off, a record that is read as a state, a slot that is read after its last read.
#[test]
fn the_least_number_of_steps() {
    for (slots, row) in table(250, 249).iter().enumerate().skip(1) {
        for (steps, &least) in row.iter().enumerate().skip(1) {
            let case = format!("{steps} steps, {slots} slots");
            let (l, c) = (steps as u64, slots as u64);
            let advances = Cut::of(l, c).map_or(0, |cut| cut.advances());
            assert_eq!(advances + u128::from(l), u128::from(least), "{case}");
            // With many slots some are played.
            if slots > 24 && steps > 60 && (steps + slots) % 7 > 0 && slots + 1 != steps {
                continue;
            }
            let mut schedule = Mixed::new(l, c);
            let played = play(l, c, &mut schedule);
            assert_eq!(played.forward, u128::from(least), "{case}");
            let done = schedule.done();
            let counted = (done.advances, u128::from(done.takeshots));
            assert_eq!(counted, (played.advances, played.stores), "{case}");
            let cost = Mixed::cost(l, c).unwrap();
            assert_eq!((cost.advances, cost.takeshots), counted, "{case}");
            assert_eq!(
                (cost.repetition, &cost.first_sweep),
                (played.repetition, &played.first_sweep)
            );
            assert_eq!(cost.max_gap, PlanCost::with(played.first_sweep, l).max_gap, "{case}");
        }
    }
}

/// Steps, slots and all forward steps, as checkpoint_schedules 1.0.4 counts them.
const FIGURES: [(u64, u64, u128); 13] = [
    (1, 1, 1),
    (2, 1, 2),
    (3, 1, 5),
    (10, 1, 54),
    (10, 3, 19),
    (50, 3, 209),
    (100, 1, 5049),
    (100, 5, 352),
    (250, 2, 3707),
    (250, 10, 717),
    (250, 50, 454),
    (250, 200, 300),
    (250, 249, 250),
];

#[test]
fn the_numbers_of_checkpoint_schedules() {
    for (steps, slots, forward) in FIGURES {
        let cost = Mixed::cost(steps, slots).unwrap();
        assert_eq!(cost.advances + u128::from(steps), forward, "{steps} steps, {slots} slots");
    }
}

/// Never more than revolve takes. Catches overflows, and work in proportion to the steps or the slots.
#[test]
fn the_longest() {
    for steps in [MAX_STEPS, MAX_STEPS - 1, MAX_STEPS / 3, 1_000_000] {
        for slots in [1, 2, 3, 7, 100, 100_000, 1 << 24, 1 << 30, MAX_STEPS / 2, MAX_STEPS] {
            let case = format!("{steps} steps, {slots} slots");
            let advances = Cut::of(steps, slots).map_or(0, |cut| cut.advances());
            assert!(advances <= crate::binomial::advances(steps, slots.min(steps)), "{case}");
            let stores = Cut::of(steps, slots).map_or(0, |cut| cut.pieces_without_store());
            assert!(stores < u128::from(steps), "{case}");
            let (mut schedule, mut fine) = (Mixed::new(steps, slots), steps);
            for _ in 0..300 {
                match schedule.next_action() {
                    Action::Firsturn { step, .. }
                    | Action::Youturn { step, .. }
                    | Action::Reverse { step, .. } => {
                        assert_eq!(step, fine);
                        fine -= 1;
                    }
                    Action::Advance { from, to } => assert!(from < to && to < fine),
                    _ => {}
                }
            }
        }
    }
    assert!(Mixed::cost(MAX_STEPS, MOST_STATES + 1).is_none());
    assert!(Mixed::cost(MAX_STEPS, 1000).is_some());
}

/// Bytes of which one was changed before they were sealed are refused, or are a schedule that runs to its end.
/// Catches a position that is accepted and has no slot for what comes next, or nothing before the adjoint.
#[test]
fn what_is_unpacked_runs_to_its_end() {
    let (mut accepted, mut refused) = (0, 0);
    for (steps, slots) in [(1, 1), (5, 1), (9, 2), (12, 3), (14, 20)] {
        let mut course = ConfiguredSchedule::new(steps, slots).unwrap();
        course.set_mixed().unwrap();
        while course.next_action().unwrap() != Action::Terminate {
            let bytes = course.pack();
            let content = &bytes[..bytes.len() - 8];
            for (place, value) in
                (5..content.len()).flat_map(|place| (0..24).map(move |v| (place, v)))
            {
                let mut content = content.to_vec();
                content[place] = value;
                let case = format!("{content:?}");
                let Ok(mut course) = ConfiguredSchedule::unpack(&sealed(content)) else {
                    refused += 1;
                    continue;
                };
                accepted += 1;
                let ActiveSchedule::Mixed(Mixed { mut fine, slots, .. }) = course.way else {
                    continue;
                };
                while let Ok(action) = course.next_action() {
                    match action {
                        Action::Firsturn { step, .. }
                        | Action::Youturn { step, .. }
                        | Action::Reverse { step, .. } => {
                            assert_eq!(step, fine, "{case}");
                            fine -= 1;
                        }
                        Action::Advance { from, to } => assert!(from < to && to < fine, "{case}"),
                        Action::Record { step, slot } => {
                            assert!(step < fine && slot < slots, "{case}");
                        }
                        Action::Takeshot { state, slot, .. }
                        | Action::Restore { state, slot, .. } => {
                            assert!(state < fine && slot < slots, "{case}");
                        }
                        Action::Terminate => {}
                    }
                }
                assert_eq!(fine, 0, "{case}");
            }
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted}, {refused}");
}
