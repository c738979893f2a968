//! Messages between the processes of a node, with open files in them.
//!
//! Sockets stand in a directory, which keeps other users out. What is left there by a process that was
//! killed is told by that nobody answers; a lock beside it says who may replace it. A message arrives whole
//! or not at all, together with its files, also when its sender has ended meanwhile.

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
use crate::error::{Error, Kind, Result};

/// The most bytes of a message.
pub const LONGEST_MESSAGE: usize = 64 << 10;
/// The most files of a message.
const MOST_FILES: usize = 4;
/// How many may wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 4096;

/// A socket with a name, to which others can connect.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// One end of a connection.
#[derive(Debug)]
pub struct Socket(CloseOnFork<OwnedFd>);

/// A message as it was received.
#[derive(Debug)]
pub struct Message {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its files.
    pub files: Vec<OwnedFd>,
}

/// Listens at `path`, unless somebody does or is about to: then `None`.
///
/// # Errors
/// The socket, or the lock beside it, cannot be had; why names it.
pub fn listen_at(path: &Path) -> Result<Option<Listener>> {
    let what =
        |error: Errno| Error::system(format!("listening at {}", path.display()), &error.into());
    let lock = lock_beside(path)?;
    if !lock.try_take()? || connect_at(path)?.is_there() {
        return Ok(None);
    }
    // Of a process that was killed: nobody else replaces it now.
    files::remove(path)?;
    let socket = new(SocketFlags::CLOEXEC).map_err(what)?;
    bind(&socket, &SocketAddrUnix::new(path).map_err(what)?).map_err(what)?;
    listen(&socket, BACKLOG).map_err(what)?;
    Ok(Some(Listener(socket)))
}

/// Connects to whoever listens at `path`, without waiting. `None`: nobody does, or more are connected than
/// are listened to.
///
/// # Errors
/// It is another user's process.
pub fn connect_to(path: &Path) -> Result<Option<Socket>> {
    match connect_at(path)? {
        Answer::Connected(socket) => {
            socket.check_user()?;
            Ok(Some(socket))
        }
        Answer::Busy | Answer::Nobody => Ok(None),
    }
}

/// Who is found at a path.
enum Answer {
    Connected(Socket),
    /// Somebody who has no room for another connection.
    Busy,
    Nobody,
}

impl Answer {
    fn is_there(&self) -> bool {
        !matches!(self, Answer::Nobody)
    }
}

