//! Processes: started, watched, signalled, and looked at when they have ended.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use xtask::said::of_a_slow_start;

use crate::program::staged;

/// A process that has printed nothing for so long hangs. Nothing is timed by this: it is many times
/// what any program here takes, and a program with several steps prints something after each.
const HANG: Duration = Duration::from_secs(120);

/// A process that has not ended after so long hangs, whatever it prints.
const LONGEST: Duration = Duration::from_secs(1200);

/// A process to be started.
#[derive(Debug)]
pub struct Run {
    command: Command,
    what: String,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub stdout: String,
    /// The standard error, of the program and the library.
    pub stderr: String,
    what: String,
}

/// A process under way. It is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    what: String,
    since: Instant,
    /// When the process last printed something, and how much it had printed by then.
    heard: (Instant, usize),
    stdout: Collected,
    stderr: Collected,
}

#[derive(Debug)]
struct Collected {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Run {
    /// A run of an executable with the staged library, without a CUDA driver.
    pub fn new(executable: &Path) -> Run {
        let mut command = Command::new(executable);
        for (name, _) in std::env::vars_os() {
            let own = name.to_string_lossy();
            if own.starts_with("VELOC_") || own.starts_with("SOFTCUDA_") {
                command.env_remove(name);
            }
        }
        command
            .env("LD_LIBRARY_PATH", staged().lib())
            // A program that contains the library is not near the backend.
            .env("VELOC_BIN", staged().bin())
            // Most programs ask for errors, after which the library would not print them any more.
            .env("VELOC_PRINT_ERRORS", "true")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Run { what: executable.display().to_string(), command }
    }

    /// Gives the run the software device as its CUDA driver.
    #[must_use]
    pub fn with_device(mut self) -> Run {
        let paths = std::env::join_paths([staged().lib(), staged().softcuda()]).unwrap();
        self.command.env("LD_LIBRARY_PATH", paths);
        self.command.env("CUDA_CACHE_PATH", staged().softcuda().join("kernels"));
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Run {
        self.what = format!("{} {}", self.what, argument.as_ref().to_string_lossy());
        self.command.arg(argument);
        self
    }

    /// Adds arguments, separated by spaces.
    #[must_use]
    pub fn args(self, arguments: &str) -> Run {
        arguments.split_whitespace().fold(self, Run::arg)
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Run {
        self.what = format!("{name}={} {}", value.as_ref().to_string_lossy(), self.what);
        self.command.env(name, value);
        self
    }

    /// Changes the command in any other way.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Command)) -> Run {
        change(&mut self.command);
        self
    }

    /// Has the run started by another program, behind these arguments.
    #[must_use]
    pub fn by(self, program: &str, arguments: &[&str]) -> Run {
        let mut command = Command::new(program);
        command.args(arguments).arg(self.command.get_program()).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Run { what: format!("{program} {}", self.what), command }
    }

    /// Starts the process.
    pub fn start(mut self) -> Running {
        self.spawn()
    }

    fn spawn(&mut self) -> Running {
        let mut child =
            self.command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.what));
        Running {
            stdout: Collected::new(child.stdout.take()),
            stderr: Collected::new(child.stderr.take()),
            what: self.what.clone(),
            since: Instant::now(),
            heard: (Instant::now(), 0),
            child,
        }
    }

    /// Runs the process to its end.
    pub fn end(mut self) -> Ended {
        let ended = self.spawn().end();
        // On a busy machine MPICH's launcher may lose its helper before that has started anything.
        let is_lost = ended.stderr.contains("HYD_pmcd_pmiserv_proxy_init_cb");
        if is_lost && ended.stdout.is_empty() {
            println!("{}: started once more, as the launcher has lost its helper", self.what);
            return self.spawn().end();
        }
        ended
    }

    /// Runs the process to its end, which must be a success.
    pub fn succeed(self) -> Ended {
        self.end().succeeded()
    }
}

impl Running {
    /// Waits for the end of the process. Panics if it hangs.
    pub fn end(mut self) -> Ended {
        let status = self.wait();
        Ended {
            status,
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
            what: std::mem::take(&mut self.what),
        }
    }

