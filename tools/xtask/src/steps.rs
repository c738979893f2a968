//! Steps of a command: they run one after the other, with their times, and end with a table.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::project::{cargo, line, run};
use crate::usage::of_children;

/// One step.
pub struct CommandStep<'a> {
    /// The name on the command line and in the table.
    pub name: &'a str,
    /// The purpose of the step.
    pub about: &'a str,
    /// Does the step.
    pub run: &'a dyn Fn() -> Result<StepOutcome>,
}

/// How a step that did not fail ended.
#[derive(Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// All parts of the step passed.
    Passed,
    /// The step, or a part of it, was not done, for this reason.
    Skipped(String),
}

impl From<Option<&str>> for StepOutcome {
    fn from(why: Option<&str>) -> StepOutcome {
        why.map_or(StepOutcome::Passed, |why| StepOutcome::Skipped(why.to_owned()))
    }
}

/// The failed and the skipped steps of a run.
#[derive(Debug, Default)]
pub struct StepsReport {
    /// The steps that failed.
    pub failed: Vec<String>,
    /// Skipped steps, each with the reason.
    pub open: Vec<(String, String)>,
}

/// Runs the steps up to the first that fails, or all of them with `keep_going`. Prints when each begins
/// and ends, and a table.
pub fn run_all(steps: &[CommandStep], keep_going: bool) -> StepsReport {
    let since = Instant::now();
    let mut report = StepsReport::default();
    let mut table = Vec::new();
    for step in steps {
        if !report.failed.is_empty() && !keep_going {
            report.open.push((step.name.to_owned(), "not run after a failure".to_owned()));
            continue;
        }
        println!("\n==> {}: {} (after {})", step.name, step.about, clock(since.elapsed()));
        let (begun, used) = (Instant::now(), of_children());
        let result = (step.run)();
        // Shown before later lines on standard error.
        let _ = std::io::stdout().flush();
        let verdict = match result {
            Ok(StepOutcome::Passed) => "ok".to_owned(),
            Ok(StepOutcome::Skipped(why)) => {
                report.open.push((step.name.to_owned(), why.clone()));
                format!("skipped: {why}")
            }
            Err(error) => {
                eprintln!("error: {}: {error}", step.name);
                report.failed.push(step.name.to_owned());
                "FAILED".to_owned()
            }
        };
        let (time, processor) = (clock(begun.elapsed()), clock(of_children() - used));
        println!("<== {}: {verdict} ({time}, {processor} of the processors)", step.name);
        table.push((step.name, time, processor, verdict));
    }
    let (time, processor) = (clock(since.elapsed()), clock(of_children()));
    table.push(("all", time, processor, String::new()));
    println!("\n{:<12} {:>13} {:>13}  result", "step", "time", "processors");
    for (name, time, processor, verdict) in &table {
        println!("{}", format!("{name:<12} {time:>13} {processor:>13}  {verdict}").trim_end());
    }
    report
}

/// Runs cargo, and shows the command.
pub fn cargo_step(arguments: &[&str], variables: &[(&str, &str)]) -> Result<StepOutcome> {
    let mut command = cargo();
    command.args(arguments).envs(variables.iter().copied());
    let shown: Vec<_> =
        variables.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
    println!("$ {}{}", shown.concat(), line(&command));
    run(&mut command)?;
    Ok(StepOutcome::Passed)
}

/// Minutes and seconds, or seconds alone.
pub fn clock(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    let seconds = format!("{}.{} s", tenths / 10 % 60, tenths % 10);
    match tenths / 600 {
        0 => seconds,
        minutes => format!("{minutes} min {seconds:>6}"),
    }
}

impl StepsReport {
    /// An error that names the failed steps, if there are any, and how to repeat them.
    pub fn result(&self, repeat: impl Fn(&[String]) -> String) -> Result<()> {
        match &self.failed[..] {
            [] => Ok(()),
            failed => Err(Error::new(format!("failed: {}; {}", failed.join(", "), repeat(failed)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_minutes_and_seconds() {
        assert_eq!(clock(Duration::from_millis(61_250)), "1 min  1.2 s");
        assert_eq!(clock(Duration::from_secs(3600)), "60 min  0.0 s");
        assert_eq!(clock(Duration::from_millis(9_999)), "9.9 s");
    }

    /// Catches a failure after which the rest still runs, or that is lost, and a skipped step that
    /// is not reported.
    #[test]
    fn what_failed_and_what_is_open_is_told() {
        let step = |name, run| CommandStep { name, about: "", run };
        let passes = || Ok(StepOutcome::Passed);
        let skips = || Ok(StepOutcome::Skipped("no compiler".to_owned()));
        let fails = || Err(Error::new("wrong"));
        let steps = [
            step("first", &passes),
            step("second", &skips),
            step("third", &fails),
            step("last", &skips),
        ];
        let open = |report: &StepsReport| {
            report.open.iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>()
        };
        let report = run_all(&steps, false);
        assert_eq!(open(&report), ["second: no compiler", "last: not run after a failure"]);
        let error = report.result(|failed| format!("again: {}", failed.join(" "))).unwrap_err();
        assert_eq!(error.to_string(), "failed: third; again: third");
        let report = run_all(&steps, true);
        assert_eq!(open(&report), ["second: no compiler", "last: no compiler"]);
        assert!(run_all(&steps[..2], false).result(|_| String::new()).is_ok());
    }
}
