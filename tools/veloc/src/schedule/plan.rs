//! The figures of a schedule.

use anyhow::{ensure, Context as _, Result};
use clap::ValueEnum;
use schedule::binomial::advances;
use schedule::bound::least_free;
use schedule::cost::{PlanCost, MOST_ACTIONS};
use schedule::disk::{Disk, UNIT};
use schedule::infeasible::too_many;
use schedule::levels::{self, TwoLevel};
use schedule::mixed::Mixed;
use schedule::online::Online;
use schedule::resume::{resume, Survivors};
use schedule::rule;
use schedule::schedule::{Action, Plan, Stored};
use schedule::two_level_cost::{self, MOST_PAIRS};
use serde::Serialize;

use super::walk::{self, AnySchedule, Walker};

/// The problem that a schedule is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScheduleProblem {
    /// Steps, slots, distances and rule.
    pub plan: Plan,
    /// Slots on disk.
    pub disk: Option<Disk>,
    /// Whether the number of steps is not known before the end.
    pub online: bool,
    /// Whether slots have states or records, instead of the plan's rule.
    pub mixed: bool,
}

impl ScheduleProblem {
    /// Whether all slots are alike and have states, and the end is known.
    pub(super) fn is_plain(&self) -> bool {
        self.disk.is_none() && !self.online && !self.mixed
    }
}

/// The options, in JSON.
#[derive(Debug, Serialize)]
pub(super) struct AskedPlan {
    steps: u64,
    slots: u64,
    resilience: Option<u64>,
    adjoint: Option<u64>,
    rule: &'static str,
    online: bool,
    disk_slots: Option<u64>,
    write_cost: Option<f64>,
    read_cost: Option<f64>,
}

/// The figures of a schedule. The field names are those of the JSON.
#[derive(Debug, Serialize)]
pub(super) struct ScheduleFigures {
    plan: AskedPlan,
    /// Forward steps that are not recorded.
    pub advances: u128,
    /// Forward steps, recorded or not.
    pub forward_evals: u128,
    /// States and records that are stored.
    pub takeshots: u128,
    /// The most often that any step is computed without being recorded.
    pub repetition: u64,
    /// The largest distance between states that are stored in the first sweep, and from the last to
    /// the end.
    pub max_gap: u64,
    /// The states that are stored in the first sweep.
    pub first_sweep: Vec<u64>,
    /// The least resilience distance that costs nothing; `None` where no distance can be set.
    pub least_resilience: Option<u64>,
    /// The advances of a schedule that knows the end and has all slots in memory, if this one does
    /// not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ideal_advances: Option<u128>,
    /// The use of disk.
    #[serde(flatten)]
    pub transfers: Option<DiskUse>,
    /// The cost of a crash.
    #[serde(flatten)]
    pub crash: Option<CrashCost>,
}

/// The use of disk.
#[derive(Debug, Serialize)]
pub(super) struct DiskUse {
    /// States written to disk.
    pub disk_writes: u64,
    /// States read from disk.
    pub disk_reads: u64,
    /// The cost of reads, writes and advances, in forward steps.
    pub cost: f64,
}

/// One of the sweeps through the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Sweep {
    /// The first sweep, before the adjoint begins
    Forward,
    /// The sweep of the adjoint
    Reverse,
}

/// A crash, and what it costs.
#[derive(Debug, Serialize)]
pub(super) struct CrashCost {
    pub crash_in: Sweep,
    /// The state that this sweep has come to.
    pub crash_after: u64,
    /// The states in the slots, by slot; some are needed no more.
    pub slots: Vec<u64>,
    /// In the reverse sweep, the state of the adjoint that was stored last, or the number of steps
    /// if none was; in the forward sweep, the state that the restart goes on from.
    pub restart_from: u64,
    /// Forward steps that are not recorded, from the restart to the end.
    pub restart_advances: u128,
    /// Forward steps that are not recorded, from the place of the crash to the end, without a
    /// crash.
    pub undisturbed_advances: u128,
}

impl ScheduleFigures {
    /// The figures of a problem, and of a crash when a sweep has come to a state.
    pub(super) fn of(
        problem: &ScheduleProblem,
        crash: Option<(Sweep, u64)>,
    ) -> Result<ScheduleFigures> {
        let ScheduleProblem { plan, disk, online, mixed } = problem;
        let slots = plan.slots.saturating_add(disk.map_or(0, |disk| disk.slots));
        let ideal = advances(plan.steps, slots.min(plan.steps));
        let (cost, transfers) = match (disk, online) {
            (None, false) => {
                let cost = match mixed {
                    true => Mixed::cost(plan.steps, plan.slots),
                    false => PlanCost::of(plan),
                };
                let cost = cost.ok_or_else(|| too_many(plan));
                (cost.with_context(|| format!("--slots {}", plan.slots))?, None)
            }
            (None, true) => {
                let cost = PlanCost::of_pass(plan.steps, plan.slots).with_context(|| {
                    format!(
                        "--online: more than {MOST_ACTIONS} of {} states are stored in the pass, each of which \
                         is looked at; fewer --steps are possible, or fewer --slots",
                        plan.steps
                    )
                })?;
                (cost, None)
            }
            (Some(disk), _) => {
                let (cost, done) = two_level_cost::of_levels(plan, *disk).with_context(|| {
                    format!(
                        "--disk-slots {}: {} steps have more than {MOST_PAIRS} stretches that are not alike; \
                         fewer slots are possible",
                        disk.slots, plan.steps
                    )
                })?;
                let transfers = DiskUse::of(cost.advances, done, disk);
                (cost, Some(transfers))
            }
        };
        let crash = crash.map(|(sweep, state)| CrashCost::at(problem, &cost, sweep, state));
        let crash = crash.transpose()?;
        Ok(ScheduleFigures {
            plan: AskedPlan::from(problem),
            advances: cost.advances,
            forward_evals: cost.advances + u128::from(plan.steps),
            takeshots: cost.takeshots,
            repetition: cost.repetition,
            max_gap: cost.max_gap,
            first_sweep: cost.first_sweep,
            least_resilience: problem.is_plain().then(|| least_free(plan.steps, plan.slots)),
            ideal_advances: (*online || disk.is_some()).then_some(ideal),
            transfers,
            crash,
        })
    }
}

