//! The bench as its users run it, on the software device: every approach has to bring back every
//! byte, and every failure has to be reported.

// A test that cannot go on should end.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::Value;
use xtask::stage::{stage, Profile};

static SOFTCUDA: LazyLock<PathBuf> =
    LazyLock::new(|| stage(Profile::Debug).expect("the software device").softcuda());

/// Sizes that make every approach evict and fetch, in a moment.
const SMALL: &str = "--count 24 --size 60K --device-cache 512K --host-cache 2M --interval 0.2";

struct Ran {
    output: Output,
    results: Value,
}

impl Ran {
    fn text(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        text(&self.output.stdout) + &text(&self.output.stderr)
    }

    fn measurements(&self) -> &Vec<Value> {
        self.results["measurements"].as_array().expect("measurements")
    }

    /// The figures of every process of every run of every point.
    fn figures(&self) -> Vec<&Value> {
        let runs = |m: &'_ Value| m["runs"].as_array().expect("runs").len();
        assert!(self.measurements().iter().all(|m| runs(m) > 0), "{}", self.text());
        self.measurements()
            .iter()
            .flat_map(|m| m["runs"].as_array().expect("runs"))
            .flat_map(|run| run["processes"].as_array().expect("processes"))
            .collect()
    }

    fn is_right(&self, points: usize) {
        assert!(self.output.status.success(), "{}", self.text());
        assert_eq!(self.measurements().len(), points, "{}", self.text());
        for figures in self.figures() {
            assert_eq!(figures["wrong_versions"], 0, "{}", self.text());
            let count = |key: &str| figures[key].as_array().map_or(0, Vec::len);
            assert!(count("checkpoints") > 0 && count("checkpoints") == count("restores"));
            causes_add_up(figures);
        }
        // All of these points keep the same bytes, so they share one floor.
        let floors = self.results["floors"].as_array().unwrap();
        assert_eq!(floors.len(), 1, "{floors:?}");
        let runs = self.measurements().iter().map(|m| m["runs"].as_array().unwrap().len());
        let passes = floors[0]["passes"].as_array().unwrap();
        assert_eq!(passes.len(), 5 * runs.sum::<usize>());
        let spread = ["least", "median", "greatest"].map(|key| floors[0][key].as_f64().unwrap());
        assert!(0.0 < spread[0] && spread[0] <= spread[1] && spread[1] <= spread[2], "{spread:?}");
    }
}

/// Catches time that an approach counts twice, or that is lost: the causes of each kind of call come
/// to the time that these calls took.
fn causes_add_up(figures: &Value) {
    let sum = |list: &Value| list.as_array().unwrap().iter().filter_map(Value::as_f64).sum::<f64>();
    let init = figures["init"].as_f64().unwrap();
    for (call, time) in [
        ("init", init),
        ("checkpoint", sum(&figures["checkpoints"])),
        ("restore", sum(&figures["restores"])),
    ] {
        let causes = figures["causes"].as_array().unwrap();
        let told = causes.iter().filter(|cause| cause["call"] == call);
        let told: f64 = told.filter_map(|cause| cause["seconds"].as_f64()).sum();
        assert!(
            (told - time).abs() <= 1e-9 + 1e-6 * time,
            "{call}: {told} of {time} in {causes:?}"
        );
    }
}

fn started(folder: &Path, arguments: &str, environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_veloc-bench"))
        .args(arguments.split_whitespace())
        .env("LD_LIBRARY_PATH", &*SOFTCUDA)
        .env_remove("VELOC_LOG")
        .envs(environment.iter().copied())
        .current_dir(folder)
        .output()
        .expect("veloc-bench runs")
}

fn bench(arguments: &str, environment: &[(&str, &str)]) -> Ran {
    let folder = tempfile::tempdir().expect("a folder");
    let out = if arguments.contains("--out") { "" } else { "--out r.json" };
    let arguments = format!("run --repeats 1 {out} {arguments}");
    let output = started(folder.path(), &arguments, environment);
    let text = std::fs::read(folder.path().join("r.json"));
    let results = text.map_or(Value::Null, |text| serde_json::from_slice(&text).expect("JSON"));
    Ran { output, results }
}

