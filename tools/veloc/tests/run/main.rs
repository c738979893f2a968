//! `veloc run` on programs that know nothing of it, with CRIU.

// A test that cannot go on should end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags};
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use tempfile::TempDir;
use xtask::stage::{stage, Profile, StagedFolders};

mod device;
mod kills;
mod meanwhile;
mod mistakes;
mod outside;
mod same;

/// CRIU, or why there is none.
static CRIU: LazyLock<Result<PathBuf, String>> =
    LazyLock::new(|| xtask::criu::find().map_err(|error| error.to_string()));

/// The software device.
static STAGE: LazyLock<StagedFolders> = LazyLock::new(|| stage(Profile::Debug).unwrap());

/// Longer than anything takes: a test that waits so long has found a hang.
const PATIENCE: Duration = Duration::from_secs(300);

/// A job: a folder in which a program is compiled and run, and its directory of versions.
struct Job {
    folder: TempDir,
    program: &'static str,
}

impl Job {
    /// A job of `steps.c`; `None` if this cannot run here, which is said.
    fn new() -> Option<Job> {
        Job::of("steps", |_| {})
    }

    /// A job of `device.c`, on the software device.
    fn on_device() -> Option<Job> {
        Job::of("device", |compile| {
            compile.arg("-L").arg(STAGE.softcuda()).arg("-lcuda");
        })
    }

    fn of(program: &'static str, link: impl FnOnce(&mut Command)) -> Option<Job> {
        if let Err(why) = &*CRIU {
            println!("skipped: there is no CRIU: {why}");
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            println!("skipped: programs are run in name spaces of their own by root alone");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run");
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-pthread", "-o", program]).current_dir(&folder);
        compile.arg(sources.join(program).with_extension("c"));
        link(&mut compile);
        assert!(compile.status().unwrap().success());
        Some(Job { folder, program })
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// `veloc` with these words, in the job's folder.
    fn veloc(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_veloc"));
        command.args(words.split_whitespace()).current_dir(&self.folder);
        command.env("VELOC_CRIU", CRIU.as_ref().unwrap());
        command.env("LD_LIBRARY_PATH", STAGE.softcuda());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// Starts `veloc` with these words; what the program prints goes to the file `output`, from its beginning.
    fn start(&self, words: &str, output: &str) -> Running {
        let output = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.path(output))
            .unwrap();
        self.run(self.veloc(words).stdout(output))
    }

    /// Starts a program that does not end before the test has it end.
    fn run(&self, command: &mut Command) -> Running {
        File::create(self.path("held")).unwrap();
        Running { child: command.spawn().unwrap(), held: self.path("held") }
    }

    /// Has a version made. Returns its number, or what went wrong.
    fn checkpoint(&self) -> Result<u32, String> {
        let ended = self.veloc("checkpoint D").stdout(Stdio::piped()).output().unwrap();
        match ended.status.success() {
            true => Ok(String::from_utf8(ended.stdout).unwrap().trim().parse().unwrap()),
            false => Err(String::from_utf8(ended.stderr).unwrap()),
        }
    }

    /// What the program prints and writes without anything around it.
    fn expected(&self, steps: u32) -> (String, String) {
        let mut command = Command::new(format!("./{}", self.program));
        command.args([&steps.to_string(), "expected"]).current_dir(&self.folder);
        command.env("LD_LIBRARY_PATH", STAGE.softcuda());
        let printed = command.output().unwrap();
        assert!(printed.status.success());
        (String::from_utf8(printed.stdout).unwrap(), self.text("expected"))
    }

    /// Checks that `printed` and `written` are as expected.
    fn check(&self, expected: &(String, String)) {
        for (file, wanted) in [("printed", &expected.0), ("written", &expected.1)] {
            let text = self.text(file);
            let same =
                text.bytes().zip(wanted.bytes()).take_while(|(one, other)| one == other).count();
            assert!(text == *wanted, "{file} differs from byte {same} on");
        }
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap_or_default()
    }

    /// Waits until a file has this many lines.
    fn wait_for_lines(&self, file: &str, lines: usize) {
        until(&format!("{lines} lines in {file}"), || self.text(file).lines().count() >= lines);
    }
}

/// A supervisor with its program.
struct Running {
    child: Child,
    /// The file that holds the program.
    held: PathBuf,
}

impl Running {
    /// Ends the supervisor and all processes of its program at once.
    fn kill(mut self) {
        let children: Vec<_> = children(self.child.id()).into_iter().filter_map(process).collect();
        self.child.kill().unwrap();
        // The first process of the program's name space, with which all others end.
        for child in &children {
            let _ = pidfd_send_signal(child, Signal::KILL);
        }
        self.child.wait().unwrap();
        // Until it has ended it has the job's lock.
        for child in children {
            poll(&mut [PollFd::new(&child, PollFlags::IN)], None).unwrap();
        }
    }

    /// Waits until the program has printed this many lines. Panics, with what was said, if it has ended before.
    fn wait_for_lines(&mut self, job: &Job, lines: usize) {
        let mut ended = None;
        until(&format!("{lines} lines in printed"), || {
            ended = self.child.try_wait().unwrap();
            ended.is_some() || job.text("printed").lines().count() >= lines
        });
        if let Some(ended) = ended.filter(|_| job.text("printed").lines().count() < lines) {
            let mut said = String::new();
            self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("{ended}: {said}");
        }
    }

    /// Has the program end, and waits for that. Returns how, with what was said on standard error.
    fn end(mut self) -> (ExitStatus, String) {
        let _ = fs::remove_file(&self.held);
        let since = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(since.elapsed() < PATIENCE, "the program does not end");
            thread::sleep(Duration::from_millis(5));
        }
        let ended = self.child.wait_with_output().unwrap();
        (ended.status, String::from_utf8(ended.stderr).unwrap())
    }

    /// Has the program end, which must be a success.
    fn succeed(self) -> String {
        let (status, said) = self.end();
        assert!(status.success(), "{status} {said}");
        said
    }
}

/// The numbers of a process's children.
fn children(process: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// A process, unless it is gone.
fn process(number: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(number.cast_signed())?, PidfdFlags::empty()).ok()
}

fn kill(process: u32, signal: libc::c_int) {
    // SAFETY: no memory is involved. It may have ended.
    unsafe { libc::kill(process.cast_signed(), signal) };
}

/// Waits until it holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A number that differs from run to run.
fn random(below: u64) -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _, RandomState};
    RandomState::new().build_hasher().finish() % below
}

/// Whether a run ended by this signal, as a shell tells it.
fn is_by_signal(status: ExitStatus, signal: i32) -> bool {
    status.signal() == Some(signal) || status.code() == Some(128 + signal)
}
