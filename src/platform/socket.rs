//! Messages between the processes of a node, with open files in them.
//!
//! Names are abstract: they stand in no directory, and are gone with the last process that has the
//! socket open. A message arrives whole or not at all, together with its files, also when its
//! sender has ended meanwhile.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    accept_with, bind, connect, listen, recvmsg, sendmsg, shutdown, socket_with, sockopt,
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags,
    SocketType,
};
use rustix::process::{geteuid, pidfd_open, Pid, PidfdFlags};

use super::fork::Private;
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
pub struct Socket(Private<OwnedFd>);

/// A message as it was received.
#[derive(Debug)]
pub struct Message {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its files.
    pub files: Vec<OwnedFd>,
}

/// Takes the name, unless somebody has it: then `None`.
///
/// # Errors
/// The system has no such sockets.
pub fn listen_as(name: &str) -> Result<Option<Listener>> {
    let what = |error: Errno| Error::system(format!("listening as \"{name}\""), &error.into());
    let socket = new().map_err(what)?;
    match bind(&socket, &address(name).map_err(what)?) {
        Ok(()) => {}
        Err(Errno::ADDRINUSE) => return Ok(None),
        Err(error) => return Err(what(error)),
    }
    listen(&socket, BACKLOG).map_err(what)?;
    Ok(Some(Listener(socket)))
}

/// Connects to whoever has the name. `None`: nobody has.
///
/// # Errors
/// Whoever has it is another user's process.
pub fn connect_to(name: &str) -> Result<Option<Socket>> {
    let what = |error: Errno| Error::system(format!("connecting to \"{name}\""), &error.into());
    let socket = Private::new(|| Ok(new()?));
    let socket =
        socket.map_err(|error| Error::system(format!("connecting to \"{name}\""), &error))?;
    match connect(&socket, &address(name).map_err(what)?) {
        Ok(()) => {}
        Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(None),
        Err(error) => return Err(what(error)),
    }
    let socket = Socket(socket);
    socket.check_user()?;
    Ok(Some(socket))
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
        match Private::new(|| Ok(accept_with(&self.0, SocketFlags::CLOEXEC)?)) {
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
        let sent =
            retry(|| sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL));
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
        let _ = shutdown(&self.0, Shutdown::Both);
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

fn new() -> std::result::Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

fn address(name: &str) -> std::result::Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(name.as_bytes())
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
    use crate::platform::forks;
    use std::io::{Read as _, Seek as _, Write as _};

    fn name(what: &str) -> String {
        format!("veloc-test-{}-{what}", std::process::id())
    }

    #[test]
    fn a_name_is_taken_once_and_free_again() {
        let name = name("once");
        // The name is free when the listener is closed everywhere.
        let _sole = forks::none();
        assert!(connect_to(&name).unwrap().is_none());
        let listener = listen_as(&name).unwrap().unwrap();
        assert!(listen_as(&name).unwrap().is_none());
        assert!(listener.accept(Duration::ZERO).unwrap().is_none());
        drop(listener);
        assert!(connect_to(&name).unwrap().is_none());
        assert!(listen_as(&name).unwrap().is_some());
    }

    /// Catches a hand-over that needs the sender: a client may be killed right after it.
    #[test]
    fn what_was_sent_arrives_after_the_sender_is_gone() {
        let name = name("late");
        let listener = listen_as(&name).unwrap().unwrap();
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
        let name = name("close");
        let _listener = listen_as(&name).unwrap().unwrap();
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
        let name = name("much");
        let _listener = listen_as(&name).unwrap().unwrap();
        let socket = connect_to(&name).unwrap().unwrap();
        assert!(socket.send(&vec![0; LONGEST_MESSAGE + 1], &[]).is_err());
        assert!(socket.send(b"x", &[socket.as_fd(); MOST_FILES + 1]).is_err());
        socket.send(&vec![0; LONGEST_MESSAGE], &[]).unwrap();
    }
}
