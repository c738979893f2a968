//! What the tests need beside Rust, and how it gets onto the machine.

use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};
use crate::project::{has_program, run};
use crate::python::has_module;

/// A program or a module of Python, and the Debian package that has it.
const PROGRAMS: [(&str, &str); 10] = [
    ("cc", "gcc"),
    ("c++", "g++"),
    ("gfortran", "gfortran"),
    ("nm", "binutils"),
    ("readelf", "binutils"),
    ("valgrind", "valgrind"),
    ("cmake", "cmake"),
    ("pkg-config", "pkg-config"),
    ("import numpy", "python3-numpy"),
    ("import pip", "python3-pip"),
];

/// The same of programs, modules and headers without which some tests say that they are skipped.
const WELCOME: [(&str, &str); 7] = [
    ("mpicc.openmpi", "libopenmpi-dev"),
    ("mpirun.openmpi", "openmpi-bin"),
    ("mpicc.mpich", "libmpich-dev"),
    ("mpirun.mpich", "mpich"),
    ("import mpi4py", "python3-mpi4py"),
    ("/usr/include/cereal/cereal.hpp", "libcereal-dev"),
    ("/usr/include/boost/serialization/set.hpp", "libboost-serialization-dev"),
];

/// Whether there is a program of this name, a file of this path, or Python can do this import.
fn is_there(what: &str) -> bool {
    if what.starts_with('/') {
        return Path::new(what).is_file();
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
    let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    if !root || !has_program("apt-get") {
        let advice = format!(
            "missing: {}; run: sudo apt-get install --yes {}",
            programs.join(", "),
            packages.join(" ")
        );
        if needed.is_empty() {
            println!("{advice} (without these, some tests are skipped)");
            return Ok(());
        }
        return Err(Error::new(advice));
    }
    println!("missing: {}", programs.join(", "));
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    run(Command::new("apt-get")
        .args(["install", "--yes", "--quiet", "--no-install-recommends", "libc6-dev"])
        .args(&packages)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}
