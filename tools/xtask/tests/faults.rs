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

/// Runs the script of the faults beside three of them: a test finds the first, none the second, and the third is an
/// error before any test. Returns whether it succeeded, and what it printed.
fn plant(numbers: &[&str]) -> (bool, String) {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    std::fs::create_dir_all(at("tools/faults")).unwrap();
    std::fs::create_dir(at("bin")).unwrap();
    std::fs::copy(root().join("tools/faults/run.sh"), at("tools/faults/run.sh")).unwrap();
    std::fs::write(at("code"), "right\n").unwrap();
    for (number, code) in [("01", "found"), ("02", "missed"), ("03", "broken")] {
        let patch =
            format!("about {code}\n\n--- a/code\n+++ b/code\n@@ -1 +1 @@\n-right\n+{code}\n");
        std::fs::write(at(&format!("tools/faults/{number}.patch")), patch).unwrap();
    }
    let cargo = "#!/bin/sh\n[ \"$1\" = xtask ] || exit 0\ncase $(cat code) in\n\
                 found) echo '==> a::test: FAILED (1 s)'; exit 1 ;;\nbroken) exit 1 ;;\nesac\n";
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

/// Catches a script that passes though a fault was missed, or though the tests did not run.
#[test]
fn a_missed_fault_is_an_error() {
    let (passed, said) = plant(&[]);
    let has = |number: &str, who: &str| {
        said.lines().any(|line| line.starts_with(number) && line.contains(who))
    };
    assert!(has("01", "a::test") && has("02", "nobody") && has("03", "an error"), "{said}");
    assert!(!passed && said.ends_with("2 not found\n"), "{said}");
    let (passed, said) = plant(&["01"]);
    assert!(passed && said.ends_with("0 not found\n") && !said.contains("02"), "{said}");
    for number in ["02", "03", "04"] {
        assert!(!plant(&[number]).0, "{number}");
    }
}
