//! The programs of the workspace, on the device at hand.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::driver::{devices, use_software};
use crate::error::Result;
use crate::project::run;
use crate::stage::{build, build_program, software_device, stage, Profile};

/// Builds the demonstration, and runs it in `folder` with `arguments` and these variables: on the GPU if there is one,
/// else on the software device, whose times say nothing, and then of what the tests build.
pub fn rtm(arguments: &[OsString], variables: &[(&str, &str)], folder: &Path) -> Result<()> {
    let has_none = devices() == 0;
    let profile = if has_none { Profile::Debug } else { Profile::Release };
    let built = build(&["rtm", "softcuda"], &["--lib", "--bin", "rtm"], profile)?;
    let mut command = Command::new(built.find("rtm")?);
    command.args(arguments).envs(variables.iter().copied()).current_dir(folder);
    if has_none {
        use_software(&mut command, software_device(&built, profile)?)?;
    }
    run(&mut command)
}

/// Builds the program `veloc` and runs it with `arguments`, on the GPU if there is one, else on the software
/// device.
pub fn veloc(arguments: &[OsString]) -> Result<()> {
    // The program that these two commands are lies beside it.
    if arguments.first().is_some_and(|first| first == "bench" || first == "model") {
        build_program("veloc-bench", "veloc-bench", Profile::Release)?;
    }
    program("veloc-cli", "veloc", arguments)
}

/// As [`veloc`], the program `veloc-bench`.
pub fn veloc_bench(arguments: &[OsString]) -> Result<()> {
    program("veloc-bench", "veloc-bench", arguments)
}

fn program(package: &str, name: &str, arguments: &[OsString]) -> Result<()> {
    let stage = stage(Profile::Release)?;
    let mut command = Command::new(build_program(package, name, Profile::Release)?);
    command.args(arguments);
    if devices() == 0 {
        use_software(&mut command, stage.softcuda())?;
    }
    run(&mut command)
}
