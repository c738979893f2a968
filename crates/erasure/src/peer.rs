//! The client end of a connection to another process of the job.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use super::membership::ProcessInfo;
use super::wire::{greeting, receive, send, FileId, Message, ReadReply};
use errors::{Error, ErrorKind, Result};
use os::network::{self, Connection};

/// The longest time for an answer of a live process.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest time for a connection to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to another process.
#[derive(Debug)]
pub struct Peer {
    rank: u32,
    stream: Arc<Connection>,
    /// The lengths that were requested but not received, in order.
    requested: VecDeque<usize>,
    /// It has taken the checkpoint again whose bytes were requested.
    has_taken_again: bool,
    /// Why the connection is unusable.
    broken: Option<Error>,
}

impl Peer {
    /// Connects to the process of rank `rank`, as rank `own` with the information `here`. `begun` gets
    /// each connection attempt before anything waits on it; shutting the connection down ends the wait.
    ///
    /// # Errors
    /// No address answers; the errors of `begun`.
    pub fn call(
        rank: u32,
        info: &ProcessInfo,
        own: u32,
        here: &ProcessInfo,
        begun: impl Fn(&Arc<Connection>) -> Result<()>,
    ) -> Result<Peer> {
        // The error of the best address is the most useful.
        let mut first = None;
        for address in info.addresses_from(here) {
            let started = network::begin_connection(address).map(Arc::new);
            if let Ok(stream) = &started {
                begun(stream)?;
            }
            let connected = started.and_then(|stream| {
                network::await_connection(&stream, CONNECT_TIMEOUT)?;
                network::watch(&stream, Some(REPLY_TIMEOUT))?;
                Ok(stream)
            });
            match connected {
                Ok(stream) => {
                    let mut peer = Peer {
                        rank,
                        stream,
                        requested: VecDeque::new(),
                        has_taken_again: false,
                        broken: None,
                    };
                    // A process that does not know the token hangs up, as does a stranger's.
                    match peer.authenticate(&greeting(&info.token, own)) {
                        Ok(()) => return Ok(peer),
                        Err(error) => {
                            first.get_or_insert(error);
                        }
                    }
                }
                Err(error) => {
                    let failed = || Error::system(format!("connecting to {address}"), &error);
                    first.get_or_insert_with(failed);
                }
            }
        }
        let error = first.unwrap_or_else(|| Error::new(ErrorKind::NotFound, "it has no address"));
        Err(error.within(format!("calling rank {rank} on {}", info.host)))
    }

    fn authenticate(&mut self, greeting: &[u8]) -> Result<()> {
        let sent = (&**self.stream).write_all(greeting);
        sent.map_err(|error| Error::system("sending", &error))?;
        match receive(&**self.stream)? {
            Some(ReadReply::Bytes) => Ok(()),
            Some(ReadReply::Refused(why)) => Err(Error::new(ErrorKind::System, why)),
            Some(ReadReply::TakenAgain) => {
                Err(Error::new(ErrorKind::Internal, "an answer to no request"))
            }
            None => Err(hung_up()),
        }
    }

    /// Why the connection is lost, if it is.
    pub fn broken(&self) -> Option<&Error> {
        self.broken.as_ref()
    }

    /// Sends a message that has no answer.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn send_message(&mut self, message: &Message) -> Result<()> {
        let sent = send(&**self.stream, message);
        sent.map_err(|error| self.note_failure(error))
    }

    /// Requests bytes of a file; [`Peer::receive_into`] receives them.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn request(&mut self, file: FileId, offset: u64, len: usize) -> Result<()> {
        self.send_message(&Message::Read { file, offset, len: len as u32 })?;
        self.requested.push_back(len);
        Ok(())
    }

    /// Receives the bytes of the oldest outstanding request.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: refused, and the connection stays usable. Else the connection is lost.
    pub fn receive_into(&mut self, into: &mut [u8]) -> Result<()> {
        if self.requested.pop_front() != Some(into.len()) {
            return Err(Error::new(ErrorKind::Internal, "these bytes were not asked for"));
        }
        self.answer(into).map_err(|error| self.note_failure(error))
    }

    fn answer(&mut self, into: &mut [u8]) -> Result<()> {
        match receive(&**self.stream)? {
            Some(ReadReply::Bytes) => (&**self.stream)
                .read_exact(into)
                .map_err(|error| Error::system("receiving bytes of a file", &error)),
            Some(ReadReply::Refused(why)) => Err(Error::new(ErrorKind::NotFound, why)),
            Some(ReadReply::TakenAgain) => {
                self.has_taken_again = true;
                Err(Error::new(ErrorKind::NotFound, "it has taken the checkpoint again"))
            }
            None => Err(hung_up()),
        }
    }

    /// Receives and drops the bytes of all outstanding requests. Returns whether they or earlier ones were
    /// refused because the checkpoint was taken again.
    pub fn discard(&mut self) -> bool {
        let mut rest = Vec::new();
        while let Some(&len) = self.requested.front() {
            if self.broken.is_some() {
                break;
            }
            rest.resize(len, 0);
            // Any other refusal does not matter here.
            let _ = self.receive_into(&mut rest);
        }
        std::mem::take(&mut self.has_taken_again)
    }

    /// Checks without a message whether the other end is still connected. No request may be outstanding.
    pub fn check_connected(&mut self) {
        let mut polled = [PollFd::new(&*self.stream, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // The server sends nothing unasked, so readable means closed.
        if matches!(poll(&mut polled, Some(&now)), Ok(1..)) {
            self.note_failure(hung_up());
        }
    }

    /// Any failure but a refusal makes the connection unusable.
    fn note_failure(&mut self, error: Error) -> Error {
        let error = error.within(format!("rank {}", self.rank));
        if error.kind() != ErrorKind::NotFound {
            self.broken.get_or_insert_with(|| error.clone());
        }
        error
    }
}

fn hung_up() -> Error {
    Error::new(ErrorKind::System, "it has hung up")
}
