//! The program `veloc`: benches the library beside other ways to keep checkpoints, draws what was
//! measured, and predicts nodes that are not at hand.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

mod bench;
mod draw;
mod model;
mod size;
#[cfg(test)]
mod software_device;
mod timeline;

/// Benches, timelines and tools of the VELOC checkpoint library.
#[derive(Debug, Parser)]
#[command(name = "veloc", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the library beside other ways to keep checkpoints
    #[command(subcommand)]
    Bench(Box<bench::Bench>),
    Timeline(timeline::Timeline),
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Bench(bench) => bench::run(*bench),
        Command::Timeline(timeline) => timeline::run(&timeline),
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
