//! `veloc rtm`: the demonstration, which is a program of its own.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{anyhow, Result};
use clap::Args;

use crate::software;

/// The name of the installed program.
const PROGRAM: &str = "veloc-rtm";

/// Migrate a seismic shot, to see the library at work
///
/// Checkpoints every wavefield of the forward pass, restores them in reverse, and writes a picture, rtm.png,
/// and a table of what the checkpoints cost. Without a GPU it runs on the software device. `veloc rtm --help`
/// is its own help, and the exit code is its own.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Rtm {
    /// Arguments for the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Replaces this process with the demonstration; returns only if that is impossible.
pub(crate) fn run(rtm: &Rtm) -> Result<()> {
    let program = software::beside(PROGRAM).unwrap_or_else(|| PROGRAM.into());
    let mut command = Command::new(&program);
    command.args(&rtm.arguments).arg0("veloc rtm");
    software::instead_of_a_gpu(&mut command);
    Err(anyhow!("{}: {}", program.display(), command.exec()))
}
