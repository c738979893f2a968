//! Runs the tests of the workspace, each in a process of its own: a test that hangs or crashes is named, the
//! time of each is known, and no processor idles at the end, as the slow ones start first.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result, While as _};
use crate::files::write;
use crate::project::{cargo, output, target_directory};
use crate::slow::SLOW;
use crate::stage::{stage, Profile, STAGE};
use crate::steps::clock;
use crate::system;
use crate::usage::{wait, Usage};

/// The slowest tests that are named at the end.
const SLOWEST: usize = 10;

/// A program with tests.
#[derive(Debug)]
struct TestProgram {
    /// The package, and the target if that has another name.
    name: String,
    executable: PathBuf,
    /// The folder of the package, in which its tests run.
    folder: PathBuf,
}

/// A test of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Test {
    program: usize,
    name: String,
}

/// How a test ended.
#[derive(Debug, PartialEq, Eq)]
pub enum TestVerdict {
    /// It passed, with the reasons why parts of it were left out.
    Passed(Vec<String>),
    /// It is not run with the others, for this reason.
    Ignored(String),
    /// It failed; what it printed.
    Failed(String),
}

/// A test that has ended.
#[derive(Debug)]
pub struct EndedTest {
    /// Its program and its name.
    pub name: String,
    /// How it ended.
    pub verdict: TestVerdict,
    /// What it took.
    pub usage: Usage,
}

/// The programs with the tests of the workspace, built.
#[derive(Debug)]
pub struct Tests {
    programs: Vec<TestProgram>,
    tests: Vec<Test>,
    stage: PathBuf,
}

impl Tests {
    /// Builds the tests and what they run. Only those whose names contain `filter`, if there is one.
    pub fn build(filter: Option<&str>) -> Result<Tests> {
        let mut command = cargo();
        command.args(["test", "--workspace", "--all-targets", "--no-run"]);
        command.arg("--message-format=json-render-diagnostics");
        println!("$ cargo test --workspace --all-targets --no-run");
        let programs = programs(&output(&mut command)?)?;
        let stage = stage(Profile::Debug)?.folder;
        let mut tests = Vec::new();
        for (program, of) in programs.iter().enumerate() {
            let text = output(of.command().args(["--list", "--format=terse"]))?;
            let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
            tests.extend(names.map(|name| Test { program, name: name.to_owned() }));
        }
        let mut all = Tests { programs, tests: Vec::new(), stage };
        tests.retain(|test| filter.is_none_or(|filter| all.name(test).contains(filter)));
        tests.sort_by_key(|test| all.place(test));
        all.tests = tests;
        match all.tests.len() {
            0 => Err(Error::new(format!("no test is called {}", filter.unwrap_or_default()))),
            _ => Ok(all),
        }
    }

    fn name(&self, test: &Test) -> String {
        format!("{} {}", self.programs[test.program].name, test.name)
    }

    /// The place of a test in the order: the slowest first.
    fn place(&self, test: &Test) -> usize {
        let name = self.name(test);
        SLOW.iter().position(|slow| *slow == name).unwrap_or(SLOW.len())
    }

    /// Runs all tests; `all`: as before a release. Calls `ended` for each, as it ends.
    pub fn run(&self, all: bool, ended: impl Fn(EndedTest) + Sync) -> Result<()> {
        // Most tests of programs wait for processes more than they compute.
        let at_once = 2 * std::thread::available_parallelism().map_or(1, usize::from);
        let queue: Mutex<VecDeque<&Test>> = Mutex::new(self.tests.iter().collect());
        let next = || locked(&queue).pop_front();
        let worker = || {
            while let Some(test) = next() {
                ended(self.run_one(test, all)?);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(worker)).collect();
            let ends = workers.into_iter().map(|worker| {
                worker.join().unwrap_or_else(|_| Err(Error::new("a thread of the runner panicked")))
            });
            ends.collect()
        })
    }

    fn run_one(&self, test: &Test, all: bool) -> Result<EndedTest> {
        let program = &self.programs[test.program];
        let what = || format!("starting {}", program.executable.display());
        // A file, as what a test leaves running could keep a pipe open.
        let mut file = tempfile::tempfile().when(|| "making a temporary file".into())?;
        let mut command = program.command();
        command.args(["--exact", &test.name, "--nocapture", "--test-threads=1"]);
        command.env(STAGE, &self.stage);
        if all {
            command.env(ALL, "1");
        }
        // SAFETY: between fork and exec it makes one system call.
        unsafe { command.pre_exec(ends_with_this) };
        command.stdin(Stdio::null());
        command.stdout(file.try_clone().when(what)?).stderr(file.try_clone().when(what)?);
        let (status, usage) = wait(command.spawn().when(what)?).when(what)?;
        let text = text(&mut file).when(what)?;
        let verdict = match verdict(status.success(), &text) {
            TestVerdict::Failed(text) => TestVerdict::Failed(format!("{text}\n({status})")),
            other => other,
        };
        Ok(EndedTest { name: self.name(test), verdict, usage })
    }
}

