//! Host memory that is copied after the call has returned (`host_capture`).

use capi_tests::backends::{backends, wait_for_backends};
use capi_tests::depth::{cases, times};
use capi_tests::job::{names, Job};
use capi_tests::program::told_memory;
use capi_tests::random::Random;
use os::write_protection::WriteProtection;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::Duration;

/// Whether this system lets memory be protected against writes.
static PROTECTS: LazyLock<bool> = LazyLock::new(|| WriteProtection::open().is_ok());

const FORK: &str = "mode = async\nhost_capture = fork\n";

/// All threads write as soon as the call has returned. Catches a page that is written before it is copied, by a thread
/// or by the kernel, also one that nobody had written before; bytes or pages beside the region that are taken for its
/// own, or overwritten; and a writer that waits for ever.
#[test]
fn versions_are_exact_whoever_writes() {
    for mode in ["copy", "protect", "fork"] {
        for more in ["", "huge=1", "lone=1", "threads=1 bytes=5000", "bytes=60000001 versions=3"] {
            let job = Job::new(&format!(
                "mode = async\nhost_capture = {mode}\nhost_cache_size = 256M\nephemeral = true\n"
            ));
            let ended = job.run("deferred_capture_writers", more).succeed();
            let otherwise =
                ["host_capture", "in the call"].iter().any(|words| ended.stderr.contains(words));
            assert_eq!(otherwise, mode == "protect" && !*PROTECTS, "{more}: {}", ended.stderr);
        }
    }
}

/// Catches a way that the system forbids and that is taken silently as another, more than once, or not at all.
#[test]
fn what_the_system_forbids_is_said_once() {
    let device = Path::new("/dev/userfaultfd").exists();
    for (mode, said) in [
        ("fork", vec!["copied in the call: clone3"]),
        (
            "protect",
            if device { vec![] } else { vec!["userfaultfd", "copied in the call: clone3"] },
        ),
        ("auto", vec![]),
    ] {
        let text = format!(
            "mode = async\nhost_capture = {mode}\nhost_cache_size = 256M\nephemeral = true\n"
        );
        let ended = Job::new(&text).run("deferred_capture_writers", "forbid=1").succeed();
        for words in said {
            assert_eq!(ended.stderr.matches(words).count(), 1, "{mode}: {}", ended.stderr);
        }
    }
}

/// Where memory is short, nothing forks: the pages that the application writes would exist twice.
#[test]
fn without_memory_the_call_copies() {
    let job =
        Job::new("mode = async\nhost_capture = fork\nhost_cache_size = 256M\nephemeral = true\n");
    let meminfo = job.path("meminfo");
    fs::write(&meminfo, "MemTotal: 500000 kB\nMemAvailable: 20000 kB\n").unwrap();
    let run = job.run("deferred_capture_writers", "").env("MEMINFO", &meminfo);
    let ended = run.env("LD_PRELOAD", told_memory(&job.path(""))).succeed();
    let words = "memory is copied in the call: 19.5 MiB of memory are free, less than a copy";
    assert_eq!(ended.stderr.matches(words).count(), 1, "{}", ended.stderr);
}

/// Beside a device a fork may copy all memory that is registered. Catches a process that is made all the same.
#[test]
fn without_memory_for_what_a_device_has_pinned() {
    let job = Job::new(
        "mode = async\nhost_capture = fork\ngpu_cache_size = 8M\nhost_cache_size = 64M\nscratch = DIR/scratch\n",
    );
    let meminfo = job.path("meminfo");
    fs::write(&meminfo, "MemTotal: 500000 kB\nMemAvailable: 20000 kB\n").unwrap();
    let run = job.run_device("shot", "host=15000003 versions=4").env("MEMINFO", &meminfo);
    let ended = run.env("LD_PRELOAD", told_memory(&job.path(""))).succeed();
    let words = "less than a copy of the regions and of the memory that may be registered";
    assert_eq!(ended.stderr.matches(words).count(), 1, "{}", ended.stderr);
}

/// Catches bytes that were written after the call, memory that is read where it is not any more, a process
/// that the application's `wait` or its handler notices, and a copy that is not awaited by a restore.
#[test]
fn each_version_is_what_it_was_at_the_call() {
    for (what, has_backend) in [
        ("host_cache_size = 256M\nephemeral = true\n", false),
        ("host_cache_size = 256M\nscratch = DIR/scratch\n", true),
        ("host_cache_size = 256M\nscratch = DIR/scratch\nthreaded = true\n", false),
        // Room for two: captures wait for it.
        ("host_cache_size = 20M\nscratch = DIR/scratch\n", true),
    ] {
        for mode in ["fork", "protect"] {
            let job = Job::new(&format!("mode = async\nhost_capture = {mode}\n{what}"));
            let alone = if has_backend { "" } else { "alone=1 " };
            let may_fail = if mode == "protect" { "may_fail=1" } else { "" };
            let ended = job.run("deferred_capture", &format!("{alone}{may_fail}")).succeed();
            let shared = "host_capture: region 1 is copied in the call: it is shared memory";
            let kept =
                "host_capture: region 1 is copied in the call: forked processes do not get it";
            let said = |words: &str| ended.stderr.matches(words).count();
            assert_eq!(said("region 1 is copied in the call: it is memory of a file"), 1);
            assert_eq!(said(shared), 1, "once: {}", ended.stderr);
            assert_eq!(said(kept), usize::from(mode == "fork" || !*PROTECTS), "{}", ended.stderr);
            if has_backend {
                wait_for_backends(&job);
            }
        }
    }
}

