//! `cargo xtask`: the project's own commands.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::stage::{stage, Profile};
use xtask::{header, Result};

/// The project's own commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Make include/veloc.h and include/veloc/defs.h from src/capi
    Header {
        /// Write nothing; fail if they differ
        #[arg(long)]
        check: bool,
    },
    /// Build the library and the software device and lay them out, as `include`, `lib`, `softcuda`
    Stage {
        /// With optimisation
        #[arg(long)]
        release: bool,
    },
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Header { check: true } => header::check(),
        Task::Header { check: false } => header::update(),
        Task::Stage { release } => {
            let profile = if release {
                Profile::Release
            } else {
                Profile::Debug
            };
            println!("{}", stage(profile)?.folder.display());
            Ok(())
        }
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
