//! A run of the model: processes on a machine until the last one has restored its last checkpoint.

use anyhow::{bail, ensure, Result};

use super::cached::Cached;
use super::machine::SimulatedNode;
use super::scenario::{ProcessOutcome, Scenario};

/// Runs a scenario. Returns the outcome of each process, by its number.
pub(super) fn simulate(scenario: &Scenario) -> Result<Vec<ProcessOutcome>> {
    simulate_and(scenario, false)
}

/// Runs a scenario; with `checked`, the invariants are checked after every step and not only at the
/// end.
pub(super) fn simulate_and(scenario: &Scenario, checked: bool) -> Result<Vec<ProcessOutcome>> {
    scenario.check()?;
    let mut machine = SimulatedNode::new(&scenario.node, scenario.processes);
    let mut processes: Vec<Cached> =
        (0..scenario.processes).map(|number| Cached::new(number, scenario)).collect();
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
    let outcomes: Vec<ProcessOutcome> = processes.iter().map(Cached::outcome).collect();
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
