//! The programs of the workspace, on the device at hand.

use std::ffi::OsString;
use std::process::Command;

use crate::driver::{devices, use_software};
use crate::error::Result;
use crate::project::run;
use crate::stage::{build, stage, Profile};

/// Builds the demonstration and runs it with `arguments`.
pub fn rtm(arguments: &[OsString]) -> Result<()> {
    run_here("rtm", "rtm", arguments)
}

/// Builds the program `veloc` and runs it with `arguments`.
pub fn veloc(arguments: &[OsString]) -> Result<()> {
    run_here("veloc-cli", "veloc", arguments)
}

/// Builds a program and runs it: on the GPU if there is one, else on the software device.
fn run_here(package: &str, program: &str, arguments: &[OsString]) -> Result<()> {
    let stage = stage(Profile::Release)?;
    let built = build(&[package], Profile::Release)?;
    let mut command = Command::new(built.find(program)?);
    command.args(arguments);
    if devices() == 0 {
        use_software(&mut command, &stage)?;
    }
    run(&mut command)
}
