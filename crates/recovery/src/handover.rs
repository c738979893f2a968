//! The host buffer that one job leaves to the next one of its name (`hand_over`): asking the
//! backend for it, and for a list of what is kept.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::link::{longest_silence, HandOff};
use super::protocol::{
    decode, encode, kept_sockets, path as path_of, path_of_name, portable, First, Hello, Reply,
    PROTOCOL,
};
use super::Process;
use config::Config;
use errors::{Error, ErrorKind, Result};
use files::Inodes;
use os::shared::SharedMemory;
use os::socket::{connect_to, wait_for, Socket};

/// How long a backend that is only asked for a list may be silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// The memory that one process of a job has left with the backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The name of the hand-over (`hand_over`).
    pub name: String,
    /// The process that has left it.
    pub process: Process,
    /// The names of checkpoints: each with its oldest and newest version, and how many there are.
    pub checkpoints: Vec<(String, i32, i32, u64)>,
    /// The bytes of all these checkpoints.
    pub bytes: u64,
    /// The checkpoints are in no file.
    pub ephemeral: bool,
    /// The scratch directory of the job.
    pub scratch: Option<PathBuf>,
    /// The persistent directory of the job.
    pub persistent: Option<PathBuf>,
    /// When it was left, in seconds since 1970.
    pub since: u64,
    /// When it will be freed, in seconds since 1970.
    pub until: u64,
}

impl Kept {
    /// The rank and its checkpoints, in words.
    pub fn shown(&self) -> String {
        let of = match self.process.ranks {
            0 | 1 => String::new(),
            ranks => format!(" of {ranks}"),
        };
        let kind = if self.ephemeral { ", in no file" } else { "" };
        let bytes = os::size::show(self.bytes);
        format!(
            "{}, rank {}{of}: {} ({bytes}{kind})",
            self.name,
            self.process.rank,
            self.versions()
        )
    }

    /// The checkpoints, in words.
    pub fn versions(&self) -> String {
        let one = |(name, first, last, count): &(String, i32, i32, u64)| match first == last {
            true => format!("\"{name}\" version {first}"),
            false => format!("\"{name}\" versions {first} to {last} ({count})"),
        };
        self.checkpoints.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// The backend's answer to a job that asked for the memory of the one before it.
#[derive(Debug)]
pub struct Answer {
    /// The memory, or why there is none.
    pub memory: std::result::Result<HandOff, String>,
    /// The connection, over which [`super::link::Link::open`] goes on. While it exists, nobody else gets the
    /// memory.
    pub socket: Option<Socket>,
}

/// Asks for the memory that the last job of this name has left to this process. Waits until the backend has
/// ended the write in hand, if it writes what that job left.
///
/// # Errors
/// The backend cannot be asked.
pub fn ask(config: &Config, process: Process, directories: &Inodes) -> Result<Answer> {
    let config = portable(config)?;
    let here = rustix::system::uname();
    let nobody = || {
        let host = here.nodename().to_string_lossy();
        let why = format!("no veloc-backend on the host {host} keeps anything of this name");
        Answer { memory: Err(why), socket: None }
    };
    let Some(socket) = connect_to(&path_of(&config)?)? else { return Ok(nobody()) };
    let patience = longest_silence(&config);
    let hello = Hello { protocol: PROTOCOL, config, process, directories: directories.clone() };
    if socket.send(&encode(&First::Asks(Box::new(hello)))?, &[]).is_err() {
        // The backend has just ended.
        return Ok(nobody());
    }
    loop {
        let Some((reply, files)) = receive(&socket, patience)? else { return Ok(nobody()) };
        match reply {
            Reply::Alive => {}
            Reply::Nothing(why) => {
                return Ok(Answer { memory: Err(why), socket: Some(socket) });
            }
            Reply::Memory => {
                let mut files = files.into_iter().map(SharedMemory::from_file);
                let missing =
                    || Error::new(ErrorKind::Corrupt, "an answer of veloc-backend without memory");
                let ledger = files.next().ok_or_else(missing)??;
                let host = Some(files.next().ok_or_else(missing)??);
                return Ok(Answer { memory: Ok(HandOff { ledger, host }), socket: Some(socket) });
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    "an answer of veloc-backend to another question",
                ))
            }
        }
    }
}

/// The next message, within this time. `None`: the backend has ended.
fn receive(
    socket: &Socket,
    at_most: Duration,
) -> Result<Option<(Reply, Vec<std::os::fd::OwnedFd>)>> {
    let since = Instant::now();
    while wait_for(&[socket.as_fd()], at_most.saturating_sub(since.elapsed())) != [true] {
        if since.elapsed() >= at_most {
            let what = format!("veloc-backend has not answered for {} s", at_most.as_secs());
            return Err(Error::new(ErrorKind::System, what));
        }
    }
    let Some(message) = socket.receive()? else { return Ok(None) };
    Ok(Some((decode(&message.bytes)?, message.files)))
}

/// The memory that all backends of this user keep on this host, by name and rank.
///
/// # Errors
/// A backend cannot be asked.
pub fn kept() -> Result<Vec<Kept>> {
    let mut found = Vec::new();
    for path in kept_sockets()? {
        // A backend that is about to end keeps nothing.
        let Some(socket) = said(&path, &First::Lists)? else { continue };
        told(&socket, &mut found)?;
    }
    found.sort_by(|a, b| {
        (&a.name, a.process.rank, a.since).cmp(&(&b.name, b.process.rank, b.since))
    });
    Ok(found)
}

/// Frees the memory that is kept under this name on this host. Returns what it was.
///
/// # Errors
/// Nothing is kept under this name; or the backend cannot be asked.
pub fn drop_kept(name: &str) -> Result<Vec<Kept>> {
    let mut found = Vec::new();
    if let Some(socket) = said(&path_of_name(name)?, &First::Drops)? {
        told(&socket, &mut found)?;
    }
    if found.is_empty() {
        let what = format!("no veloc-backend of this user on this host keeps anything as {name}");
        return Err(Error::new(ErrorKind::NotFound, what));
    }
    Ok(found)
}

/// What a backend keeps. It may first have to take what a job has left that has just ended.
fn told(socket: &Socket, found: &mut Vec<Kept>) -> Result<()> {
    while let Some((reply, _)) = receive(socket, PATIENCE)? {
        match reply {
            Reply::Keeps(kept) => found.push(*kept),
            Reply::Alive => {}
            _ => break,
        }
    }
    Ok(())
}

/// Connects and sends `first`. `None`: there is no backend.
fn said(path: &Path, first: &First) -> Result<Option<Socket>> {
    let Some(socket) = connect_to(path)? else { return Ok(None) };
    Ok(socket.send(&encode(first)?, &[]).is_ok().then_some(socket))
}
