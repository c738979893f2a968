//! How far the host buffer is touched: wholly where its size was asked for or a device fills it, and as
//! far as checkpoints need it elsewhere. What is checked in the process stands in `programs/need.c`.

use capi_tests::job::Job;

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
