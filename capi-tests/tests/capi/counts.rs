//! Counts of schedules against another implementation, which are compared in `python/counts.py`.

use std::path::Path;

use capi_tests::program::staged;
use capi_tests::run::Run;
use xtask::python::{installed, interpreter};

/// Catches too many advances, or fewer than possible, and costs of disk that are not the least.
#[test]
fn against_checkpoint_schedules() {
    let package = match installed("checkpoint_schedules", "1.0.4") {
        Ok(package) => package,
        Err(error) => return println!("skipped: checkpoint_schedules is not installed: {error}"),
    };
    let script = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/python/counts.py"));
    let ended = Run::new(&interpreter())
        .env("PYTHONPATH", &package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(script)
        .arg(staged().shared_library())
        .succeed();
    let compared = ended.stdout.split(' ').next().and_then(|number| number.parse().ok());
    assert!(compared.is_some_and(|compared: u64| compared > 5000), "{}", ended.stdout);
}
