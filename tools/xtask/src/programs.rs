//! The programs of the workspace, on the device at hand.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::driver::{devices, use_software};
use crate::error::Result;
use crate::project::run;
use crate::stage::{build, stage, Profile};

/// Builds the demonstration and runs it in `folder` with `arguments` and these variables.
pub fn rtm(arguments: &[OsString], variables: &[(&str, &str)], folder: &Path) -> Result<()> {
    run_here("rtm", "rtm", arguments, variables, folder)
}

/// Builds the program `veloc` and runs it with `arguments`.
pub fn veloc(arguments: &[OsString]) -> Result<()> {
    run_here("veloc-cli", "veloc", arguments, &[], Path::new("."))
}

/// Builds a program and runs it: on the GPU if there is one, else on the software device.
fn run_here(
    package: &str,
    program: &str,
    arguments: &[OsString],
    variables: &[(&str, &str)],
    folder: &Path,
) -> Result<()> {
    let stage = stage(Profile::Release)?;
    let built = build(&[package], Profile::Release)?;
    let mut command = Command::new(built.find(program)?);
    command.args(arguments).envs(variables.iter().copied()).current_dir(folder);
    if devices() == 0 {
        use_software(&mut command, &stage)?;
    }
    run(&mut command)
}
