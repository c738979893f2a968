//! The measurements that need no GPU, and those of a device, as their users run them: on the
//! software device and with small sizes. What is looked at is what was measured, never how fast.

// A test that cannot go on should end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::Value;
use xtask::stage::{stage, Profile};

static SOFTCUDA: LazyLock<PathBuf> =
    LazyLock::new(|| stage(Profile::Debug).expect("the software device").softcuda());

fn run(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_veloc"))
        .arg("bench")
        .args(arguments.split_whitespace())
        .env("LD_LIBRARY_PATH", &*SOFTCUDA)
        .output()
        .expect("veloc")
}

/// What a run has written to the file that `option` names.
fn results(arguments: &str, option: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    let output = run(&format!("{arguments} {option} {}", file.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap()
}

fn points(results: &Value) -> &Vec<Value> {
    results["points"].as_array().unwrap()
}

/// The values of a figure, one for each repeat.
fn values(results: &Value, what: &str) -> Vec<f64> {
    let mut found = points(results).iter().filter(|point| point["what"] == what);
    let point = found.next().expect(what);
    point["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// Catches turns that overlap or pass over somebody who is alive, between real processes, and a
/// stopped holder that takes its turn for its own when it goes on.
#[test]
fn processes_take_turns() {
    let results = results("turns --processes 1,3 --turns 4 --hold-ms 2 --repeats 1", "--json");
    assert_eq!(values(&results, "3 processes: turns that overlapped another"), [0.0]);
    assert!(values(&results, "3 processes: later turns of one that came first, most")[0] <= 1.0);
    let lost = "the holder that went on knew that it had lost its turn";
    assert_eq!(values(&results, lost), [1.0]);
}

/// Catches a way of touching that is left out, or that breaks off.
#[test]
fn every_way_of_touching_is_measured() {
    let results = results("pages --bytes 8M --threads 1,3 --repeats 2", "--json");
    assert_eq!(points(&results).len(), 2 * 2 * 5);
    for point in points(&results) {
        assert_eq!(point["bytes"], 8 << 20);
        let rates = point["rates"].as_array().unwrap();
        assert!(rates.len() == 2 && rates.iter().all(|rate| rate.as_f64().unwrap() > 0.0));
    }
}

/// Catches a lead that breaks the rules of the driver: the software device checks them.
#[test]
fn every_lead_is_followed() {
    let results = results("leads --total 16M --repeats 1", "--output");
    assert!(results["warning"].as_str().unwrap().contains("software device"));
    assert_eq!(results["device"]["software"], true);
    for lead in ["facts", "registration", "staging", "copies", "mapping"] {
        let mut found = points(&results).iter().filter(|point| point["lead"] == lead).peekable();
        assert!(found.peek().is_some(), "{lead}");
        assert!(found.all(|point| point["failure"].is_null()), "{lead}");
    }
}

#[test]
fn caches_are_made_by_several_processes_at_once() {
    let sizes = "--device-bytes 8M --host-bytes 8M --steps 2M,8M";
    let results = results(&format!("init {sizes} --processes 1,3 --repeats 2"), "--output");
    let points = results["initialisation"].as_array().unwrap();
    assert_eq!(points.len(), 2 * 6);
    for point in points {
        let repeats = point["seconds"].as_array().unwrap();
        assert_eq!(repeats.len(), 2);
        let processes = point["processes"].as_u64().unwrap() as usize;
        assert!(repeats.iter().all(|times| times.as_array().unwrap().len() == processes));
    }
}

/// Catches a device cache that takes more than it was given, and a part that is not run.
#[test]
fn the_device_cache_takes_what_it_was_given() {
    let softcuda = format!("--softcuda {}", SOFTCUDA.display());
    let results = results(&format!("engine --parts device-memory {softcuda}"), "--json");
    assert_eq!(values(&results, "device memory, cache of 1 GiB"), [1.0]);
}

#[test]
fn what_the_machine_cannot_give_is_refused_by_name() {
    for (arguments, named) in [
        ("pages --bytes 1000T", "--bytes"),
        ("leads --total 1000T", "--total"),
        ("init --host-bytes 1000T", "--host-bytes"),
        ("init --device-bytes 1000T --processes 1", "--device-bytes"),
        ("engine --parts device --softcuda /nowhere", "/nowhere"),
    ] {
        let output = run(arguments);
        assert!(!output.status.success(), "{arguments}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(named), "{arguments}: {said}");
    }
}
