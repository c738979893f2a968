//! `veloc backend`: the program `veloc-backend`, as the library would start it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{anyhow, Result};
use clap::Args;
use veloc_client::backend::program;

/// Run veloc-backend, the one that the library would start
///
/// It is looked for in VELOC_BIN, beside this program, in ../bin and in PATH, and takes the place of
/// this program. `veloc backend --help` is its own help.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Backend {
    /// What to hand to it, such as a configuration
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Becomes that program; returns only if it cannot.
pub fn run(backend: &Backend) -> Result<()> {
    let program = program();
    let error = Command::new(&program).args(&backend.arguments).exec();
    Err(anyhow!("{}: {error} (VELOC_BIN names the directory it is in)", program.display()))
}
