//! `veloc run`, `veloc checkpoint` and `veloc restart`: programs that know nothing of the library.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Args;
use errors::Error;
use log::LevelFilter;
use os::{logging, size};
use serde::Serialize;
use supervisor::image::About;
use supervisor::Pace;

use crate::output;

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
    let clock = output::clock("the program stops, and its version is written");
    let version = supervisor::checkpoint(&checkpoint.directory)?;
    drop(clock);
    output::print(&format!("{version}\n"))
}

/// A version of a program, as JSON has it.
#[derive(Serialize)]
struct Listed {
    version: u32,
    /// When the program stood still for it, in seconds since 1970.
    made: Option<u64>,
    bytes: Option<u64>,
    /// How long the program stood still, in milliseconds.
    stopped_ms: Option<f64>,
    command: Option<Vec<String>>,
    /// What is wrong with it.
    damaged: Option<String>,
}

/// Lists the versions of a program, the newest first.
pub(crate) fn list(directory: &Path, json: bool) -> Result<()> {
    let running = supervisor::is_running(directory)?;
    let versions: Vec<Listed> = supervisor::image::versions(directory)?
        .into_iter()
        .map(|(version, about)| {
            let damaged = about.as_ref().err().map(ToString::to_string);
            let about = about.ok();
            Listed {
                version,
                made: about.as_ref().map(|about| about.made),
                bytes: about.as_ref().map(About::bytes),
                stopped_ms: about.as_ref().map(|about| about.stopped_ms),
                command: about.map(|about| about.command),
                damaged,
            }
        })
        .collect();
    if json {
        return output::print_json(
            &serde_json::json!({ "running": running, "versions": versions }),
        );
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut text = match running {
        true => "the program runs\n",
        false => "the program does not run: veloc restart goes on from the newest version\n",
    }
    .to_owned();
    if versions.is_empty() {
        text = text.split(':').next().unwrap_or_default().trim_end().to_owned()
            + ", and has no version\n";
        return output::print(&text);
    }
    let mut table = output::table(&[">version", ">age", ">bytes", ">stopped", "program"]);
    for listed in versions {
        let age = listed.made.map(|made| format!("{} s", now.saturating_sub(made)));
        let program = listed.command.map(|words| words.join(" ")).or(listed.damaged);
        table.add_row([
            listed.version.to_string(),
            age.unwrap_or_default(),
            listed.bytes.map(size::show).unwrap_or_default(),
            listed.stopped_ms.map(|time| format!("{time:.0} ms")).unwrap_or_default(),
            program.unwrap_or_default(),
        ]);
    }
    output::print(&format!("{text}{table}\n"))
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
    let bad =
        || Error::invalid(format!("\"{text}\" is not a time; it must be like 30s, 10m or 2h"));
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
