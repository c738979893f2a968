//! The expected duration of a computation, with failures, before it runs.
//!
//! Between two states that are stored in the first sweep, and between two stored adjoints, a failure returns
//! to the beginning of the stretch of work. If failures are memoryless with a mean time `m` between them, a
//! stretch of `W` takes `(m + r) (e^(W / m) - 1)`, where `r` is the time of a restart. In the reverse sweep
//! the states in the slots are not those at the beginning of the stretch: some make the way shorter, others
//! must be computed again. Together that changes little, as a simulation with [`super::resume`] shows (in the
//! tests).

use super::adjoint_interval::{AdjointInterval, Threshold};
use super::binomial;
use super::cost::PlanCost;
use super::schedule::{Done, Plan};
use super::stretches::{go_through, Stretch, Visitor};
use super::visits::visits;

/// The most stretches of a plan that are visited if something can fail, which takes some seconds. Plans of up
/// to 20 million steps have no more.
pub const MOST_STRETCHES: u64 = 40_000_000;

/// A plan is refused without a visit if the estimated number of stretches exceeds the limit by this factor.
const SURELY: f64 = 3.0;

/// Durations, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// A forward step.
    pub step: f64,
    /// A step that is recorded and reversed, in place of a forward step.
    pub turn: f64,
    /// Storing a state, as far as the application waits for it.
    pub write: f64,
    /// Reading a state.
    pub read: f64,
    /// Storing the adjoint.
    pub adjoint: f64,
    /// From a failure to the first action after it.
    pub restart: f64,
    /// The mean time between failures; infinite if there are none.
    pub mtbf: f64,
}

impl Times {
    /// The threshold at which storing the adjoint costs least.
    pub(crate) fn threshold(&self) -> Threshold {
        let Times { step, turn, adjoint, mtbf, .. } = *self;
        Threshold::new(adjoint / step, mtbf / step, turn / step)
    }

    /// The same, if the plan has no adjoint distance and storing the adjoint helps.
    fn threshold_for(&self, plan: &Plan) -> Option<Threshold> {
        let is_asked = plan.adjoint.is_none() && self.mtbf.is_finite() && self.adjoint > 0.0;
        is_asked.then(|| self.threshold())
    }
}

/// The expected result, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Without a failure.
    pub undisturbed: f64,
    /// With failures.
    pub expected: f64,
    /// The expected number of failures.
    pub failures: f64,
    /// Adjoints that are stored if nothing fails.
    pub adjoints: u64,
}

/// The sum over stretches of work.
#[derive(Default)]
struct TimeSum {
    undisturbed: f64,
    failures: f64,
    adjoints: u64,
    /// Work since something was stored from which a restart can continue.
    open: f64,
}

impl TimeSum {
    fn close(&mut self, times: &Times) {
        self.undisturbed += self.open;
        self.failures += (self.open / times.mtbf).exp_m1();
        self.open = 0.0;
    }

    fn estimate(self, times: &Times) -> Estimate {
        let TimeSum { undisturbed, failures, adjoints, .. } = self;
        let expected = match times.mtbf.is_finite() {
            true => (times.mtbf + times.restart) * failures,
            false => undisturbed,
        };
        Estimate { undisturbed, expected, failures, adjoints }
    }
}

impl Estimate {
    /// The estimate for a plan. If the plan has no adjoint distance and something can fail, the adjoint is
    /// stored where that costs least; otherwise never. If nothing can fail, this takes time in proportion to
    /// the slots; `None` if the first sweep has more than `super::cost::MOST_STATES` states. Otherwise the
    /// places where the adjoint is stored are searched, in time in proportion to their number; `None` if more
    /// than [`MOST_STRETCHES`] stretches would be visited, at once if it is many more.
    pub fn of(plan: &Plan, times: &Times) -> Option<Estimate> {
        if times.mtbf.is_infinite() {
            return Estimate::undisturbed(plan, times);
        }
        Estimate::with_failures(plan, times, MOST_STRETCHES)
    }

