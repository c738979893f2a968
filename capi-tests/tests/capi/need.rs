//! How far the host buffer is touched: wholly where its size was asked for or a device fills it, and as
//! far as checkpoints need it elsewhere. What is checked in the process stands in `programs/need.c`.

use std::fs;

use capi_tests::job::Job;
use capi_tests::program::told_memory;

/// Catches touching that takes processors and memory for what nobody will use, and touching that stays
/// behind what is stored, in a job that ends in files (whose buffer is shared with the backend) and in one
/// that does not.
#[test]
fn nobody_asked_for_so_much() {
    for configuration in
        ["mode = async\nephemeral = true\n", "mode = async\nscratch = DIR/scratch\n"]
    {
        let job = Job::new(configuration);
        let ended = job.run("need", "ahead versions=20").succeed();
        assert!(ended.stdout.contains("touched "), "{}", ended.stdout);
    }
}

/// Catches a size that was asked for, or a device, for which pages are made too late.
#[test]
fn all_is_wanted_at_once() {
    let job = Job::new("mode = async\nephemeral = true\nhost_cache_size = 64M\n");
    job.run("need", "whole").succeed();
    let job = Job::new("mode = async\nephemeral = true\ngpu_cache_size = 8M\n");
    job.run_device("need", "device").succeed();
}

/// A machine has less memory than the host buffer is to have, and is given more. Catches a job that does
/// not start, and a buffer that stays small for ever.
#[test]
fn memory_that_comes_later() {
    let job = Job::new("mode = async\nscratch = DIR/scratch\nhost_cache_size = 64M\n");
    let meminfo = job.path("meminfo");
    fs::write(&meminfo, "MemTotal: 40000 kB\nMemAvailable: 1000 kB\n").unwrap();
    let run = job.run("need", &format!("grows whole={}", 64 << 20));
    let run = run.env("MEMINFO", &meminfo).env("LD_PRELOAD", told_memory(&job.path("")));
    let ended = run.succeed();
    let said = |words: &str| ended.complaints().iter().filter(|line| line.contains(words)).count();
    assert_eq!(said("but this machine has 39.1 MiB of memory now"), 1, "{}", ended.stderr);
    assert_eq!(said("the host buffer is limited to"), 1, "{}", ended.stderr);
}
