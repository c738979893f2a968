//! What the tests need beside Rust, and how it gets onto the machine.

use std::process::Command;

use crate::error::{Error, Result};
use crate::project::{has_program, run};
use crate::python::has_module;

/// A program or module, the Debian package that has it, and what looks for it.
type Need = (&'static str, &'static str, fn(&str) -> bool);

const NEEDED: [Need; 12] = [
    ("cc", "gcc", has_program),
    ("c++", "g++", has_program),
    ("gfortran", "gfortran", has_program),
    ("nm", "binutils", has_program),
    ("readelf", "binutils", has_program),
    ("valgrind", "valgrind", has_program),
    ("cmake", "cmake", has_program),
    ("pkg-config", "pkg-config", has_program),
    ("numpy", "python3-numpy", has_module),
    ("pip", "python3-pip", has_module),
    ("setuptools", "python3-setuptools", has_module),
    ("wheel", "python3-wheel", has_module),
];

/// The same of what some tests, without it, say that they are skipped for.
const WELCOME: [Need; 5] = [
    ("mpicc.openmpi", "libopenmpi-dev", has_program),
    ("mpirun.openmpi", "openmpi-bin", has_program),
    ("mpicc.mpich", "libmpich-dev", has_program),
    ("mpirun.mpich", "mpich", has_program),
    ("mpi4py", "python3-mpi4py", has_module),
];

/// Sees to it that all of it is there: root on Debian or Ubuntu gets what is missing, others are
/// told what to run.
pub fn prepare() -> Result<()> {
    let absent = |wanted: &[Need]| -> Vec<Need> {
        wanted.iter().filter(|(name, _, is_there)| !is_there(name)).copied().collect()
    };
    let (needed, welcome) = (absent(&NEEDED), absent(&WELCOME));
    let missing: Vec<_> = needed.iter().chain(&welcome).copied().collect();
    if missing.is_empty() {
        println!("nothing is missing");
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|(name, ..)| *name).collect();
    let mut packages: Vec<_> = missing.iter().map(|(_, package, _)| *package).collect();
    packages.dedup();
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    if !root || !has_program("apt-get") {
        let advice = format!(
            "missing: {}; run: sudo apt-get install --yes {}",
            names.join(", "),
            packages.join(" ")
        );
        if needed.is_empty() {
            println!("{advice} (without these, the tests over MPI are skipped)");
            return Ok(());
        }
        return Err(Error::new(advice));
    }
    println!("missing: {}", names.join(", "));
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    run(Command::new("apt-get")
        .args(["install", "--yes", "--quiet", "--no-install-recommends", "libc6-dev"])
        .args(&packages)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}
