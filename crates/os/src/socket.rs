//! Messages with attached files between the processes of a node.
//!
//! The sockets are in a directory that other users cannot enter. A socket left by a killed process is
//! recognised because nobody answers; a lock beside it decides who may replace it. A message arrives
//! complete with its files or not at all, even if its sender has ended.

use std::ffi::OsStr;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::{ioctl_fionbio, Errno};
use rustix::net::{
    accept_with, bind, connect, getsockname, listen, recvmsg, sendmsg, shutdown, socket_with,
    sockopt, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags,
    SocketType,
};
use rustix::process::{geteuid, pidfd_open, Pid, PidfdFlags};

use super::files;
use super::fork::CloseOnFork;
use super::lock::Lock;
use errors::{Error, ErrorKind, Result};

/// The longest message in bytes.
pub(crate) const LONGEST_MESSAGE: usize = 64 << 10;
/// The most files of a message.
const MOST_FILES: usize = 4;
/// The length of the accept queue; the system may allow less.
const BACKLOG: i32 = 4096;

/// A named socket that accepts connections.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// One end of a connection.
#[derive(Debug)]
pub struct Socket(CloseOnFork<OwnedFd>);

/// A received message.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its files.
    pub files: Vec<OwnedFd>,
}

/// Listens at `path`; `None` if another process does or is about to.
///
/// # Errors
/// The socket or its lock cannot be created; the message names it.
pub fn listen_at(path: &Path) -> Result<Option<Listener>> {
    let what =
        |error: Errno| Error::system(format!("listening at {}", path.display()), &error.into());
    let lock = lock_beside(path)?;
    if !lock.try_take()? || connect_at(path)?.is_there() {
        return Ok(None);
    }
    // Left by a killed process; the lock keeps others from replacing it now.
    files::remove(path)?;
    let socket = new(SocketFlags::CLOEXEC).map_err(what)?;
    bind(&socket, &SocketAddrUnix::new(path).map_err(what)?).map_err(what)?;
    listen(&socket, BACKLOG).map_err(what)?;
    Ok(Some(Listener(socket)))
}

/// Connects to the listener at `path` without blocking. `None`: there is none, or its queue is full.
///
/// # Errors
/// The listener is another user's.
pub fn connect_to(path: &Path) -> Result<Option<Socket>> {
    match connect_at(path)? {
        ConnectResult::Connected(socket) => {
            socket.check_user()?;
            Ok(Some(socket))
        }
        ConnectResult::Busy | ConnectResult::Nobody => Ok(None),
    }
}

/// The result of connecting to a path.
enum ConnectResult {
    Connected(Socket),
    /// The listener's queue is full.
    Busy,
    Nobody,
}

impl ConnectResult {
    fn is_there(&self) -> bool {
        !matches!(self, ConnectResult::Nobody)
    }
}

