//! The costs of strategies, compared with their definitions and with the same action by action.

use super::*;
use crate::brute_force::Player;
use crate::schedule::Action;

fn plan(steps: u64, slots: u64, resilience: u64) -> Plan {
    Plan { steps, slots, resilience, adjoint: Some(12), rule: Rule::Optimal }
}

/// The paper's example: 100 steps, 5 slots, distance 30. Numbers by hand from the definitions.
#[test]
fn the_example_of_the_paper() {
    let plan = plan(100, 5, 30);
    let all = compare(&plan, &PlanCost::of(&plan).unwrap());
    let [chosen, continuous, single, two_level] = &all[..] else { panic!() };
    // Five more than without the distance.
    assert_eq!((chosen.advances, chosen.most_lost), (321, 30));
    assert_eq!(continuous.advances, 316);
    // Revolve's states are 0 45 70 86 95, and up to 95 each is stored.
    assert_eq!((continuous.most_lost, continuous.mean_lost), (5, 5.0 * 5.0 / 2.0 / 100.0));
    // r = 5 with 4 slots: β(4, 4) = 70, and 5 · 100 - β(5, 4) = 500 - 126.
    assert_eq!((single.advances, single.strategy), (374, Strategy::SingleRecovery { every: 30 }));
    assert!(single.most_lost <= 30);
    let Strategy::TwoLevel { piece, slots } = two_level.strategy else { panic!() };
    assert!(piece <= 30 && two_level.most_lost == piece);
    assert_eq!(100_u64.div_ceil(piece) + slots - 1, 5);
}

/// Carries out all pieces of the two-level strategy.
#[test]
fn two_level_takes_what_its_parts_take() {
    for (steps, slots) in [(97, 4), (100, 20), (1000, 12), (30, 30), (1, 1), (50, 1)] {
        let costs = two_level(&plan(steps, slots, u64::MAX), steps.div_ceil(slots) + 10);
        let Strategy::TwoLevel { piece, slots: inner } = costs.strategy else { panic!() };
        let (mut begin, mut advances, mut writes) = (0, 0, 0);
        while begin < steps {
            let length = piece.min(steps - begin);
            let within = Plan { adjoint: None, ..plan(length, inner, u64::MAX) };
            let mut schedule = Schedule::new(within);
            while schedule.next_action() != Action::Terminate {}
            advances += schedule.done().advances;
            writes += u128::from(schedule.done().takeshots);
            begin += length;
            advances += if begin < steps { u128::from(length) } else { 0 };
        }
        assert_eq!(costs.advances, advances, "{steps} steps, {slots} slots");
        assert_eq!(costs.writes, writes, "{steps} steps, {slots} slots");
        // Never better than one schedule with as many slots.
        assert!(costs.advances >= binomial::advances(steps, slots));
    }
}

/// A crash costs at most what was done since the adjoint was stored, and the way to a state.
#[test]
fn crashes_of_the_reverse_sweep() {
    let plan = plan(400, 8, 90);
    for costs in compare(&plan, &PlanCost::of(&plan).unwrap()) {
        let (most, mean) = costs.reverse_lost;
        assert!(mean > 0.0 && mean <= most as f64, "{costs:?}");
        assert!(most < costs.advances, "{costs:?}");
    }
}

/// The same by going through both schedules action by action.
fn walked(plan: &Plan, fine: u64) -> u128 {
    let to_the_end = |mut schedule: Schedule| {
        let before = schedule.done().advances;
        while schedule.next_action() != Action::Terminate {}
        schedule.done().advances - before
    };
    let (mut schedule, mut player) = (Schedule::new(*plan), Player::new(plan.steps));
    while schedule.fine() > fine {
        let action = schedule.next_action();
        player.act(&schedule, action);
    }
    let (states, adjoint) = (player.survivors(), player.adjoint);
    let again = resume_soon(*plan, &Survivors { states, adjoint, at_start: true }).unwrap();
    let turned = u128::from(adjoint.unwrap_or(plan.steps) - fine);
    (to_the_end(again) + turned).saturating_sub(to_the_end(schedule))
}

/// Catches steps before the crash that are counted as lost, and steps reversed again that are left out.
#[test]
fn what_a_crash_costs_is_what_the_actions_take_more() {
    for (rule, _) in Rule::ALL {
        for (steps, slots, resilience) in [(100, 5, 30), (97, 3, u64::MAX), (60, 20, 4), (9, 12, 5)]
        {
            for adjoint in [None, Some(1), Some(12)] {
                let plan = Plan { steps, slots, resilience, adjoint, rule };
                let all = Schedule::new(plan).advances_left();
                for fine in 0..steps {
                    assert_eq!(lost_at(&plan, all, fine), walked(&plan, fine), "{plan:?}, {fine}");
                }
            }
        }
    }
}

/// Catches work in proportion to the steps.
#[test]
fn the_longest_plans() {
    for (steps, slots, resilience) in
        [(binomial::MAX_STEPS, 50, u64::MAX), (1_000_000_000, 100, 20_000_000)]
    {
        let plan = Plan { adjoint: Some(1007), ..plan(steps, slots, resilience) };
        for costs in compare(&plan, &PlanCost::of(&plan).unwrap()) {
            let (most, mean) = costs.reverse_lost;
            assert!(mean > 0.0 && mean <= most as f64 && most < costs.advances, "{costs:?}");
            assert!(costs.writes > u128::from(slots), "{costs:?}");
        }
    }
}
