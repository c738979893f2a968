//! The measurements that need no GPU, and those of a device, as their users run them: on the
//! software device and with small sizes. The tests look at which figures there are, never at how
//! fast.

// A test that cannot go on should end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use xtask::stage::{build_program, stage, Profile};

static SOFTCUDA: LazyLock<PathBuf> =
    LazyLock::new(|| stage(Profile::Debug).expect("the software device").softcuda());

fn run(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_veloc-bench"))
        .args(arguments.split_whitespace())
        .env("LD_LIBRARY_PATH", &*SOFTCUDA)
        .output()
        .expect("veloc")
}

/// The results that a run has written to the file of `option`.
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

/// Catches processes that do not get their parts into one file, and a figure that is left out.
#[test]
fn processes_aggregate() {
    let output = run("engine --parts aggregated --detail 3000000 --repeats 2");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let figures: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(figures.len(), 3, "{text}");
    for figure in figures {
        let values = figure["values"].as_array().unwrap();
        assert!(values.len() == 2 && values.iter().all(|value| value.as_f64().unwrap() > 0.0));
    }
}

/// Catches a program that is not carried along whole, or not understood; a part that is left out; a time beside which it does
/// not stand that it is none of persistent memory; and crashes that are left out.
#[test]
fn arrays_are_measured_in_every_way() {
    let stage = stage(Profile::Debug).unwrap();
    // It lies beside the bench.
    build_program("veloc-cli", "veloc", Profile::Debug).unwrap();
    let arguments = format!(
        "pmem --prefix {} --class S --iterations 3 --order 128 --blocks 64 --lookups 2000 --caches 64,4096 --crashes 4 --repeats 2",
        stage.folder.display()
    );
    for (wrong, words) in
        [("--class Q", "'Q'"), ("--order 7", "--order 7"), ("--blocks 6", "--blocks 6")]
    {
        let output = run(&format!("pmem --prefix {} {wrong}", stage.folder.display()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{said}");
        assert!(output.stdout.is_empty(), "nothing is measured before");
    }
    let results = results(&arguments, "--out");
    let note = |what: &str| format!("{what}, not persistent memory");
    for (what, count) in [
        (note("a mark behind the other, process"), 40),
        (note("a mark behind the other, power"), 40),
        (note("a mark after 64 MiB of other work, power"), 40),
        (note("conjugate gradients, class S: an iteration"), 2),
        (note("conjugate gradients, class S: arrays, process"), 2),
        (note("conjugate gradients, class S: arrays, power"), 2),
        (note("conjugate gradients, class S: checkpoint of p, q, z each iteration, waited for"), 2),
        (note("conjugate gradients, class S: recovery, by iteration tried"), 2),
        (note("product of order 128, blocks of 64, own loop"), 2),
        (note("Monte Carlo, 2000 lookups"), 2),
        ("veloc crash: conjugate gradients, class S".to_owned(), 2),
    ] {
        assert_eq!(values(&results, &what).len(), count, "{what}");
    }
    // Each size has the same crashes, of which those before the first mark do not count.
    let lost = ["16", "0.25"].map(|ratio| {
        values(&results, &format!("iterations lost, data of an iteration {ratio} caches"))
    });
    assert!((1..=4).contains(&lost[0].len()) && lost.iter().all(|all| all.len() == lost[0].len()));
}

/// Catches a way of touching that is left out, or that breaks off.
#[test]
fn every_way_of_touching_is_measured() {
    let results = results("pages --bytes 8M --threads 1,3 --repeats 2", "--out");
    assert_eq!(points(&results).len(), 2 * 2 * (5 + 3), "private, and shared");
    for point in points(&results) {
        assert_eq!(point["bytes"], 8 << 20);
        let rates = point["rates"].as_array().unwrap();
        assert!(rates.len() == 2 && rates.iter().all(|rate| rate.as_f64().unwrap() > 0.0));
    }
}

/// Catches a lead that breaks the rules of the driver: the software device checks them.
#[test]
fn every_lead_is_followed() {
    let results = results("leads --total 16M --repeats 1", "--out");
    assert!(results["warning"].as_str().unwrap().contains("software device"));
    assert_eq!(results["device"]["software"], true);
    let count = |key: &str, is: &str| points(&results).iter().filter(|p| p[key] == is).count();
    assert_eq!((count("lead", "facts"), count("lead", "grow")), (1, 1));
    // Registering chunks of 4 and 16 MiB of four kinds of pages; 7 ways of staging; 5 kinds of
    // background work, and registering two kinds of pages in chunks of three sizes.
    assert_eq!(count("watched", "copies"), 1 + 2 * 2 * 4 + 7);
    assert_eq!(count("watched", "kernels"), 5 + 2 * 3);
    assert!(points(&results).iter().all(|point| point["failure"].is_null()), "{results}");
}

#[test]
fn caches_are_made_by_several_processes_at_once() {
    let sizes = "--device-bytes 8M --host-bytes 8M --steps 2M,8M";
    let results = results(&format!("init {sizes} --processes 1,3 --repeats 2"), "--out");
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
    let results = results(&format!("engine --parts device-memory {softcuda}"), "--out");
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

/// The folders that the bench with this process id has in `parent`.
fn folders_of(bench: u32, parent: &Path) -> usize {
    let prefix = format!("veloc-bench-{bench}-");
    let names = fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with(&prefix)).count()
}

/// Waits for a condition that takes moments to come true; up to a minute on a very slow machine.
fn until(what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Catches temporary folders that outlive a bench that is interrupted, and processes that go on for
/// nobody.
#[test]
fn an_interrupted_bench_leaves_neither_folders_nor_processes() {
    let own = tempfile::tempdir().unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_veloc-bench"))
        .args(["engine", "--parts", "files"])
        .env("TMPDIR", own.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let id = bench.id();
    let children = || -> Vec<String> {
        let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        text.split_whitespace().map(str::to_owned).collect()
    };
    until("it starts", || folders_of(id, own.path()) == 1 && !children().is_empty());
    let children = children();
    // SAFETY: a child of this process that was not waited for.
    assert_eq!(unsafe { libc::kill(id as libc::pid_t, libc::SIGTERM) }, 0);
    assert_eq!(bench.wait().unwrap().code(), Some(143));
    until("its folder goes", || folders_of(id, own.path()) == 0);
    let runs = |child: &String| {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        // The state stands behind the name, which may hold anything.
        let state = stat.rsplit_once(") ").map_or("Z", |(_, rest)| rest);
        !state.starts_with('Z')
    };
    until("its processes end", || !children.iter().any(runs));
    assert_eq!(fs::read_dir(own.path()).unwrap().count(), 0);
}
