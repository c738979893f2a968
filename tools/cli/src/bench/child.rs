//! Processes that do one thing together: started, ready, let go, and heard line by line.

use std::ffi::OsStr;
use std::io::{self, stdin, stdout, BufRead as _, BufReader, ErrorKind, Lines, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{ensure, Context, Result};
use config::KEYS;

/// What a process says when it is ready.
const READY: &str = "ready";

/// This program again, with other arguments. It ends with this.
#[derive(Debug)]
pub(super) struct Child {
    process: Process,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts it and waits until it has called [`ready`].
    pub(super) fn start(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Child> {
        let mut process = command(arguments)?.spawn().context("starting a process")?;
        let input = process.stdin.take().context("a process without an input")?;
        let output = process.stdout.take().context("a process without an output")?;
        let mut child = Child { process, input, output: BufReader::new(output).lines() };
        let said = child.line()?;
        ensure!(said == READY, "a process said \"{said}\" before it was ready");
        Ok(child)
    }

    /// Lets it pass the next [`wait`] (that of [`ready`] is the first).
    pub(super) fn go(&mut self) -> Result<()> {
        self.input.write_all(b"go\n").context("a process has gone")
    }

    /// The next line that it says.
    pub(super) fn line(&mut self) -> Result<String> {
        let line = self.output.next().context("a process ended too early")?;
        line.context("reading what a process says")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// This program again, with pipes, and with none of the library's keys in its environment: what is measured
/// is what the bench asks for, whatever this shell has set for other jobs. See [`ends_with_this`].
pub(super) fn command(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Command> {
    let program = std::env::current_exe().context("finding this program's own file")?;
    let mut command = Command::new(program);
    for key in KEYS {
        command.env_remove(key.variable());
    }
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    ends_with_this(&mut command);
    Ok(command)
}

/// Has the process that `command` starts end when this one does, even if it is killed: nobody would
/// listen any more, and one that has stopped would stay for ever. To be started by a thread that
/// lives as long as the process, as the main thread does: the system looks at the thread.
///
/// It gets a process group of its own: Ctrl-C on a terminal is for this process to answer, and would
/// make a failure of what is being measured if it ended that first.
fn ends_with_this(command: &mut Command) -> &mut Command {
    let this = std::process::id();
    let end = move || {
        // SAFETY: plain data, of which zeros are the set without a signal; see `interrupt::watch`.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &std::mem::zeroed(), std::ptr::null_mut()) };
        // SAFETY: no pointers are involved.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it cannot fail, and takes nothing.
        let parent = unsafe { libc::getppid() };
        // If this process ended before the first call, nobody will say so; nor is anybody there for
        // an error, and the standard library makes noise and a crash of one that it cannot tell.
        if parent as u32 != this {
            // SAFETY: ends the process, and runs nothing of this one's first.
            unsafe { libc::_exit(1) }
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls alone, and allocates nothing.
    unsafe { command.pre_exec(end) }.process_group(0)
}

/// In the process: says that it is ready, and waits to be let go.
pub(super) fn ready() -> Result<()> {
    say(READY)?;
    wait()
}

/// In the process: waits to be let go.
pub(super) fn wait() -> Result<()> {
    hear().map(drop)
}

/// In the process: waits for a line. Ends with the bench, if that has gone.
pub(super) fn hear() -> Result<String> {
    let mut line = String::new();
    match stdin().read_line(&mut line).context("waiting for the bench")? {
        0 => end_with_the_bench(),
        _ => Ok(line),
    }
}

/// In the process: says a line. Ends with the bench, if that has gone.
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

/// The system closes the pipes of a process that ends before it kills those that end with it (see
/// [`ends_with_this`]). Who is woken by that ends as they do: without a word, as the last one is the
/// bench's, on the standard error that it has with them.
fn end_with_the_bench() -> ! {
    // SAFETY: ends the process. Nothing is torn down, as if it were killed.
    unsafe { libc::_exit(1) }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::time::Duration;

    use super::*;

    /// Set in a process that ends while it starts another.
    const STARTS: &str = "VELOC_TEST_ENDS_WHILE_IT_STARTS";

    /// Catches a word, or a crash, of a process whose starter ends before it can be told so: what an
    /// interrupted bench leaves must be its own last line.
    #[test]
    fn who_starts_without_anybody_left_says_nothing() {
        if std::env::var_os(STARTS).is_some() {
            end_while_starting();
        }
        let name = "bench::child::tests::who_starts_without_anybody_left_says_nothing";
        let mut starter = Command::new(std::env::current_exe().unwrap());
        starter.args([name, "--exact", "--nocapture"]).env(STARTS, "1");
        // Read to the end of both: the one that was being started has the same standard error.
        let ended = starter.stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(ended.status.code(), Some(7), "the test has another name?");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    }

    /// Ends this process when another has been forked and does not yet look for it.
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
            // SAFETY: it cannot fail, and takes nothing.
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