#[test]
fn every_approach_brings_every_byte_back_in_every_order() {
    let approaches = "--approach ours,direct-pin,uvm,uvm-budget,incremental-memset,ring";
    for order in ["reverse", "same", "random"] {
        for hints in ["none", "one", "all"] {
            let ran = bench(&format!("{SMALL} {approaches} --order {order} --hints {hints}"), &[]);
            ran.is_right(6);
        }
    }
}

#[test]
fn variable_sizes_and_several_processes_are_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    let rows = (0..30).map(|row| format!("{},{}\n", 1000 + 4000 * (row % 7), 90_000 - 2000 * row));
    std::fs::write(&trace, rows.collect::<String>()).unwrap();
    let ran = bench(
        &format!(
            "--trace {} --scale 1 --processes 2 --device-cache 512K --host-cache 4M --interval 0.2 \
             --approach ours,direct-pin,incremental-memset,ring",
            trace.display()
        ),
        &[],
    );
    ran.is_right(4);
    let sizes = ran.measurements()[0]["plan"]["sizes"].as_array().unwrap().clone();
    assert_eq!(sizes[0][1], 5000);
    assert_eq!(sizes[1][29], 32_000);
    assert_eq!(ran.figures().len(), 8, "two processes of each");
}

#[test]
fn a_large_device_cache_holds_everything() {
    let ran = bench(
        "--configuration large-device --count 10 --size 300000 --interval 0.2 \
         --approach ours,direct-pin,incremental-memset",
        &[],
    );
    ran.is_right(3);
    let hops = ran.figures()[0]["hops"].as_array().unwrap().clone();
    assert!(!hops.iter().any(|hop| hop["name"] == "DtoH"), "nothing has to leave the device");
}

#[test]
fn ours_tells_why_it_waited_and_all_kinds_of_pinning_are_right() {
    let ran = bench(
        &format!(
            "{SMALL} --approach ours --touch sequential,concurrent \
             --pin serial,parallel,chunked,off --compute kernel"
        ),
        &[],
    );
    ran.is_right(8);
    for figures in ran.figures() {
        assert!(waited(figures, "checkpoint", "copy") > 0.0, "{}", figures["causes"]);
        assert!(figures["decisions"]["mode"].is_string());
    }
}

/// The seconds of one cause.
fn waited(figures: &Value, call: &str, name: &str) -> f64 {
    let causes = figures["causes"].as_array().unwrap();
    let of = |cause: &&Value| cause["call"] == call && cause["name"] == name;
    causes.iter().filter(of).filter_map(|cause| cause["seconds"].as_f64()).sum()
}

/// Catches a baseline that leaves its waiting to the rest of the call, and one whose memory comes
/// from nowhere.
#[test]
fn every_baseline_tells_why_it_waited_and_how_its_memory_came_to_be() {
    /// An approach, causes with their calls, and hops.
    type Told<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);
    let told: [Told; 5] = [
        (
            "direct-pin",
            &[("init", "map"), ("init", "pin"), ("checkpoint", "copy"), ("restore", "copy")],
            &["map", "pin", "AtoD", "DtoH"],
        ),
        (
            "incremental-memset",
            &[("checkpoint", "copy"), ("restore", "copy")],
            &["map", "touch", "AtoD", "DtoH"],
        ),
        (
            "ring",
            &[("init", "pin"), ("checkpoint", "copy"), ("checkpoint", "host copy")],
            &["pin", "AtoH", "RtoH", "HtoR", "HtoA"],
        ),
        ("uvm", &[("init", "allocate"), ("checkpoint", "copy + page moves")], &["AtoM", "MtoA"]),
        ("uvm-budget", &[("init", "allocate"), ("checkpoint", "page moves")], &["AtoM", "MtoA"]),
    ];
    for (approach, causes, hops) in told {
        let ran = bench(&format!("{SMALL} --approach {approach}"), &[]);
        ran.is_right(1);
        let figures = ran.figures()[0];
        for (call, name) in causes {
            assert!(waited(figures, call, name) > 0.0, "{approach}: {call} {name}");
        }
        let all = figures["hops"].as_array().unwrap();
        for name in hops {
            let hop = all.iter().find(|hop| hop["name"] == *name);
            let hop = hop.unwrap_or_else(|| panic!("{approach}: no {name} in {all:?}"));
            assert!(
                hop["bytes"].as_u64() > Some(0) && hop["seconds"].as_f64() > Some(0.0),
                "{hop}"
            );
        }
        let managed = &figures["managed"]["allocated"];
        assert_eq!(managed.is_u64(), approach.starts_with("uvm"), "{approach}");
        assert!(ran.text().contains(&format!(" {approach} ")), "a row of causes: {}", ran.text());
    }
}

