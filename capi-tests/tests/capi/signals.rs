//! Applications that wait for their signals in calls. The checks are in `programs/signals.c`.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use capi_tests::backends::{serving, wait_for_backends};
use capi_tests::job::Job;

/// Catches a thread of the library's that takes a signal which the application has blocked for
/// itself, a mask that the application's thread does not get back, and a backend that inherits a
/// mask.
#[test]
fn the_applications_signals_are_left_to_it() {
    let job = Job::new(
        "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\nmeta = DIR/meta\n\
         chksum = true\nhost_cache_size = 16M\n",
    );
    let run = job.run("signals", "").env("VELOC_TRACE", job.path("trace.json"));
    let mut running = run
        .with(|command| {
            command.stdin(Stdio::piped());
        })
        .start();
    running.wait_for_line("ready");
    let status = fs::read_to_string(format!("/proc/{}/status", serving(&job))).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
    assert_eq!(u64::from_str_radix(mask, 16).unwrap(), 0, "{mask}");
    running.input().write_all(b"\n").unwrap();
    let _ = running.end_input().end().succeeded();
    wait_for_backends(&job);
}
