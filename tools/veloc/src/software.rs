//! The software device, for a command that needs a GPU where there is none. The driver's library is found
//! when a process starts: the command is started with the library that is installed beside this program.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use device::{probe, Probe};

/// The folder of the software device, from the folder of this program.
const FOLDER: &str = "../lib/veloc/softcuda";

/// Has `command` use the software device if there is no GPU and the software device is installed.
pub(crate) fn instead_of_a_gpu(command: &mut Command) {
    let Some(folder) = beside(FOLDER).filter(|folder| folder.join("libcuda.so.1").exists()) else {
        return;
    };
    // A driver that does not work is for the command to report.
    if !matches!(probe(), Ok(Probe::NoDriver(_) | Probe::NoDevice)) {
        return;
    }
    let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let before: Vec<PathBuf> = env::split_paths(&before).collect();
    if before.contains(&folder) {
        return;
    }
    if let Ok(path) = env::join_paths(std::iter::once(folder).chain(before)) {
        command.env("LD_LIBRARY_PATH", path);
    }
}

/// A path relative to the folder of this program.
pub(crate) fn beside(path: &str) -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    Some(program.parent()?.join(path))
}
