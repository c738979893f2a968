//! The programs that the tests need beside Rust, and how they are installed.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::{Error, Result, While as _};
use crate::project::{has_program, run};
use crate::python::has_module;

/// Programs and modules of Python that are needed, and the Debian package of each.
const PROGRAMS: [(&str, &str); 11] = [
    ("cc", "gcc"),
    ("c++", "g++"),
    ("gfortran", "gfortran"),
    ("nm", "binutils"),
    ("readelf", "binutils"),
    ("valgrind", "valgrind"),
    ("cmake", "cmake"),
    // Debian's CMake only recommends it.
    ("make", "make"),
    ("pkg-config", "pkg-config"),
    ("import numpy", "python3-numpy"),
    ("import pip", "python3-pip"),
];

/// Programs, modules, headers and libraries without which some tests are skipped, and the Debian package of
/// each.
const WELCOME: [(&str, &str); 10] = [
    ("mpicc.openmpi", "libopenmpi-dev"),
    ("mpirun.openmpi", "openmpi-bin"),
    ("mpicc.mpich", "libmpich-dev"),
    ("mpirun.mpich", "mpich"),
    ("flang", "flang-19"),
    ("import mpi4py", "python3-mpi4py"),
    // What pyrevolve is built with. A folder of that name is here as well.
    ("import packaging.version", "python3-packaging"),
    ("/usr/include/cereal/cereal.hpp", "libcereal-dev"),
    ("h5cc", "libhdf5-dev"),
    // Its headers come with other packages as well.
    ("-lboost_serialization", "libboost-serialization-dev"),
];

/// The names of LLVM's Fortran compiler, which has several.
pub const FLANG: [&str; 7] =
    ["flang", "flang-new", "flang-22", "flang-21", "flang-20", "flang-19", "flang-new-19"];

/// Whether there is a program of this name, a file of this path, a module that Python imports so, or a library that is
/// linked so.
pub fn is_there(what: &str) -> bool {
    if what.starts_with("-l") {
        let mut command = Command::new("cc");
        command.args(["-shared", "-nostdlib", "-o", "/dev/null", what]);
        return command.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    }
    if what.starts_with('/') {
        return Path::new(what).is_file();
    }
    if what == FLANG[0] {
        return FLANG.iter().any(|name| has_program(name));
    }
    match what.strip_prefix("import ") {
        Some(module) => has_module(module),
        None => has_program(what),
    }
}

/// Makes sure that all programs are there: root on Debian or Ubuntu gets the missing ones, after a
/// question if somebody can answer it; others are told what to run. Returns what is still missing,
/// without which some tests are skipped.
pub fn prepare() -> Result<Vec<&'static str>> {
    let absent = |wanted: &[(&'static str, &'static str)]| -> Vec<(&'static str, &'static str)> {
        wanted.iter().filter(|(what, _)| !is_there(what)).copied().collect()
    };
    let (needed, welcome) = (absent(&PROGRAMS), absent(&WELCOME));
    let missing: Vec<_> = needed.iter().chain(&welcome).copied().collect();
    if missing.is_empty() {
        println!("nothing is missing");
        return Ok(Vec::new());
    }
    println!("missing: {}", names(&missing).join(", "));
    let root = rustix::process::geteuid().is_root();
    if !root || !has_program("apt-get") || !may_install(&packages(&missing))? {
        let advice = format!("run: sudo apt-get install --yes {}", packages(&missing).join(" "));
        if needed.is_empty() {
            println!("{advice} (without these, some tests are skipped)");
            return Ok(names(&welcome));
        }
        return Err(Error::new(format!("missing: {}; {advice}", names(&missing).join(", "))));
    }
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    let mut wanted = packages(&needed);
    // A package that this release does not have would keep the others from being installed.
    let (known, unknown): (Vec<_>, Vec<_>) =
        packages(&welcome).into_iter().partition(|package| is_known(package));
    wanted.extend(known);
    if !unknown.is_empty() {
        println!("not in this release: {}; some tests are skipped", unknown.join(", "));
    }
    run(Command::new("apt-get")
        .args(["install", "--yes", "--quiet", "--no-install-recommends", "libc6-dev"])
        .args(&wanted)
        .env("DEBIAN_FRONTEND", "noninteractive"))?;
    let still = absent(&PROGRAMS);
    if !still.is_empty() {
        let still = names(&still).join(", ");
        return Err(Error::new(format!(
            "missing although apt-get has installed packages: {still}"
        )));
    }
    Ok(names(&absent(&WELCOME)))
}

/// Asks whether to install these packages. CI is not asked; where nobody can answer, the answer is no.
fn may_install(packages: &[&str]) -> Result<bool> {
    if std::env::var_os("CI").is_some() {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    print!("install {} (all together up to a gigabyte)? [y/N] ", packages.join(", "));
    let mut answer = String::new();
    std::io::stdout().flush().when(|| "asking what to install".into())?;
    std::io::stdin().read_line(&mut answer).when(|| "reading the answer".into())?;
    Ok(is_yes(&answer))
}

/// Whether an answer agrees. An empty answer does not.
fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

fn names(missing: &[(&'static str, &'static str)]) -> Vec<&'static str> {
    missing.iter().map(|(what, _)| what.trim_start_matches("import ")).collect()
}

/// The packages of missing programs, each once.
fn packages(missing: &[(&'static str, &'static str)]) -> Vec<&'static str> {
    let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    packages
}

/// Whether the system has a package of this name to install.
fn is_known(package: &str) -> bool {
    let mut command = Command::new("apt-cache");
    command.args(["show", "--no-all-versions", package]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches an installation that nobody has agreed to: by Enter, or by an input that has ended.
    #[test]
    fn only_yes_is_yes() {
        assert!(is_yes("y\n") && is_yes(" Yes\n"));
        assert!(!is_yes("") && !is_yes("\n") && !is_yes("no\n") && !is_yes("maybe yes\n"));
    }
}