    /// Waits until the process has printed this line. Panics if it ends without the line, or hangs.
    pub fn wait_for_line(&mut self, line: &str) {
        loop {
            let ended = self.child.try_wait().unwrap().is_some();
            if self.stdout.text().lines().any(|printed| printed == line) {
                return;
            }
            if ended {
                panic!("{} ended without \"{line}\"\n{}", self.what, self.said());
            }
            self.check_for_hang();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether the process, or the library, has printed these words on standard error by now.
    pub fn has_said(&self, words: &str) -> bool {
        self.stderr.text().contains(words)
    }

    /// Waits until a line of standard error has these words. Panics if the process ends, or hangs.
    pub fn wait_until_said(&mut self, words: &str) {
        loop {
            let ended = self.child.try_wait().unwrap().is_some();
            if self.stderr.text().contains(words) {
                return;
            }
            if ended {
                panic!("{} ended without \"{words}\"\n{}", self.what, self.said());
            }
            self.check_for_hang();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: a child that has not been waited for, so its process id is still its own.
        assert_eq!(unsafe { libc::kill(self.child.id() as libc::pid_t, signal) }, 0);
    }

    /// Sends the processes of its group a signal: it was started as the first of a group of its own.
    pub fn signal_group(&self, signal: i32) {
        // SAFETY: as above; the group has the number of its first process.
        assert_eq!(unsafe { libc::kill(-(self.child.id() as libc::pid_t), signal) }, 0);
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The numbers behind `name` on lines of their own, until now.
    pub fn figures(&self, name: &str) -> Vec<u64> {
        figures(&self.stdout.text(), name)
    }

    /// The standard input of the process, which [`Run::with`] must have made a pipe.
    pub fn input(&mut self) -> &mut ChildStdin {
        self.child.stdin.as_mut().unwrap()
    }

    /// Ends the standard input of the process.
    #[must_use]
    pub fn end_input(mut self) -> Running {
        self.child.stdin = None;
        self
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn wait(&mut self) -> ExitStatus {
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            self.check_for_hang();
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }

    fn check_for_hang(&mut self) {
        let printed = self.stdout.len() + self.stderr.len();
        if printed != self.heard.1 {
            self.heard = (Instant::now(), printed);
        }
        if self.heard.0.elapsed() < HANG && self.since.elapsed() < LONGEST {
            return;
        }
        let _ = self.child.kill();
        let after = self.since.elapsed().as_secs();
        panic!("{} hangs: killed after {after} s\n{}", self.what, self.said());
    }

    fn said(&self) -> String {
        format!("--- stdout\n{}\n--- stderr\n{}", self.stdout.text(), last(&self.stderr.text()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process has ended, or the test has.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Panics, with the output, unless the process ended with status 0 and printed its last line.
    #[must_use]
    pub fn succeeded(self) -> Ended {
        // MPI may print the ends of two processes' lines behind both, and warnings of its own at its end.
        let is_done = self.stdout.lines().any(|line| line.ends_with("done"));
        if self.status.success() && is_done {
            return self;
        }
        let how = match self.status.signal() {
            Some(signal) => format!("was ended by signal {signal}"),
            None => format!("ended with {}", self.status),
        };
        panic!(
            "{} {how}\n--- stdout\n{}\n--- stderr\n{}",
            self.what,
            last(&self.stdout),
            last(&self.stderr)
        );
    }

    /// The lines of standard error, except those about a backend that takes long to start: a slow
    /// machine has none within a second.
    pub fn complaints(&self) -> Vec<&str> {
        self.stderr.lines().filter(|line| !of_a_slow_start(line)).collect()
    }

    /// The number behind `name` on a line of its own.
    pub fn figure(&self, name: &str) -> u64 {
        let mut values = self.figures(name);
        values.pop().unwrap_or_else(|| panic!("{}: no figure {name}:\n{}", self.what, self.stdout))
    }

    /// The numbers behind `name` on lines of their own.
    pub fn figures(&self, name: &str) -> Vec<u64> {
        figures(&self.stdout, name)
    }
}

fn figures(text: &str, name: &str) -> Vec<u64> {
    let behind = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    text.lines().filter_map(behind).collect()
}

/// The end of a text, which may be long.
fn last(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

impl Collected {
    fn new(source: Option<impl Read + Send + 'static>) -> Collected {
        let text = Arc::new(Mutex::new(Vec::new()));
        let reader = source.map(|mut source| {
            let text = text.clone();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(bytes @ 1..) = source.read(&mut buffer) {
                    text.lock().unwrap().extend_from_slice(&buffer[..bytes]);
                }
            })
        });
        Collected { text, reader }
    }

    fn len(&self) -> usize {
        self.text.lock().unwrap().len()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }

    fn finish(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.text()
    }
}
