//! A page as others read it.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{processes, Present};
use crate::metrics::Metrics;
use crate::{Activity, Counter, Recorder, Setup, Shown};
use os::forks;

fn start(file: Option<&Path>, rank: u32) -> Recorder {
    let shown = Some(Shown { ranks: 4 });
    Recorder::start(&Setup { file: file.map(Path::to_owned), rank, shown }).unwrap()
}

/// What this process says as this rank. The tests of a program run side by side.
fn seen(rank: u32) -> Vec<Present> {
    let own = processes().unwrap().into_iter().filter(|found| found.process == std::process::id());
    own.filter_map(|found| found.present).filter(|present| present.rank.0 == rank).collect()
}

/// Catches words that are read elsewhere than they were written, a level under another row, and a page that a job
/// without a timeline does not have.
#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("timeline.%r");
    let trace = start(Some(&path), 11);
    let path = folder.path().join("timeline.11");
    trace.level(0, "device cache", 4 << 30, true);
    trace.level(1, "host buffer", 16 << 30, true);
    trace.level(2, "drive", 1 << 40, false);
    trace.counter(Counter::DeviceMapped, 3 << 30);
    trace.counters([Counter::DeviceUsed, Counter::HostUsed], [1 << 30, 5 << 30]);
    trace.counter(Counter::LowerUsed, 7);
    let metrics = Metrics::new(trace.clone());
    let waiting = metrics.wait(crate::metrics::Cause::HostRoom);
    let mut call = trace.span(Activity::Checkpoint).of("a \u{1b}[31mwave", 12);
    let mut flush = trace.span(Activity::Flush);
    flush.bytes(100);
    drop(flush);
    trace.span(Activity::Read).discard();
    trace.spent(Activity::Touch, Instant::now(), Duration::from_secs(2), 50);

    let [now] = &seen(11)[..] else { panic!("not one page") };
    assert_eq!((now.rank, now.checkpoint.clone()), ((11, 4), Some(("a [31mwave".into(), 12))));
    assert_eq!(now.library, env!("CARGO_PKG_VERSION"));
    assert_eq!(now.trace.as_deref(), Some(&*path));
    let levels: Vec<_> = now.levels.iter().map(|l| (&*l.name, l.size, l.ready, l.used)).collect();
    let device = ("device cache", 4 << 30, 3 << 30, 1 << 30);
    let host = ("host buffer", 16 << 30, 0, 5 << 30);
    assert_eq!(levels, [device, host, ("drive", 1 << 40, 1 << 40, 7)]);
    let of = |activity: Activity| now.activities[activity as usize];
    assert_eq!((of(Activity::Checkpoint).under_way, of(Activity::Checkpoint).count), (1, 0));
    assert_eq!((of(Activity::Flush).under_way, of(Activity::Flush).bytes), (0, 100));
    assert_eq!((of(Activity::Read).under_way, of(Activity::Read).count), (0, 0));
    assert_eq!((of(Activity::Touch).nanoseconds, of(Activity::Touch).bytes), (2_000_000_000, 50));
    let room = now.causes[crate::metrics::Cause::HostRoom as usize];
    assert_eq!((room.name, room.waiting, room.count), ("host room", 1, 0));
    assert!(room.since >= now.since, "{room:?}");
    assert!(now
        .activities
        .iter()
        .all(|one| one.activity as usize == of(one.activity).activity as usize));

    call.bytes(1);
    drop(call);
    drop(waiting);
    let [now] = &seen(11)[..] else { panic!("not one page") };
    let room = now.causes[crate::metrics::Cause::HostRoom as usize];
    assert_eq!((room.waiting, room.count), (0, 1));
    assert_eq!(now.activities[Activity::Checkpoint as usize].count, 1);
    // The file of a running job can be opened.
    let read = || std::fs::read(&path).unwrap();
    let mut text = read();
    // One reading is two calls, and the file may grow between them.
    while text != read() {
        text = read();
    }
    serde_json::from_slice::<Vec<serde_json::Value>>(&text).unwrap();

    drop((metrics, trace));
    assert_eq!(seen(11), []);
}

/// Catches a process that is shown twice because it has forked, and one that is not shown because it has no timeline.
#[test]
fn a_forked_process_is_not_another_job() {
    let trace = start(None, 12);
    assert!(!trace.is_on(), "no timeline");
    let forks = forks::none();
    // SAFETY: the child calls nothing but the system.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: sleeps until it is killed, or ends.
        unsafe { libc::_exit(libc::sleep(600) as i32) };
    }
    let pages = processes();
    // SAFETY: this test's own child, which is not awaited yet.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let mut status = 0;
    // SAFETY: this test's own child, and a pointer to a local.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    drop(forks);
    let is_twelfth = |found: &&super::ProcessNow| {
        found.present.as_ref().is_some_and(|present| present.rank == (12, 4))
    };
    // The lower number is taken for the parent's. Other jobs are on this node as well.
    let both = [std::process::id(), child.unsigned_abs()];
    let found: Vec<u32> = pages
        .unwrap()
        .iter()
        .filter(is_twelfth)
        .map(|found| found.process)
        .filter(|process| both.contains(process))
        .collect();
    assert_eq!(found, [both[0].min(both[1])]);
}

/// Catches a page of another layout that is read all the same, and a reader who believes its length.
#[test]
fn another_layout_is_not_read() {
    use os::shared::SharedMemory;
    let memory = SharedMemory::create("veloc-job", 1 << 30).unwrap();
    let own = |found: &super::ProcessNow| found.process == std::process::id();
    let other = |found: &super::ProcessNow| own(found) && found.present.is_none();
    assert!(processes().unwrap().iter().any(other));
    drop(memory);
}

/// Catches a program that cannot be told from others, as its folder takes all the room, and letters that a terminal obeys.
#[test]
fn a_command_begins_with_its_program() {
    let shown = |line: &[u8]| super::processes::shown_command(line);
    assert_eq!(shown(b"/a b/bin/veloc-backend\0--socket\0/c/d\0"), "veloc-backend --socket /c/d");
    assert_eq!((shown(b"./rtm\0\x1b[2J\0"), shown(b"")), ("rtm [2J".into(), String::new()));
}
