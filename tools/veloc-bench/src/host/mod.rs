//! What can be measured without a GPU: pages, and the library's own cost.
//!
//! Machines are noisy and shared. So whatever is compared takes turns, round by round, in one run;
//! a figure is the median over the rounds and stands beside the least and the greatest; and a ratio
//! compares figures of one run only. Files are written again after each round, so that a run that
//! is cut short keeps what it has.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{bail, Context, Result};
use clap::Args;
use os::interrupt;
use serde::{Deserialize, Serialize};

use super::child::command;
use super::machine;
use super::results::{
    prepare, write_json, MeasuredDevice, MeasuredMachine, MeasuringProgram, Spread, SOFTWARE_NOTE,
};
use crate::output;

mod changes;
pub(super) mod drive;
mod encoded;
pub(super) mod engine;
pub(super) mod overhead;
pub(super) mod pages;
pub(super) mod pmem;
pub(super) mod snapshot;
mod vectors;

/// Options of all of these commands.
#[derive(Clone, Debug, Args)]
pub(super) struct CommonOptions {
    /// How often each thing is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,
    /// Write what was measured to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// The version of the layout of these files.
const SCHEMA: u32 = 1;

/// One file of results.
#[derive(Debug, Serialize)]
pub(super) struct ResultsFile<T> {
    schema: u32,
    title: &'static str,
    program: MeasuringProgram,
    machine: MeasuredMachine,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<MeasuredDevice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'static str>,
    /// The measurements.
    pub points: Vec<T>,
    #[serde(skip)]
    file: Option<PathBuf>,
}

impl<T: Serialize> ResultsFile<T> {
    /// An empty report about `title`, for the file that was asked for, if one was. An error if that
    /// file cannot be written.
    pub(super) fn new(title: &'static str, file: Option<&Path>) -> Result<Self> {
        file.map_or(Ok(()), prepare)?;
        Ok(ResultsFile {
            schema: SCHEMA,
            title,
            program: machine::program(),
            machine: machine::machine(),
            device: None,
            warning: None,
            points: Vec::new(),
            file: file.map(Path::to_path_buf),
        })
    }

    /// Has the report say which device was used.
    pub(super) fn on_device(&mut self, device: MeasuredDevice) {
        self.device = Some(device);
    }

    /// Has the report say what readers of its times must know.
    pub(super) fn warn(&mut self, warning: &'static str) {
        self.warning = Some(warning);
    }

    /// The machine, in a line.
    pub(super) fn print_machine(&self) {
        let machine = &self.machine;
        println!(
            "{}; {} processors, {:.0} GiB, Linux {}, huge pages: {}; commit {}",
            machine.processor,
            machine.processors,
            machine.memory as f64 / f64::from(1 << 30),
            machine.kernel,
            machine.huge_pages,
            self.program.commit
        );
    }

    /// Writes the file, if one was asked for.
    pub(super) fn save(&self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| write_json(file, self))
    }
}

/// A figure that was measured several times.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MeasuredFigure {
    /// The name of the measured quantity.
    pub what: String,
    /// The unit of the values.
    pub unit: String,
    /// One value for each repeat.
    pub values: Vec<f64>,
    /// The goal of the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// Whether the median reaches the goal; none without a goal or a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<bool>,
}

/// A value that a figure has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl MeasuredFigure {
    /// A figure without a goal.
    pub(super) fn new(what: impl Into<String>, unit: &str, values: Vec<f64>) -> MeasuredFigure {
        MeasuredFigure {
            what: what.into(),
            unit: unit.to_owned(),
            values,
            goal: None,
            reached: None,
        }
    }

    /// Gives the figure a goal.
    pub(super) fn with_goal(mut self, goal: Goal) -> MeasuredFigure {
        self.goal = Some(goal);
        self.reached = Spread::of(self.values.clone()).map(|spread| match goal {
            Goal::AtMost(most) => spread.median <= most,
            Goal::AtLeast(least) => spread.median >= least,
        });
        self
    }

    /// The title of the columns that [`MeasuredFigure::print`] fills.
    pub(super) fn print_title() {
        println!(
            "{:<72} {:>10} {:>23}  {:<11} to reach",
            "", "median", "least .. greatest", "unit"
        );
    }

    pub(super) fn print(&self) {
        let Some(spread) = Spread::of(self.values.clone()) else {
            println!("{:<72} {:>10}", self.what, "-");
            return;
        };
        let range = format!("{} .. {}", number(spread.least), number(spread.greatest));
        let reached = self.reached != Some(false);
        let goal = match self.goal {
            None => String::new(),
            Some(Goal::AtMost(most)) => verdict("at most", most, reached),
            Some(Goal::AtLeast(least)) => verdict("at least", least, reached),
        };
        let line = format!(
            "{:<72} {:>10} {range:>23}  {:<11} {goal}",
            self.what,
            number(spread.median),
            self.unit
        );
        println!("{}", line.trim_end());
    }
}

/// The option of commands whose figures have goals.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct GoalOptions {
    /// End with 1 if a figure misses what it has to reach; without this, the table alone says so
    #[arg(long)]
    check: bool,
}

