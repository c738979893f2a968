//! The program `veloc`: benches the library beside other ways to keep checkpoints, predicts nodes that
//! are not at hand, plans adjoint computations, and looks at stored checkpoints and at nodes.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand};
use config::VERSION;

mod backend;
mod bases;
mod bench;
mod crash;
mod doctor;
mod held;
mod inspect;
mod interrupt;
mod list;
mod model;
mod output;
mod rtm;
mod schedule;
mod share;
mod size;
mod software;
mod stored;
mod sync;
#[cfg(test)]
mod tests;
mod verify;

/// Look at stored checkpoints and at nodes; measure the VELOC checkpoint library
///
/// For those who run jobs: ls, verify, sync, inspect, doctor and backend. For those who want to know what
/// checkpoints cost: rtm, bench and schedule. `python -m veloc.plot` draws what these and VELOC_TRACE write.
///
/// Ends with exit code 0; 1 for a failure, or where a command says so; 2 for options that cannot be
/// read.
#[derive(Debug, Parser)]
#[command(name = "veloc", version = VERSION, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(name = "ls")]
    List(list::List),
    Verify(verify::Verify),
    Sync(sync::Sync),
    Inspect(inspect::Inspect),
    Doctor(doctor::Doctor),
    Backend(backend::Backend),
    Schedule(schedule::Schedule),
    /// Measure the library beside other ways to keep checkpoints
    ///
    /// Each command ends with exit code 1 if something could not be measured, or if a checkpoint came
    /// back wrong; what was measured is in its file all the same.
    #[command(subcommand)]
    Bench(Box<bench::Bench>),
    Rtm(rtm::Rtm),
    Crash(Box<crash::Crash>),
    #[command(hide = true)]
    CrashJudge(crash::judge::Judge),
    Completions(share::Completions),
    #[command(hide = true)]
    Share(share::Share),
}

fn run(command: Command) -> Result<ExitCode> {
    let done = match command {
        Command::Inspect(inspect) => inspect::run(&inspect),
        Command::List(list) => list::run(&list),
        Command::Verify(verify) => return verify::run(&verify),
        Command::Sync(sync) => return sync::run(&sync),
        Command::Doctor(doctor) => return doctor::run(&doctor),
        Command::Backend(backend) => backend::run(&backend),
        Command::Bench(bench) => bench::run(*bench),
        Command::Schedule(schedule) => schedule::run(&schedule),
        Command::Crash(crash) => return crash::run(&crash),
        Command::CrashJudge(judge) => crash::judge::run(&judge),
        Command::Rtm(rtm) => rtm::run(&rtm),
        Command::Completions(asked) => share::completions(Arguments::command(), &asked),
        Command::Share(asked) => share::share(Arguments::command(), &asked),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Ends quietly when nobody reads the output any more, as in `veloc ... | head`. The system's
/// signal for that would also end a bench that loses one of its measuring processes.
fn end_with_the_reader() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if text.starts_with("failed printing to stdout") && text.contains("Broken pipe") {
            std::process::exit(0);
        }
        report(panic);
    }));
}

fn main() -> ExitCode {
    end_with_the_reader();
    // The name that the program was started under: an installation has a link.
    let name = std::env::args_os().next();
    let name = name.as_deref().map(Path::new).and_then(Path::file_name);
    let ended = if name == Some(OsStr::new(inspect::upstream::NAME)) {
        inspect::upstream::run(&inspect::upstream::Upstream::parse()).map(|()| ExitCode::SUCCESS)
    } else {
        run(Arguments::parse().command)
    };
    ended.unwrap_or_else(|error| {
        // Nobody may be listening any more.
        let _ = writeln!(std::io::stderr(), "error: {error:#}");
        ExitCode::FAILURE
    })
}
