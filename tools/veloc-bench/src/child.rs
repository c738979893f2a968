//! Processes that do one thing together: started, ready, let go, and heard line by line.

use std::ffi::OsStr;
use std::io::{self, stdin, stdout, BufRead as _, BufReader, ErrorKind, Lines, Write as _};
use std::path::Path;
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{ensure, Context, Result};
use config::KEYS;
use os::interrupt::ends_with_this;

/// What a process says when it is ready.
const READY: &str = "ready";

/// This program again, with other arguments. The process ends when this is dropped.
#[derive(Debug)]
pub(super) struct Child {
    process: Process,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts the process and waits until it has called [`ready`].
    pub(super) fn start(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Child> {
        let mut process = command(arguments)?.spawn().context("starting a process")?;
        let input = process.stdin.take().context("a process without an input")?;
        let output = process.stdout.take().context("a process without an output")?;
        let mut child = Child { process, input, output: BufReader::new(output).lines() };
        let said = child.line()?;
        ensure!(said == READY, "a process said \"{said}\" before it was ready");
        Ok(child)
    }

    /// Lets the process pass the next [`wait`] (the first is in [`ready`]).
    pub(super) fn go(&mut self) -> Result<()> {
        self.input.write_all(b"go\n").context("a process has gone")
    }

    /// The next line that the process says.
    pub(super) fn line(&mut self) -> Result<String> {
        let line = self.output.next().context("a process ended too early")?;
        line.context("reading what a process says")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// This program again, with pipes, and with none of the library's keys in its environment: what is measured
/// is what the bench asks for, whatever this shell has set for other jobs. See [`ends_with_this`].
pub(super) fn command(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Command> {
    let program = std::env::current_exe().context("finding this program's own file")?;
    Ok(command_of(&program, arguments))
}

/// The same of another program.
pub(super) fn command_of(
    program: &Path,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Command {
    let mut command = Command::new(program);
    for key in KEYS {
        command.env_remove(key.variable());
    }
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    ends_with_this(&mut command);
    command
}

/// In the process: says that it is ready, and waits until it may go on.
pub(super) fn ready() -> Result<()> {
    say(READY)?;
    wait()
}

/// In the process: waits until it may go on.
pub(super) fn wait() -> Result<()> {
    hear().map(drop)
}

/// In the process: waits for a line. Ends with the bench, if the bench has ended.
pub(super) fn hear() -> Result<String> {
    let mut line = String::new();
    match stdin().read_line(&mut line).context("waiting for the bench")? {
        0 => end_with_the_bench(),
        _ => Ok(line),
    }
}

/// In the process: says a line. Ends with the bench, if the bench has ended.
pub(super) fn say(line: &str) -> Result<()> {
    match print(line) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => end_with_the_bench(),
        done => done.context("saying something to the bench"),
    }
}

/// Writes a line to the standard output at once. Errors are the system's.
pub(super) fn print(line: &str) -> io::Result<()> {
    let mut output = stdout().lock();
    writeln!(output, "{line}").and_then(|()| output.flush())
}

/// Ends this process without a word. The system closes the pipes of a bench that ends before it
/// kills the processes that end with it (see [`ends_with_this`]), so a process may notice first;
/// the last word on their common standard error is the bench's.
fn end_with_the_bench() -> ! {
    // SAFETY: ends the process. Nothing is torn down, as if it were killed.
    unsafe { libc::_exit(1) }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::time::Duration;

    use std::os::unix::process::CommandExt as _;

    use super::*;

    /// Set in a process that ends while it starts another.
    const STARTS: &str = "VELOC_TEST_ENDS_WHILE_IT_STARTS";

    /// Catches a message, or a crash, of a process whose parent ends before the process can be
    /// told: an interrupted bench must end with a line of its own.
    #[test]
    fn who_starts_without_anybody_left_says_nothing() {
        if std::env::var_os(STARTS).is_some() {
            end_while_starting();
        }
        let name = "child::tests::who_starts_without_anybody_left_says_nothing";
        let mut starter = Command::new(std::env::current_exe().unwrap());
        starter.args([name, "--exact", "--nocapture"]).env(STARTS, "1");
        // Read to the end of both processes: they have the same standard error.
        let ended = starter.stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(ended.status.code(), Some(7), "the test has another name?");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    }

    /// Ends this process when it has forked another that has not yet looked for its parent.
    fn end_while_starting() -> ! {
        let this = std::process::id();
        let (mut forked, tell) = std::io::pipe().unwrap();
        std::thread::spawn(move || {
            forked.read_exact(&mut [0]).unwrap();
            // SAFETY: ends the process.
            unsafe { libc::_exit(7) }
        });
        let until_it_ended = move || {
            let mut tell = &tell;
            tell.write_all(&[1])?;
            // SAFETY: getppid cannot fail and takes no arguments.
            while unsafe { libc::getppid() } as u32 == this {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        let mut command = Command::new("true");
        // SAFETY: between fork and exec it makes system calls alone.
        unsafe { command.pre_exec(until_it_ended) };
        let _ = ends_with_this(&mut command).spawn();
        unreachable!("the other thread ends the process first");
    }
}
