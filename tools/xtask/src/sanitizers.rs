//! The library's own tests under the compiler's sanitizers, and those of its pure rooms under Miri. They
//! need a nightly compiler; ThreadSanitizer and Miri need the source of the standard library beside it
//! (`rust-src`), without which the one takes that library's locks for races.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Result;
use crate::project::{line, output, root, run, target_directory};

/// What the tests are built for: with a target, what is run while building is not sanitized.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A sanitizer and the tests that run under it.
struct Sanitizer {
    name: &'static str,
    /// The variable with its options, and these.
    options: (&'static str, &'static str),
    /// Whether the standard library has to be built with it.
    whole: bool,
    /// The crates whose tests run.
    crates: &'static [&'static str],
    /// Names of tests that do not contain one of these.
    skipped: &'static [&'static str],
}

const SANITIZERS: [Sanitizer; 2] = [
    Sanitizer {
        name: "address",
        // Tests may leave memory behind, as the process does that ends.
        options: ("ASAN_OPTIONS", "detect_leaks=0"),
        whole: false,
        crates: &[
            "adjoint", "client", "config", "daemon", "engine", "erasure", "format", "levels",
            "mpi", "os", "policy", "recovery", "trace", "veloc",
        ],
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
        // Without a thread, and slow.
        skipped: &[SLEEPS, "catalog::state", "catalog::model_tests", "files::", "space::"],
    },
];

/// No test of memory: it counts how often a thread sleeps, which it does for other reasons under a
/// sanitizer.
const SLEEPS: &str = "memory_can_be_mapped_while_a_unit_is_touched";

/// Tests without a system call, as far as they do not take minutes; and the crates that have them.
const PURE: [&str; 10] = [
    "names::",
    "proof::",
    "mark::",
    "header::tests::what",
    "slice::",
    "evict::",
    "map::",
    "order::",
    "register::",
    "touch_tests::",
];
const OF_PURE: [&str; 2] = ["format", "policy"];

/// Runs what can be run. Why something could not, if so.
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
        add.args(["component", "add", "--toolchain", "nightly", "rust-src", "miri"]);
        println!("$ {}", line(&add));
        // Without a network it is not to be had.
        let _ = run(&mut add);
    }
    let has_source = source.is_dir();
    for sanitizer in SANITIZERS.iter().filter(|sanitizer| has_source || !sanitizer.whole) {
        under(sanitizer)?;
    }
    if !has_source {
        return Ok(Some(
            "thread, Miri: the nightly compiler has no rust-src (rustup component add)",
        ));
    }
    let has_miri = output(nightly("cargo").args(["miri", "--version"]).stderr(Stdio::null()));
    if has_miri.is_err() {
        return Ok(Some("Miri: the nightly compiler has none (rustup component add)"));
    }
    miri().map(|()| None)
}

/// Where a nightly compiler would have the source of the standard library. `None`: there is no such
/// compiler.
fn source_of_library() -> Option<PathBuf> {
    let mut command = nightly("rustc");
    command.args(["--print", "sysroot"]).stderr(Stdio::null());
    let sysroot = output(&mut command).ok()?;
    Some(Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library"))
}

/// A program of the nightly toolchain, whichever one runs this.
fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", program]).current_dir(root());
    command
}

/// Runs what is pure under Miri, which is slow: with few random cases.
fn miri() -> Result<()> {
    let mut command = nightly("cargo");
    command.args(["miri", "test", "--lib"]).args(packages(&OF_PURE)).arg("--target-dir");
    command.arg(target_directory()?.join("sanitizers").join("miri"));
    command.arg("--").args(PURE);
    println!("$ {}", line(&command));
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "4");
    run(&mut command)
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

/// Cargo's arguments for these packages.
fn packages<'a>(names: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    names.iter().flat_map(|name| ["--package", name])
}
