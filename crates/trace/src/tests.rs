//! The file as a whole: valid JSON, closed, nested, and complete or counted as incomplete.

use policy::capture::Capture;
use std::collections::{HashMap, HashSet};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::cause::{Cause, CAUSES};
use super::{Activity, Counter, Recorder, Setup};
use crate::metrics::Metrics;
use os::forks;

fn start(path: &Path) -> Recorder {
    Recorder::start(&Setup { file: Some(path.to_owned()), rank: 7, shown: None }).unwrap()
}

fn read(path: &Path) -> Vec<Value> {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Nanoseconds of a time in microseconds.
fn nanoseconds(event: &Value, key: &str) -> u64 {
    (event[key].as_f64().unwrap() * 1000.0).round() as u64
}

/// Panics unless each thread's spans are nested or disjoint.
fn check_nesting(events: &[Value]) {
    let mut threads: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let start = nanoseconds(event, "ts");
        let span = (start, start + nanoseconds(event, "dur"));
        threads.entry(event["tid"].as_u64().unwrap()).or_default().push(span);
    }
    for spans in threads.values_mut() {
        spans.sort_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
        let mut open: Vec<u64> = Vec::new();
        for &(start, end) in spans.iter() {
            open.retain(|&outer| outer > start || (outer == start && end == start));
            assert!(open.iter().all(|&outer| end <= outer), "{start} to {end} in {open:?}");
            open.push(end);
        }
    }
}

#[test]
fn every_kind_of_event_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.json");
    let trace = start(&path.with_file_name("t-%r.json"));
    let path = path.with_file_name("t-7.json");
    trace.metadata("device", "a \"device\"\\\n");
    {
        let mut outer = trace.span(Activity::Checkpoint).of("shot", 3);
        let since = Instant::now();
        trace.blocked(Cause::DeviceRoom, since, Duration::from_nanos(0));
        trace.evicted(1, "other", 1, 99);
        let mut inner = trace.span(Activity::Capture);
        inner.bytes(1 << 40);
        inner.untouched(5);
        drop(inner);
        outer.bytes(1);
    }
    trace.counter(Counter::HostTouched, 77);
    trace.counters([Counter::DeviceUsed, Counter::HostUsed], [55, u64::MAX]);
    trace.touch_mode(true, [0.002, 0.001]);
    trace.host_capture(Capture::Fork, ("shot", 3), 9, Duration::from_micros(4));
    trace.compressed(12, 1000, 1e-9, 3);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            trace.name_thread("flush");
            trace.spent(Activity::Flush, Instant::now(), Duration::ZERO, 0);
        });
    });
    trace.finish();

    let events = read(&path);
    check_nesting(&events);
    let one = |name: &str, phase: &str| {
        let mut found = events.iter().filter(|e| e["name"] == name && e["ph"] == phase);
        let event = found.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(found.next().is_none(), "two {name}");
        event
    };
    let checkpoint = one("checkpoint", "X");
    assert_eq!(checkpoint["args"]["checkpoint"], "shot");
    assert_eq!(checkpoint["args"]["version"], 3);
    assert_eq!(checkpoint["pid"], std::process::id());
    let blocked = one("device room", "X");
    assert_eq!(blocked["cat"], "blocked");
    assert_eq!(blocked["args"]["version"], 3, "of the call that waited");
    let evict = one("evict", "i");
    assert_eq!(
        (&evict["args"]["checkpoint"], &evict["args"]["tier"]),
        (&"other".into(), &"host".into())
    );
    let compressed = &one("compressed region", "i")["args"];
    assert_eq!((&compressed["bits"], &compressed["bytes"]), (&12.into(), &1000.into()));
    assert_eq!((&compressed["error"], &compressed["whole_blocks"]), (&1e-9.into(), &3.into()));
    let capture = one("capture", "X");
    assert_eq!(capture["args"]["bytes"], 1u64 << 40);
    assert_eq!(capture["args"]["untouched_bytes"], 5);
    assert_eq!(capture["args"]["version"], 3);
    for (counter, bytes) in [("host touched", 77), ("device used", 55), ("host used", u64::MAX)] {
        assert_eq!(one(counter, "C")["args"]["bytes"], bytes);
    }
    let decided = one("touch mode", "i");
    assert_eq!(decided["args"]["mode"], "concurrent");
    assert_eq!(decided["args"]["sequential_ns"], 2_000_000);
    let host = one("host capture", "i");
    assert_eq!((&host["args"]["way"], &host["args"]["version"]), (&"fork".into(), &3.into()));
    assert_eq!((&host["args"]["bytes"], &host["args"]["blocked_ns"]), (&9.into(), &4000.into()));
    let flush = one("flush", "X");
    assert!(flush["args"].get("version").is_none(), "about nothing");
    let threads: HashMap<_, _> = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| (event["tid"].clone(), event["args"]["name"].as_str().unwrap()))
        .collect();
    // The last name of a thread counts, as in viewers.
    assert_eq!(threads[&checkpoint["tid"]], "application");
    assert_eq!(threads[&flush["tid"]], "flush");
    let metadata: Vec<_> = events.iter().filter(|e| e["name"] == "veloc").collect();
    assert!(metadata.iter().any(|fact| fact["args"]["device"] == "a \"device\"\\\n"));
    assert!(metadata.iter().any(|fact| fact["args"]["rank"] == "7"));
    assert!(metadata.iter().all(|fact| fact["args"].get("dropped").is_none()));
}

