//! `cargo xtask test --repeat N`: the tests of the workspace many times on a busy machine. Tests
//! that fail now and then are named, with how often they did and their last output.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::error::{Error, Result, While as _};
use crate::project::{cargo, line, run};
use crate::steps::clock;

/// The tests that are run: all but those in documentation.
const TESTS: [&str; 6] = ["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"];

const BUSY: usize = 2;

/// The program of a busy process, which runs until its parent is gone.
const LOOP: &str = "while kill -0 $PPID 2>/dev/null; do i=0; \
                    while [ $i -lt 100000 ]; do i=$((i+1)); done; done";

/// The lines that are shown of a program that ended early.
const LAST: usize = 30;

/// How often a test failed, and what it printed the last time.
#[derive(Debug, Default, PartialEq, Eq)]
struct Failure {
    times: u32,
    output: String,
}

/// Processes that keep the machine busy. They are ended when this is dropped.
struct Load(Vec<Child>);

impl Load {
    fn start() -> Result<Load> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut load = Load(Vec::new());
        for _ in 0..BUSY * cores {
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

/// Builds the tests, runs those whose names contain `filter` (all without one) so often under load, and
/// says which of them failed.
pub fn repeat(times: NonZeroU32, filter: Option<&str>) -> Result<()> {
    run(cargo().args(TESTS).arg("--no-run"))?;
    let what = || "making a temporary file".to_owned();
    let place = tempfile::NamedTempFile::new().when(what)?;
    let mut failures = BTreeMap::new();
    let load = Load::start()?;
    for round in 1..=times.get() {
        let since = Instant::now();
        let mut command = cargo();
        command.args(TESTS).arg("--").args(filter);
        // One file for both outputs: cargo names each program on standard error, before its tests
        // on standard output.
        let file = std::fs::File::create(place.path()).when(what)?;
        command.stderr(file.try_clone().when(what)?).stdout(file);
        let status = command.status().when(|| format!("starting {}", line(&command)))?;
        let text = std::fs::read(place.path()).when(what)?;
        let text = String::from_utf8_lossy(&text);
        let mut failed = failed(&text);
        if failed.is_empty() && !status.success() {
            failed.push((line(&command), last(&text)));
        }
        let time = clock(since.elapsed());
        println!("round {round} of {times}: {} failed ({time})", failed.len());
        for (name, output) in failed {
            let failure: &mut Failure = failures.entry(name).or_default();
            *failure = Failure { times: failure.times + 1, output };
        }
    }
    drop(load);
    report(times, &failures)
}

/// Prints the failures, the most frequent last. Returns an error if there are any.
fn report(times: NonZeroU32, failures: &BTreeMap<String, Failure>) -> Result<()> {
    let mut failures: Vec<_> = failures.iter().collect();
    failures.sort_by_key(|(_, failure)| failure.times);
    for (name, failure) in &failures {
        println!("\n==> {name}: the last time it failed\n{}", failure.output);
    }
    println!();
    for (name, failure) in &failures {
        println!("{:>4} of {times}  {name}", failure.times);
    }
    match failures.len() {
        0 => {
            println!("no test failed in {times} rounds");
            Ok(())
        }
        count => Err(Error::new(format!("{count} of the tests failed in {times} rounds"))),
    }
}

/// The failed tests in cargo's output, each with its program and its output. A program that ended
/// before its tests did counts as a test.
fn failed(text: &str) -> Vec<(String, String)> {
    let mut failed = Vec::new();
    for (program, text) in sections(text) {
        if !text.contains("\ntest result: ") {
            failed.push((format!("{program} (ended early)"), last(&text)));
            continue;
        }
        // The outputs of the failed tests come first, then their names.
        let Some((before, names)) = text.rsplit_once("\nfailures:\n") else { continue };
        for name in names.lines().map_while(|line| line.strip_prefix("    ")) {
            let begin = format!("\n---- {name} stdout ----\n");
            let output = before.split_once(&begin).map_or("it printed nothing", |(_, rest)| {
                rest.split("\n---- ").next().unwrap_or_default().trim_end()
            });
            failed.push((format!("{program} {name}"), output.to_owned()));
        }
    }
    failed
}

/// The parts of cargo's output, each with its program: from one line `Running unittests src/lib.rs
/// (target/debug/deps/veloc-0123456789abcdef)` to the next.
fn sections(text: &str) -> Vec<(&str, String)> {
    let mut sections: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        if let Some(program) = program(line) {
            sections.push((program, String::new()));
        } else if let Some((_, text)) = sections.last_mut() {
            text.extend([line, "\n"]);
        }
    }
    sections
}

/// The program that such a line names. Tests that run cargo print other lines that begin like it.
fn program(line: &str) -> Option<&str> {
    let path = line.strip_prefix("     Running ")?.strip_suffix(')')?.rsplit_once('(')?.1;
    Some(path.rsplit_once("/deps/")?.1.rsplit_once('-')?.0)
}

fn last(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LAST)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "    Finished `test` profile in 0.09s
     Running unittests src/lib.rs (target/debug/deps/first-0a1b2c)

running 3 tests
test a::fine ... ok
test a::wrong ... FAILED
test a::silent ... FAILED

failures:

---- a::wrong stdout ----
     Running `target/debug/xtask header`
thread 'a::wrong' panicked at src/a.rs:1:2:
failures:
not this

failures:
    a::silent
    a::wrong

test result: FAILED. 1 passed; 2 failed; 0 ignored; finished in 0.01s

error: test failed, to rerun pass `-p first --lib`
     Running tests/second.rs (target/debug/deps/second-more-0a1b2c)

running 1 test
test b ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; finished in 0.01s

     Running tests/third.rs (target/debug/deps/third-0a1b2c)

running 1 test
error: test failed, to rerun pass `-p third`
  process didn't exit successfully: (signal: 11, SIGSEGV: invalid memory reference)
";

    /// Catches a failure that is not counted, output that is assigned to another test, and a
    /// program that is killed, which names no test.
    #[test]
    fn what_failed_is_found_in_the_output() {
        let found = failed(TEXT);
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["first a::silent", "first a::wrong", "third (ended early)"]);
        assert_eq!(found[0].1, "it printed nothing");
        assert!(found[1].1.contains("thread 'a::wrong'") && found[1].1.ends_with("not this"));
        assert!(found[2].1.contains("SIGSEGV"), "{}", found[2].1);
        assert!(failed("no program was run\n").is_empty());
    }

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
