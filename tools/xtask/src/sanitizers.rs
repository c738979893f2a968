//! The library's own tests under the compiler's sanitizers. They need a nightly compiler; ThreadSanitizer also needs the
//! source of the standard library (`rust-src`), without which it takes that library's locks for races.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Result;
use crate::project::{line, output, root, run, target_directory};

/// The target that the tests are built for: if it is given, programs that run during the build are
/// not sanitized.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A sanitizer and the tests that run under it.
struct Sanitizer {
    name: &'static str,
    /// The variable for the sanitizer's options, and the options.
    options: (&'static str, &'static str),
    /// Whether the standard library has to be built with the sanitizer.
    whole: bool,
    crates: &'static [&'static str],
    /// Parts of the names of tests that are left out.
    skipped: &'static [&'static str],
}

const SANITIZERS: [Sanitizer; 2] = [
    Sanitizer {
        name: "address",
        // Tests may leave memory behind, as a process does that ends.
        options: ("ASAN_OPTIONS", "detect_leaks=0"),
        whole: false,
        // Those that have the memory of applications in their hands, or that of other processes.
        crates: &["client", "daemon", "engine", "files", "levels", "mpi", "os", "trace", "veloc"],
        skipped: &[SLEEPS],
    },
    Sanitizer {
        name: "thread",
        options: (
            "TSAN_OPTIONS",
            "second_deadlock_stack=1 suppressions=ROOT/tools/xtask/tsan.supp",
        ),
        whole: true,
        crates: &["engine", "erasure", "levels", "recovery", "trace"],
        // Tests without threads that are slow.
        skipped: &[SLEEPS, "catalog::state", "catalog::model_tests", "files::", "space::"],
    },
];

/// Not a test of memory: it counts how often a thread sleeps, which happens for other reasons under
/// a sanitizer.
const SLEEPS: &str = "memory_can_be_mapped_while_a_unit_is_touched";

/// Runs the tests under the sanitizers that can be had. Returns why others were not run, if so.
///
/// # Errors
/// A sanitizer has found something, or a test has failed.
pub fn check() -> Result<Option<&'static str>> {
    if cfg!(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))) {
        return Ok(Some("the sanitizers are for x86-64 and Linux"));
    }
    let Some(source) = source_of_library() else {
        return Ok(Some("no nightly compiler: rustup toolchain install nightly -c rust-src"));
    };
    if !source.is_dir() {
        let mut add = Command::new("rustup");
        add.args(["component", "add", "--toolchain", "nightly", "rust-src"]);
        println!("$ {}", line(&add));
        // Without a network the component cannot be added.
        let _ = run(&mut add);
    }
    let has_source = source.is_dir();
    for sanitizer in SANITIZERS.iter().filter(|sanitizer| has_source || !sanitizer.whole) {
        under(sanitizer)?;
    }
    if !has_source {
        return Ok(Some("thread: the nightly compiler has no rust-src (rustup component add)"));
    }
    Ok(None)
}

/// The path of the standard library's source for a nightly compiler. `None`: there is no such
/// compiler.
fn source_of_library() -> Option<PathBuf> {
    let mut command = nightly("rustc");
    command.args(["--print", "sysroot"]).stderr(Stdio::null());
    let sysroot = output(&mut command).ok()?;
    Some(Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library"))
}

/// A program of the nightly toolchain, whichever toolchain runs this.
fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", program]).current_dir(root());
    command
}

fn under(sanitizer: &Sanitizer) -> Result<()> {
    let folder = target_directory()?.join("sanitizers").join(sanitizer.name);
    let mut command = nightly("cargo");
    command.args(["test", "--lib"]).args(packages(sanitizer.crates));
    command.args(["--target", TARGET, "--target-dir"]).arg(folder);
    if sanitizer.whole {
        command.arg("-Zbuild-std");
    }
    command.arg("--").args(sanitizer.skipped.iter().flat_map(|name| ["--skip", name]));
    let flags = format!("-Zsanitizer={} -Cunsafe-allow-abi-mismatch=sanitizer", sanitizer.name);
    println!("$ RUSTFLAGS='{flags}' {}", line(&command));
    // The tests run in the folders of their crates.
    let options = sanitizer.options.1.replace("ROOT", &root().display().to_string());
    command.env("RUSTFLAGS", flags).env(sanitizer.options.0, options);
    run(&mut command)
}

fn packages<'a>(names: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    names.iter().flat_map(|name| ["--package", name])
}
