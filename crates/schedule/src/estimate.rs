//! How long a computation will take, with failures, before it runs.
//!
//! Between two states that are stored in the first sweep, and between two stored adjoints, there is a
//! stretch of work that a failure takes back to its beginning. If failures come one in `m` on the
//! average, without memory, a stretch of `W` takes `(m + r) (e^(W / m) - 1)`, where `r` is what a
//! restart takes. In the reverse sweep the states in the slots are not those that were there at the
//! stretch's beginning. With some of them the way is shorter, others must be computed again; taken
//! together that changes little, as a simulation with [`super::resume`] shows (in the tests).

use super::adjoint_interval::{AdjointInterval, Threshold};
use super::binomial;
use super::cost::PlanCost;
use super::schedule::{Done, Plan};
use super::stretches::{go_through, Stretch, Visitor};
use super::visits::looks;

/// The most stretches of a plan that are looked at, as something can fail: some seconds. 20 million steps have
/// no more.
pub const MOST_STRETCHES: u64 = 40_000_000;

/// A plan of which so many times as many are expected is refused before it is gone through.
const SURELY: f64 = 3.0;

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
    pub(crate) fn threshold(&self) -> Threshold {
        let Times { step, turn, adjoint, mtbf, .. } = *self;
        Threshold::new(adjoint / step, mtbf / step, turn / step)
    }

    /// The same, if a plan says nothing of it, and it is of use.
    fn threshold_for(&self, plan: &Plan) -> Option<Threshold> {
        let is_asked = plan.adjoint.is_none() && self.mtbf.is_finite() && self.adjoint > 0.0;
        is_asked.then(|| self.threshold())
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
    /// there are more than `super::cost::MOST_STATES` of them. Else it is looked for where the adjoint is
    /// stored, in time in proportion to how often that is; `None` if more than [`MOST_STRETCHES`] stretches
    /// would be looked at: at once, if it is many more.
    pub fn of(plan: &Plan, times: &Times) -> Option<Estimate> {
        if times.mtbf.is_infinite() {
            return Estimate::undisturbed(plan, times);
        }
        Estimate::with_failures(plan, times, MOST_STRETCHES)
    }

    /// Where nothing can fail, it does not matter when something is done.
    fn undisturbed(plan: &Plan, times: &Times) -> Option<Estimate> {
        let PlanCost { advances, takeshots, .. } = PlanCost::of(plan)?;
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

    fn with_failures(plan: &Plan, times: &Times, most: u64) -> Option<Estimate> {
        let is_too_long = looks_at_least(plan, times) > most as f64
            || looks_about(plan, times).is_some_and(|looks| looks > SURELY * most as f64);
        if is_too_long {
            return None;
        }
        let mut work = Work::new(plan, times);
        if !go_through(plan, &mut work, most) {
            return None;
        }
        work.sum.close(times);
        Some(work.sum.estimate(times))
    }
}

/// How many stretches will be looked at, at the least: each turn after which the adjoint is stored is one, and each
/// but the first has come with another.
fn looks_at_least(plan: &Plan, times: &Times) -> f64 {
    let turns = match (times.threshold_for(plan), plan.adjoint) {
        // By the turn before that the threshold has not been reached.
        (Some(Threshold { work, turn }), _) => work / turn + 1.0,
        (None, Some(every)) => every as f64,
        (None, None) => return 0.0,
    };
    2.0 * (plan.steps as f64 / turns - 2.0)
}

/// How many stretches will be looked at, about, if that can be said at once.
fn looks_about(plan: &Plan, times: &Times) -> Option<f64> {
    match (times.threshold_for(plan), plan.adjoint) {
        (Some(Threshold { work, turn }), _) => looks(plan, work, |steps, slots| {
            binomial::advances(steps, slots) as f64 + steps as f64 * turn
        }),
        (None, Some(every)) => looks(plan, every as f64, |steps, _| steps as f64),
        (None, None) => None,
    }
}

/// Goes through a plan, and enters the stretches in which the adjoint is stored.
struct Work<'a> {
    plan: &'a Plan,
    times: &'a Times,
    sum: Sum,
    done: Done,
    upkeep: AdjointInterval,
}

impl<'a> Work<'a> {
    fn new(plan: &'a Plan, times: &'a Times) -> Work<'a> {
        let upkeep = AdjointInterval { threshold: times.threshold_for(plan), since: None };
        Work { plan, times, sum: Sum::default(), done: Done::default(), upkeep }
    }

    /// The advances before the next turn, if `top` is restored for it.
    fn ahead(fine: u64, top: Option<u64>) -> u64 {
        fine.saturating_sub(top.unwrap_or(0) + 1)
    }
}

impl Visitor for Work<'_> {
    fn enters(&mut self, stretch: &Stretch, top: Option<u64>) -> bool {
        let Work { plan, times, .. } = *self;
        let (turns, advances) = (stretch.steps(), stretch.advances());
        let mut done = self.done;
        (done.turns, done.advances) = (done.turns + turns, done.advances + advances);
        let is_due = match self.upkeep.threshold {
            // What would be lost grows from turn to turn. The end is no place to store it; those before may be.
            Some(_) if stretch.low == 0 => turns > 1,
            Some(_) => {
                let place = (stretch.low, plan.steps);
                let mut upkeep = self.upkeep;
                upkeep.is_due(plan.adjoint, place, done, Work::ahead(stretch.low, top))
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
        // Each but the first begins with a state that is read.
        self.sum.open += self.times.turn;
        self.sum.open += if step < self.plan.steps { self.times.read } else { 0.0 };
        let (place, ahead) = ((step - 1, self.plan.steps), Work::ahead(step - 1, top));
        if self.upkeep.is_due(self.plan.adjoint, place, self.done, ahead) {
            self.sum.open += self.times.adjoint;
            self.sum.adjoints += 1;
            self.sum.close(self.times);
        }
    }
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
