//! The software device, for commands that need a GPU where there is none. The driver's library is
//! found when a process starts, so the command is started again with the library that is installed
//! beside this program.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{anyhow, Result};
use device::{probe, Probe};

/// The folder of the software device, from the folder of this program.
const FOLDER: &str = "../lib/veloc/softcuda";

/// Starts this program again on the software device if there is no GPU and the software device is
/// installed. Otherwise returns.
///
/// # Errors
/// The program cannot be started again.
pub(crate) fn instead_of_a_gpu() -> Result<()> {
    let Ok(program) = env::current_exe() else { return Ok(()) };
    let mut command = Command::new(&program);
    command.args(env::args_os().skip(1));
    match is_to_be_used(&mut command) {
        true => {
            eprintln!("there is no GPU: this runs on a software device, whose times say nothing about one");
            Err(anyhow!("{}: {}", program.display(), command.exec()))
        }
        false => Ok(()),
    }
}

/// Has `command` use the software device if there is no GPU and the software device is installed.
/// Returns whether it does.
pub(crate) fn is_to_be_used(command: &mut Command) -> bool {
    let Some(folder) = beside(FOLDER).filter(|folder| folder.join("libcuda.so.1").exists()) else {
        return false;
    };
    // A driver that does not work is for the command to report.
    if !matches!(probe(), Ok(Probe::NoDriver(_) | Probe::NoDevice)) {
        return false;
    }
    let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let before: Vec<PathBuf> = env::split_paths(&before).collect();
    if before.contains(&folder) {
        return false;
    }
    let Ok(path) = env::join_paths(std::iter::once(folder).chain(before)) else { return false };
    command.env("LD_LIBRARY_PATH", path);
    true
}

/// A path relative to the folder of this program.
pub(crate) fn beside(path: &str) -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    Some(program.parent()?.join(path))
}
