//! How far the host buffer is touched: wholly where a device fills it, and as far as checkpoints
//! need it elsewhere; and how unneeded pages are freed. The checks are in `programs/touching_by_need.c`.

use std::fs;

use capi_tests::job::Job;
use capi_tests::program::told_memory;

/// Catches touching that takes processors and memory which nobody will use, and touching that stays
/// behind the checkpoints, in a job with files (and a buffer that the backend shares) and in one
/// without.
#[test]
fn nobody_asked_for_so_much() {
    for configuration in [
        "mode = async\nephemeral = true\n",
        "mode = async\nephemeral = true\nhost_cache_size = 1G\n",
        "mode = async\nscratch = DIR/scratch\n",
        "mode = async\nscratch = DIR/scratch\nhost_cache_size = 1G\n",
    ] {
        let job = Job::new(configuration);
        let ended = job.run("touching_by_need", "ahead versions=20").succeed();
        assert!(ended.stdout.contains("touched "), "{}", ended.stdout);
    }
}

/// Catches a device for which pages are made too late.
#[test]
fn a_device_wants_all_at_once() {
    for size in ["", "host_cache_size = 1G\n"] {
        let job = Job::new(&format!("mode = async\nephemeral = true\ngpu_cache_size = 8M\n{size}"));
        job.run_device("touching_by_need", "device").succeed();
    }
}

/// Catches pages of removed checkpoints that stay, pages of other checkpoints that are freed, and
/// more pages than a job was promised to cost, with and without memory that the backend shares.
#[test]
fn pages_that_nobody_needs_go_back() {
    for configuration in
        ["mode = async\nephemeral = true\n", "mode = async\nscratch = DIR/scratch\n"]
    {
        Job::new(configuration).run("touching_by_need", "back versions=30 bytes=8000000").succeed();
    }
}

/// Catches consumed checkpoints that keep their room while new ones get new pages, and consumed
/// checkpoints that are discarded although no new one needs the room.
#[test]
fn what_was_passed_is_used_again_first() {
    let job = Job::new("mode = async\nephemeral = true\n");
    job.run("touching_by_need", "reuse versions=30 bytes=8000000").succeed();
}

/// Catches an error that does not say how many checkpoints fit.
#[test]
fn what_does_not_fit_is_told() {
    let job = Job::new("mode = async\nephemeral = true\nhost_cache_size = 100M\n");
    job.run("touching_by_need", "full bytes=16000000 least=6 most=6").succeed();
}

/// A job whose buffer has no size finds 40 MB of memory that others could have, whatever it uses:
/// it may use three times as much, and looks each 128 MiB. Catches a buffer that takes memory that
/// others need, and a buffer that stays as small as it was.
#[test]
fn it_follows_the_memory_that_is_available() {
    let job = Job::new("mode = async\nephemeral = true\nhost_cache_size = auto\n");
    let meminfo = job.path("meminfo");
    fs::write(&meminfo, "MemTotal: 1000000 kB\nMemAvailable: 40000 kB\n").unwrap();
    let run = job.run("touching_by_need", "full bytes=8000000 least=14 most=60");
    let run = run.env("MEMINFO", &meminfo).env("LD_PRELOAD", told_memory(&job.path("")));
    let ended = run.succeed();
    assert!(ended.stderr.contains("the host buffer is limited to"), "{}", ended.stderr);
}

/// A machine has less memory than the host buffer is to have, and gets more later. Catches a job
/// that does not start, and a buffer that stays small for ever.
#[test]
fn memory_that_comes_later() {
    let job = Job::new("mode = async\nscratch = DIR/scratch\nhost_cache_size = 64M\n");
    let meminfo = job.path("meminfo");
    fs::write(&meminfo, "MemTotal: 40000 kB\nMemAvailable: 1000 kB\n").unwrap();
    let run = job.run("touching_by_need", &format!("grows whole={}", 64 << 20));
    let run = run.env("MEMINFO", &meminfo).env("LD_PRELOAD", told_memory(&job.path("")));
    let ended = run.succeed();
    let said = |words: &str| ended.complaints().iter().filter(|line| line.contains(words)).count();
    assert_eq!(said("but this machine has 39.1 MiB of memory now"), 1, "{}", ended.stderr);
    assert_eq!(said("the host buffer is limited to"), 1, "{}", ended.stderr);
}
