//! The backends that a job's runs have started.

use std::fs;
use std::time::{Duration, Instant};

use crate::job::Job;

/// The variable that the descendants of a job's runs can be told by.
pub const MARK: &str = "CAPI_TESTS_JOB";

/// Those that live.
pub fn backends(job: &Job) -> Vec<u32> {
    let mark = format!("{MARK}={}", job.path("").display());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(number) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
        let is_backend = read("comm").starts_with(b"veloc-backend");
        let environment = read("environ");
        if is_backend && environment.split(|&byte| byte == 0).any(|v| v == mark.as_bytes()) {
            found.push(number);
        }
    }
    found
}

/// Waits until what the job's runs have left is written: then their backends end.
pub fn wait_for_backends(job: &Job) {
    until("the backends end with their last client", || backends(job).is_empty());
}

/// Waits for something that has to come. A test that waits for so long has failed.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(120), "still waiting: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
