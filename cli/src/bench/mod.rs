//! `veloc bench`: the evaluation of HiPC'22 (section V) as commands.
//!
//! | file | is |
//! | --- | --- |
//! | `plan` | what is to be measured |
//! | `results` | what was measured, as it stands in files |

use anyhow::Result;
use clap::Subcommand;

pub mod approach;
pub mod plan;
pub mod results;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Predict by a model of a node, or compare the model with HiPC'22
    Model(Box<crate::model::Options>),
}

/// Runs one.
pub fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Model(options) => crate::model::run(&options),
    }
}
