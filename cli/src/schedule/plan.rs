//! What is asked, and what is found.

use anyhow::{ensure, Context as _, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;
use veloc_client::adjoint::course::{refusal, too_many};
use veloc_client::adjoint::outlook::Outlook;
use veloc_client::adjoint::resume::{resume, Survivors};
use veloc_client::adjoint::rule;
use veloc_client::adjoint::schedule::{Plan, Schedule, Stored};

use super::walk;

/// Where states are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The least number of steps under the resilience distance
    Optimal,
    /// Revolve's distance, or the resilience distance if that is less (the paper's rule)
    #[value(aliases = ["paper", "revolve"])]
    Resilient,
    /// Distances that never grow (Theorem 4.2)
    Monotone,
    /// The shortest distances that repeat no more (section 4.2)
    #[value(alias = "alternative")]
    Shortest,
}

/// The plan that is asked for.
#[derive(Debug, Args)]
pub struct Options {
    /// Steps of the forward pass
    #[arg(long, value_name = "L")]
    steps: u64,
    /// States that can be stored at a time, the first one among them
    #[arg(long, value_name = "C")]
    slots: u64,
    /// Stored states are at most D steps apart [default: any number]
    #[arg(long, value_name = "D")]
    resilience: Option<u64>,
    /// The adjoint is stored every A of its steps [default: never]
    #[arg(long, value_name = "A")]
    adjoint: Option<u64>,
    /// Where states are stored
    #[arg(long, value_enum, default_value = "optimal")]
    rule: Rule,
}

impl Options {
    /// The plan, if there can be one.
    pub fn plan(&self) -> Result<Plan> {
        let plan = Plan {
            steps: self.steps,
            slots: self.slots,
            resilience: self.resilience.unwrap_or(u64::MAX),
            adjoint: self.adjoint,
            rule: match self.rule {
                Rule::Optimal => rule::Rule::Optimal,
                Rule::Resilient => rule::Rule::Resilient,
                Rule::Monotone => rule::Rule::Monotone,
                Rule::Shortest => rule::Rule::Shortest,
            },
        };
        plan.check().map_err(|unfit| refusal(&plan, unfit))?;
        Ok(plan)
    }
}

/// What was asked, in JSON.
#[derive(Debug, Serialize)]
pub struct Asked {
    steps: u64,
    slots: u64,
    resilience: Option<u64>,
    adjoint: Option<u64>,
    rule: &'static str,
}

/// What is found. The names are those of the JSON.
#[derive(Debug, Serialize)]
pub struct Figures {
    plan: Asked,
    /// Forward steps that are not recorded.
    pub advances: u128,
    /// These, and those that are recorded.
    pub forward_evals: u128,
    /// States that are stored; `None` if that is not known without going through all actions.
    pub takeshots: Option<u128>,
    /// How often the step that is repeated most is computed without being recorded, at the most.
    pub repetition: u64,
    /// The largest distance between states that are stored in the first sweep, and to the end.
    pub max_gap: u64,
    /// The states that are stored in the first sweep.
    pub first_sweep: Vec<u64>,
    /// What a crash leaves and costs.
    #[serde(flatten)]
    pub crash: Option<Crash>,
}

/// A crash.
#[derive(Debug, Serialize)]
pub struct Crash {
    /// The state that the adjoint has come to.
    pub crash_after: u64,
    /// The states in the slots, by slot; some are needed no more.
    pub slots: Vec<u64>,
    /// The state of the adjoint that was stored last; the number of steps if none was.
    pub restart_from: u64,
    /// Forward steps that are not recorded from there to the end.
    pub restart_advances: u128,
    /// The same from the place of the crash, had there been none.
    pub undisturbed_advances: u128,
}

impl Figures {
    /// Of a plan, and of a crash when the adjoint has come to a state.
    pub fn of(plan: &Plan, crash_after: Option<u64>) -> Result<Figures> {
        let mut outlook = Outlook::of(plan).ok_or_else(|| too_many(plan))?;
        if outlook.takeshots.is_none() && walk::is_short(plan, &outlook) {
            outlook.takeshots = Some(walk::to_the_end(Schedule::new(*plan)).takeshots.into());
        }
        let crash = crash_after.map(|state| Crash::at(plan, &outlook, state)).transpose()?;
        let name = rule::Rule::ALL.iter().find(|(rule, _)| *rule == plan.rule);
        Ok(Figures {
            plan: Asked {
                steps: plan.steps,
                slots: plan.slots,
                resilience: Some(plan.resilience).filter(|distance| *distance < u64::MAX),
                adjoint: plan.adjoint,
                rule: name.map_or("", |(_, name)| name),
            },
            advances: outlook.advances,
            forward_evals: outlook.advances + u128::from(plan.steps),
            takeshots: outlook.takeshots,
            repetition: outlook.repetition,
            max_gap: outlook.max_gap,
            first_sweep: outlook.first_sweep,
            crash,
        })
    }
}

impl Crash {
    fn at(plan: &Plan, outlook: &Outlook, state: u64) -> Result<Crash> {
        ensure!(
            state < plan.steps,
            "--crash-after {state}: the adjoint comes to the states from {} to 0",
            plan.steps - 1
        );
        ensure!(
            walk::is_short(plan, outlook),
            "--crash-after: there are {} forward steps to go through, of which {} are possible",
            outlook.advances + u128::from(plan.steps),
            walk::LONGEST
        );
        let left = walk::until_the_adjoint_is_at(plan, state);
        let survivors =
            Survivors { states: left.slots.clone(), adjoint: left.adjoint, at_start: false };
        let next = resume(*plan, &survivors).ok().context("state 0 is in no slot")?;
        let mut slots: Vec<Stored> = left.slots;
        slots.sort_unstable_by_key(|stored| stored.slot);
        Ok(Crash {
            crash_after: state,
            slots: slots.iter().map(|stored| stored.state).collect(),
            restart_from: left.adjoint.unwrap_or(plan.steps),
            restart_advances: walk::to_the_end(next).advances,
            undisturbed_advances: outlook.advances - left.advances,
        })
    }
}
