//! What others ask of a supervisor: messages of one line, answered when it is done.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use errors::{Error, ErrorKind, Result};
use os::socket::{self, Socket};

use super::directory::{self, Directory};

/// Asks for a version.
const CHECKPOINT: &[u8] = b"checkpoint 1";
/// Begins the answer to what has failed; what has not is answered by the version's number.
const FAILED: &str = "failed: ";

/// Has the supervisor of a job make a version now, and waits until its files are written. Returns its number.
///
/// # Errors
/// No program runs there, or what has gone wrong.
pub fn checkpoint(directory: &Path) -> Result<u32> {
    let directory = Directory::open(directory, false)?;
    let shown = directory.path().display();
    let Some(socket) = directory.connect()? else {
        return Err(Error::new(ErrorKind::NotFound, match directory.is_running()? {
            true => format!("the program of {shown} runs, but its supervisor has ended: it has no more versions"),
            false => format!("no program of {shown} runs"),
        }));
    };
    socket.send(CHECKPOINT, &[])?;
    let answer = socket.receive()?.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, format!("the program of {shown} has ended"))
    })?;
    let text = String::from_utf8_lossy(&answer.bytes);
    match (text.strip_prefix(FAILED), text.parse()) {
        (Some(why), _) => Err(Error::new(ErrorKind::System, why)),
        (None, Ok(version)) => Ok(version),
        (None, Err(_)) => Err(Error::new(ErrorKind::Internal, format!("the answer \"{text}\""))),
    }
}

/// Whether a directory is that of a job, rather than any other one.
pub fn is_job(directory: &Path) -> bool {
    directory.join(directory::LOCK).is_file()
}

/// Whether the program of a job's directory runs.
///
/// # Errors
/// The directory cannot be read.
pub fn is_running(directory: &Path) -> Result<bool> {
    Directory::open(directory, false)?.is_running()
}

/// Whether who is connected asks for a version. One that asks nothing is not waited for long.
pub(crate) fn is_question(socket: &Socket) -> bool {
    let asked = socket::wait_for(&[socket.as_fd()], Duration::from_secs(1)) == [true];
    asked && matches!(socket.receive(), Ok(Some(message)) if message.bytes == CHECKPOINT)
}

/// Tells who has asked.
pub(crate) fn answer(socket: &Socket, result: &Result<u32>) {
    let text = match result {
        Ok(version) => version.to_string(),
        Err(why) => format!("{FAILED}{why}"),
    };
    // Who does not listen any more, need not be told.
    let _ = socket.send(text.as_bytes(), &[]);
}
