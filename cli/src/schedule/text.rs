//! The figures, and the plan as a picture of letters.

use std::fmt::Write as _;

use veloc_client::adjoint::schedule::{Action, Plan, Schedule};

use super::plan::Figures;
use super::walk::Walker;
use crate::output;

/// Columns of the picture.
const WIDTH: usize = 72;

/// Lines of the picture, at most.
const LINES: u64 = 25;

/// Actions that are gone through for the picture, at most.
const ACTIONS: u64 = 10_000_000;

/// The figures, and the picture.
pub fn show(plan: &Plan, figures: &Figures) -> String {
    let mut table = output::table(&["", ">"]);
    let mut row = |what: &str, number: String| {
        table.add_row([what.to_owned(), number]);
    };
    row("steps that are not recorded", figures.advances.to_string());
    row("forward steps, all", figures.forward_evals.to_string());
    let per_step = figures.forward_evals as f64 / plan.steps as f64;
    row("for each step", format!("{per_step:.2}"));
    row("most repetitions of a step", figures.repetition.to_string());
    row(
        "states stored",
        figures.takeshots.map_or("not counted".into(), |number| number.to_string()),
    );
    row("largest distance in the first sweep", figures.max_gap.to_string());
    if let Some(crash) = &figures.crash {
        row("crash with the adjoint at state", crash.crash_after.to_string());
        row("restart with the adjoint at state", crash.restart_from.to_string());
        row("steps that are not recorded from there", crash.restart_advances.to_string());
        row("the same without the crash", crash.undisturbed_advances.to_string());
    }
    let mut text = format!("{table}\n\n");
    picture(plan, &mut text);
    if let Some(crash) = &figures.crash {
        let _ = writeln!(text, "\nIn the slots at the crash: {}", list(&crash.slots));
    }
    let _ = writeln!(text, "\nStored in the first sweep: {}", list(&figures.first_sweep));
    text
}

/// Where states are stored while the adjoint goes back.
fn picture(plan: &Plan, text: &mut String) {
    let _ = writeln!(
        text,
        "{:>15}  states 0 to {}: ● stored, ○ not needed any more, ◀ adjoint",
        "adjoint", plan.steps
    );
    let stride = plan.steps.div_ceil(LINES - 1).max(1);
    let (mut schedule, mut walker) = (Schedule::new(*plan), Walker::default());
    let mut next = plan.steps;
    for _ in 0..ACTIONS {
        let (Action::Firsturn { step, .. } | Action::Youturn { step, .. }) =
            walker.step(&mut schedule)
        else {
            continue;
        };
        if step <= next || step == 1 {
            line(plan, step, &schedule, &walker, text);
            next = next.saturating_sub(stride).max(1);
        }
        if step == 1 {
            return;
        }
    }
    let _ = writeln!(text, "{:>15}  (the way is too long to be drawn)", "...");
}

/// What is stored before the turn of `step`, which has just been made.
fn line(plan: &Plan, step: u64, schedule: &Schedule, walker: &Walker, text: &mut String) {
    let column =
        |state: u64| (u128::from(state) * (WIDTH as u128 - 1) / u128::from(plan.steps)) as usize;
    let mut letters = vec!['·'; WIDTH];
    letters[column(step)..].fill(' ');
    for stored in walker.slots() {
        letters[column(stored.state)] = '○';
    }
    // The state from which the step was made is needed up to here.
    let last = schedule.stale().last().filter(|stored| stored.state == step - 1);
    for stored in schedule.stored().iter().chain(last) {
        letters[column(stored.state)] = '●';
    }
    letters[column(step)] = '◀';
    let letters: String = letters.into_iter().collect();
    let _ = writeln!(text, "{step:>15}  {}", letters.trim_end());
}

/// Numbers, or the first and last of many.
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
