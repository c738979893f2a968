//! The figures, and the plan as a picture of letters, on a terminal.

use std::fmt::Write as _;

use schedule::remaining::Remaining;
use schedule::schedule::{Action, Plan, Stored};

use super::more::{Estimated, StrategyCost};
use super::plan::{ScheduleProblem, Sweep};
use super::walk::{AnySchedule, Walker};
use super::ScheduleReport;
use crate::output;

/// Columns of the picture.
const WIDTH: usize = 72;

/// Lines of the picture, at most.
const LINES: u64 = 25;

/// States that are looked at for the picture, at most: with more slots it has fewer lines.
const STATES: u64 = 2_000_000;

/// Actions that are gone through for the picture, at most.
const ACTIONS: u64 = 10_000_000;

/// The figures, and the picture.
pub(super) fn show(problem: &ScheduleProblem, report: &ScheduleReport) -> String {
    let (plan, figures) = (&problem.plan, &report.figures);
    let mut table = output::table(&["", ">"]);
    let mut row = |what: &str, number: String| {
        table.add_row([what.to_owned(), number]);
    };
    row("steps that are not recorded", figures.advances.to_string());
    if let Some(ideal) = figures.ideal_advances {
        let what = if problem.online { "known end" } else { "all slots in memory" };
        row(&format!("the same with {what}"), ideal.to_string());
    }
    if let Some(advances) = report.uncompressed_advances {
        row("the same with states that are not compressed", advances.to_string());
        row("slots in the same room", problem.plan.slots.to_string());
    }
    row("forward steps, all", figures.forward_evals.to_string());
    let per_step = figures.forward_evals as f64 / plan.steps as f64;
    row("for each step", format!("{per_step:.2}"));
    row("most repetitions of a step", figures.repetition.to_string());
    let what = if problem.mixed { "states and records stored" } else { "states stored" };
    row(what, figures.takeshots.to_string());
    if let Some(transfers) = &figures.transfers {
        row("states written to disk", transfers.disk_writes.to_string());
        row("states read from disk", transfers.disk_reads.to_string());
        row("steps not recorded, and disk, in steps", format!("{:.1}", transfers.cost));
    }
    row("largest distance in the first sweep", figures.max_gap.to_string());
    if let Some(least) = figures.least_resilience {
        row("least distance that costs nothing", least.to_string());
    }
    if let Some(crash) = &figures.crash {
        let (restart, crashed) = (crash.restart_from, crash.crash_after);
        let (at_the_crash, at_the_restart) = match crash.crash_in {
            Sweep::Forward => ("crash of the forward sweep at state", "restart with state"),
            Sweep::Reverse => {
                ("crash with the adjoint at state", "restart with the adjoint at state")
            }
        };
        row(at_the_crash, crashed.to_string());
        row(at_the_restart, restart.to_string());
        // The last stored state is behind the state of the crash: two states to count from.
        row(
            &format!("steps not recorded from state {restart}, restarted"),
            crash.restart_advances.to_string(),
        );
        row(
            &format!("steps not recorded from state {crashed}, without the crash"),
            crash.undisturbed_advances.to_string(),
        );
    }
    if let Some(estimate) = &report.estimate {
        estimated(estimate, &mut row);
    }
    let mut text = format!("{table}\n\n");
    if let Some(all) = &report.compare {
        let _ = writeln!(text, "{}\n", compared(all));
    }
    picture(problem, &mut text);
    if let Some(crash) = &figures.crash {
        let _ = writeln!(text, "\nIn the slots at the crash: {}", list(&crash.slots));
    }
    let _ = writeln!(text, "\nStored in the first sweep: {}", list(&figures.first_sweep));
    text
}

