//! A run of the model: processes on a machine until the last one has restored its last checkpoint.

use anyhow::{bail, ensure, Result};

use super::cached::Cached;
use super::machine::{Actor, Machine};
use super::scenario::{Outcome, Scenario};
use super::simple::Simple;
use crate::bench::plan::ApproachName;

#[derive(Debug)]
enum Process {
    Cached(Box<Cached>),
    Simple(Box<Simple>),
}

impl Process {
    fn new(number: usize, scenario: &Scenario) -> Process {
        match scenario.approach {
            ApproachName::Ours | ApproachName::DirectPin | ApproachName::IncrementalMemset => {
                Process::Cached(Box::new(Cached::new(number, scenario)))
            }
            ApproachName::Uvm | ApproachName::UvmBudget | ApproachName::Ring => {
                Process::Simple(Box::new(Simple::new(number, scenario)))
            }
        }
    }

    fn start(&mut self, machine: &mut Machine) -> Result<()> {
        match self {
            Process::Cached(process) => process.start(machine),
            Process::Simple(process) => {
                process.start(machine);
                Ok(())
            }
        }
    }

    fn told(&mut self, actor: Actor, machine: &mut Machine) -> Result<()> {
        match self {
            Process::Cached(process) => process.told(actor, machine),
            Process::Simple(process) => {
                process.told(machine);
                Ok(())
            }
        }
    }

    fn ended(&self) -> bool {
        match self {
            Process::Cached(process) => process.ended(),
            Process::Simple(process) => process.ended(),
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Process::Cached(process) => process.outcome(),
            Process::Simple(process) => process.outcome(),
        }
    }

    fn check(&self) -> Result<()> {
        match self {
            Process::Cached(process) => process.check(),
            Process::Simple(_) => Ok(()),
        }
    }
}

/// Runs a scenario. What each process went through, by its number.
pub(super) fn simulate(scenario: &Scenario) -> Result<Vec<Outcome>> {
    simulate_and(scenario, false)
}

/// The same; `checked` checks the invariants after every step instead of at the end alone.
pub(super) fn simulate_and(scenario: &Scenario, checked: bool) -> Result<Vec<Outcome>> {
    scenario.check()?;
    let mut machine = Machine::new(&scenario.node, scenario.processes);
    let mut processes: Vec<Process> =
        (0..scenario.processes).map(|number| Process::new(number, scenario)).collect();
    for process in &mut processes {
        process.start(&mut machine)?;
    }
    let mut running = processes.len();
    while running > 0 {
        let Some((number, actor)) = machine.next() else {
            bail!("{running} processes wait for something that never happens");
        };
        let process = &mut processes[number];
        let before = process.ended();
        process.told(actor, &mut machine)?;
        if checked {
            process.check()?;
        }
        if process.ended() && !before {
            running -= 1;
        }
    }
    for process in &processes {
        process.check()?;
    }
    let outcomes: Vec<Outcome> = processes.iter().map(Process::outcome).collect();
    for (number, outcome) in outcomes.iter().enumerate() {
        let all: u64 = scenario.sizes_of(number).iter().sum();
        ensure!(
            outcome.captured == all && outcome.restored == all,
            "process {number}: {} bytes captured and {} restored, of {all}",
            outcome.captured,
            outcome.restored
        );
    }
    Ok(outcomes)
}
