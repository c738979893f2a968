//! The folder of the project, and commands that run in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::error::{Error, Result, While};

/// The folder of the workspace.
///
/// It is found at run time, from the package that cargo runs: two checkouts may share a target
/// directory, and one may run a program compiled for the other.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let compiled = Path::new(env!("CARGO_MANIFEST_DIR"));
        let running = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let package = running.as_deref().unwrap_or(compiled);
        let found =
            package.ancestors().find(|folder| folder.join("tools/xtask/Cargo.toml").is_file());
        found.or(compiled.parent()).unwrap_or(compiled).to_path_buf()
    })
}

/// The cargo that runs this, or the one on the path.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// cargo's metadata of the workspace, without the crates of others.
pub fn metadata() -> Result<serde_json::Value> {
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    let text = output(&mut command)?;
    serde_json::from_str(&text).when(|| "reading cargo's metadata".into())
}

/// The folder that cargo builds into.
pub fn target_directory() -> Result<PathBuf> {
    metadata()?["target_directory"]
        .as_str()
        .map(PathBuf::from)
        .ok_or_else(|| Error::new("cargo's metadata names no target_directory"))
}

/// Runs a command with this process's own input and output.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().when(|| format!("starting {}", line(command)))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::new(format!("{} failed: {status}", line(command))))
}

/// Runs a command and returns its output. Its errors go where this process's go.
pub fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().when(|| format!("starting {}", line(command)))?;
    if !output.status.success() {
        return Err(Error::new(format!("{} failed: {}", line(command), output.status)));
    }
    String::from_utf8(output.stdout).when(|| format!("reading what {} printed", line(command)))
}

/// Whether a program of this name is on the path.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// The command as one would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
