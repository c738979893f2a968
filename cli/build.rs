//! Tells the program the commit that it is built from, for the results it writes.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Moves with every commit and every change of branch.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    println!("cargo:rustc-env=VELOC_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// What git says, if it says anything.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
