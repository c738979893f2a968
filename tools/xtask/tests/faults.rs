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

/// Runs the script of the faults beside five of them: a test finds the first, none the second, the third is an error
/// before any test, a step that is no test finds the fourth, and the fifth does not compile. Returns whether it succeeded,
/// and what it printed.
fn plant(numbers: &[&str]) -> (bool, String) {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    std::fs::create_dir_all(at("tools/faults")).unwrap();
    std::fs::create_dir(at("bin")).unwrap();
    std::fs::copy(root().join("tools/faults/run.sh"), at("tools/faults/run.sh")).unwrap();
    std::fs::write(at("code"), "right\n").unwrap();
    let codes = ["found", "missed", "broken", "step", "uncompiled"];
    for (number, code) in (1..).zip(codes) {
        let patch =
            format!("about {code}\n\n--- a/code\n+++ b/code\n@@ -1 +1 @@\n-right\n+{code}\n");
        std::fs::write(at(&format!("tools/faults/{number:02}.patch")), patch).unwrap();
    }
    let cargo = "#!/bin/sh\ncase $1,$(cat code) in\n\
                 xtask,found) echo '==> a::test: FAILED (1 s)'; exit 1 ;;\n\
                 xtask,step) echo 'error: failed: models; to repeat: that'; exit 1 ;;\n\
                 xtask,broken | test,uncompiled) exit 1 ;;\nesac\n";
    std::fs::write(at("bin/cargo"), cargo).unwrap();
    let script = "chmod +x bin/cargo && PATH=$PWD/bin:$PATH && git init -q && git add code && \
                  git -c user.name=n -c user.email=e commit -qm code && bash tools/faults/run.sh \"$@\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).args(numbers).current_dir(place.path());
    // Neither the project, if one of its hooks runs this, nor the settings of who runs it.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let ended = command.output().unwrap();
    (ended.status.success(), String::from_utf8(ended.stdout).unwrap())
}

/// Catches a script that passes though a fault was missed, or could not be planted, or though the tests did not run.
#[test]
fn a_missed_fault_is_an_error() {
    let (passed, said) = plant(&[]);
    let of = |number: &str| said.lines().find(|line| line.starts_with(number)).unwrap_or("");
    let found = [
        ("01", "a::test"),
        ("02", "nobody"),
        ("03", "an error"),
        ("04", "models"),
        ("05", "an error"),
    ];
    assert!(found.iter().all(|(number, by)| of(number).contains(by)), "{said}");
    assert!(!passed && said.ends_with("3 not found\n"), "{said}");
    let (passed, said) = plant(&["01", "04"]);
    assert!(passed && said.ends_with("0 not found\n") && !said.contains("02"), "{said}");
    for number in ["02", "03", "05", "06"] {
        assert!(!plant(&[number]).0, "{number}");
    }
}
