//! Estimates, compared with the same computed action by action, and with simulations.

use super::*;
use crate::resume::{resume, Survivors};
use crate::rule::Rule;
use crate::schedule::{Action, Schedule, Stored};
use std::collections::HashMap;

const TIMES: Times =
    Times { step: 1.0, turn: 3.5, write: 0.7, read: 0.4, adjoint: 2.0, restart: 5.0, mtbf: 400.0 };

fn plan(steps: u64, slots: u64, adjoint: Option<u64>) -> Plan {
    Plan { steps, slots, resilience: u64::MAX, adjoint, rule: Rule::Optimal }
}

/// An estimate that goes through all actions.
fn by_actions(plan: &Plan, times: &Times) -> Estimate {
    let mut schedule = Schedule::new(*plan);
    if let Some(threshold) = times.threshold_for(plan) {
        schedule.store_adjoint_by_work(threshold);
    }
    let mut sum = TimeSum::default();
    loop {
        match schedule.next_action() {
            Action::Advance { from, to } => sum.open += (to - from) as f64 * times.step,
            Action::Takeshot { .. } => {
                sum.open += times.write;
                if schedule.fine() == plan.steps {
                    sum.close(times);
                }
            }
            Action::Restore { .. } => sum.open += times.read,
            Action::Firsturn { check, .. } | Action::Youturn { check, .. } => {
                sum.open += times.turn;
                if check {
                    sum.open += times.adjoint;
                    sum.adjoints += 1;
                    sum.close(times);
                }
            }
            Action::Record { .. } | Action::Reverse { .. } => panic!("in a plan that is not mixed"),
            Action::Terminate => break,
        }
    }
    sum.close(times);
    sum.estimate(times)
}

