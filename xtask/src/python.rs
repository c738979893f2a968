//! The Python that the package `veloc` is tested with.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The system's own, whose modules come from the system's packages; else the first on the path.
pub fn interpreter() -> PathBuf {
    let own = Path::new("/usr/bin/python3");
    if own.is_file() { own } else { Path::new("python3") }.to_path_buf()
}

/// Whether it has a module of this name.
pub fn has_module(name: &str) -> bool {
    let mut command = Command::new(interpreter());
    command.args(["-c", "import sys, importlib; importlib.import_module(sys.argv[1])", name]);
    command.stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