#[test]
fn bytes_that_do_not_come_back_are_noticed() {
    for approach in ["ours", "direct-pin", "uvm", "incremental-memset", "ring"] {
        let ran = bench(&format!("{SMALL} --approach {approach}"), &[("SOFTCUDA_COPY", "none")]);
        assert!(!ran.output.status.success(), "{}", ran.text());
        let wrong = ran.figures()[0]["wrong_versions"].as_u64();
        assert_eq!(wrong, Some(24), "{approach}: {}", ran.text());
    }
}

#[test]
fn a_driver_that_fails_is_reported_and_hangs_nobody() {
    for (approach, call, code) in [
        ("direct-pin", "cuMemcpyDtoHAsync_v2:3", "719"),
        ("direct-pin", "cuMemHostAlloc:1", "2"),
        ("direct-pin", "cuMemcpyHtoDAsync_v2:2", "719"),
        ("incremental-memset", "cuMemMap:1", "2"),
        ("incremental-memset", "cuMemHostRegister_v2:1", "2"),
        ("incremental-memset", "cuMemcpyDtoHAsync_v2:5", "719"),
        ("ring", "cuMemcpyDtoHAsync_v2:2", "719"),
        ("uvm", "cuMemAllocManaged:1", "2"),
    ] {
        let rule = format!("{call}={code}");
        let ran = bench(&format!("{SMALL} --approach {approach}"), &[("SOFTCUDA_FAIL", &rule)]);
        assert!(!ran.output.status.success(), "{approach} {rule}: {}", ran.text());
        let failure = ran.measurements()[0]["failures"][0].as_str().unwrap_or_default().to_owned();
        assert!(failure.contains(&format!("{code})")), "{approach} {rule}: {failure}");
    }
}

#[test]
fn what_does_not_get_done_is_ended() {
    let ran = bench(
        &format!("{SMALL} --approach direct-pin --processes 2 --interval 100 --limit 1"),
        &[],
    );
    assert!(!ran.output.status.success());
    assert!(ran.text().contains("not done in 1 s"), "{}", ran.text());
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_measured() {
    for (arguments, named) in [
        ("--size 10", "multiple of 4"),
        ("--device-cache 1K", "1024"),
        ("--vary pni=serial", "no key pni"),
        ("--interval x", "x"),
        ("--trace nowhere.csv", "nowhere.csv"),
        ("--limit 0", "--limit"),
        ("--hints one --approach ring", "--hints one"),
        ("--out .", "--out ."),
    ] {
        let ran = bench(arguments, &[]);
        assert!(!ran.output.status.success() && ran.results.is_null(), "{arguments}");
        assert!(ran.text().contains(named), "{arguments}: {}", ran.text());
    }
}

#[test]
fn results_say_that_they_are_of_the_software_device() {
    let folder = tempfile::tempdir().unwrap();
    let run = "run --repeats 2 --count 24 --size 60K --device-cache 512K --host-cache 2M \
               --interval 0.2,0.4 --out r.json";
    let output = started(folder.path(), run, &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("its times mean nothing").count(), 1, "{text}");
    // The library says the same at the start of each job.
    let said = text + &String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("says anything about a GPU"), "{said}");
}

