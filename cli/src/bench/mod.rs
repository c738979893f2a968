//! `veloc bench`: the evaluation of HiPC'22 (section V) as commands.
//!
//! | file | is |
//! | --- | --- |
//! | `plan` | what is to be measured |
//! | `results` | what was measured, as it stands in files |
//! | `plot/` | pictures of it |

use anyhow::Result;
use clap::Subcommand;

pub mod approach;
pub mod plan;
pub mod plot;
pub mod results;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Draw results in the manner of the paper's figures, as SVG and PNG
    Plot(plot::Plot),
}

/// Runs one.
pub fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Plot(plot) => plot::run(&plot),
    }
}
