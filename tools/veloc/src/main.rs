//! The program `veloc`: looks at stored checkpoints and at nodes, plans adjoint computations, and simulates
//! crashes. What measures is another program, `veloc-bench`.

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
mod functions;
mod held;
mod inspect;
mod list;
mod output;
mod rtm;
mod run;
mod schedule;
mod share;
mod software;
mod stored;
mod sync;
mod top;
mod verify;

/// Look at stored checkpoints and at nodes; measure the VELOC checkpoint library
///
/// For those who run jobs: ls, verify, sync, inspect, top, doctor and backend. For those who want to know what
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
    List(list::ListCommand),
    Verify(verify::Verify),
    Sync(sync::Sync),
    Inspect(inspect::Inspect),
    Top(top::Top),
    Doctor(doctor::Doctor),
    Backend(backend::BackendCommand),
    Run(run::RunCommand),
    Checkpoint(run::CheckpointCommand),
    Restart(run::RestartCommand),
    Schedule(schedule::ScheduleCommand),
    /// Measure the library beside other ways to keep checkpoints: the program veloc-bench
    Bench(bench::BenchArguments),
    /// Predict by a model of a node: `veloc-bench model`
    Model(bench::BenchArguments),
    Rtm(rtm::Rtm),
    Crash(Box<crash::CrashCommand>),
    #[command(hide = true)]
    CrashJudge(crash::judge::JudgeCommand),
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
        Command::Top(top) => top::run(&top),
        Command::Doctor(doctor) => return doctor::run(&doctor),
        Command::Run(run) => return run::run(&run),
        Command::Checkpoint(checkpoint) => run::checkpoint(&checkpoint),
        Command::Restart(restart) => return run::restart(&restart),
        Command::Backend(backend) => backend::run(&backend),
        Command::Bench(asked) => bench::run(None, &asked),
        Command::Model(asked) => bench::run(Some("model"), &asked),
        Command::Schedule(schedule) => schedule::run(&schedule),
        Command::Crash(crash) => return crash::run(&crash),
        Command::CrashJudge(judge) => crash::judge::run(&judge),
        Command::Rtm(rtm) => rtm::run(&rtm),
        Command::Completions(asked) => share::completions(Arguments::command(), &asked),
        Command::Share(asked) => share::share(Arguments::command(), &asked),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn main() -> ExitCode {
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
