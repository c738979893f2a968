//! Checkpoints and restarts in the order of the application's stream (`stream_ordered`), on a device that is late on
//! purpose: what is used before its copy has ended is wrong.

use capi_tests::depth::times;
use capi_tests::job::Job;

/// What the device lets pass, in microseconds, before a sleeping worker learns that something has ended.
const LATE: &str = "2000";

const FILES: &str = "mode = async\nscratch = DIR/scratch\nstream_ordered = true\n";
const IN_MEMORY: &str = "mode = async\nephemeral = true\nstream_ordered = true\n";

/// Catches room that is used again, and bytes that are flushed, restored or counted, before the device has copied them;
/// and copies beside the order of the stream.
#[test]
fn many_versions_race_with_the_stream() {
    let versions = times("VELOC_ORDERED_VERSIONS", 150, 2000);
    for (keys, caches) in [
        (FILES, "gpu_cache_size = 1M\nhost_cache_size = 4M\ngpu_chunk_size = 256K\n"),
        (FILES, "gpu_cache_size = 16M\nhost_cache_size = 0\n"),
        (IN_MEMORY, "gpu_cache_size = 2M\nhost_cache_size = 1G\n"),
    ] {
        let job = Job::new(&format!("{keys}{caches}"));
        for seed in 1..=2 {
            let arguments = format!("many versions={versions} seed={seed} bytes=120000");
            job.run_device("ordered", &arguments).env("SOFTCUDA_LATE", LATE).succeed();
        }
    }
}

/// Catches a key that is passed over in silence.
#[test]
fn what_it_does_not_go_with_is_told() {
    for (other, mode) in [
        ("mode = sync", ""),
        ("incremental = true", "mode = async\n"),
        ("verify_captures = true", "mode = async\n"),
    ] {
        let job =
            Job::new(&format!("{mode}{other}\nscratch = DIR/scratch\nstream_ordered = true\n"));
        let said = job.run("script", "take=x:1").succeed().stderr;
        let words = format!("stream_ordered has no effect with {other}");
        assert_eq!(said.matches(&words).count(), 1, "{said}");
    }
}

/// Catches checkpoints that wait, and nothing says why.
#[test]
fn why_calls_wait_is_told() {
    for (keys, scenario, words) in [
        (
            "gpu_cache_size = 64M",
            "unset",
            "no stream was given whose order copies could follow (VELOC_Set_stream)",
        ),
        ("gpu_cache_size = 0", "waits", "there is no device cache (gpu_cache_size)"),
        ("gpu_cache_size = 2M", "large", "does not fit the device cache (gpu_cache_size)"),
        (
            "gpu_cache_size = 64M",
            "mixed",
            "region 2 is managed or registered memory, which queued work may use, too",
        ),
    ] {
        let job =
            Job::new(&format!("{FILES}{keys}\ngpu_chunk_size = 256K\nhost_cache_size = 64M\n"));
        let said = job.run_device("ordered", scenario).succeed().stderr;
        assert_eq!(said.matches(words).count(), 1, "{scenario}: {said}");
    }
}

/// Catches a call that waits for the stream, and room or an order that a call of the library gives away meanwhile.
#[test]
fn calls_beside_a_stream_that_stands_still() {
    for scenario in ["held", "streams", "turns", "mixed", "forked", "stuck"] {
        println!("{scenario}");
        // As small as it can be: what is given away is used again.
        let cache = if scenario == "held" { "6M" } else { "64M" };
        let job = Job::new(&format!("{FILES}gpu_cache_size = {cache}\nhost_cache_size = 64M\n"));
        job.run_device("ordered", scenario).env("SOFTCUDA_LATE", LATE).succeed();
    }
}

/// Catches a version that is offered though its copy has failed, and an end of the job that waits for a device that is
/// broken or gone.
#[test]
fn a_device_that_fails_or_goes_while_copies_are_queued() {
    for scenario in ["failed", "reset", "gone", "gone", "gone"] {
        println!("{scenario}");
        let job = Job::new(&format!("{FILES}gpu_cache_size = 64M\nhost_cache_size = 64M\n"));
        let ended = job.run_device("ordered", scenario).env("SOFTCUDA_LATE", LATE).succeed();
        // The device answers, if with an error.
        assert!(!ended.stderr.contains("has not ended in"), "{}", ended.stderr);
    }
}

/// Catches calls of the driver that an ordered checkpoint or restart makes more than it has to: two for the order on each
/// side of the copies, and the worker's wait, in place of the application's.
#[test]
fn an_ordered_call_makes_few_calls_of_the_driver() {
    let job = Job::new(&format!(
        "{IN_MEMORY}gpu_cache_size = 64M\ngpu_chunk_size = 64M\nhost_cache_size = 0\n"
    ));
    for (regions, most) in [(1, 11), (8, 25)] {
        let arguments = format!("stream=1 regions={regions} most={most} most_restart={most}");
        job.run_device("driver_calls", &arguments).env("SOFTCUDA_LATE", LATE).succeed();
    }
}