/// A number between 0 and 1.
fn random(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*seed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// Simulates one computation with random failures: its duration, and the number of failures.
fn simulate(plan: Plan, threshold: Option<Threshold>, times: &Times, seed: &mut u64) -> (f64, f64) {
    let mut slots = HashMap::new();
    let (mut adjoint, mut now, mut failures) = (None, 0.0, 0.0);
    let mut schedule = Schedule::new(plan);
    let mut until = -times.mtbf * random(seed).ln();
    loop {
        if let Some(threshold) = threshold {
            schedule.store_adjoint_by_work(threshold);
        }
        let failed = loop {
            let action = schedule.next_action();
            let takes = match action {
                Action::Advance { from, to } => (to - from) as f64 * times.step,
                Action::Takeshot { .. } => times.write,
                Action::Restore { .. } => times.read,
                Action::Firsturn { check, .. } | Action::Youturn { check, .. } => {
                    times.turn + if check { times.adjoint } else { 0.0 }
                }
                Action::Record { .. } | Action::Reverse { .. } => panic!("{action:?}"),
                Action::Terminate => break false,
            };
            if takes > until {
                break true;
            }
            (now, until) = (now + takes, until - takes);
            match action {
                Action::Takeshot { state, slot, .. } => {
                    slots.insert(slot, state);
                }
                Action::Firsturn { step, check: true } | Action::Youturn { step, check: true } => {
                    adjoint = Some(step - 1)
                }
                _ => {}
            }
        };
        if !failed {
            return (now, failures);
        }
        now += until + times.restart;
        until = -times.mtbf * random(seed).ln();
        failures += 1.0;
        let states = slots.iter().map(|(&slot, &state)| Stored { state, slot });
        let survivors = Survivors { states: states.collect(), adjoint, at_start: true };
        schedule = resume(plan, &survivors).unwrap();
    }
}

/// Catches an estimate that omits something that takes time, or counts work as lost that is not.
#[test]
fn a_simulation_takes_as_long() {
    let mut seed = 7;
    for (steps, slots, adjoint, mtbf) in [
        (200, 5, Some(10), 400.0),
        (200, 5, None, 400.0),
        (300, 8, Some(30), 1500.0),
        (300, 8, None, 250.0),
        (150, 3, None, 2000.0),
    ] {
        let (plan, times) = (plan(steps, slots, adjoint), Times { mtbf, ..TIMES });
        let estimate = Estimate::of(&plan, &times).unwrap();
        let threshold = adjoint.is_none().then(|| times.threshold());
        let runs = 3000;
        let (mut sum, mut failures) = (0.0, 0.0);
        for _ in 0..runs {
            let (time, failed) = simulate(plan, threshold, &times, &mut seed);
            (sum, failures) = (sum + time, failures + failed);
        }
        let (mean, failures) = (sum / f64::from(runs), failures / f64::from(runs));
        let off = [estimate.expected / mean, estimate.failures / failures];
        // Of 3000 runs the mean is known to 1 %.
        let is_near = |off: &f64| (0.95..1.05).contains(off);
        assert!(off.iter().all(is_near), "{plan:?}, {mtbf}: {off:?}");
    }
}

/// Catches an adjoint, a read or a state that is counted twice or not at all.
#[test]
fn without_failures_it_takes_what_the_actions_take() {
    let times = Times { mtbf: f64::INFINITY, ..TIMES };
    for (rule, _) in Rule::ALL {
        for (steps, slots) in [(100_u64, 5), (1, 1), (1, 3), (2, 1), (2, 2), (57, 80), (400, 3)] {
            for adjoint in [None, Some(1), Some(2), Some(12), Some(steps), Some(1000)] {
                for resilience in [u64::MAX, steps.div_ceil(slots) + 1] {
                    let plan = Plan { resilience, rule, ..plan(steps, slots, adjoint) };
                    let found = Estimate::of(&plan, &times).unwrap();
                    let walked = by_actions(&plan, &times);
                    let (found_time, time) = (found.undisturbed, walked.undisturbed);
                    assert!(
                        (found_time / time - 1.0).abs() < 1e-9,
                        "{plan:?}: {found_time}, {time}"
                    );
                    assert_eq!((found.expected, found.failures), (found_time, 0.0));
                    assert_eq!(found.adjoints, walked.adjoints, "{plan:?}");
                }
            }
        }
    }
    // Also for the largest number of steps.
    let long = plan(1_000_000_000_000, 100, Some(1_000_000));
    let found = Estimate::of(&long, &times).unwrap();
    assert!(found.undisturbed > 1e13 && found.adjoints == 1_000_000, "{found:?}");
}

/// Catches an adjoint stored at the wrong turn because its stretch was not entered, and a state or a read
/// counted in the wrong part of the work.
#[test]
fn with_failures_it_takes_what_the_actions_take() {
    for (rule, _) in Rule::ALL {
        for (steps, slots) in
            [(100_u64, 5), (1, 1), (1, 3), (2, 1), (2, 2), (57, 80), (400, 3), (90, 1)]
        {
            for adjoint in [None, Some(1), Some(2), Some(12), Some(steps), Some(1000)] {
                for (resilience, mtbf, store, write) in [
                    (u64::MAX, 400.0, 2.0, 0.7),
                    (u64::MAX, 4000.0, 2.0, 0.0),
                    (u64::MAX, 50_000.0, 0.01, 0.7),
                    (u64::MAX, 50_000.0, 0.0, 0.7),
                    (steps.div_ceil(slots) + 1, 2000.0, 20.0, 0.7),
                    (u64::MAX, f64::INFINITY, 2.0, 0.7),
                ] {
                    let plan = Plan { resilience, rule, ..plan(steps, slots, adjoint) };
                    let times = Times { mtbf, write, adjoint: store, ..TIMES };
                    let found = Estimate::with_failures(&plan, &times, u64::MAX).unwrap();
                    let walked = by_actions(&plan, &times);
                    let case = format!("{plan:?}, {times:?}: {found:?}, {walked:?}");
                    let is_near =
                        |one: f64, other: f64| one == other || (one / other - 1.0).abs() < 1e-9;
                    assert_eq!(found.adjoints, walked.adjoints, "{case}");
                    assert!(is_near(found.undisturbed, walked.undisturbed), "{case}");
                    assert!(is_near(found.expected, walked.expected), "{case}");
                    assert!(is_near(found.failures, walked.failures), "{case}");
                }
            }
        }
    }
}

/// Catches an estimate that takes time in proportion to the steps.
#[test]
fn the_longest_with_failures() {
    // A step takes a microsecond, and a failure happens once a day.
    let times = Times {
        step: 1e-6,
        turn: 3e-6,
        write: 1e-3,
        read: 1e-3,
        adjoint: 10.0,
        restart: 60.0,
        mtbf: 86_400.0,
    };
    for slots in [20, 100, 1000] {
        for adjoint in [None, Some(1_000_000_000)] {
            let long = Plan { rule: Rule::Monotone, ..plan(1_000_000_000_000, slots, adjoint) };
            let found = Estimate::of(&long, &times).unwrap();
            let never = Estimate::of(&long, &Times { mtbf: f64::INFINITY, ..times }).unwrap();
            let stored = (found.adjoints - never.adjoints) as f64 * times.adjoint;
            assert!((found.undisturbed / (never.undisturbed + stored) - 1.0).abs() < 1e-6);
            assert!(found.expected > found.undisturbed && found.failures > 100.0, "{found:?}");
        }
    }
    // The adjoint would be stored after nearly every turn.
    let long = plan(1_000_000_000_000, 100, None);
    assert_eq!(Estimate::with_failures(&long, &TIMES, 100_000), None);
}

/// Catches a plan that is refused although it is not too long, and the reverse: compares the estimated number
/// of visits with the real one.
#[test]
fn what_is_looked_at_is_known_about() {
    for rule in [Rule::Optimal, Rule::Monotone] {
        for (steps, slots) in
            [(10_000, 1), (50_000, 2), (10_000, 3), (20_000, 10), (20_000, 100), (6000, 900)]
        {
            for (adjoint, store) in
                [(None, 0.001), (None, 100.0), (None, 1e5), (Some(5), 1.0), (Some(700), 1.0)]
            {
                let plan = Plan { rule, ..plan(steps, slots, adjoint) };
                let times = Times { mtbf: 1e6, adjoint: store, ..TIMES };
                let about = visits_about(&plan, &times).unwrap();
                // The least limit under which the plan is visited to its end.
                let is_enough = |most: u64| {
                    let mut work = StretchVisitor::new(&plan, &times);
                    go_through(&plan, &mut work, most)
                };
                let (mut few, mut enough) = (0, 1);
                while !is_enough(enough) {
                    (few, enough) = (enough, 2 * enough);
                }
                assert!(visits_at_least(&plan, &times) <= enough as f64, "{plan:?}, {store}");
                let off = about / (few + enough) as f64 * 2.0;
                // The way to the very last step is visited in any case.
                let is_near = off < 2.0 && (off > 0.2 || few < 10 * slots);
                assert!(is_near, "{plan:?}, {store}: {about}, {few} to {enough}");
            }
        }
    }
    // Plans that are far too long are refused at once, also if the number of visits cannot be estimated.
    for slots in [2, 1_000_000] {
        let times = Times { mtbf: 1e5, adjoint: 10.0, ..TIMES };
        let long = plan(1_000_000_000_000, slots, None);
        assert!(visits_at_least(&long, &times) > MOST_STRETCHES as f64, "{slots}");
        assert_eq!(visits_about(&long, &times), None, "{slots}");
        assert_eq!(Estimate::of(&long, &times), None);
    }
    for (slots, write) in [(100, 1e-3), (3, 10.0), (10, 0.1)] {
        let times = Times { mtbf: 1e5, adjoint: write, ..TIMES };
        let long = plan(1_000_000_000_000, slots, None);
        assert!(visits_about(&long, &times) > Some(SURELY * MOST_STRETCHES as f64), "{slots}");
    }
}
