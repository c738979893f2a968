//! Schedules of each rule, gone through to the end.

use super::*;
use crate::brute_force::Player;

fn plan(steps: u64, slots: u64, resilience: u64, rule: Rule) -> Plan {
    Plan { steps, slots, resilience, adjoint: None, rule }
}

/// The states in the slots, by slot, once the adjoint has come to `fine`.
fn slots_at(plan: Plan, fine: u64) -> Vec<u64> {
    let (mut schedule, mut player) = (Schedule::new(plan), Player::new(plan.steps));
    // Up to the turn that brings it there, and for the first sweep up to the first turn.
    loop {
        let turns = schedule.clone().next_action();
        if player.fine == fine && (fine < plan.steps || matches!(turns, Action::Firsturn { .. })) {
            break;
        }
        let action = schedule.next_action();
        player.act(&schedule, action);
    }
    let mut slots = player.survivors();
    slots.sort_by_key(|stored| stored.slot);
    slots.iter().map(|stored| stored.state).collect()
}

#[test]
fn the_distributions_of_the_paper() {
    let any = u64::MAX;
    // Figures 2 to 5, and section 4.2, where the last distribution is said to be that of the 64th
    // step of the adjoint.
    assert_eq!(slots_at(plan(100, 5, any, Rule::Resilient), 100), [0, 45, 70, 86, 95]);
    assert_eq!(slots_at(plan(100, 5, 30, Rule::Resilient), 100), [0, 30, 60, 80, 94]);
    assert_eq!(slots_at(plan(100, 5, 30, Rule::Resilient), 64), [0, 30, 60, 64, 65]);
    assert_eq!(slots_at(plan(100, 5, 30, Rule::Resilient), 57), [0, 30, 44, 51, 56]);
    assert_eq!(slots_at(plan(100, 5, any, Rule::Shortest), 64), [0, 30, 45, 55, 61]);
    assert_eq!(slots_at(plan(100, 5, any, Rule::Shortest), 100), [0, 30, 65, 85, 95]);
}

/// Revolve stores no more states than the least number of advances requires, by dynamic programming over both
/// numbers.
#[test]
fn revolve_stores_the_fewest_states() {
    const STEPS: usize = 120;
    // [l]: the advances and, of these, the states stored behind the first, with c slots.
    let mut fewer: Vec<(u64, u64)> =
        (0..=STEPS as u64).map(|l| (l * l.saturating_sub(1) / 2, 0)).collect();
    for c in 1..=9 {
        let least = match c {
            1 => fewer.clone(),
            _ => (0..=STEPS).fold(Vec::new(), |mut least: Vec<(u64, u64)>, l| {
                let split = |m: usize| {
                    let (left, right) = (least[m], fewer[l - m]);
                    // Before the last step nothing needs to be stored.
                    let stored = u64::from(l - m > 1);
                    (m as u64 + left.0 + right.0, left.1 + right.1 + stored)
                };
                least.push((1..l).map(split).min().unwrap_or((0, 0)));
                least
            }),
        };
        for (l, &(advances, stored)) in least.iter().enumerate().skip(1) {
            let mut schedule = Schedule::new(plan(l as u64, c, u64::MAX, Rule::Resilient));
            while schedule.next_action() != Action::Terminate {}
            let done = schedule.done();
            let expected = (u128::from(advances), stored + 1);
            assert_eq!((done.advances, done.takeshots), expected, "{l} steps, {c} slots");
        }
        fewer = least;
    }
}

/// The largest number of steps and of slots: each action can be done, with each rule, and the first actions
/// of the way back take no long computation.
#[test]
fn numbers_as_large_as_they_come() {
    for rule in Rule::ALL.map(|(rule, _)| rule) {
        for steps in [1_000_000_000_000, binomial::MAX_STEPS - 1, binomial::MAX_STEPS] {
            for slots in [1, 2, 3, 50, 1000, 1 << 32, binomial::MAX_STEPS] {
                for d in [u64::MAX, steps.div_ceil(slots), steps.div_ceil(slots) + 1000] {
                    let plan = plan(steps, slots, d, rule);
                    assert_eq!(plan.check(), Ok(()));
                    let (mut schedule, mut player) = (Schedule::new(plan), Player::new(steps));
                    for _ in 0..3000 {
                        let action = schedule.next_action();
                        player.act(&schedule, action);
                    }
                    assert!(slots > 1000 || player.fine < steps, "{plan:?}");
                }
            }
        }
    }
}

#[test]
fn every_rule_comes_to_the_end_within_its_bounds() {
    for rule in Rule::ALL.map(|(rule, _)| rule) {
        for slots in 1..=7 {
            for steps in 1..=50 {
                for d in [1, 2, 3, 5, 8, 13, 21, u64::MAX] {
                    if !bound::feasible(steps, slots, d) {
                        continue;
                    }
                    let mut schedule = Schedule::new(plan(steps, slots, d, rule));
                    let mut player = Player::new(steps);
                    let mut sweep = Vec::new();
                    let done = loop {
                        let action = schedule.next_action();
                        player.act(&schedule, action);
                        match action {
                            Action::Takeshot { state, .. } if player.fine == steps => {
                                sweep.push(state);
                            }
                            Action::Terminate => break player.done,
                            _ => {}
                        }
                    };
                    let name = format!("{rule:?}, {steps} steps, {slots} slots, {d}");
                    // The last step is not swept over but reversed.
                    let is_swept = sweep[sweep.len() - 1] < steps - 1;
                    let swept = sweep.iter().copied().chain(is_swept.then_some(steps - 1));
                    let swept: Vec<u64> = swept.collect();
                    let swept: Vec<u64> = swept.windows(2).map(|two| two[1] - two[0]).collect();
                    assert!(swept.iter().all(|piece| *piece <= d), "{name}");
                    // Nor is the state before it stored: with a distance of 1 that is one too many.
                    sweep.push(if d > 1 { steps } else { steps - 1 });
                    assert!(sweep.windows(2).all(|two| two[1] - two[0] <= d), "{name}");
                    let least = bound::advances(steps, slots, d);
                    assert!(done.advances >= least, "{name}");
                    // Theorem 4.2: distances that never grow, and they are as good as any.
                    let is_monotone = rule == Rule::Monotone;
                    assert!(!is_monotone || swept.is_sorted_by(|a, b| a >= b), "{name}");
                    if rule == Rule::Optimal || d >= steps || is_monotone {
                        assert_eq!(done.advances, least, "{name}");
                    }
                    // Section 3: a little dearer at the worst.
                    if rule == Rule::Resilient {
                        assert!(done.advances as f64 <= 1.016 * least as f64, "{name}");
                    }
                }
            }
        }
    }
}
