//! What the tests need beside Rust, and how it gets onto the machine.

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

/// Sees to it that all programs are there: root on Debian or Ubuntu gets what is missing, others
/// are told what to run.
pub fn prepare() -> Result<()> {
    let missing: Vec<_> = PROGRAMS.iter().filter(|(program, _)| !has_program(program)).collect();
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
        return Err(Error::new(format!(
            "missing: {}; run: sudo apt-get install --yes {}",
            programs.join(", "),
            packages.join(" ")
        )));
    }
    println!("missing: {}", programs.join(", "));
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    run(Command::new("apt-get")
        .args(["install", "--yes", "--quiet", "--no-install-recommends", "libc6-dev"])
        .args(&packages)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}
