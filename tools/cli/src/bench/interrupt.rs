//! What Ctrl-C, or another signal that ends the bench, leaves: whole files, no processes, and a line
//! that says where the results are.
//!
//! A signal's handler may do next to nothing: ours passes the signal's number on to a thread. That
//! waits until no file of results is half written, prints the line and ends the process. Whatever
//! was started ends with it (see [`super::child::ends_with_this`]).

use std::ffi::c_int;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::fd::IntoRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};

/// The signals that end a bench in order.
const SIGNALS: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The files of results that this process has written. It is locked while one is being written.
static WRITTEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The descriptor to which the handler writes the number of the signal.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Writes a file of results by `write`, which no signal cuts short.
pub(super) fn writing(path: &Path, write: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    write()?;
    if !written.iter().any(|known| known == path) {
        written.push(path.to_path_buf());
    }
    Ok(())
}

/// From here on, a signal ends this process in order: with 128 and its number, as shells have it. A
/// second one ends it at once. What was ignored at the start, as under `nohup`, stays so.
pub(super) fn watch() -> Result<()> {
    let (handlers, mut threads) = UnixStream::pair().context("a pipe for signals")?;
    PIPE.store(handlers.into_raw_fd(), Ordering::Relaxed);
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut signal = [0];
            // An error cannot come: the other end is never closed.
            if threads.read_exact(&mut signal).is_ok() {
                end(c_int::from(signal[0]));
            }
        })
        .context("starting the thread for signals")?;
    for signal in SIGNALS {
        handle(signal).with_context(|| format!("handling signal {signal}"))?;
    }
    Ok(())
}

/// Has [`pass_on`] called for this signal, once, unless it is ignored.
fn handle(signal: c_int) -> io::Result<()> {
    // SAFETY: plain data, for which zeros are a value: the default action, no signal masked.
    let (mut before, mut action): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: asks for the action alone, into a value that lives.
    if unsafe { libc::sigaction(signal, std::ptr::null(), &mut before) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if before.sa_sigaction == libc::SIG_IGN {
        return Ok(());
    }
    action.sa_sigaction = pass_on as extern "C" fn(c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
    // SAFETY: the handler calls nothing but what a handler may, and is there for ever.
    if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn pass_on(signal: c_int) {
    let number = signal as u8;
    // SAFETY: `write` may be called in a handler; the descriptor is never closed, and the byte lives.
    // What was interrupted finds its own `errno`.
    unsafe {
        let error = *libc::__errno_location();
        libc::write(PIPE.load(Ordering::Relaxed), (&raw const number).cast(), 1);
        *libc::__errno_location() = error;
    }
}

/// Says what there is, and ends the process.
fn end(signal: c_int) -> ! {
    // Kept: no further file is begun.
    let written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    // Held to the end: no other thread's line comes behind the last one.
    let mut errors = io::stderr().lock();
    // Where a bar may stand.
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

    /// Catches a file that was to be written, and was not, being named as there.
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