impl GoalOptions {
    /// Says which figures have missed their goals; with `--check`, that is an error.
    pub(super) fn judge(self, figures: &[MeasuredFigure]) -> Result<()> {
        let goals = figures.iter().filter(|figure| figure.goal.is_some()).count();
        let missed: Vec<&MeasuredFigure> =
            figures.iter().filter(|figure| figure.reached == Some(false)).collect();
        if missed.is_empty() {
            println!("all {goals} figures with a goal reach it");
            return Ok(());
        }
        println!("{} of {goals} figures with a goal have MISSED it:", missed.len());
        for figure in &missed {
            let once = if figure.values.len() == 1 { " (measured once)" } else { "" };
            println!("    {}{once}", figure.what);
        }
        if self.check {
            let names: Vec<&str> = missed.iter().map(|figure| figure.what.as_str()).collect();
            bail!("missed: {}", names.join("; "));
        }
        println!("(a measurement all the same: with --check the command would end with 1)");
        Ok(())
    }
}

fn verdict(how: &str, bound: f64, reached: bool) -> String {
    format!("{how} {}{}", number(bound), if reached { "" } else { ": MISSED" })
}

/// Three digits, or all of a large number.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Runs this program again with other arguments, with `settings` in its environment and none of the
/// library's keys, and gives each line that it prints to `line` at once. The temporary files of the
/// process are removed when it has ended.
pub(super) fn in_own_process(
    arguments: &[String],
    settings: &[(&str, String)],
    line: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    in_own_process_in(&std::env::temp_dir(), arguments, settings, line)
}

/// The same, with its temporary files in a folder in `place`.
pub(super) fn in_own_process_in(
    place: &Path,
    arguments: &[String],
    settings: &[(&str, String)],
    mut line: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    let prefix = format!("veloc-bench-{}-", std::process::id());
    let temporary = tempfile::Builder::new().prefix(&prefix).tempdir_in(place);
    let temporary = temporary.with_context(|| place.display().to_string())?;
    let mut command = command(arguments)?;
    command
        .envs(settings.iter().map(|(name, value)| (name, value)))
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let spawn = || command.spawn().context("starting this program again");
    let mut child = interrupt::start(temporary.path(), spawn)?;
    let errors = child.stderr.take().map(|errors| std::thread::spawn(|| pass_on(errors)));
    let clock = output::clock(&arguments.join(" "));
    let mut read = Ok(());
    if let Some(output) = child.stdout.take() {
        read = BufReader::new(output).lines().try_for_each(|text| {
            let text = text.context("reading what a process measured")?;
            clock.suspend(|| line(&text))
        });
    }
    if read.is_err() {
        // The process was killed because of a line that it printed; its status says no more.
        let _ = child.kill();
    }
    let status = child.wait().context("waiting for a process");
    interrupt::ended();
    let status = status?;
    if let Some(errors) = errors {
        // The thread only passes lines on.
        let _ = errors.join();
    }
    read?;
    if !status.success() {
        bail!("the process \"{}\" ended with {status}", arguments.join(" "));
    }
    Ok(())
}

/// Passes on the lines of a process's standard error, except those of the software device: the
/// command has said them once, for all of its processes.
fn pass_on(errors: impl std::io::Read) {
    for line in BufReader::new(errors).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if !line.contains(SOFTWARE_NOTE) && !line.starts_with("softcuda: SOFTCUDA_COPY=none") {
            eprintln!("{line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_with_check_is_a_missed_goal_an_error() {
        let figure = |value, goal| MeasuredFigure::new("a call", "us", vec![value]).with_goal(goal);
        let (met, missed) = (figure(1.0, Goal::AtMost(2.0)), figure(1.0, Goal::AtLeast(2.0)));
        let plain = MeasuredFigure::new("another", "us", vec![9.0]);
        let judge = |check, figures: &[MeasuredFigure]| GoalOptions { check }.judge(figures);
        judge(true, &[met.clone(), plain.clone()]).unwrap();
        judge(false, &[met.clone(), missed.clone()]).unwrap();
        let error = judge(true, &[met, missed, plain]).unwrap_err().to_string();
        assert_eq!(error, "missed: a call");
    }

    /// Catches a layout in which the script of a bundle, which goes by lines, does not find a
    /// missed goal.
    #[test]
    fn a_missed_goal_is_a_line_behind_that_of_its_figure() {
        let figure = MeasuredFigure::new("a call", "us", vec![3.0]).with_goal(Goal::AtMost(2.0));
        let text = serde_json::to_string_pretty(&figure).unwrap();
        let line =
            |wanted| text.lines().position(|line| line.trim().trim_end_matches(',') == wanted);
        let (what, reached) = (line("\"what\": \"a call\""), line("\"reached\": false"));
        assert!(what.is_some() && what < reached, "{text}");
    }

    #[test]
    fn numbers_have_three_digits_or_all() {
        let texts = [0.0, 0.0123, 1.234, 12.34, 123.4, 281_000.4].map(number);
        assert_eq!(texts, ["0", "0.012", "1.23", "12.3", "123", "281000"]);
    }
}
