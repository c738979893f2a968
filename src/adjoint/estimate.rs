//! How long a computation will take, with failures, before it runs.
//!
//! Between two states that are stored in the first sweep, and between two stored adjoints, there is a
//! stretch of work that a failure takes back to its beginning. If failures come one in `m` on the
//! average, without memory, a stretch of `W` takes `(m + r) (e^(W / m) - 1)`, where `r` is what a
//! restart takes. In the reverse sweep the states in the slots are not those that were there at the
//! stretch's beginning. With some of them the way is shorter, others must be computed again; taken
//! together that changes little, as a simulation with [`super::resume`] shows (in the tests).

use super::outlook::Outlook;
use super::schedule::{Action, Plan, Schedule};
use super::upkeep::Threshold;

/// The most steps of a schedule that is gone through, as something can fail: some seconds.
pub const MOST_STEPS: u64 = 20_000_000;

/// What things take, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// A forward step.
    pub step: f64,
    /// A step that is recorded and reversed, in place of a forward step.
    pub turn: f64,
    /// Storing a state, as far as the application waits for it.
    pub write: f64,
    /// Reading one.
    pub read: f64,
    /// Storing the adjoint.
    pub adjoint: f64,
    /// From a failure to the first action after it.
    pub restart: f64,
    /// The mean time between failures; infinite if there are none.
    pub mtbf: f64,
}

impl Times {
    /// Where the adjoint is best stored.
    pub fn threshold(&self) -> Threshold {
        let Times { step, turn, adjoint, mtbf, .. } = *self;
        Threshold::new(adjoint / step, mtbf / step, turn / step)
    }
}

/// What is to be expected, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Without a failure.
    pub undisturbed: f64,
    /// With failures.
    pub expected: f64,
    /// How many there will be.
    pub failures: f64,
    /// Adjoints that are stored if nothing fails.
    pub adjoints: u64,
}

/// The sum over stretches of work.
#[derive(Default)]
struct Sum {
    undisturbed: f64,
    failures: f64,
    adjoints: u64,
    /// Since the last thing was stored from which a restart goes on.
    open: f64,
}

impl Sum {
    fn close(&mut self, times: &Times) {
        self.undisturbed += self.open;
        self.failures += (self.open / times.mtbf).exp_m1();
        self.open = 0.0;
    }

    fn estimate(self, times: &Times) -> Estimate {
        let Sum { undisturbed, failures, adjoints, .. } = self;
        let expected = match times.mtbf.is_finite() {
            true => (times.mtbf + times.restart) * failures,
            false => undisturbed,
        };
        Estimate { undisturbed, expected, failures, adjoints }
    }
}

impl Estimate {
    /// Of a plan. If that has no adjoint distance and something can fail, the adjoint is stored where
    /// it is best; otherwise never. If nothing can fail, it takes time in proportion to the slots; `None` if
    /// there are more than [`super::outlook::MOST_STATES`] of them. Else all actions are gone through; `None` if there are
    /// more than [`MOST_STEPS`] steps.
    pub fn of(plan: &Plan, times: &Times) -> Option<Estimate> {
        if times.mtbf.is_infinite() {
            return Estimate::undisturbed(plan, times);
        }
        Estimate::by_actions(plan, times)
    }

    /// Where nothing can fail, it does not matter when something is done.
    fn undisturbed(plan: &Plan, times: &Times) -> Option<Estimate> {
        let Outlook { advances, takeshots, .. } = Outlook::of(plan)?;
        let Times { step, turn, write, read, adjoint, .. } = *times;
        // After the first turn and each so many; but not when the adjoint has come to state 0.
        let last = plan.steps - 1;
        let adjoints = plan.adjoint.map_or(0, |a| last / a + u64::from(a > 1 && last > 0));
        // Each turn but the last is followed by a restore.
        let undisturbed = advances as f64 * step
            + plan.steps as f64 * turn
            + takeshots as f64 * write
            + last as f64 * read
            + adjoints as f64 * adjoint;
        Some(Estimate { undisturbed, expected: undisturbed, failures: 0.0, adjoints })
    }

    fn by_actions(plan: &Plan, times: &Times) -> Option<Estimate> {
        if plan.steps > MOST_STEPS {
            return None;
        }
        let threshold = Some(times.threshold())
            .filter(|_| plan.adjoint.is_none() && times.mtbf.is_finite() && times.adjoint > 0.0);
        let mut schedule = Schedule::new(*plan);
        if let Some(threshold) = threshold {
            schedule.store_adjoint_by_work(threshold);
        }
        let mut sum = Sum::default();
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
                Action::Terminate => break,
            }
        }
        sum.close(times);
        Some(sum.estimate(times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adjoint::resume::{resume, Survivors};
    use crate::adjoint::rule::Rule;
    use crate::adjoint::schedule::Stored;
    use std::collections::HashMap;

    const TIMES: Times = Times {
        step: 1.0,
        turn: 3.5,
        write: 0.7,
        read: 0.4,
        adjoint: 2.0,
        restart: 5.0,
        mtbf: 400.0,
    };

    fn plan(steps: u64, slots: u64, adjoint: Option<u64>) -> Plan {
        Plan { steps, slots, resilience: u64::MAX, adjoint, rule: Rule::Optimal }
    }

    /// A number between 0 and 1.
    fn random(seed: &mut u64) -> f64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((*seed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// One computation with failures at random: how long it takes, and how many there were.
    fn simulate(
        plan: Plan,
        threshold: Option<Threshold>,
        times: &Times,
        seed: &mut u64,
    ) -> (f64, f64) {
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
                    Action::Terminate => break false,
                };
                if takes > until {
                    break true;
                }
                (now, until) = (now + takes, until - takes);
                match action {
                    Action::Takeshot { state, slot } => {
                        slots.insert(slot, state);
                    }
                    Action::Firsturn { step, check: true }
                    | Action::Youturn { step, check: true } => adjoint = Some(step - 1),
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

    /// Catches an estimate that forgets something that takes time, or takes it to be lost where it is
    /// not.
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

    /// Catches an adjoint, a read or a state that is counted twice or not.
    #[test]
    fn without_failures_it_takes_what_the_actions_take() {
        let times = Times { mtbf: f64::INFINITY, ..TIMES };
        for (rule, _) in Rule::ALL {
            for (steps, slots) in [(100_u64, 5), (1, 1), (1, 3), (2, 1), (2, 2), (57, 80), (400, 3)]
            {
                for adjoint in [None, Some(1), Some(2), Some(12), Some(steps), Some(1000)] {
                    for resilience in [u64::MAX, steps.div_ceil(slots) + 1] {
                        let plan = Plan { resilience, rule, ..plan(steps, slots, adjoint) };
                        let found = Estimate::of(&plan, &times).unwrap();
                        let walked = Estimate::by_actions(&plan, &times).unwrap();
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
        // And as many as there are.
        let long = plan(1_000_000_000_000, 100, Some(1_000_000));
        let found = Estimate::of(&long, &times).unwrap();
        assert!(found.undisturbed > 1e13 && found.adjoints == 1_000_000, "{found:?}");
        assert_eq!(Estimate::of(&long, &TIMES), None);
    }
}
