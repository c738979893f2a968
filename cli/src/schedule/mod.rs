//! `veloc schedule`: what a schedule of an adjoint computation will do and cost, and what a crash
//! would.
//!
//! | file | does |
//! | --- | --- |
//! | `plan` | options, and what is found: the figures |
//! | `walk` | goes through a schedule, for crashes and pictures |
//! | `text` | the figures and the picture on a terminal |
//! | `picture` | the picture in a file |

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::{draw, output};

mod picture;
mod plan;
mod text;
mod walk;

/// Plan an adjoint computation: which states are stored, what is computed again, what a crash costs
#[derive(Debug, Args)]
pub struct Schedule {
    #[command(flatten)]
    plan: plan::Options,
    /// Crash when the adjoint has just come to state K, and go on with what is left
    #[arg(long, value_name = "K")]
    crash_after: Option<u64>,
    /// Draw the plan, to STEM.svg and STEM.png
    #[arg(long, value_name = "STEM")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Plans.
pub fn run(options: &Schedule) -> Result<()> {
    let plan = options.plan.plan()?;
    let figures = plan::Figures::of(&plan, options.crash_after)?;
    let drawn = match &options.out {
        Some(stem) => draw::save(&picture::draw(&plan, &figures)?, stem)?.to_vec(),
        None => Vec::new(),
    };
    if options.json {
        return output::print_json(&figures);
    }
    let mut text = text::show(&plan, &figures);
    for path in drawn {
        text += &format!("{}\n", path.display());
    }
    output::print(&text)
}
