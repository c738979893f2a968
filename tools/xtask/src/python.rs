//! The Python that the package `veloc` is tested with.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Result;
use crate::files;
use crate::project::{output, target_directory};

/// The system's own Python, which has the modules of the system's packages; else the first on the
/// path.
pub fn interpreter() -> PathBuf {
    let own = Path::new("/usr/bin/python3");
    if own.is_file() { own } else { Path::new("python3") }.to_path_buf()
}

/// Whether the interpreter has a module of this name.
pub fn has_module(name: &str) -> bool {
    let mut command = Command::new(interpreter());
    command.args(["-c", "import sys, importlib; importlib.import_module(sys.argv[1])", name]);
    command.stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A folder with one version of a package from pip's index, without its dependencies; installed
/// below the target directory unless it was before.
pub fn installed(package: &str, version: &str) -> Result<PathBuf> {
    installed_together(&[(package, version)])
}

/// A folder with several packages from pip's index, without their dependencies, named for the
/// first.
pub fn installed_together(packages: &[(&str, &str)]) -> Result<PathBuf> {
    let (first, version) = packages.first().copied().unwrap_or_default();
    let wanted = packages.iter().map(|(package, version)| format!("{package}=={version}"));
    install(&format!("{first}-{version}"), wanted.chain(["--no-deps".to_owned()]))
}

/// A folder with the packages that build, check and type-check the package `veloc`, and draw its
/// pictures. (Without isolation pip builds with these, and not with others that it fetches each
/// time.)
pub fn tools() -> Result<PathBuf> {
    let names =
        ["hatchling>=1.27", "pyelftools>=0.30", "auditwheel", "mypy", "matplotlib", "twine"];
    install("package-tools", names.map(str::to_owned))
}

/// pyrevolve, whose interface `veloc.revolve` has, and its version.
const PYREVOLVE: [&str; 2] = ["pyrevolve", "2.2.8"];

/// A folder with the adjoint packages that `veloc.revolve` and `veloc.schedules` are tested with,
/// and their dependencies. A new version is entered here after its tests have passed.
pub fn adjoint_packages() -> Result<PathBuf> {
    let names = [
        "checkpoint-schedules==1.0.4",
        "devito==4.8.23",
        "numpy==2.4.3",
        "pyadjoint-ad==2026.10.0",
        &PYREVOLVE.join("=="),
        // Devito's examples import pytest.
        "pytest==9.2.0",
    ];
    install("adjoint-packages", names.map(str::to_owned))
}

/// A folder with PyTorch and all that it depends on (5 GB, libraries for GPUs among it), and the NumPy that it is
/// tested with.
pub fn pytorch() -> Result<PathBuf> {
    install("pytorch", ["torch==2.15.0", "numpy==2.4.3"].map(str::to_owned))
}

/// The folder of pyrevolve's own tests, which its source package has alone.
pub fn tests_of_pyrevolve() -> Result<PathBuf> {
    let (package, name) = (PYREVOLVE.join("=="), PYREVOLVE.join("-"));
    let folder = made(&format!("{name}-source"), |unfinished| {
        let mut download = pip("download");
        download.args(["--no-deps", "--no-binary", ":all:", "--dest"]).arg(unfinished);
        let _ = output(download.arg(package))?;
        let mut unpack = Command::new(interpreter());
        unpack.args(["-m", "tarfile", "--extract"]).arg(unfinished.join(format!("{name}.tar.gz")));
        output(unpack.arg(unfinished)).map(drop)
    })?;
    Ok(folder.join(name).join("tests"))
}

/// A folder of this name in which pip installs with these arguments.
fn install(name: &str, arguments: impl IntoIterator<Item = String>) -> Result<PathBuf> {
    made(name, |unfinished| {
        let mut command = pip("install");
        command.args(["--root-user-action", "ignore", "--target"]).arg(unfinished);
        output(command.args(arguments)).map(drop)
    })
}

fn pip(what: &str) -> Command {
    let mut command = Command::new(interpreter());
    command.args(["-m", "pip", what, "--quiet", "--no-input", "--retries", "1"]);
    command
}

/// A folder of this name, which is made unless it was before.
fn made(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    files::made(target_directory()?.join("python").join(name), make)
}
