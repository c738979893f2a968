//! Timelines: they agree with the metrics, whatever happens to the job.

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use capi_tests::job::Job;
use capi_tests::program::{nvtx_standin, staged};
use capi_tests::run::Ended;
use os::write_protection::WriteProtection;
use serde_json::Value;

const TIERS: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                     gpu_cache_size = 8M\nhost_cache_size = 16M\n";

const CAUSES: [&str; 8] =
    ["copy", "order", "map", "device room", "host room", "fetch", "file", "drain"];

/// The events of a whole file.
fn whole(path: &Path) -> Vec<Value> {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Nanoseconds of a time in microseconds.
fn nanoseconds(event: &Value, key: &str) -> u64 {
    (event[key].as_f64().unwrap() * 1000.0).round() as u64
}

fn named<'a>(events: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> + Clone {
    events.iter().filter(move |event| event["name"] == name && event["ph"] != "M")
}

fn bytes<'a>(events: impl Iterator<Item = &'a Value>) -> u64 {
    events.map(|event| event["args"]["bytes"].as_u64().unwrap_or(0)).sum()
}

/// Waits until `there`, which comes true by itself. Many times longer than that is a hang.
fn until(what: &str, there: impl Fn() -> bool) {
    let since = Instant::now();
    while !there() {
        assert!(since.elapsed() < Duration::from_secs(120), "{what} does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn agrees_with_metrics(events: &[Value], ended: &Ended) {
    let calls = ["init", "checkpoint", "restore", "drain"];
    let calls = calls.iter().flat_map(|call| named(events, call));
    let calls: Vec<&Value> = calls.filter(|event| event["cat"] != "blocked").collect();
    for cause in CAUSES {
        let waits = events.iter().filter(|event| event["args"]["cause"] == cause);
        let figure = cause.replace(' ', "_");
        let sum: u64 = waits.clone().map(|wait| nanoseconds(wait, "dur")).sum();
        assert_eq!(sum, ended.figure(&format!("blocked_{figure}")), "{cause}");
        assert_eq!(waits.clone().count() as u64, ended.figure(&format!("waits_{figure}")));
        for wait in waits {
            let (start, end) = (nanoseconds(wait, "ts"), nanoseconds(wait, "dur"));
            let within = calls.iter().any(|call| {
                let begin = nanoseconds(call, "ts");
                begin <= start && start + end <= begin + nanoseconds(call, "dur")
            });
            assert!(within, "{wait} is in no call");
        }
    }
    assert_eq!(bytes(named(events, "capture")), ended.figure("AtoD") + ended.figure("AtoH"));
    assert_eq!(bytes(named(events, "recover")), ended.figure("DtoA") + ended.figure("HtoA"));
    assert_eq!(named(events, "checkpoint").count() as u64, ended.figure("checkpoints"));
    assert_eq!(named(events, "restore").count() as u64, ended.figure("restores"));
    for (tier, figure) in [("device", "device_evictions"), ("host", "host_evictions")] {
        let evictions = named(events, "evict").filter(|event| event["args"]["tier"] == tier);
        assert!(evictions.count() as u64 >= ended.figure(figure), "{tier}");
    }
}

#[test]
fn the_timeline_agrees_with_the_metrics() {
    let job = Job::new(&format!("{TIERS}trace = DIR/trace.json\n"));
    // Nothing is drained at the end, which no metrics could show.
    let ended = job.run_device("shot", "host=300000 wait=1 registered=1 last=1 drain=0").succeed();
    let events = whole(&job.path("trace.json"));
    agrees_with_metrics(&events, &ended);
    let maps = named(&events, "map").filter(|event| event["cat"] != "blocked");
    assert_eq!(bytes(maps.clone()), 8 << 20);
    for map in maps {
        assert!(map["args"]["bytes"].is_u64(), "one that maps nothing: {map}");
    }
    for activity in [
        "init",
        "map",
        "touch",
        "register",
        "node lock",
        "flush",
        "fetch",
        "write",
        "persist",
        "read",
        "drain",
    ] {
        assert!(named(&events, activity).next().is_some(), "no {activity}");
    }
    for counter in ["device mapped", "device used", "host touched", "host registered", "host used"]
    {
        let most = named(&events, counter).map(|event| event["args"]["bytes"].as_u64().unwrap());
        let room = if counter.starts_with("device") { 8 << 20 } else { 16 << 20 };
        assert!((1..=room).contains(&most.max().unwrap_or(0)), "{counter}");
    }
    for flush in named(&events, "flush") {
        assert_eq!(flush["args"]["checkpoint"], "shot");
        assert!(flush["args"]["version"].is_u64());
    }
    let facts = events.iter().filter(|event| event["name"] == "veloc");
    let warns = facts.clone().filter_map(|fact| fact["args"]["warning"].as_str());
    assert!(warns.into_iter().any(|warning| warning.contains("GPU")));
}

/// A timeline of the protocol's calls in parts, and of files instead of memory.
#[test]
fn a_timeline_of_files() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    job.run("host", "round-trip").env("VELOC_TRACE", job.path("t")).succeed();
    let events = whole(&job.path("t"));
    assert!(named(&events, "file").next().is_some());
    assert!(named(&events, "checkpoint").all(|call| call["args"]["version"].is_u64()));
}

/// Catches a file without its end. Only a kill within the write of several pages leaves such a one.
#[test]
fn a_killed_job_leaves_a_whole_file() {
    let is_whole = || {
        let job = Job::new("mode = async\nscratch = DIR/scratch\nhost_cache_size = 2M\n");
        let run = job.run("killed_job", "write first=1").env("VELOC_TRACE", job.path("t"));
        let mut writer = run.start();
        writer.wait_for_line("durable 30");
        // Records are written within a round or two of the writer.
        let written = || fs::read_to_string(job.path("t")).unwrap_or_default();
        until("version 25 in the file", || written().contains("\"version\":25,"));
        writer.signal(libc::SIGKILL);
        let _ = writer.end();
        let events = serde_json::from_str::<Vec<Value>>(&written());
        events.is_ok_and(|events| events.len() > 25 && events.iter().all(|e| e["ph"].is_string()))
    };
    assert!((0..3).any(|_| is_whole()));
}

/// The job is not finalized; the end of the process still completes the file.
#[test]
fn a_job_that_just_ends_has_a_whole_file() {
    let job = Job::new("mode = async\nscratch = DIR/scratch\nhost_cache_size = 2M\n");
    job.run("job_ends", "case=exit").env("VELOC_TRACE", job.path("t")).succeed();
    assert!(named(&whole(&job.path("t")), "checkpoint").count() > 0);
}

/// Two processes are given the same name; neither's file is lost, and their times can be compared.
#[test]
fn two_processes() {
    let now = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a local.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) }, 0);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let job = Job::new("mode = async\nephemeral = true\nhost_cache_size = 32M\n");
    let start =
        |rank: &str| job.run_device("registration", rank).env("VELOC_TRACE", job.path("t")).start();
    let before = now();
    let both = [start("rank=0"), start("rank=1")];
    both.into_iter().for_each(|one| drop(one.end().succeeded()));
    let after = now();
    for (file, rank) in [("t", "0"), ("t.1", "1")] {
        let events = whole(&job.path(file));
        assert!(named(&events, "checkpoint").count() > 0, "{file}");
        assert!(events.iter().any(|event| event["args"]["rank"] == rank), "{file}");
        for event in events.iter().filter(|event| event["ph"] != "M") {
            assert!((before..after).contains(&nanoseconds(event, "ts")), "{file}: {event}");
        }
    }
}