#[test]
fn without_a_driver_the_reason_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_veloc-bench"))
        .args(["run", "--count", "2", "--out", "r.json"])
        .env("LD_LIBRARY_PATH", folder.path())
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    // On a machine with a GPU there is a driver in spite of the empty folder.
    assert!(output.status.success() || text.contains("driver"), "{text}");
    let results = std::fs::read(folder.path().join("r.json")).unwrap();
    let results: Value = serde_json::from_slice(&results).unwrap();
    for point in results["measurements"].as_array().unwrap() {
        let said = point["not_begun"]["text"].as_str().unwrap_or_default();
        let why = &point["not_begun"]["why"];
        assert!(output.status.success() || why == "device" && said.contains("driver"), "{point}");
    }
}

/// Catches a point without figures that does not say why, in the file and in the table.
#[test]
fn what_is_not_begun_has_its_reason_in_the_file_and_in_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let small = "--count 24 --size 60K --device-cache 512K --host-cache 2M --only 5ab,6c";
    let command = format!("figures {small} --repeats 1 --budget 0 --out f");
    let output = started(folder.path(), &command, &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("points: the time was up: --budget 0 seconds"), "{text}");
    let point = |name: &str| {
        let results = std::fs::read(folder.path().join(name)).unwrap();
        let results: Value = serde_json::from_slice(&results).unwrap();
        results["measurements"][0]["not_begun"].clone()
    };
    assert_eq!(point("f/figure-6c.json")["why"], "budget");
    let ran = bench("--count 4 --size 60K --interval 0 --host-cache 60K,1000T", &[]);
    assert!(ran.results.is_null(), "60K is too small for all");
    let ran = bench("--count 4 --size 60K --interval 0 --host-cache 2M,1000T", &[]);
    assert!(!ran.output.status.success());
    let reasons: Vec<&Value> = ran.measurements().iter().map(|m| &m["not_begun"]["why"]).collect();
    assert_eq!(reasons, [&Value::Null, &Value::Null, &"memory".into(), &"memory".into()]);
    assert!(ran.text().contains("NOT BEGUN: 2 points: --host-cache 1000 TiB"), "{}", ran.text());
}

/// Catches a trace that is silently used for several processes at once.
#[test]
fn more_processes_than_a_trace_has_columns_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv");
    std::fs::write(&trace, "1000,2000\n1000,2000\n").unwrap();
    let ran = bench(&format!("--trace {} --processes 2,3", trace.display()), &[]);
    assert!(!ran.output.status.success() && ran.results.is_null());
    let said = ["--processes 3: the trace", "has 2 columns"];
    assert!(said.iter().all(|words| ran.text().contains(words)), "{}", ran.text());
}

/// Catches runs that write over each other's timelines, and baselines that do not tell what leaves
/// their device cache, how much is taken, or what the application waits for.
#[test]
fn each_run_has_a_timeline_of_its_own_with_what_its_approach_can_tell() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = format!(
        "run {SMALL} --repeats 2 --approach ours,direct-pin,incremental-memset,ring,uvm-budget"
    );
    let output = started(folder.path(), &arguments, &[("VELOC_TRACE", "t.json")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Without --out, results go where the checkout ignores them.
    assert!(folder.path().join("out/bench.json").is_file());
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.count(), 1 + 5 * 2);
    for (number, approach, leaves) in
        [(2, "direct-pin", true), (3, "incremental-memset", true), (4, "ring", false)]
    {
        let name = format!("t-0{number}-{approach}-2.json");
        let text = std::fs::read_to_string(folder.path().join(&name)).expect(&name);
        let events: Vec<Value> = serde_json::from_str(&text).expect(&name);
        let count = |key: &str, wanted: &str| events.iter().filter(|e| e[key] == wanted).count();
        assert_eq!(count("name", "checkpoint"), 24, "{name}");
        assert_eq!(count("name", "copy"), 48, "{name}");
        assert_eq!(count("name", "evict") > 0, leaves, "{name}");
        assert_eq!(count("name", "device used") > 0, leaves, "{name}");
        assert!(count("name", "host used") > 0, "{name}");
    }
}

#[test]
fn what_cannot_be_is_left_out_up_front_and_said() {
    let ran = bench(
        "--configuration large-device --count 4 --size 60K --interval 0 --approach direct-pin,ring",
        &[],
    );
    ran.is_right(1);
    assert!(ran.text().contains("left out: ring in the configuration large-device"));
}