fn connect_at(path: &Path) -> Result<Answer> {
    let what = || format!("connecting to {}", path.display());
    let failed = |error: Errno| Error::system(what(), &error.into());
    let socket = CloseOnFork::new(|| Ok(new(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?));
    let socket = socket.map_err(|error| Error::system(what(), &error))?;
    match connect(&socket, &SocketAddrUnix::new(path).map_err(failed)?) {
        Ok(()) => {}
        Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(Answer::Nobody),
        Err(Errno::AGAIN) => return Ok(Answer::Busy),
        Err(error) => return Err(failed(error)),
    }
    ioctl_fionbio(&socket, false).map_err(failed)?;
    Ok(Answer::Connected(Socket(socket)))
}

/// The lock of those who listen anew, or do so no more, in the directory of `path`.
fn lock_beside(path: &Path) -> Result<Lock> {
    Lock::open(&path.with_file_name("lock"), 0o600)
}

impl Listener {
    /// A listening socket that was handed over.
    pub fn from_file(file: OwnedFd) -> Listener {
        Listener(file)
    }

    /// Listens in place of the process that has handed the socket over: who connects from here on
    /// finds this one to be its peer.
    ///
    /// # Errors
    /// The system's.
    pub fn listen_on(&self) -> Result<()> {
        listen(&self.0, BACKLOG).map_err(|error| Error::system("listening", &error.into()))
    }

    /// The socket, to hand it over.
    pub fn into_file(self) -> OwnedFd {
        self.0
    }

    /// Ends the listening for good: who comes from here on finds nobody. False: somebody has come, or
    /// comes to listen, just now. Who comes in between loses the connection.
    ///
    /// # Errors
    /// The name cannot be removed.
    pub fn retire(&self) -> Result<bool> {
        let Some(path) = self.path() else { return Ok(true) };
        let lock = lock_beside(&path)?;
        if !lock.try_take()? || wait_for(&[self.as_fd()], Duration::ZERO) == [true] {
            return Ok(false);
        }
        // Somebody may have removed the name, and another listens there.
        let own = std::process::id().cast_signed();
        if connect_to(&path)?.is_some_and(|socket| socket.peer_number() == own) {
            files::remove(&path)?;
        }
        Ok(true)
    }

    /// The socket's name; of one that was handed over it may be none.
    fn path(&self) -> Option<PathBuf> {
        let address = SocketAddrUnix::try_from(getsockname(&self.0).ok()?).ok()?;
        address.path().map(|path| PathBuf::from(OsStr::from_bytes(path.to_bytes())))
    }

    /// The next connection, waited for at most so long. `None`: there was none, or a signal came.
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
    /// Sends a message. What is sent is kept for the receiver, whatever becomes of this process.
    ///
    /// # Errors
    /// The other end is gone, or the message is longer than [`LONGEST_MESSAGE`].
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

    /// Waits for the next message. `None`: the other end is gone, or [`Socket::close`] was called.
    ///
    /// # Errors
    /// A message that did not arrive whole.
    pub fn receive(&self) -> Result<Option<Message>> {
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
            return Err(Error::new(Kind::Corrupt, "a message did not arrive whole"));
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        bytes.truncate(received.bytes);
        Ok(Some(Message { bytes, files }))
    }

    /// Ends the connection, and the waiting of whoever receives here.
    pub fn close(&self) {
        // One that has ended already is as good.
        let _ = self.0.get().map(|socket| shutdown(socket, Shutdown::Both));
    }

    /// The process at the other end, as long as it can be told from others with its number.
    /// `None`: it has ended, or is in another container.
    pub fn peer(&self) -> Option<OwnedFd> {
        let peer = sockopt::socket_peercred(&self.0).ok()?;
        // Should the number have been given to another process meanwhile, the connection tells: it
        // has ended then.
        pidfd_open(peer.pid, PidfdFlags::empty()).ok()
    }

    /// The number of the process at the other end, for messages.
    pub fn peer_number(&self) -> i32 {
        sockopt::socket_peercred(&self.0).map_or(0, |peer| Pid::as_raw(Some(peer.pid)))
    }

    /// Whether the process at the other end is this user's.
    ///
    /// # Errors
    /// It is not; the message has its user.
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

/// Waits until one of `files` can be read from or has ended, at most so long. Which ones.
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

    /// A directory of a test's, and a path in it.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        (folder, path)
    }

    #[test]
    fn a_name_is_taken_once_and_free_again() {
        let (_folder, name) = place();
        // The name is free when the listener is closed everywhere.
        let _sole = forks::none();
        assert!(connect_to(&name).unwrap().is_none());
        let listener = listen_at(&name).unwrap().unwrap();
        assert!(listen_at(&name).unwrap().is_none());
        // That was a look at who is there.
        assert!(listener.accept(Duration::ZERO).unwrap().is_some());
        assert!(listener.accept(Duration::ZERO).unwrap().is_none());
        // As of a process that was killed.
        drop(listener);
        assert!(connect_to(&name).unwrap().is_none());
        let listener = listen_at(&name).unwrap().unwrap();
        let socket = connect_to(&name).unwrap().unwrap();
        assert!(!listener.retire().unwrap(), "somebody has come");
        drop((socket, listener.accept(Duration::ZERO).unwrap()));
        assert!(listener.retire().unwrap());
        assert!(!name.exists() && connect_to(&name).unwrap().is_none());
    }

    /// Catches a process that waits for ever because somebody listens and takes no connection.
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
        // Another's lock neither.
        drop((listener, connections));
        let lock = lock_beside(&name).unwrap();
        assert!(lock.try_take().unwrap());
        assert!(listen_at(&name).unwrap().is_none());
    }

    /// Several processes, as it were, find what one has left that was killed. Catches two that listen, of
    /// which one is found by nobody.
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

    /// Catches a hand-over that needs the sender: a client may be killed right after it.
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