/// Another process writes to a file of that name.
#[test]
fn a_name_that_is_taken() {
    let job = Job::new("mode = async\nephemeral = true\nhost_cache_size = 32M\n");
    fs::write(job.path("t"), "of another job").unwrap();
    let taken = fs::File::open(job.path("t")).unwrap();
    // SAFETY: an open descriptor.
    assert_eq!(unsafe { libc::flock(taken.as_raw_fd(), libc::LOCK_EX) }, 0);
    job.run_device("registration", "rank=0").env("VELOC_TRACE", job.path("t")).succeed();
    assert!(named(&whole(&job.path("t.0")), "checkpoint").count() > 0);
    assert_eq!(fs::read(job.path("t")).unwrap(), b"of another job");
}

/// The job goes on without its trace. Catches a job that waits for somebody to read the trace.
#[test]
fn a_file_that_cannot_be_made_is_a_warning() {
    let job = Job::new(TIERS);
    let pipe = CString::new(job.path("pipe").into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: a string that ends with NUL.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let pipe = pipe.into_string().unwrap();
    for given in ["/nonexistent/t", "/dev/full", "/", pipe.as_str()] {
        let ended = job.run("host", "round-trip").env("VELOC_TRACE", given).succeed();
        let warned = format!("going on without a trace: create {given}: ");
        assert!(ended.stderr.contains(&warned), "{given}: {}", ended.stderr);
    }
}

const EPHEMERAL: &str =
    "mode = async\nephemeral = true\nscratch = DIR/scratch\nhost_cache_size = 16M\n";

/// By default a write beyond the limit is the end of the process.
#[test]
fn a_limit_of_file_sizes_ends_the_trace_and_not_the_job() {
    let job = Job::new(EPHEMERAL);
    let ended = job.run("traced", "case=limit").env("VELOC_TRACE", job.path("t")).succeed();
    assert!(ended.stderr.contains("/t ends here: File too large"), "{}", ended.stderr);
}

/// Catches a child that writes to its parent's file or hangs at its end, a descriptor that is
/// handed to other programs, and a file that counts as in use because of a child that lives on.
#[test]
fn forked_children_leave_the_file_alone() {
    let job = Job::new(EPHEMERAL);
    let trace = job.path("t");
    let forking = job.run("traced", "case=fork").env("VELOC_TRACE", &trace);
    let mut forking = forking
        .with(|command| {
            command.stdin(Stdio::piped());
        })
        .start();
    forking.wait_for_line("finalized");
    let events = whole(&trace);
    assert_eq!(named(&events, "checkpoint").count(), 20);
    job.run_device("registration", "rank=0").env("VELOC_TRACE", &trace).succeed();
    assert!(!job.path("t.0").exists(), "a job took another's file for one that is being written");
    let ended = forking.end_input().end().succeeded();
    let handed = ended.stdout.lines().any(|line| line.contains("->") && line.ends_with("/t"));
    assert!(!handed, "{}", ended.stdout);
}

#[test]
fn many_jobs_leave_nothing_open() {
    let job = Job::new(EPHEMERAL);
    fs::create_dir(job.path("traces")).unwrap();
    job.run("traced", "case=again").env("VELOC_TRACE", job.path("traces/t")).succeed();
    // As many files as there were jobs, each of its own.
    let traces: Vec<_> = fs::read_dir(job.path("traces")).unwrap().collect();
    assert_eq!(traces.len(), 50);
    for trace in traces {
        assert_eq!(named(&whole(&trace.unwrap().path()), "checkpoint").count(), 5);
    }
}

/// Catches a job that could not start and takes the name of a job that does.
#[test]
fn a_job_that_did_not_start_takes_no_name() {
    let job = Job::new("mode = async\nscratch = /proc/nowhere\n");
    fs::rename(job.path("veloc.cfg"), job.path("bad.cfg")).unwrap();
    job.configure(EPHEMERAL);
    let retry = job.run("traced", "case=retry bad=DIR/bad.cfg");
    retry.env("VELOC_TRACE", job.path("t")).succeed();
    assert_eq!(named(&whole(&job.path("t")), "checkpoint").count(), 10);
    assert!(!job.path("t.0").exists());
}

/// Both ways to NVTX, with a file and without; and no ranges where nobody listens.
#[test]
fn nvtx_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let library = nvtx_standin(folder.path());
    let paths = [staged().lib(), staged().softcuda(), folder.path().to_owned()];
    let paths = std::env::join_paths(paths).unwrap();
    let job = Job::new(TIERS);
    let shot = || job.run_device("shot", "").env("LD_LIBRARY_PATH", &paths);
    let counts = |ended: &Ended, what: &str| -> Option<i64> {
        let prefix = format!("nvtx {what} ");
        ended.stderr.lines().find_map(|line| line.strip_prefix(&prefix)?.parse().ok())
    };
    let listened = |ended: &Ended| {
        assert_eq!(counts(ended, "checkpoint"), Some(40), "{}", ended.stderr);
        assert_eq!(counts(ended, "restore"), Some(40));
        assert_eq!(counts(ended, "unmatched"), Some(0));
        assert!(counts(ended, "flush") > Some(0) && counts(ended, "threads") > Some(5));
    };
    // Version 2: loaded because a file is wanted, or by the program.
    let traced = shot().env("VELOC_TRACE", job.path("t")).succeed();
    listened(&traced);
    listened(&shot().env("LD_PRELOAD", &library).succeed());
    // Version 3, without a file.
    let injected = shot().env("NVTX_INJECTION64_PATH", &library).succeed();
    assert!(injected.stderr.contains("nvtx injected"));
    listened(&injected);
    // If the file cannot be made, the ranges are still recorded.
    let unmade = shot().env("VELOC_TRACE", "/nonexistent/t");
    listened(&unmade.env("NVTX_INJECTION64_PATH", &library).succeed());
    let wrong = shot().env("NVTX_INJECTION64_PATH", "/nonexistent/nvtx.so").succeed();
    assert!(wrong.stderr.contains("/nonexistent/nvtx.so"), "{}", wrong.stderr);
    let silent = shot().succeed();
    assert!(!silent.stderr.contains("nvtx"), "{}", silent.stderr);
}

/// `host_capture = auto` beside a device. Catches a way that is not told, and memory that is protected although kernels
/// write to it by themselves, or although a copy would outlive the process.
#[test]
fn the_way_of_each_capture_of_host_memory() {
    let protects = WriteProtection::open().is_ok();
    let protected = if protects { "protect" } else { "copy" };
    for (kernels, more, way) in [
        ("no", "ephemeral = true\n", protected),
        ("no", "", "copy"),
        ("hmm", "ephemeral = true\n", "copy"),
    ] {
        let job = Job::new(&format!("{TIERS}{more}host_capture = auto\n"));
        let path = job.path("trace.json");
        let run = job.run_device("shot", "host=5000003").env("SOFTCUDA_PAGEABLE", kernels);
        run.env("VELOC_TRACE", &path).succeed();
        let events = whole(&path);
        assert!(named(&events, "host capture").count() > 5);
        for event in named(&events, "host capture") {
            assert_eq!(
                (&event["args"]["way"], &event["args"]["bytes"]),
                (&way.into(), &5000003.into())
            );
        }
        let reason =
            |event: &Value| event["ph"] == "M" && event["args"]["host_capture"].is_string();
        assert!(events.iter().any(reason), "no reason");
    }
}