    /// Without failures it does not matter when something is done.
    fn undisturbed(plan: &Plan, times: &Times) -> Option<Estimate> {
        let PlanCost { advances, takeshots, .. } = PlanCost::of(plan)?;
        let Times { step, turn, write, read, adjoint, .. } = *times;
        // After the first turn and at each multiple; but not when the adjoint has come to state 0.
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

    fn with_failures(plan: &Plan, times: &Times, most: u64) -> Option<Estimate> {
        let is_too_long = visits_at_least(plan, times) > most as f64
            || visits_about(plan, times).is_some_and(|visits| visits > SURELY * most as f64);
        if is_too_long {
            return None;
        }
        let mut work = StretchVisitor::new(plan, times);
        if !go_through(plan, &mut work, most) {
            return None;
        }
        work.sum.close(times);
        Some(work.sum.estimate(times))
    }
}

/// A lower bound on the stretches visited: each turn after which the adjoint is stored is one, and each but
/// the first comes with another.
fn visits_at_least(plan: &Plan, times: &Times) -> f64 {
    let turns = match (times.threshold_for(plan), plan.adjoint) {
        // One turn earlier the threshold has not been reached.
        (Some(Threshold { work, turn }), _) => work / turn + 1.0,
        (None, Some(every)) => every as f64,
        (None, None) => return 0.0,
    };
    2.0 * (plan.steps as f64 / turns - 2.0)
}

/// An estimate of the stretches visited, if it can be computed at once.
fn visits_about(plan: &Plan, times: &Times) -> Option<f64> {
    match (times.threshold_for(plan), plan.adjoint) {
        (Some(Threshold { work, turn }), _) => visits(plan, work, |steps, slots| {
            binomial::advances(steps, slots) as f64 + steps as f64 * turn
        }),
        (None, Some(every)) => visits(plan, every as f64, |steps, _| steps as f64),
        (None, None) => None,
    }
}

/// Visits a plan and enters the stretches in which the adjoint is stored.
struct StretchVisitor<'a> {
    plan: &'a Plan,
    times: &'a Times,
    sum: TimeSum,
    done: Done,
    interval: AdjointInterval,
}

impl<'a> StretchVisitor<'a> {
    fn new(plan: &'a Plan, times: &'a Times) -> StretchVisitor<'a> {
        let interval = AdjointInterval { threshold: times.threshold_for(plan), since: None };
        StretchVisitor { plan, times, sum: TimeSum::default(), done: Done::default(), interval }
    }

    /// The advances before the next turn, if `top` is restored for it.
    fn ahead(fine: u64, top: Option<u64>) -> u64 {
        fine.saturating_sub(top.unwrap_or(0) + 1)
    }
}

impl Visitor for StretchVisitor<'_> {
    fn enters(&mut self, stretch: &Stretch, top: Option<u64>) -> bool {
        let StretchVisitor { plan, times, .. } = *self;
        let (turns, advances) = (stretch.steps(), stretch.advances());
        let mut done = self.done;
        (done.turns, done.advances) = (done.turns + turns, done.advances + advances);
        let is_due = match self.interval.threshold {
            // The possible loss grows from turn to turn. The adjoint is not stored at the very end, but may
            // be before.
            Some(_) if stretch.low == 0 => turns > 1,
            Some(_) => {
                let place = (stretch.low, plan.steps);
                let mut interval = self.interval;
                interval.is_due(plan.adjoint, place, done, StretchVisitor::ahead(stretch.low, top))
            }
            None => plan.adjoint.is_some_and(|every| {
                let last = (plan.steps - stretch.low.max(1)) / every * every;
                stretch.end > 1 && last > plan.steps - stretch.end
            }),
        };
        if is_due {
            return true;
        }
        self.done = done;
        self.sum.open += advances as f64 * times.step + turns as f64 * (times.turn + times.read);
        if times.write > 0.0 {
            self.sum.open += stretch.takeshots(plan) as f64 * times.write;
        }
        false
    }

    fn advances(&mut self, from: u64, to: u64) {
        self.done.advances += u128::from(to - from);
        self.sum.open += (to - from) as f64 * self.times.step;
    }

    fn stores(&mut self, _: u64) {
        self.sum.open += self.times.write;
        if self.done.turns == 0 {
            self.sum.close(self.times);
        }
    }

    fn turns(&mut self, step: u64, top: Option<u64>) {
        self.done.turns += 1;
        // Each turn but the first begins by reading a state.
        self.sum.open += self.times.turn;
        self.sum.open += if step < self.plan.steps { self.times.read } else { 0.0 };
        let (place, ahead) = ((step - 1, self.plan.steps), StretchVisitor::ahead(step - 1, top));
        if self.interval.is_due(self.plan.adjoint, place, self.done, ahead) {
            self.sum.open += self.times.adjoint;
            self.sum.adjoints += 1;
            self.sum.close(self.times);
        }
    }
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