/// Catches a version that counts as there although the process that copied it was killed, and later ones that
/// fail with it.
#[test]
fn a_lost_copy_fails_by_its_name() {
    let job = Job::new(&format!("{FORK}host_cache_size = 1G\nephemeral = true\n"));
    let _ = job.run("deferred_capture", "lose=1").succeed();
}

/// Catches a thread of the library that waits for itself, as what it writes to is protected.
#[test]
fn regions_that_have_memory_of_the_library() {
    for mode in ["protect", "fork"] {
        let job = Job::new(&format!(
            "mode = async\nhost_capture = {mode}\nhost_cache_size = 64M\nephemeral = true\n"
        ));
        let ended = job.run("deferred_capture", "heap=1").succeed();
        let said = ended.stderr.matches("the regions include memory of this library").count();
        assert_eq!(said, usize::from(mode == "protect" && *PROTECTS), "{}", ended.stderr);
    }
}

/// Killed right after the call: the version is restored by the next job. Catches a backend that does not wait for
/// the process that copies, and a mark that is not set.
#[test]
fn a_version_survives_a_kill_right_after_the_call() {
    for versions in cases(2, [1, 4, 2, 3, 5, 6]) {
        let job = Job::new(&format!("{FORK}host_cache_size = 512M\nscratch = DIR/scratch\n"));
        let killed = job
            .run("deferred_capture", &format!("kill=1 bytes=50000000 versions={versions}"))
            .end();
        assert!(!killed.status.success(), "{}", killed.stdout);
        wait_for_backends(&job);
        let newest = format!("frozen-0-{}.dat", versions - 1);
        assert!(names(&job.scratch()).contains(&newest), "{:?}", names(&job.scratch()));
    }
}

/// Who is killed at a random moment, before the application is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Application,
    Carrier,
    Backend,
}

/// A process that copies for this one: it runs the same program.
fn carrier_of(process: u32) -> Option<u32> {
    let program = |process: &str| fs::read_link(format!("/proc/{process}/exe")).ok();
    let own = program(&process.to_string())?;
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let children = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let children: Vec<String> = tasks.flatten().filter_map(children).collect();
    let copies = children.iter().flat_map(|list| list.split_whitespace());
    copies
        .filter(|child| program(child).as_ref() == Some(&own))
        .find_map(|child| child.parse().ok())
}

/// Killed at random moments, alone or after its carrier or its backend: what is restored is whole, and with `fork` as
/// new as the last call that had returned, if only the application was killed. Catches a mark that is set too early, a
/// backend that reads before the copy has ended, and a version that takes the place of another before it is whole.
#[test]
fn killed_at_random_moments() {
    let mut random = Random::seeded("kills of frozen captures");
    let kills = times("VELOC_KILLS", 12, 250);
    let victims = [Victim::Application, Victim::Carrier, Victim::Backend];
    for mode in ["protect", "fork"] {
        for kill in 0..kills {
            let victim = victims[kill as usize % 3];
            let job = Job::new(&format!(
                "mode = async\nhost_capture = {mode}\nhost_cache_size = 100M\nscratch = DIR/scratch\nmax_versions = 2\n"
            ));
            let storm = job.run("deferred_capture", "storm=1 may_fail=1 bytes=9000000").start();
            sleep(Duration::from_millis(random.below(300)));
            let others = match victim {
                Victim::Application => vec![],
                Victim::Carrier => carrier_of(storm.id()).into_iter().collect(),
                Victim::Backend => backends(&job),
            };
            for other in others {
                // SAFETY: a system call about another process.
                unsafe { libc::kill(other as libc::pid_t, libc::SIGKILL) };
                sleep(Duration::from_millis(random.below(20)));
            }
            storm.signal(libc::SIGKILL);
            let returned = storm.end().figures("returned").last().copied().unwrap_or(0);
            wait_for_backends(&job);
            let ended = job.run("deferred_capture", "newest=1 bytes=9000000").succeed();
            let newest = ended.figure("newest");
            let lasts = mode == "fork" && victim == Victim::Application;
            let least = if lasts { returned } else { 0 };
            assert!(
                (least..=returned + 2).contains(&newest),
                "{mode}, {victim:?}: {newest}, returned {returned}"
            );
            wait_for_backends(&job);
        }
    }
}