fn connect_at(path: &Path) -> Result<ConnectResult> {
    let what = || format!("connecting to {}", path.display());
    let failed = |error: Errno| Error::system(what(), &error.into());
    let socket = CloseOnFork::new(|| Ok(new(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?));
    let socket = socket.map_err(|error| Error::system(what(), &error))?;
    match connect(&socket, &SocketAddrUnix::new(path).map_err(failed)?) {
        Ok(()) => {}
        Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(ConnectResult::Nobody),
        Err(Errno::AGAIN) => return Ok(ConnectResult::Busy),
        Err(error) => return Err(failed(error)),
    }
    ioctl_fionbio(&socket, false).map_err(failed)?;
    Ok(ConnectResult::Connected(Socket(socket)))
}

/// The lock for creating and removing sockets in the directory of `path`.
fn lock_beside(path: &Path) -> Result<Lock> {
    Lock::open(&path.with_file_name("lock"), 0o600)
}

impl Listener {
    /// A listening socket that another process has passed on.
    pub fn from_file(file: OwnedFd) -> Listener {
        Listener(file)
    }

    /// Listens again after a hand-over, so that new connections report this process as their peer.
    ///
    /// # Errors
    /// The system's.
    pub fn listen_on(&self) -> Result<()> {
        listen(&self.0, BACKLOG).map_err(|error| Error::system("listening", &error.into()))
    }

    /// The socket, to pass it on.
    pub fn into_file(self) -> OwnedFd {
        self.0
    }

    /// Stops listening for good. False: a connection has just arrived, or another process is about to
    /// listen. A connection that arrives in between is lost.
    ///
    /// # Errors
    /// The name cannot be removed.
    pub fn retire(&self) -> Result<bool> {
        let Some(path) = self.path() else { return Ok(true) };
        let lock = lock_beside(&path)?;
        if !lock.try_take()? || wait_for(&[self.as_fd()], Duration::ZERO) == [true] {
            return Ok(false);
        }
        // The name may have been removed and reused by another listener.
        let own = std::process::id().cast_signed();
        if connect_to(&path)?.is_some_and(|socket| socket.peer_number() == own) {
            files::remove(&path)?;
        }
        Ok(true)
    }

    /// The socket's path; one that was passed on may have none.
    fn path(&self) -> Option<PathBuf> {
        let address = SocketAddrUnix::try_from(getsockname(&self.0).ok()?).ok()?;
        address.path().map(|path| PathBuf::from(OsStr::from_bytes(path.to_bytes())))
    }

    /// Waits at most this long for a connection. `None`: there was none, or a signal came.
    ///
    /// # Errors
    /// The socket does not listen.
    pub fn accept(&self, at_most: Duration) -> Result<Option<Socket>> {
        let what = |error: Errno| Error::system("accepting a connection", &error.into());
        let mut waited = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut waited, Some(&timespec(at_most))) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(what(error)),
        }
        match CloseOnFork::new(|| Ok(accept_with(&self.0, SocketFlags::CLOEXEC)?)) {
            Ok(socket) => Ok(Some(Socket(socket))),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR | Errno::CONNABORTED | Errno::AGAIN) => Ok(None),
                _ => Err(Error::system("accepting a connection", &error)),
            },
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Socket {
    /// Sends a message, which reaches the receiver even if this process ends.
    ///
    /// # Errors
    /// The other end is closed, or the message is longer than `LONGEST_MESSAGE`.
    pub fn send(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<()> {
        if bytes.len() > LONGEST_MESSAGE {
            return Err(Error::invalid(format!("a message of {} bytes is too long", bytes.len())));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fits = files.len() <= MOST_FILES
            && (files.is_empty() || control.push(SendAncillaryMessage::ScmRights(files)));
        if !fits {
            return Err(Error::invalid(format!("a message with {} files", files.len())));
        }
        let socket = self.0.get().map_err(|error| Error::system("sending a message", &error))?;
        let sent =
            retry(|| sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL));
        sent.map(drop).map_err(|error| Error::system("sending a message", &error.into()))
    }

    /// Waits for the next message. `None`: the other end is closed, or [`Socket::close`] was called.
    ///
    /// # Errors
    /// A message arrived incomplete.
    pub fn receive(&self) -> Result<Option<ReceivedMessage>> {
        let mut bytes = vec![0; LONGEST_MESSAGE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let closed = |error| Error::system("receiving a message", &error);
        self.0.await_input().map_err(closed)?;
        let received = retry(|| {
            let mut into = [IoSliceMut::new(&mut bytes)];
            recvmsg(&self.0, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)
        });
        let received = match received {
            Ok(received) => received,
            Err(Errno::CONNRESET | Errno::PIPE) => return Ok(None),
            Err(error) => return Err(Error::system("receiving a message", &error.into())),
        };
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                files.extend(received);
            }
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(Error::new(ErrorKind::Corrupt, "a message did not arrive whole"));
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        bytes.truncate(received.bytes);
        Ok(Some(ReceivedMessage { bytes, files }))
    }

    /// Closes the connection, and wakes threads that receive on it.
    pub fn close(&self) {
        // The connection may have ended already.
        let _ = self.0.get().map(|socket| shutdown(socket, Shutdown::Both));
    }

    /// A handle of the process at the other end. `None`: it ended, or is in another container.
    pub fn peer(&self) -> Option<OwnedFd> {
        let peer = sockopt::socket_peercred(&self.0).ok()?;
        // If the id was reused meanwhile, the connection has ended.
        pidfd_open(peer.pid, PidfdFlags::empty()).ok()
    }

    /// The id of the process at the other end, for messages.
    pub fn peer_number(&self) -> i32 {
        sockopt::socket_peercred(&self.0).map_or(0, |peer| Pid::as_raw(Some(peer.pid)))
    }

    /// Checks that the process at the other end is this user's.
    ///
    /// # Errors
    /// The process is another user's; the message names that user.
    pub fn check_user(&self) -> Result<()> {
        let peer = sockopt::socket_peercred(&self.0)
            .map_err(|error| Error::system("asking who is connected", &error.into()))?;
        if peer.uid == geteuid() {
            return Ok(());
        }
        Err(Error::invalid(format!("connected to a process of user {}", peer.uid.as_raw())))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits at most this long until one of `files` is readable or closed. Returns which ones are.
pub fn wait_for(files: &[BorrowedFd<'_>], at_most: Duration) -> Vec<bool> {
    let mut waited: Vec<PollFd<'_>> =
        files.iter().map(|file| PollFd::from_borrowed_fd(*file, PollFlags::IN)).collect();
    match poll(&mut waited, Some(&timespec(at_most))) {
        Ok(_) => waited.iter().map(|file| !file.revents().is_empty()).collect(),
        Err(_) => vec![false; files.len()],
    }
}

fn new(flags: SocketFlags) -> std::result::Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().min(1 << 30) as i64,
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

fn retry<T>(
    mut call: impl FnMut() -> std::result::Result<T, Errno>,
) -> std::result::Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks;
    use std::io::{Read as _, Seek as _, Write as _};

    /// A test's directory, and a path in it.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        (folder, path)
    }

    #[test]
    fn a_name_is_taken_once_and_free_again() {
        let (_folder, name) = place();
        // The name is free when all copies of the listener are closed.
        let _sole = forks::none();
        assert!(connect_to(&name).unwrap().is_none());
        let listener = listen_at(&name).unwrap().unwrap();
        assert!(listen_at(&name).unwrap().is_none());
        // The first connection only checked for a listener.
        assert!(listener.accept(Duration::ZERO).unwrap().is_some());
        assert!(listener.accept(Duration::ZERO).unwrap().is_none());
        // As left by a killed process.
        drop(listener);
        assert!(connect_to(&name).unwrap().is_none());
        let listener = listen_at(&name).unwrap().unwrap();
        let socket = connect_to(&name).unwrap().unwrap();
        assert!(!listener.retire().unwrap(), "somebody has come");
        drop((socket, listener.accept(Duration::ZERO).unwrap()));
        assert!(listener.retire().unwrap());
        assert!(!name.exists() && connect_to(&name).unwrap().is_none());
    }

    /// Catches a client that waits for ever because the listener does not accept.
    #[test]
    fn who_takes_no_connection_keeps_nobody_waiting() {
        let (_folder, name) = place();
        let listener = listen_at(&name).unwrap().unwrap();
        listen(&listener.0, 0).unwrap();
        let mut connections = Vec::new();
        while let Some(socket) = connect_to(&name).unwrap() {
            connections.push(socket);
        }
        assert!(listen_at(&name).unwrap().is_none());
        // Nor for another's lock.
        drop((listener, connections));
        let lock = lock_beside(&name).unwrap();
        assert!(lock.try_take().unwrap());
        assert!(listen_at(&name).unwrap().is_none());
    }

    /// Several processes find the socket of a killed one. Catches two listeners, of which one is never
    /// found.
    #[test]
    fn one_of_many_listens() {
        let (_folder, name) = place();
        for _ in 0..100 {
            let _sole = forks::none();
            drop(listen_at(&name).unwrap().unwrap());
            let found: Vec<Option<Listener>> = std::thread::scope(|scope| {
                let one = || scope.spawn(|| listen_at(&name).unwrap());
                let all: Vec<_> = (0..4).map(|_| one()).collect();
                all.into_iter().map(|one| one.join().unwrap()).collect()
            });
            assert_eq!(found.iter().flatten().count(), 1);
        }
    }

    /// Catches a transfer that needs the sender, which may be killed right after it.
    #[test]
    fn what_was_sent_arrives_after_the_sender_is_gone() {
        let (_folder, name) = place();
        let listener = listen_at(&name).unwrap().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        let sender = connect_to(&name).unwrap().unwrap();
        sender.send(b"hello", &[file.as_fd(), file.as_fd()]).unwrap();
        drop((sender, file));
        let socket = listener.accept(Duration::from_secs(10)).unwrap().unwrap();
        let message = socket.receive().unwrap().unwrap();
        assert_eq!((&*message.bytes, message.files.len()), (&b"hello"[..], 2));
        let mut file = std::fs::File::from(message.files.into_iter().next().unwrap());
        file.rewind().unwrap();
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        assert_eq!(content, "content");
        assert!(socket.receive().unwrap().is_none(), "the end");
        assert!(socket.send(b"x", &[]).is_err());
    }

    #[test]
    fn closing_ends_the_waiting() {
        let (_folder, name) = place();
        let _listener = listen_at(&name).unwrap().unwrap();
        let socket = connect_to(&name).unwrap().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| socket.receive().unwrap().is_none());
            socket.close();
            assert!(waiting.join().unwrap());
        });
        assert!(wait_for(&[socket.as_fd()], Duration::ZERO)[0]);
    }

    #[test]
    fn too_much_is_refused() {
        let (_folder, name) = place();
        let _listener = listen_at(&name).unwrap().unwrap();
        let socket = connect_to(&name).unwrap().unwrap();
        assert!(socket.send(&vec![0; LONGEST_MESSAGE + 1], &[]).is_err());
        assert!(socket.send(b"x", &[socket.as_fd(); MOST_FILES + 1]).is_err());
        socket.send(&vec![0; LONGEST_MESSAGE], &[]).unwrap();
    }
}