/// Writes the run time.
fn estimated(estimate: &Estimated, row: &mut impl FnMut(&str, String)) {
    row("seconds without a failure", format!("{:.1}", estimate.undisturbed));
    row("seconds to be expected", format!("{:.1}", estimate.expected));
    row("of these lost", format!("{:.1}", estimate.expected_loss));
    row("failures to be expected", format!("{:.2}", estimate.failures));
    row("adjoints stored", estimate.adjoints_stored.to_string());
    if let Some(storage) = estimate.storage {
        row("bytes in all slots", storage.to_string());
    }
}

/// The other strategies, line by line.
fn compared(all: &[StrategyCost]) -> String {
    let heads = [
        "way",
        ">every",
        ">not recorded",
        ">stored",
        ">lost forward",
        ">mean",
        ">lost in reverse",
        ">mean",
    ];
    let mut table = output::table(&heads);
    let or_dash = |number: Option<String>| number.unwrap_or_else(|| "-".to_string());
    for way in all {
        table.add_row([
            way.strategy.to_string(),
            or_dash(way.distance.map(|distance| distance.to_string())),
            way.advances.to_string(),
            way.takeshots.to_string(),
            way.first_sweep_most_lost.to_string(),
            format!("{:.1}", way.first_sweep_mean_lost),
            way.reverse_most_lost.to_string(),
            format!("{:.1}", way.reverse_mean_lost),
        ]);
    }
    table.to_string()
}

/// Where states are stored while the adjoint goes back.
fn picture(problem: &ScheduleProblem, text: &mut String) {
    let plan = &problem.plan;
    let _ = writeln!(
        text,
        "{:>15}  states 0 to {}: ● stored, ○ not needed any more, ◀ adjoint",
        "adjoint", plan.steps
    );
    let lines = (STATES / plan.slots.min(plan.steps)).clamp(3, LINES - 1);
    let stride = plan.steps.div_ceil(lines).max(1);
    if problem.is_plain() {
        let mut steps = vec![1];
        steps.extend(
            (0..).map(|line| plan.steps.saturating_sub(line * stride)).take_while(|s| *s > 1),
        );
        steps.sort_unstable_by_key(|step| std::cmp::Reverse(*step));
        for step in steps {
            line(plan, step, Remaining::at(plan, step - 1).states, text);
        }
        return;
    }
    let mut walker = Walker::new(AnySchedule::new(problem), plan.steps);
    let mut next = plan.steps;
    for _ in 0..ACTIONS {
        let (Action::Firsturn { step, .. }
        | Action::Youturn { step, .. }
        | Action::Reverse { step, .. }) = walker.step()
        else {
            continue;
        };
        if step <= next || step == 1 {
            line(plan, step, walker.slots(), text);
            next = next.saturating_sub(stride).max(1);
        }
        if step == 1 {
            return;
        }
    }
    let _ = writeln!(text, "{:>15}  (the way is too long to be drawn)", "...");
}

/// Draws the states that are stored before the adjoint of `step`, which has just been computed.
fn line(plan: &Plan, step: u64, mut slots: Vec<Stored>, text: &mut String) {
    let column =
        |state: u64| (u128::from(state) * (WIDTH as u128 - 1) / u128::from(plan.steps)) as usize;
    let mut letters = vec!['·'; WIDTH];
    letters[column(step)..].fill(' ');
    // States that the adjoint has passed are needed no more; those still needed are drawn over
    // them.
    slots.sort_by_key(|stored| stored.state < step);
    for stored in slots {
        letters[column(stored.state)] = if stored.state < step { '●' } else { '○' };
    }
    letters[column(step)] = '◀';
    let letters: String = letters.into_iter().collect();
    let _ = writeln!(text, "{step:>15}  {}", letters.trim_end());
}

/// Numbers, with only the first and last of many.
fn list(numbers: &[u64]) -> String {
    const MOST: usize = 40;
    let words = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    match numbers.len() > MOST {
        true => format!(
            "{} ... {} ({} in all)",
            words(&numbers[..MOST / 2]),
            words(&numbers[numbers.len() - MOST / 2..]),
            numbers.len()
        ),
        false => words(numbers),
    }
}