impl From<&ScheduleProblem> for AskedPlan {
    fn from(problem: &ScheduleProblem) -> AskedPlan {
        let ScheduleProblem { plan, disk, online, mixed } = *problem;
        let name = rule::Rule::ALL.iter().find(|(rule, _)| *rule == plan.rule);
        let steps_of = |parts: u64| parts as f64 / UNIT as f64;
        AskedPlan {
            steps: plan.steps,
            slots: plan.slots,
            resilience: Some(plan.resilience).filter(|distance| *distance < u64::MAX),
            adjoint: plan.adjoint,
            rule: if mixed { "mixed" } else { name.map_or("", |(_, name)| name) },
            online,
            disk_slots: disk.map(|disk| disk.slots),
            write_cost: disk.map(|disk| steps_of(disk.write)),
            read_cost: disk.map(|disk| steps_of(disk.read)),
        }
    }
}

impl DiskUse {
    fn of(advances: u128, done: levels::Transfers, disk: &Disk) -> DiskUse {
        let parts = advances * u128::from(UNIT)
            + u128::from(done.writes) * u128::from(disk.write)
            + u128::from(done.reads) * u128::from(disk.read);
        DiskUse {
            disk_writes: done.writes,
            disk_reads: done.reads,
            cost: parts as f64 / UNIT as f64,
        }
    }
}

impl CrashCost {
    fn at(
        problem: &ScheduleProblem,
        cost: &PlanCost,
        sweep: Sweep,
        state: u64,
    ) -> Result<CrashCost> {
        let plan = problem.plan;
        let last = plan.steps - 1;
        match sweep {
            Sweep::Reverse => ensure!(
                state <= last,
                "--crash-after {state}: the adjoint comes to the states from {last} to 0"
            ),
            Sweep::Forward => ensure!(
                (1..=last).contains(&state),
                "--crash-after {state} --crash-in forward: {}",
                match last {
                    0 => "a single step is the adjoint's at once".to_owned(),
                    _ => format!("the forward sweep comes to the states from 1 to {last}"),
                }
            ),
        }
        ensure!(
            walk::is_known(problem, sweep, cost.advances),
            "--crash-after {state}: there are {} forward steps to go through, of which {} are possible",
            cost.advances + u128::from(plan.steps),
            walk::LONGEST
        );
        let mut left = Walker::new(AnySchedule::new(problem), plan.steps);
        match sweep {
            Sweep::Forward => left.until_the_forward_sweep_is_at(state),
            Sweep::Reverse => left.until_the_adjoint_is_at(state),
        }
        let (mut slots, fine) = (left.slots(), left.adjoint.unwrap_or(plan.steps));
        let next = match problem.disk {
            // A lost node loses its memory as well.
            Some(disk) => AnySchedule::Levels(TwoLevel::resumed(plan, disk, &slots, fine)),
            None if problem.online && sweep == Sweep::Forward => {
                let online = Online::resumed(plan.slots, &slots);
                AnySchedule::Open(
                    online.context("state 0 is in no slot")?,
                    plan.steps,
                    plan.adjoint,
                )
            }
            None => {
                let states: Vec<Stored> = slots.clone();
                let survivors = Survivors { states, adjoint: left.adjoint, at_start: false };
                AnySchedule::Known(resume(plan, &survivors).ok().context("state 0 is in no slot")?)
            }
        };
        let mut next = Walker::new(next, fine);
        let first = next.step();
        let restart_from = match (sweep, first) {
            (Sweep::Reverse, _) => fine,
            (Sweep::Forward, Action::Restore { state, .. }) => state,
            // State 0 is the application's.
            (Sweep::Forward, _) => 0,
        };
        if first != Action::Terminate {
            next.go_to_the_end();
        }
        slots.sort_unstable_by_key(|stored| stored.slot);
        Ok(CrashCost {
            crash_in: sweep,
            crash_after: state,
            slots: slots.iter().map(|stored| stored.state).collect(),
            restart_from,
            restart_advances: next.advances,
            undisturbed_advances: cost.advances - left.advances,
        })
    }
}