/// Has this process end with the thread that has started it.
fn ends_with_this() -> std::io::Result<()> {
    // SAFETY: no pointers are involved.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// A thread that panicked is reported when it is joined.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The variable that tells the tests to run everything, as before a release.
pub(crate) const ALL: &str = "VELOC_TEST_ALL";

impl TestProgram {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.env("CARGO", cargo().get_program());
        command
    }
}

/// The programs with tests among cargo's messages.
fn programs(messages: &str) -> Result<Vec<TestProgram>> {
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: serde_json::Value =
            serde_json::from_str(line).when(|| format!("reading cargo's message {line}"))?;
        let (Some(executable), Some(true), Some(manifest)) = (
            message["executable"].as_str(),
            message["profile"]["test"].as_bool(),
            message["manifest_path"].as_str(),
        ) else {
            continue;
        };
        let folder = Path::new(manifest).parent().unwrap_or(Path::new("/")).to_path_buf();
        let of = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let package = of(&message["package_id"]);
        // path+file:///folder#name@version, or without the name if the folder has it.
        let package = package.rsplit(['#', '/']).find_map(|part| {
            let name = part.split('@').next().unwrap_or_default();
            name.starts_with(char::is_alphabetic).then_some(name)
        });
        let (package, target) = (package.unwrap_or("?").to_owned(), of(&message["target"]["name"]));
        let name = match message["target"]["kind"][0].as_str() {
            Some("lib" | "rlib" | "cdylib" | "staticlib" | "proc-macro") => package,
            _ if target == package => package,
            _ => format!("{package}/{target}"),
        };
        programs.push(TestProgram { name, executable: executable.into(), folder });
    }
    Ok(programs)
}

