//! What Ctrl-C, or another signal that ends a program which measures or simulates, leaves: whole files, no processes, and a line
//! that says where the results are.
//!
//! A thread waits for the signal, and then until no file of results is half written; it removes the
//! temporary folder of the process that measures, prints the line and ends this process. All
//! processes that it has started end with it (see [`ends_with_this`]).

use std::ffi::c_int;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use errors::{Error, Result};

/// The signals that end a bench in order.
const SIGNALS: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The files of results that this process has written. The lock is held while a file is being
/// written.
static WRITTEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Writes a file of results by `write`, which no signal cuts short.
pub fn writing(path: &Path, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    write()?;
    if !written.iter().any(|known| known == path) {
        written.push(path.to_path_buf());
    }
    Ok(())
}

/// The process at work, which has a process group of its own, and its temporary folder.
static AT_WORK: Mutex<Option<(u32, PathBuf)>> = Mutex::new(None);

/// Starts the process that measures from here on, whose files are in `folder`. A signal waits until it is known.
pub fn start<E>(
    folder: &Path,
    start: impl FnOnce() -> std::result::Result<Child, E>,
) -> std::result::Result<Child, E> {
    let mut at_work = AT_WORK.lock().unwrap_or_else(PoisonError::into_inner);
    let child = start()?;
    *at_work = Some((child.id(), folder.to_path_buf()));
    Ok(child)
}

/// No process measures any more.
pub fn ended() {
    *AT_WORK.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Has the process that `command` starts end when this one does, even if it is killed: nobody would
/// listen any more, and a stopped process would stay for ever. The thread that starts it must live
/// as long as the process, as the main thread does: the system looks at the thread.
///
/// The new process gets a process group of its own: Ctrl-C on a terminal is for this process to
/// answer, and a measurement that it ended first would look like a failure.
pub fn ends_with_this(command: &mut Command) -> &mut Command {
    let this = std::process::id();
    let end = move || {
        for signal in SIGNALS {
            // One for the group of this process, which the new one was in for a moment: to ignore a signal drops it.
            // SAFETY: no handler of this program's is involved.
            unsafe {
                let before = libc::signal(signal, libc::SIG_IGN);
                libc::signal(signal, before);
            }
        }
        // SAFETY: plain data, of which zeros are the set without a signal; see [`watch`].
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &std::mem::zeroed(), std::ptr::null_mut()) };
        // SAFETY: no pointers are involved.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: getppid cannot fail and takes no arguments.
        let parent = unsafe { libc::getppid() };
        // If the parent ended before the call of prctl, no signal will come. An error would reach
        // nobody, and the standard library would print a message and crash.
        if parent as u32 != this {
            // SAFETY: ends the process without running any of the parent's code first.
            unsafe { libc::_exit(1) }
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls alone, and allocates nothing.
    unsafe { command.pre_exec(end) }.process_group(0)
}

/// From here on, a signal ends this process in order, with status 128 plus the signal's number, as
/// in shells. A signal that was ignored at the start, as under `nohup`, stays ignored. To be called
/// before there are other threads.
pub fn watch() -> Result<()> {
    // SAFETY: plain data, for which zeros are a value: no signal, the default action.
    let (mut signals, mut action): (libc::sigset_t, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    for signal in SIGNALS {
        // SAFETY: asks for the action alone, into a value that lives.
        let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
        if asked == 0 && action.sa_sigaction != libc::SIG_IGN {
            // SAFETY: the set lives.
            unsafe { libc::sigaddset(&mut signals, signal) };
        }
    }
    // SAFETY: the set lives; the mask before is not asked for.
    let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut()) };
    if error != 0 {
        return Err(Error::system("blocking signals", &io::Error::from_raw_os_error(error)));
    }
    let wait = move || {
        let mut signal = 0;
        // SAFETY: both are this thread's.
        if unsafe { libc::sigwait(&signals, &mut signal) } == 0 {
            end(signal);
        }
    };
    let started = thread::Builder::new().spawn(wait);
    started.map(drop).map_err(|error| Error::system("starting the thread for signals", &error))
}

/// Says what there is, and ends the process.
fn end(signal: c_int) -> ! {
    // Held to the end: no further file is begun.
    let written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    // Held to the end: no other thread's line comes behind the last one.
    let mut errors = io::stderr().lock();
    // Held to the end: whoever waits for the process that is killed here goes no further than `ended`.
    let at_work = AT_WORK.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((process, folder)) = &*at_work {
        let process = *process as libc::pid_t;
        // SAFETY: our own process with its group, which nobody needs any more, as this thread never ends.
        unsafe {
            libc::kill(-process, libc::SIGKILL);
            while libc::waitpid(-process, std::ptr::null_mut(), 0) > 0 {}
        }
        // What those processes had started ends a moment later, and may write to the folder until then. A folder that
        // cannot be removed stays.
        let removed = || std::fs::remove_dir_all(folder).is_ok() || !folder.exists();
        for _ in 0..100 {
            if removed() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    // Clears the line where a progress bar may stand.
    let clear = if errors.is_terminal() { "\r\x1b[K" } else { "" };
    // Nobody may be listening any more.
    let _ = writeln!(errors, "{clear}{}", message(&written));
    // SAFETY: ends the process. Nothing is torn down under the feet of threads that measure.
    unsafe { libc::_exit(128 + signal) }
}

fn message(written: &[PathBuf]) -> String {
    match written {
        [] => "interrupted; no results were written".to_owned(),
        [file] => format!("interrupted; results so far in {}", file.display()),
        files => {
            let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            format!("interrupted; results so far in {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_named() {
        assert_eq!(message(&[]), "interrupted; no results were written");
        let files = ["out/a.json", "out/b.json"].map(PathBuf::from);
        assert_eq!(message(&files[..1]), "interrupted; results so far in out/a.json");
        assert_eq!(message(&files), "interrupted; results so far in out/a.json, out/b.json");
    }

    /// Catches a line that names a file which was to be written, and was not.
    #[test]
    fn what_was_not_written_does_not_count() {
        let path = Path::new("/interrupt/test.json");
        assert!(writing(path, || Err(io::Error::from_raw_os_error(libc::ENOSPC))).is_err());
        let known = || WRITTEN.lock().unwrap().iter().filter(|known| *known == path).count();
        assert_eq!(known(), 0);
        writing(path, || Ok(())).unwrap();
        writing(path, || Ok(())).unwrap();
        assert_eq!(known(), 1);
    }
}
