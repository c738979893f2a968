//! The faults that `tools/faults/run.sh` plants.

// A helper of tests fails by panicking, like the test that calls it.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use xtask::project::root;

/// Catches a fault that cannot be planted any more, as what it changes has moved.
#[test]
fn every_fault_can_be_planted() {
    if std::env::var_os("VELOC_PLANTED").is_some() {
        return; // One is, and cannot be once more.
    }
    let folder = root().join("tools/faults");
    let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let patches: Vec<_> =
        names.filter(|path| path.extension().is_some_and(|of| of == "patch")).collect();
    assert!(!patches.is_empty());
    for patch in patches {
        let git = Command::new("git")
            .args(["apply", "--check"])
            .arg(&patch)
            .current_dir(root())
            .output()
            .unwrap();
        assert!(
            git.status.success(),
            "{}: {}",
            patch.display(),
            String::from_utf8_lossy(&git.stderr)
        );
    }
}
