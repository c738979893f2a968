//! What the tests need beside Rust, and how it gets onto the machine.

use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};
use crate::project::{has_program, run};

/// A program, and the Debian package that has it.
const PROGRAMS: [(&str, &str); 5] = [
    ("cc", "gcc"),
    ("c++", "g++"),
    ("nm", "binutils"),
    ("readelf", "binutils"),
    ("valgrind", "valgrind"),
];

/// The same of programs and headers without which some tests say that they are skipped.
const WELCOME: [(&str, &str); 6] = [
    ("mpicc.openmpi", "libopenmpi-dev"),
    ("mpirun.openmpi", "openmpi-bin"),
    ("mpicc.mpich", "libmpich-dev"),
    ("mpirun.mpich", "mpich"),
    ("/usr/include/cereal/cereal.hpp", "libcereal-dev"),
    ("/usr/include/boost/serialization/set.hpp", "libboost-serialization-dev"),
];

/// Whether there is a program of this name, or a file of this path.
fn is_there(what: &str) -> bool {
    if what.starts_with('/') {
        Path::new(what).is_file()
    } else {
        has_program(what)
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