fn text(file: &mut File) -> std::io::Result<String> {
    use std::io::{Read as _, Seek as _};
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// How a test ended that printed this.
fn verdict(success: bool, text: &str) -> TestVerdict {
    let result = text.lines().rev().find(|line| line.starts_with("test result: "));
    let has = |what: &str| result.is_some_and(|line| line.contains(what));
    match success {
        true if has(" 1 ignored;") => {
            let why = text.lines().find_map(|line| line.split_once(" ... ignored, "));
            TestVerdict::Ignored(why.map_or("it is ignored", |(_, why)| why).to_owned())
        }
        true if has(" 1 passed;") => {
            // The first line follows the name of the test.
            let lines = text.lines().map(|line| match line.split_once(" ... ") {
                Some((test, rest)) if test.starts_with("test ") => rest,
                _ => line,
            });
            let reasons = lines.filter_map(|line| line.strip_prefix("skipped: "));
            TestVerdict::Passed(reasons.map(str::to_owned).collect())
        }
        _ => TestVerdict::Failed(text.trim_end().to_owned()),
    }
}

/// Runs all tests once, and prints what failed, what was left out, and the slowest. An error names those that
/// failed.
pub fn run(all: bool) -> Result<()> {
    let tests = Tests::build(None)?;
    let report = Mutex::new(TestReport { of: tests.tests.len(), ..TestReport::default() });
    tests.run(all, |ended| locked(&report).add(ended))?;
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.print();
    report.keep(&target_directory()?.join("test-times"))?;
    match &report.failed[..] {
        [] => Ok(()),
        failed => Err(Error::new(format!("failed: {}", failed.join(", ")))),
    }
}

/// Sees to the programs that the tests need, and runs the tests up to the first that fails, the quick ones first:
/// those in a crate's library, then other programs, and those of the C interface last. The error names it.
pub fn first_failure(all: bool) -> Result<()> {
    system::prepare()?;
    let mut tests = Tests::build(None)?;
    let programs = &tests.programs;
    tests.tests.sort_by_key(|test| {
        let name = &programs[test.program].name;
        (name.starts_with("capi-tests/"), name.contains('/'))
    });
    tests.run(all, |ended| {
        if let TestVerdict::Failed(text) = ended.verdict {
            println!("\n==> {}: FAILED ({})\n{text}", ended.name, clock(ended.usage.time));
            // The tests under way end with this process: one of them may hang.
            std::process::exit(1);
        }
    })
}

/// What is known of the tests that have ended.
#[derive(Debug, Default)]
struct TestReport {
    of: usize,
    passed: usize,
    /// Of these, those that were not run whole.
    in_part: usize,
    ignored: usize,
    failed: Vec<String>,
    /// Why tests were not run, or not whole, and which.
    skipped: BTreeMap<String, Vec<String>>,
    times: Vec<(Usage, String)>,
    /// When the state was last printed.
    said: Duration,
    since: Option<Instant>,
}

impl TestReport {
    fn add(&mut self, ended: EndedTest) {
        let EndedTest { name, verdict, usage } = ended;
        let elapsed = self.since.get_or_insert_with(Instant::now).elapsed();
        match verdict {
            TestVerdict::Passed(reasons) => {
                self.passed += 1;
                if !reasons.is_empty() {
                    self.in_part += 1;
                }
                for why in reasons {
                    let of = self.skipped.entry(why).or_default();
                    if !of.contains(&name) {
                        of.push(name.clone());
                    }
                }
            }
            TestVerdict::Ignored(why) => {
                self.ignored += 1;
                self.skipped.entry(why).or_default().push(name.clone());
            }
            TestVerdict::Failed(text) => {
                println!("\n==> {name}: FAILED ({})\n{text}\n", clock(usage.time));
                self.failed.push(name.clone());
            }
        }
        self.times.push((usage, name));
        if elapsed >= self.said + Duration::from_secs(20) {
            self.said = elapsed;
            println!("{} of {} tests after {}", self.times.len(), self.of, clock(elapsed));
        }
    }

    /// Writes the times of all tests, the longest first.
    fn keep(&self, path: &Path) -> Result<()> {
        let line = |(usage, name): &(Usage, String)| {
            let [time, processor] = [usage.time, usage.processor].map(|time| time.as_secs_f64());
            format!("{time:8.2} {processor:8.2} {name}\n")
        };
        write(path, &self.times.iter().map(line).collect::<String>())
    }

    fn print(&mut self) {
        self.times.sort_by_key(|(usage, _)| std::cmp::Reverse(usage.time));
        println!("\nthe slowest, by the clock and of the processors:");
        for (usage, name) in self.times.iter().take(SLOWEST) {
            println!("  {:>13} {:>13}  {name}", clock(usage.time), clock(usage.processor));
        }
        if !self.skipped.is_empty() {
            println!("skipped:");
        }
        for (why, tests) in &self.skipped {
            println!("  {why}: {}", tests.join(", "));
        }
        for name in &self.failed {
            println!("FAILED  {name}");
        }
        let TestReport { passed, in_part, ignored, .. } = self;
        let failed = self.failed.len();
        println!("{passed} passed ({in_part} in part), {failed} failed, {ignored} not run");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a test that was not run, or that crashed, and counts as passed, and a reason that is lost.
    #[test]
    fn only_a_test_that_ran_has_passed() {
        let result = |what: &str| {
            format!("test a ... skipped: no root\nskipped: b\ntest result: ok. {what}")
        };
        let passed = TestVerdict::Passed(vec!["no root".to_owned(), "b".to_owned()]);
        assert_eq!(verdict(true, &result("1 passed; 0 failed; 0 ignored;")), passed);
        let ignored =
            "test a ... ignored, it is slow\n\ntest result: ok. 0 passed; 0 failed; 1 ignored;";
        assert_eq!(verdict(true, ignored), TestVerdict::Ignored("it is slow".to_owned()));
        for (success, text) in [
            (true, result("0 passed; 0 failed; 0 ignored;")),
            (false, result("1 passed; 0 failed; 0 ignored;")),
            (true, "running 1 test".to_owned()),
        ] {
            assert_eq!(verdict(success, &text), TestVerdict::Failed(text.clone()));
        }
    }

    /// Catches a program that is left out, or that has the name of another one.
    #[test]
    fn programs_have_the_names_of_packages_and_targets() {
        let line = |id: &str, kind: &str, target: &str, test: bool| {
            format!(
                "{{\"package_id\":\"path+file:///p/{id}\",\"manifest_path\":\"/p/x/Cargo.toml\",\
                 \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"{target}\"}},\
                 \"profile\":{{\"test\":{test}}},\"executable\":\"/t/{target}\"}}\n"
            )
        };
        let text = line("engine#0.1.0", "lib", "engine", true)
            + &line("x#veloc-cli@0.1.0", "bin", "veloc", true)
            + &line("x#veloc-cli@0.1.0", "bin", "veloc", false)
            + "{\"reason\":\"build-finished\"}\n";
        let found = programs(&text).unwrap();
        let names: Vec<&str> = found.iter().map(|program| &*program.name).collect();
        assert_eq!(names, ["engine", "veloc-cli/veloc"]);
        assert_eq!(found[0].folder, Path::new("/p/x"));
        assert!(programs("no JSON").is_err());
    }
}
