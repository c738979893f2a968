//! What the tests need beside Rust, and how it gets onto the machine.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use crate::project::{has_program, run};
use crate::python::has_module;

/// A program or a module of Python, and the Debian package that has it.
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

/// The same of programs, modules and headers without which some tests say that they are skipped.
const WELCOME: [(&str, &str); 8] = [
    ("mpicc.openmpi", "libopenmpi-dev"),
    ("mpirun.openmpi", "openmpi-bin"),
    ("mpicc.mpich", "libmpich-dev"),
    ("mpirun.mpich", "mpich"),
    ("flang", "flang-19"),
    ("import mpi4py", "python3-mpi4py"),
    ("/usr/include/cereal/cereal.hpp", "libcereal-dev"),
    ("/usr/include/boost/serialization/set.hpp", "libboost-serialization-dev"),
];

/// The names of LLVM's Fortran compiler, which has had several.
pub const FLANG: [&str; 7] =
    ["flang", "flang-new", "flang-22", "flang-21", "flang-20", "flang-19", "flang-new-19"];

/// Whether there is a program of this name, a file of this path, or Python can do this import.
fn is_there(what: &str) -> bool {
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

/// Sees to it that all programs are there: root on Debian or Ubuntu gets what is missing, others
/// are told what to run.
pub fn prepare() -> Result<()> {
    let absent = |wanted: &[(&'static str, &'static str)]| -> Vec<(&'static str, &'static str)> {
        wanted.iter().filter(|(what, _)| !is_there(what)).copied().collect()
    };
    let (needed, welcome) = (absent(&PROGRAMS), absent(&WELCOME));
    let missing: Vec<_> = needed.iter().chain(&welcome).copied().collect();
    if missing.is_empty() {
        println!("nothing is missing");
        return Ok(());
    }
    let programs: Vec<_> = missing.iter().map(|(program, _)| *program).collect();
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    if !root || !has_program("apt-get") {
        let advice = format!(
            "missing: {}; run: sudo apt-get install --yes {}",
            programs.join(", "),
            packages(&missing).join(" ")
        );
        if needed.is_empty() {
            println!("{advice} (without these, some tests are skipped)");
            return Ok(());
        }
        return Err(Error::new(advice));
    }
    println!("missing: {}", programs.join(", "));
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    let mut wanted = packages(&needed);
    // One that this release does not have would keep the others from being installed.
    let (known, unknown): (Vec<_>, Vec<_>) =
        packages(&welcome).into_iter().partition(|package| is_known(package));
    wanted.extend(known);
    if !unknown.is_empty() {
        println!("not in this release: {}; some tests are skipped", unknown.join(", "));
    }
    run(Command::new("apt-get")
        .args(["install", "--yes", "--quiet", "--no-install-recommends", "libc6-dev"])
        .args(&wanted)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

/// The packages of what is missing, each once.
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
