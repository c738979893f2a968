//! Positions computed directly, compared with those reached action by action.

use super::*;
use crate::bound::feasible;
use crate::brute_force::Player;
use crate::resume::{resume, Survivors};
use crate::rule::Rule;
use crate::schedule::Action;

fn plans(each: impl Fn(Plan)) {
    for (rule, _) in Rule::ALL {
        for slots in 1..=7 {
            for steps in (1..=24).chain([40, 57, 90]) {
                for resilience in [1, 2, 3, 5, 8, 13, 30, u64::MAX] {
                    for adjoint in [None, Some(1), Some(7), Some(100)] {
                        if feasible(steps, slots, resilience) {
                            each(Plan { steps, slots, resilience, adjoint, rule });
                        }
                    }
                }
            }
        }
    }
}

/// At each state that the adjoint comes to. Catches a slot with another state than the one stored last, a
/// slot left out, and steps counted twice or not at all.
#[test]
fn a_leap_comes_to_what_the_actions_have_left() {
    plans(|plan| {
        let (mut schedule, mut player) = (Schedule::new(plan), Player::new(plan.steps));
        while let Some(action) = Iterator::next(&mut schedule) {
            player.act(&schedule, action);
            if matches!(action, Action::Firsturn { .. } | Action::Youturn { .. }) {
                let left = Remaining::at(&plan, schedule.fine());
                let mut states = player.survivors();
                states.sort_unstable_by_key(|stored| stored.slot);
                assert_eq!(left.states, states, "{plan:?}, {}", schedule.fine());
                assert_eq!(left.adjoint, player.adjoint, "{plan:?}, {}", schedule.fine());
                assert_eq!(left.advances, player.done.advances, "{plan:?}, {}", schedule.fine());
            }
        }
    });
}

/// At each action, of schedules from the beginning and after a crash at some places, with and without a lost
/// state. Catches the way of a moved state that is left out, and slots counted wrongly.
#[test]
fn what_is_left_to_do_is_what_comes() {
    let check = |mut schedule: Schedule, case: &str| {
        let mut left = vec![(0, schedule.advances_left())];
        while Iterator::next(&mut schedule).is_some() {
            left.push((schedule.done().advances, schedule.advances_left()));
        }
        let all = schedule.done().advances;
        assert!(left.iter().all(|(done, left)| done + left == all), "{case}: {all}, {left:?}");
    };
    plans(|plan| {
        check(Schedule::new(plan), &format!("{plan:?}"));
        for fine in (0..plan.steps).step_by(11) {
            let Remaining { states, adjoint, .. } = Remaining::at(&plan, fine);
            for lost in 0..=states.len() {
                let mut states = states.clone();
                if lost < states.len() {
                    states.remove(lost);
                }
                let survivors = Survivors { states, adjoint, at_start: true };
                let schedule = resume(plan, &survivors).unwrap();
                check(schedule, &format!("{plan:?}, {survivors:?}"));
            }
        }
    });
}

/// The largest number of steps. Catches work step by step, and recursion into each part.
#[test]
fn the_longest_plans() {
    let most = binomial::MAX_STEPS;
    let plans = [(1_000_000_000_000, 4), (most, 5), (most, 100), (1_000_000_000_000, 10_000)];
    for (steps, slots) in plans {
        for (rule, _) in Rule::ALL {
            let plan = Plan { steps, slots, resilience: u64::MAX, adjoint: Some(1000), rule };
            for fine in [steps - 1, steps / 3, 12_345, 1, 0] {
                let left = Remaining::at(&plan, fine);
                let used = left.states.len() as u64;
                assert!(used <= slots && (fine > 0 || used == slots), "{plan:?}, {fine}: {used}");
                let Remaining { states, advances, .. } = left;
                let adjoint = Some(fine).filter(|fine| *fine > 0);
                let survivors = Survivors { states, adjoint, at_start: false };
                if slots <= 100 && fine > 0 {
                    let rest = resume(plan, &survivors).unwrap().advances_left();
                    assert!(
                        rest + advances <= binomial::advances(steps, slots),
                        "{plan:?}, {fine}"
                    );
                }
            }
            let all = Remaining::at(&plan, 0);
            assert_eq!(all.advances, binomial::advances(steps, slots));
            assert_eq!(all.advances, Schedule::new(plan).advances_left());
        }
    }
}
