//! `veloc bench` and `veloc model`: the program `veloc-bench`, which is built by itself.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{bail, ensure, Result};
use clap::Args;

use crate::software::beside;

const PROGRAM: &str = "veloc-bench";

/// What is passed on.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct BenchArguments {
    /// Arguments for the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Replaces this process with the program, whose arguments begin with `first`; returns only if that is impossible.
pub(crate) fn run(first: Option<&str>, asked: &BenchArguments) -> Result<()> {
    let program = beside(PROGRAM).unwrap_or_else(|| PROGRAM.into());
    let error = Command::new(&program).args(first).args(&asked.arguments).exec();
    ensure!(error.kind() == ErrorKind::NotFound, "{}: {error}", program.display());
    bail!(
        "there is no {}: in the sources of the project, `cargo build --release --package {PROGRAM}` builds it, and \
         `cargo xtask {PROGRAM}` builds and runs it",
        program.display()
    )
}
