//! `cargo xtask test --repeat N`: the tests of the workspace many times on a busy machine. Tests
//! that fail now and then are named, with what they printed and how often.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use crate::error::{Error, Result, While as _};
use crate::runner::{TestVerdict, Tests};
use crate::steps::clock;
use crate::system;

const BUSY: usize = 2;

/// The program of a busy process, which runs until its parent is gone.
const LOOP: &str = "while kill -0 $PPID 2>/dev/null; do i=0; \
                    while [ $i -lt 100000 ]; do i=$((i+1)); done; done";

/// Processes that keep the machine busy. They are ended when this is dropped.
struct Load(Vec<Child>);

impl Load {
    fn start() -> Result<Load> {
        let mut load = Load(Vec::new());
        for _ in 0..BUSY {
            let mut command = Command::new("sh");
            command.args(["-c", LOOP]).stdin(Stdio::null());
            load.0.push(command.spawn().when(|| "starting sh".into())?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A process that has ended cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sees to the programs that the tests need, builds the tests, runs those whose names contain `filter` (all
/// without one) so often under load, and says which of them failed, and what was missing.
pub fn repeat(times: NonZeroU32, filter: Option<&str>) -> Result<()> {
    let missing = system::prepare()?;
    let tests = Tests::build(filter)?;
    let failures: Mutex<BTreeMap<String, u32>> = Mutex::default();
    let load = Load::start()?;
    for round in 1..=times.get() {
        let since = Instant::now();
        let failed = AtomicUsize::new(0);
        tests.run(false, |ended| {
            let TestVerdict::Failed(output) = ended.verdict else { return };
            failed.fetch_add(1, Ordering::Relaxed);
            println!("round {round}: {} failed\n{output}", ended.name);
            if let Ok(mut failures) = failures.lock() {
                *failures.entry(ended.name).or_default() += 1;
            }
        })?;
        let (time, failed) = (clock(since.elapsed()), failed.into_inner());
        println!("round {round} of {times}: {failed} failed ({time})");
    }
    drop(load);
    if !missing.is_empty() {
        println!("\nskipped: tests that need {}", missing.join(", "));
    }
    let failures = failures.into_inner();
    report(times, &failures.map_err(|_| Error::new("a thread of the runner panicked"))?)
}

/// Prints the failures, the most frequent last. Returns an error if there are any.
fn report(times: NonZeroU32, failures: &BTreeMap<String, u32>) -> Result<()> {
    let mut failures: Vec<_> = failures.iter().collect();
    failures.sort_by_key(|(_, failed)| **failed);
    println!();
    for (name, failed) in &failures {
        println!("{failed:>4} of {times}  {name}");
    }
    match failures.len() {
        0 => {
            println!("no test failed in {times} rounds");
            Ok(())
        }
        count => Err(Error::new(format!("{count} of the tests failed in {times} rounds"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a machine that stays busy when all is done.
    #[test]
    fn the_load_is_ended() {
        let load = Load::start().unwrap();
        let pids: Vec<u32> = load.0.iter().map(Child::id).collect();
        drop(load);
        assert!(!pids.is_empty());
        for pid in pids {
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid}");
        }
    }
}
