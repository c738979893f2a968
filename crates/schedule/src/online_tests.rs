//! Passes whose end is not known, to each end, and after crashes.

use super::*;
use crate::brute_force::Player;

/// A pass that ends after each number of steps in turn.
fn pass(slots: u64, steps: u64, mut each: impl FnMut(&Online, u64, u64)) {
    let (mut online, mut kept) = (Online::new(slots), std::collections::BTreeMap::new());
    let mut takeshots = 0;
    for end in 1..=steps {
        loop {
            match online.next_action() {
                Action::Takeshot { state, slot, .. } => {
                    assert!(slot < slots);
                    assert_eq!(Some(state), online.at());
                    takeshots += 1;
                    kept.insert(slot, state);
                }
                Action::Advance { from, to } => {
                    assert_eq!((from, to), (end - 1, end));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        for stored in online.stored() {
            assert_eq!(kept.get(&stored.slot), Some(&stored.state));
        }
        each(&online, end, takeshots);
    }
}

/// Carries out the way back; returns how often the most repeated step is computed without being recorded, and
/// all advances, including those of the pass.
fn back(online: &Online, steps: u64) -> (u64, u128) {
    let mut schedule = online.end(None).unwrap();
    let mut player = Player::with(online.stored(), steps, Some(steps));
    let mut times = vec![1; steps as usize];
    while let Some(action) = Iterator::next(&mut schedule) {
        if let Action::Advance { from, to } = action {
            times[from as usize..to as usize].iter_mut().for_each(|times| *times += 1);
        }
        player.act(&schedule, action);
    }
    assert_eq!(player.fine, 0);
    (*times.iter().max().unwrap(), player.done.advances + u128::from(steps))
}

/// Wherever the end is: each state of the way back is there, and no step is repeated more often than in a
/// schedule that knew of one step more.
#[test]
fn the_repetition_number_is_the_least_wherever_the_end_is() {
    for slots in 1..=9 {
        pass(slots, 260, |online, end, _| {
            let (times, _) = back(online, end);
            assert_eq!(times, repetitions(end + 1, slots).0, "{slots} slots, {end} steps");
        });
    }
}

/// The cost of not knowing the end, at each of thousands of ends.
#[test]
fn the_advances_are_nearly_those_of_one_that_knew() {
    let steps = 3000;
    for slots in 1..=20 {
        let (mut most, mut sum) = (1.0_f64, 0.0);
        let mut shots = 0;
        pass(slots, steps, |online, end, takeshots| {
            // The advances behind each stored state. That the way back takes no more is checked only now and
            // then, as it takes long.
            let mut ends = online.stored().iter().skip(1).map(|stored| stored.state);
            let pieces = online.stored().iter().zip((1..=slots).rev());
            let pieces = pieces
                .map(|(from, slots)| advances(ends.next().unwrap_or(end) - from.state, slots));
            let found = u128::from(end) + pieces.sum::<u128>();
            if end % 271 == 0 && slots > 1 {
                assert_eq!(back(online, end).1, found, "{slots} slots, {end} steps");
            }
            let found = found as f64;
            let excess = found / advances(end + 1, slots) as f64;
            assert!(excess >= 1.0);
            (most, sum, shots) = (most.max(excess), sum + excess, takeshots);
        });
        let mean = sum / steps as f64;
        let (worst, average) = if slots < 10 { (1.123, 1.017) } else { (1.011, 1.0015) };
        assert!(most < worst && mean < average, "{slots} slots: {most}, {mean}");
        assert!(slots > 1 || most == 1.0);
        // Wang et al. store each state.
        assert!(slots == 1 || shots < steps / 3, "{slots} slots: {shots} stored");
    }
}

/// One step more, announced as the last: recording it is the next action, and the pass takes not one advance
/// more for it. So it is compared with a schedule that knew the end, at each of hundreds of ends.
#[test]
fn a_last_step_that_is_known_is_recorded_at_once() {
    for slots in 1..=9 {
        pass(slots, 260, |online, end, _| {
            let steps = end + 1;
            let mut schedule = online.end_after_next(Some(7)).unwrap();
            assert_eq!(schedule.plan().steps, steps);
            let left = schedule.advances_left();
            let mut player = Player::with(online.stored(), steps, Some(end));
            let mut first = None;
            while let Some(action) = Iterator::next(&mut schedule) {
                first = first.or(Some(action));
                player.act(&schedule, action);
            }
            assert_eq!(player.fine, 0);
            let check = Some(Action::Firsturn { step: steps, check: true });
            assert_eq!(first, check, "{slots} slots, {steps} steps");
            let (_, without) = back(online, end);
            let all = player.done.advances + u128::from(end);
            assert_eq!(
                (left, all),
                (player.done.advances, without),
                "{slots} slots, {steps} steps"
            );
            assert!(all >= advances(steps, slots));
            if repetitions(steps, slots).0 <= 2 {
                assert_eq!(all, advances(steps, slots), "{slots} slots, {steps} steps");
            }
            // Learning that after the step takes more.
            let mut late = online.clone();
            while late.at() != Some(steps) {
                late.next_action();
            }
            assert!(all < back(&late, steps).1, "{slots} slots, {steps} steps");
        });
    }
}

/// Catches a pass of one step that is refused, and a step that is made from a state that is not there.
#[test]
fn a_last_step_at_the_beginning_and_after_a_crash() {
    let mut only = Online::new(3).end_after_next(None).unwrap();
    let mut player = Player::new(1);
    assert_eq!((player.play(&mut only).advances, only.plan().steps), (0, 1));
    let states = [(0, 0), (4, 2)].map(|(state, slot)| Stored { state, slot });
    let mut resumed = Online::resumed(3, &states).unwrap();
    assert!(resumed.end_after_next(None).is_none());
    assert!(Online::resumed_at_start(3, &states[1..]).end_after_next(None).is_none());
    assert_eq!(resumed.next_action(), Action::Restore { state: 4, slot: 2, read_again: true });
    let mut schedule = resumed.end_after_next(None).unwrap();
    let mut player = Player::with(&states, 5, Some(4));
    assert_eq!(player.play(&mut schedule).advances, advances(4, 3));
}

/// Up to β(c, 2) steps one that knew the end could not do better (Stumm, Walther, SIAM J. Sci.
/// Comput. 32 (2010)).
#[test]
fn nothing_is_lost_up_to_two_repetitions() {
    for (slots, steps, every) in [(4, 13, 1), (9, 53, 1), (20, 229, 1), (300, 2000, 97)] {
        assert_eq!(repetitions(steps + 1, slots).0, 2);
        pass(slots, steps, |online, end, _| {
            if end % every == 0 {
                let (_, all) = back(online, end);
                assert_eq!(all, advances(end + 1, slots), "{slots} slots, {end} steps");
            }
        });
    }
}

/// State 0 is lost, and any of the others; the application has state 0 as at its beginning. Catches a restart
/// that is refused, a kept state that is overwritten, a state stored where there is no slot, and a last state
/// that is given up or restored before state 0 is stored.
#[test]
fn a_crash_that_leaves_no_state_0() {
    for slots in 1..=5_u64 {
        for end in [1, 4, 9, 30] {
            let mut online = Online::new(slots);
            while online.at() != Some(end) {
                online.next_action();
            }
            // States also in the slot that had state 0, as in applications that move them.
            let mut all = online.stored()[1..].to_vec();
            for more in [false, true] {
                if more {
                    all.push(Stored { state: end + 1, slot: 0 });
                }
                for choice in 0..1_u32 << all.len() {
                    let left = all.iter().enumerate().filter(|(i, _)| choice >> i & 1 > 0);
                    let left: Vec<Stored> = left.map(|(_, stored)| *stored).collect();
                    check_start(slots, &left, end + 40);
                }
            }
        }
    }
}

fn check_start(slots: u64, left: &[Stored], end: u64) {
    let mut online = Online::resumed_at_start(slots, left);
    let mut kept: std::collections::BTreeMap<_, _> =
        left.iter().map(|stored| (stored.slot, stored.state)).collect();
    let last = left.iter().map(|stored| stored.state).max().filter(|_| slots > 1);
    let mut at = Some(0);
    while online.at() != Some(end) {
        assert!(online.stored().len() as u64 <= slots);
        match online.next_action() {
            Action::Takeshot { state, slot, .. } => {
                assert!(at == Some(state) && slot < slots, "{left:?}");
                kept.insert(slot, state);
                at = at.filter(|_| state > 0 || last.is_none());
            }
            Action::Restore { state, slot, .. } => {
                assert_eq!((kept.get(&slot), Some(state)), (Some(&state), last), "{left:?}");
                at = Some(state);
            }
            Action::Advance { from, to } => {
                assert!(at == Some(from) && to == from + 1, "{left:?}");
                at = Some(to);
            }
            other => panic!("{other:?}"),
        }
        for stored in online.stored().iter().filter(|_| at.is_some()) {
            assert_eq!(kept.get(&stored.slot), Some(&stored.state), "{left:?}");
        }
    }
    assert_eq!(online.stored()[0].state, 0);
    back(&online, end);
}

/// Catches giving up another state than the one whose loss costs least.
#[test]
fn the_cheapest_makes_room_for_state_0() {
    for slots in 2..=6_u64 {
        for seed in 0..300_u64 {
            let mut states = vec![Stored { state: 0, slot: u64::MAX }];
            for slot in 0..slots {
                let gap = 1 + (seed.wrapping_mul(2_654_435_761) >> (5 * slot)) % 23;
                let state = states[states.len() - 1].state + gap;
                states.push(Stored { state, slot });
            }
            let cost = |lost: usize| {
                let left: Vec<_> = states.iter().enumerate().filter(|(i, _)| *i != lost).collect();
                let pieces = left.windows(2).zip(0..);
                let pieces = pieces.map(|(pair, before)| {
                    advances(pair[1].1.state - pair[0].1.state, slots - before)
                });
                pieces.sum::<u128>()
            };
            let least = (1..states.len() - 1).map(cost).min().unwrap();
            assert_eq!(cost(dispensable(&states, slots)), least, "{states:?}");
        }
    }
}

#[test]
fn a_crash_of_a_pass() {
    let mut online = Online::new(4);
    let mut last = Action::Terminate;
    while online.at() != Some(37) {
        last = online.next_action();
    }
    assert_eq!(last, Action::Advance { from: 36, to: 37 });
    let states = online.stored().to_vec();
    let mut again = Online::resumed(4, &states).unwrap();
    let top = *states.last().unwrap();
    assert!(again.end(None).is_none());
    let restored = Action::Restore { state: top.state, slot: top.slot, read_again: true };
    assert_eq!(again.next_action(), restored);
    let from = top.state;
    assert_eq!(again.next_action(), Action::Advance { from, to: from + 1 });
    while again.at() != Some(300) {
        again.next_action();
    }
    let (times, _) = back(&again, 300);
    assert_eq!(times, repetitions(301, 4).0);

    // A lost state leaves a slot; without state 0 the pass cannot continue.
    let mut again = Online::resumed(4, &[states[0], states[2]]).unwrap();
    again.next_action();
    again.next_action();
    let Action::Takeshot { slot, .. } = again.next_action() else { panic!() };
    assert!(slot != states[0].slot && slot != states[2].slot && slot < 4);
    assert!(Online::resumed(4, &states[1..]).is_none());
    assert_eq!(
        Online::resumed(4, &[]).unwrap().next_action(),
        Action::Takeshot { state: 0, slot: 0, read_again: true }
    );
}
