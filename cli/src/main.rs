//! The program `veloc`: benches the library beside other ways to keep checkpoints, draws what was
//! measured, predicts nodes that are not at hand, and looks at stored checkpoints and at nodes.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

mod bench;
mod doctor;
mod draw;
mod inspect;
mod list;
mod model;
mod output;
mod size;
#[cfg(test)]
mod software_device;
mod stored;
mod timeline;
mod verify;

/// Benches, timelines and tools of the VELOC checkpoint library.
#[derive(Debug, Parser)]
#[command(name = "veloc", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Inspect(inspect::Inspect),
    #[command(name = "ls")]
    List(list::List),
    Verify(verify::Verify),
    Doctor(doctor::Doctor),
    /// Measure the library beside other ways to keep checkpoints
    #[command(subcommand)]
    Bench(Box<bench::Bench>),
    Timeline(timeline::Timeline),
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Inspect(inspect) => inspect::run(&inspect),
        Command::List(list) => list::run(&list),
        Command::Verify(verify) => verify::run(&verify),
        Command::Doctor(doctor) => doctor::run(&doctor),
        Command::Bench(bench) => bench::run(*bench).map(|()| ExitCode::SUCCESS),
        Command::Timeline(timeline) => timeline::run(&timeline).map(|()| ExitCode::SUCCESS),
    }
}

fn main() -> ExitCode {
    // The name it was started under: an installation has a link.
    let name = std::env::args_os().next();
    let name = name.as_deref().map(Path::new).and_then(Path::file_name);
    let ended = if name == Some(OsStr::new(inspect::upstream::NAME)) {
        inspect::upstream::run(&inspect::upstream::Upstream::parse())
    } else {
        run(Arguments::parse().command)
    };
    ended.unwrap_or_else(|error| {
        // Nobody may be listening any more.
        let _ = writeln!(std::io::stderr(), "error: {error:#}");
        ExitCode::FAILURE
    })
}
