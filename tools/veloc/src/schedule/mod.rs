//! `veloc schedule`: what a schedule of an adjoint computation will do and cost, and what a crash
//! would cost.
//!
//! | file | does |
//! | --- | --- |
//! | `options` | the options of the command |
//! | `plan` | the figures |
//! | `more` | other ways to compare with, and the run time |
//! | `walk` | goes through a schedule, for crashes and lines |
//! | `text` | the figures and the picture on a terminal |
//! | `drawing` | the lines of a picture, for `python -m veloc.plot` |

use std::path::PathBuf;

use anyhow::{ensure, Context as _, Result};
use clap::Args;
use schedule::infeasible::mixed_and;
use serde::Serialize;

use crate::output;

mod drawing;
mod more;
mod options;
mod plan;
mod text;
mod walk;

/// Plan an adjoint computation: which states are stored, what is computed again, what a crash costs
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct ScheduleCommand {
    #[command(flatten)]
    plan: options::PlanOptions,
    #[command(flatten)]
    taking: options::TimeOptions,
    /// Crash when the adjoint, or the forward sweep, has just come to state K, and go on with what is
    /// left
    #[arg(long, value_name = "K", value_parser = options::state)]
    crash_after: Option<u64>,
    /// The sweep in which it crashes
    #[arg(long, value_enum, default_value = "reverse", requires = "crash_after")]
    crash_in: plan::Sweep,
    /// Compare with other ways to be safe from failures
    #[arg(long, conflicts_with_all = ["online", "disk_slots"])]
    compare: bool,
    /// Write all that is found to a file, as JSON, which `python -m veloc.plot schedule FILE` draws;
    /// at most 2e8 forward steps in all
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// All results.
#[derive(Debug, Serialize)]
struct ScheduleReport {
    #[serde(flatten)]
    figures: plan::ScheduleFigures,
    #[serde(skip_serializing_if = "Option::is_none")]
    compare: Option<Vec<more::StrategyCost>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<more::Estimated>,
    /// The advances if states are stored as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    uncompressed_advances: Option<u128>,
}

/// All results with the lines of a picture.
#[derive(Serialize)]
struct Drawn<'a> {
    #[serde(flatten)]
    report: &'a ScheduleReport,
    drawing: drawing::Lines,
}

pub(crate) fn run(options: &ScheduleCommand) -> Result<()> {
    let problem = options.plan.problem()?;
    let times = options.taking.times()?;
    for (option, is_set) in [
        ("--crash-after", options.crash_after.is_some()),
        ("--compare", options.compare),
        ("--step-time", times.is_some()),
    ] {
        ensure!(!problem.mixed || !is_set, mixed_and(option));
    }
    let clock = output::clock("planning");
    let crash = options.crash_after.map(|state| (options.crash_in, state));
    let figures = plan::ScheduleFigures::of(&problem, crash)?;
    let compare = options.compare.then(|| more::compare(&problem)).transpose()?;
    let state_size = options.taking.state_size();
    let estimate = times.map(|times| more::estimate(&problem, &times, state_size)).transpose()?;
    let uncompressed = options
        .plan
        .uncompressed()
        .map(|problem| plan::ScheduleFigures::of(&problem?, None).map(|figures| figures.advances));
    let uncompressed_advances = uncompressed.transpose()?;
    drop(clock);
    let report = ScheduleReport { figures, compare, estimate, uncompressed_advances };
    if let Some(file) = &options.out {
        let drawing = drawing::lines(&problem, &report.figures)?;
        let text = serde_json::to_vec(&Drawn { report: &report, drawing })?;
        std::fs::write(file, text).with_context(|| format!("--out {}", file.display()))?;
    }
    if options.json {
        return output::print_json(&report);
    }
    output::print(&text::show(&problem, &report))
}
