//! `veloc doctor`.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use xtask::stage::{stage, Profile};

use crate::files::Job;

/// The finding about `what`, in a report whatever its exit code.
fn finding<'a>(report: &'a Value, area: &str, what: &str) -> &'a Value {
    let mut findings = report["findings"].as_array().unwrap().iter();
    let found = findings.find(|finding| finding["area"] == area && finding["what"] == what);
    found.unwrap_or_else(|| panic!("{area}: {what} is not in {report:#}"))
}

/// Catches an area that is left out, and exit codes that do not follow from the findings.
#[test]
fn a_node_is_described() {
    let job = Job::new();
    let ran = job.veloc("doctor --config veloc.cfg --json");
    let report = ran.json();
    assert_eq!(ran.code(), Some(i32::from(report["state"] == "problem")), "{report:#}");
    for (area, what) in [
        ("memory", "memory"),
        ("memory", "huge pages"),
        ("memory", "huge pages, shared"),
        ("memory", "touching pages"),
        ("memory", "locked memory"),
        ("memory", "memory nodes"),
        ("memory", "/dev/shm"),
        ("storage", "scratch"),
        ("storage", "persistent"),
        ("storage", "meta"),
        ("programs", "MPI"),
        ("programs", "veloc-backend"),
        ("veloc run", "CRIU"),
        ("veloc run", "capabilities"),
    ] {
        let found = finding(&report, area, what);
        // Every finding that is not well has advice.
        assert_eq!(found["state"] == "ok", found["advice"].is_null(), "{found}");
    }
    assert_eq!(finding(&report, "configuration", "file")["state"], "ok");
    assert_eq!(finding(&report, "storage", "scratch, persistent")["state"], "note");

    let text = job.veloc("doctor").stdout();
    assert!(text.contains("give --config FILE") && text.contains("gpu\n"), "{text}");
}

#[test]
fn problems_are_found() {
    let job = Job::new();
    job.write("bad.cfg", b"mode = sometimes\nscratch = scratch\n");
    let ran = job.veloc("doctor --config bad.cfg --json");
    assert_eq!(ran.code(), Some(1));
    let report = ran.json();
    let found = finding(&report, "configuration", "file");
    assert_eq!(found["state"], "problem");
    assert!(found["found"].as_str().unwrap().contains("sometimes"), "{found}");
    // The directories are looked at all the same.
    finding(&report, "storage", "scratch");

    fs::remove_dir(job.path("persistent")).unwrap();
    job.write("persistent", b"a file");
    job.write(
        "big.cfg",
        b"mode = sync\nscratch = scratch\npersistent = persistent\nhost_cache_size = 4000T\nscrach = 1",
    );
    let ran = job.veloc("doctor --config big.cfg --json");
    assert_eq!(ran.code(), Some(1));
    let report = ran.json();
    assert_eq!(finding(&report, "configuration", "host_cache_size")["state"], "problem");
    assert_eq!(finding(&report, "configuration", "key")["state"], "note");
    assert_eq!(finding(&report, "storage", "persistent")["state"], "problem");
    let text = job.veloc("doctor --config big.cfg").stdout();
    assert!(text.contains("PROBLEM") && text.contains("was scratch meant?"), "{text}");
    assert!(text.ends_with(" notes\n") || text.ends_with(" note\n"), "{text}");
    assert_eq!(job.veloc("doctor --config none.cfg").code(), Some(1));
}

/// Catches a backend that does not say its version, or says another one than the library.
#[test]
fn the_backend_of_this_build_matches() {
    let job = Job::new();
    job.write("async.cfg", b"mode = async\nscratch = scratch\n");
    let stage = stage(Profile::Debug).unwrap();
    let doctor = |folder: &Path| -> Value {
        let ended = Command::new(env!("CARGO_BIN_EXE_veloc"))
            .args(["doctor", "--config", "async.cfg", "--json"])
            .current_dir(job.folder.path())
            .env("VELOC_BIN", folder)
            .output()
            .unwrap();
        serde_json::from_slice(&ended.stdout).unwrap()
    };
    let report = doctor(&stage.bin());
    assert_eq!(finding(&report, "programs", "veloc-backend")["state"], "ok", "{report:#}");
    // A job that is to outlive the application needs the backend.
    let report = doctor(job.folder.path());
    assert_eq!(finding(&report, "programs", "veloc-backend")["state"], "problem", "{report:#}");
}
