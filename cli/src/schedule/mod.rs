//! `veloc schedule`: what a schedule of an adjoint computation will do and cost, and what a crash
//! would.
//!
//! | file | does |
//! | --- | --- |
//! | `options` | what is asked |
//! | `plan` | what is found: the figures |
//! | `more` | other ways to compare with, and the run time |
//! | `walk` | goes through a schedule, for crashes and pictures |
//! | `text` | the figures and the picture on a terminal |
//! | `picture` | the picture in a file |

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::{draw, output};

mod more;
mod options;
mod picture;
mod plan;
mod text;
mod walk;

/// Plan an adjoint computation: which states are stored, what is computed again, what a crash costs
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct Schedule {
    #[command(flatten)]
    plan: options::Options,
    #[command(flatten)]
    taking: options::Taking,
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
    /// Draw the plan, to STEM.svg and STEM.png; with --online and --disk-slots at
    /// most 2e8 forward steps in all
    #[arg(long, value_name = "STEM")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// All that is found.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    figures: plan::Figures,
    #[serde(skip_serializing_if = "Option::is_none")]
    compare: Option<Vec<more::Compared>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<more::Estimated>,
}

/// Plans.
pub fn run(options: &Schedule) -> Result<()> {
    let problem = options.plan.problem()?;
    let times = options.taking.times()?;
    let crash = options.crash_after.map(|state| (options.crash_in, state));
    let figures = plan::Figures::of(&problem, crash)?;
    let compare = options.compare.then(|| more::compare(&problem)).transpose()?;
    let state_size = options.taking.state_size();
    let estimate = times.map(|times| more::estimate(&problem, &times, state_size)).transpose()?;
    let report = Report { figures, compare, estimate };
    let drawn = match &options.out {
        Some(stem) => draw::save(&picture::draw(&problem, &report.figures)?, stem)?.to_vec(),
        None => Vec::new(),
    };
    if options.json {
        return output::print_json(&report);
    }
    let mut text = text::show(&problem, &report);
    for path in drawn {
        text += &format!("{}\n", path.display());
    }
    output::print(&text)
}
