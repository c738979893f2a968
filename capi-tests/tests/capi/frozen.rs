//! Host memory that is copied after the call has returned (`host_capture`).

use capi_tests::backends::wait_for_backends;
use capi_tests::job::{names, Job};

const FORK: &str = "mode = async\nhost_capture = fork\n";

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
        let job = Job::new(&format!("{FORK}{what}"));
        let ended = job.run("frozen", if has_backend { "" } else { "alone=1" }).succeed();
        assert!(!ended.stderr.contains("host_capture"), "{}", ended.stderr);
        if has_backend {
            wait_for_backends(&job);
        }
    }
}

/// Killed right after the call: the version is restored by the next job. Catches a backend that does not wait for
/// the process that copies, and a mark that is not set.
#[test]
fn a_version_survives_a_kill_right_after_the_call() {
    for versions in 1..=6 {
        let job = Job::new(&format!("{FORK}host_cache_size = 512M\nscratch = DIR/scratch\n"));
        let killed = job.run("frozen", &format!("kill=1 bytes=50000000 versions={versions}")).end();
        assert!(!killed.status.success(), "{}", killed.stdout);
        wait_for_backends(&job);
        let newest = format!("frozen-0-{}.dat", versions - 1);
        assert!(names(&job.scratch()).contains(&newest), "{:?}", names(&job.scratch()));
    }
}
