//! `veloc bench`: the evaluation of HiPC'22 (section V) as commands.
//!
//! | file | is |
//! | --- | --- |
//! | `plan` | what is to be measured |
//! | `results` | what was measured, as it stands in files |
//! | `facts` | what measured, and on which machine |
//! | `host` | what can be measured without a GPU |

use anyhow::Result;
use clap::Subcommand;

pub mod approach;
pub mod facts;
pub mod host;
pub mod plan;
pub mod results;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Touching the pages of a host buffer: methods, page sizes, threads
    Pages(host::pages::Options),
    /// The turns in which the processes of a node register memory
    Turns(host::turns::Options),
    /// What the library costs beside the copies that it is asked for
    Engine(host::engine::Options),
}

/// Runs one.
pub fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Pages(options) => host::pages::run(&options),
        Bench::Turns(options) => host::turns::run(&options),
        Bench::Engine(options) => host::engine::run(&options),
    }
}