/// The metrics and the file show the same nanoseconds.
#[test]
fn waits_add_up_to_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t-%r");
    let trace = start(&path);
    let metrics = Metrics::new(trace.clone());
    for (i, (cause, _)) in CAUSES.into_iter().cycle().take(1000).enumerate() {
        metrics.waited(cause, Instant::now() - Duration::from_nanos(i as u64));
    }
    trace.finish();
    let events = read(&folder.path().join("t-7"));
    for (cause, name) in CAUSES {
        let waits = events.iter().filter(|event| event["args"]["cause"] == name);
        let sum: u64 = waits.clone().map(|event| nanoseconds(event, "dur")).sum();
        assert_eq!(sum, metrics.blocked(cause).nanoseconds(), "{name}");
        assert_eq!(waits.count() as u64, metrics.blocked(cause).count());
    }
}

/// Recording faster than the writer: dropped records are counted correctly.
#[test]
fn what_is_dropped_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let trace = start(&folder.path().join("t-%r"));
    const TOTAL: u64 = 400_000;
    let now = Instant::now();
    for i in 0..TOTAL {
        trace.spent(Activity::Touch, now, Duration::ZERO, i + 1);
    }
    trace.finish();
    let events = read(&folder.path().join("t-7"));
    let written = events.iter().filter(|event| event["name"] == "touch").count() as u64;
    let dropped = events.iter().rev().find_map(|event| event["args"]["dropped"].as_str());
    let dropped: u64 = dropped.map_or(0, |text| text.parse().unwrap());
    assert_eq!(written + dropped, TOTAL);
    assert!(dropped > 0, "{TOTAL} records in a row must not find room");
}

/// Catches a new ring for each thread, 1.3 MiB to be allocated at a thread's first record.
#[test]
fn threads_that_end_leave_their_records_and_their_rings() {
    let folder = tempfile::tempdir().unwrap();
    let trace = start(&folder.path().join("t-%r"));
    for i in 0..2000 {
        let recorder = trace.clone();
        std::thread::spawn(move || {
            recorder.spent(Activity::Map, Instant::now(), Duration::ZERO, i + 1)
        })
        .join()
        .unwrap();
    }
    // A joined thread may still be exiting.
    assert!(trace.rings() < 20, "{} rings", trace.rings());
    trace.finish();
    let events = read(&folder.path().join("t-7"));
    let maps: Vec<_> = events.iter().filter(|event| event["name"] == "map").collect();
    assert_eq!(maps.len(), 2000);
    let threads: HashSet<_> = maps.iter().map(|event| event["tid"].as_u64()).collect();
    assert_eq!(threads.len(), 2000, "each is a thread of its own");
}

/// Catches a forked child that waits for its parent's writer, or closes its parent's file.
#[test]
fn a_forked_child_leaves_the_file_to_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let trace = start(&folder.path().join("t-%r"));
    let forks = forks::none();
    // SAFETY: the child takes no lock that a thread of the parent may hold.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let ended = catch_unwind(AssertUnwindSafe(|| {
            trace.counter(Counter::DeviceUsed, 2);
            trace.finish();
            drop(trace);
        }));
        // SAFETY: ends the process.
        unsafe { libc::_exit(ended.is_err().into()) };
    }
    let mut status = 1;
    // SAFETY: this test's own child, and a pointer to a local.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    drop(forks);
    assert_eq!(status, 0);
    trace.counter(Counter::DeviceUsed, 1);
    trace.finish();
    let events = read(&folder.path().join("t-7"));
    assert_eq!(events.iter().filter(|event| event["ph"] == "C").count(), 1);
}

#[test]
fn without_a_file_nothing_is_recorded() {
    let trace = Recorder::off();
    assert!(!trace.is_on());
    let mut span = trace.span(Activity::Map).of("shot", 1);
    span.bytes(1);
    drop(span);
    trace.finish();
    let refused =
        Recorder::start(&Setup { file: Some("/nonexistent/t".into()), ..Setup::default() });
    assert!(refused.unwrap_err().to_string().contains("/nonexistent/t"));
}
