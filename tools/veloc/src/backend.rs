//! `veloc backend`: the program `veloc-backend`, as the library would start it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{anyhow, Result};
use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Args};
use config::VERSION;
use recovery::{program, usage};

/// Run veloc-backend, the one that the library would start
///
/// It is looked for in VELOC_BIN, beside this program, in ../bin and in PATH, and takes the place of
/// this program: `veloc backend --help` is its own help, and the exit code is its own, or 1 if there
/// is no such program.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct BackendCommand {
    /// Arguments for the program, such as a configuration
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// The options of veloc-backend itself, for its man page and completions. It reads them without
/// clap.
pub(crate) fn described() -> clap::Command {
    let configuration = Arg::new("configuration").value_name(usage::ARGUMENT.0);
    let options = usage::OPTIONS.map(|(name, letter, meaning)| {
        Arg::new(name).long(name).short(letter).help(meaning).action(ArgAction::SetTrue)
    });
    clap::Command::new(usage::PROGRAM)
        .version(VERSION)
        .about(usage::ABOUT)
        .long_about(StyledStr::from(usage::DETAILS.join("\n\n")))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(configuration.help(usage::ARGUMENT.1).required(true))
        .args(options)
}

/// Replaces this process with veloc-backend; returns only if that is impossible.
pub(crate) fn run(backend: &BackendCommand) -> Result<()> {
    let program = program()?;
    let error = Command::new(&program).args(&backend.arguments).exec();
    Err(anyhow!("{}: {error} (VELOC_BIN names the directory it is in)", program.display()))
}
