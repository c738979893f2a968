//! `veloc run`, `veloc checkpoint` and `veloc restart`: programs that know nothing of the library.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use errors::Error;
use log::LevelFilter;
use os::logging;
use supervisor::Pace;

/// Options of versions.
#[derive(Debug, Args)]
struct PaceOptions {
    /// Make a version each time this has passed: 30s, 10m, 2h [default: when asked: veloc checkpoint]
    #[arg(long, value_name = "TIME", value_parser = time)]
    every: Option<Duration>,
    /// Keep this many versions
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    keep: u16,
}

impl PaceOptions {
    fn pace(&self) -> Pace {
        Pace { every: self.every, keep: self.keep.into() }
    }
}

/// Run a program that knows nothing of this library, so that it can be stopped and go on
///
/// Versions of it go to a directory, from which `veloc restart` starts it again. Needs CRIU 4.1 and
/// CAP_SYS_ADMIN: veloc doctor says what is missing. Ends as the program does: with its exit code, or 128 and the
/// number of the signal that ended it.
#[derive(Debug, Args)]
pub(crate) struct RunCommand {
    /// The directory of versions [default: the program's name and .veloc, in the current directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    pace: PaceOptions,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Make a version of a program now that `veloc run` or `veloc restart` has started
///
/// Waits until its files are written, and prints its number.
#[derive(Debug, Args)]
pub(crate) struct CheckpointCommand {
    /// The directory of versions
    directory: PathBuf,
}

/// Start a program again from a version
///
/// Its processes are as they were, with the same numbers. Files that it had open for writing get the length that they
/// had; other files are as they are now. Ends as `veloc run` does.
#[derive(Debug, Args)]
pub(crate) struct RestartCommand {
    /// The directory of versions
    directory: PathBuf,
    /// Start from this one [default: the newest that is whole]
    #[arg(long, value_name = "N")]
    version: Option<u32>,
    #[command(flatten)]
    pace: PaceOptions,
}

pub(crate) fn run(run: &RunCommand) -> Result<ExitCode> {
    log();
    let directory = match &run.dir {
        Some(given) => given.clone(),
        None => {
            let program = run.command.first().map_or(OsStr::new(""), OsString::as_os_str);
            let mut name = Path::new(program).file_name().unwrap_or_default().to_owned();
            name.push(".veloc");
            PathBuf::from(name)
        }
    };
    Ok(code(supervisor::run(&directory, &run.command, run.pace.pace())?))
}

pub(crate) fn restart(restart: &RestartCommand) -> Result<ExitCode> {
    log();
    let pace = restart.pace.pace();
    Ok(code(supervisor::restart(&restart.directory, restart.version, pace)?))
}

pub(crate) fn checkpoint(checkpoint: &CheckpointCommand) -> Result<()> {
    println!("{}", supervisor::checkpoint(&checkpoint.directory)?);
    Ok(())
}

fn log() {
    logging::start(LevelFilter::Warn, |_| {});
}

/// The exit code of a shell.
fn code(ended: ExitStatus) -> ExitCode {
    let code = ended.code().or_else(|| ended.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn time(text: &str) -> std::result::Result<Duration, Error> {
    let bad = || Error::invalid(format!("\"{text}\" is no time such as 30s, 10m or 2h"));
    let (digits, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(bad()),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    match number.checked_mul(seconds) {
        Some(1..) => Ok(Duration::from_secs(number * seconds)),
        _ => Err(bad()),
    }
}
