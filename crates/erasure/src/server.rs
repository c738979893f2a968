//! The called end: takes calls of the other processes of the job, hears what they say, and gives
//! them bytes of the files that are offered. One thread for each caller, which waits for nobody but
//! its caller: so no circle of processes can wait for each other.
//!
//! Anybody can call. Who has not said the job's token is one of a few guests, and has neither a thread nor
//! much time; the longest one here goes for the next. So strangers take a few descriptors at the most, and
//! keep nobody out: who knows the token says it at once.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::offers::Offers;
use super::peer::PATIENCE;
use super::wire::{frame, greeted, receive, send, Reply, Token, Word, GREETING, LONGEST_READ};
use os::descriptors::Awaited;
use os::error::{Error, Result};
use os::fork::Private;
use os::network::{self, Connection};
use os::socket::wait_for;
use os::sync::Mutex;

/// Who has not said who it is within this time is not of this job.
const PATIENCE_WITH_GUESTS: Duration = Duration::from_secs(10);
/// So many are here at the most that have not said yet who they are.
const GUESTS: usize = 8;
/// How often it is looked whether the job ends, where the application has closed what would say so.
const LOOK: Duration = Duration::from_secs(1);
/// What is short now (descriptors, threads) is short the next moment, too.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a thread's stack: little happens on it.
const STACK: usize = 256 << 10;

/// What is done with what is heard: who has said what.
pub type Hear = dyn Fn(u32, Word) + Send + Sync;

/// The threads that answer.
#[derive(Debug)]
pub struct Server {
    desk: Arc<Desk>,
    acceptor: Option<JoinHandle<()>>,
}

struct Desk {
    listeners: Vec<Private<TcpListener>>,
    token: Token,
    offers: Arc<Offers>,
    hear: Box<Hear>,
    open: Mutex<Open>,
}

/// The calls that are open.
#[derive(Debug, Default)]
struct Open {
    calls: Vec<(Arc<Connection>, JoinHandle<()>)>,
    closed: bool,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Desk({:?})", self.listeners)
    }
}

impl Server {
    /// Answers who calls with this token.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        listeners: Vec<Private<TcpListener>>,
        token: Token,
        offers: Arc<Offers>,
        hear: Box<Hear>,
    ) -> Result<Server> {
        let desk = Arc::new(Desk { listeners, token, offers, hear, open: Mutex::default() });
        let accepting = desk.clone();
        let acceptor = spawn("veloc-ec-accept", move || accepting.accept())?;
        Ok(Server { desk, acceptor: Some(acceptor) })
    }

    /// Hangs up on everybody, and takes no more calls.
    pub fn stop(&self) {
        let mut open = self.desk.open.lock();
        // First: whoever accepts calls must not take the end of that for a failure.
        open.closed = true;
        for (stream, _) in &open.calls {
            network::stop(stream);
        }
        drop(open);
        self.desk.listeners.iter().for_each(network::stop);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let calls = std::mem::take(&mut self.desk.open.lock().calls);
        let threads = calls.into_iter().map(|(_, thread)| thread).chain(self.acceptor.take());
        for what in os::threads::join(threads, os::threads::PATIENCE) {
            log::error!("{what}");
        }
    }
}

/// A caller that has not said yet who it is.
struct Guest {
    stream: Connection,
    since: Instant,
    greeting: [u8; GREETING],
    said: usize,
}

impl Guest {
    fn new(stream: Connection) -> Guest {
        Guest { stream, since: Instant::now(), greeting: [0; GREETING], said: 0 }
    }

    /// Whether it has said all of its greeting by now.
    ///
    /// # Errors
    /// It says no more.
    fn has_greeted(&mut self) -> io::Result<bool> {
        match (&*self.stream).read(&mut self.greeting[self.said..]) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => {
                self.said += more;
                Ok(self.said == GREETING)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Desk {
    fn accept(self: &Arc<Self>) {
        let mut guests: VecDeque<Guest> = VecDeque::new();
        let mut short = false;
        loop {
            guests.retain(|guest| guest.since.elapsed() < PATIENCE_WITH_GUESTS);
            let listeners = self.listeners.iter().map(|listener| listener.as_fd());
            let files: Vec<_> =
                listeners.chain(guests.iter().map(|guest| guest.stream.as_fd())).collect();
            let ready = wait_for(&files, LOOK);
            if self.open.lock().closed {
                return;
            }
            let (called, said) = ready.split_at(self.listeners.len());
            let heard = guests.into_iter().zip(said);
            guests = heard
                .filter_map(|(guest, said)| if *said { self.hear(guest) } else { Some(guest) })
                .collect();
            for (listener, _) in self.listeners.iter().zip(called).filter(|(_, called)| **called) {
                match network::accept(listener) {
                    Ok(stream) => {
                        short = false;
                        // Heard before one may have to go for it: a member has said who it is.
                        guests.extend(stream.and_then(|stream| self.hear(Guest::new(stream))));
                        guests.drain(..guests.len().saturating_sub(GUESTS));
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut short, true) {
                            log::warn!("{}", Error::system("accepting a call", &error));
                        }
                        std::thread::sleep(PAUSE);
                    }
                }
            }
        }
    }

    /// Lets a guest in that has greeted, and turns away one that ends. One that has more to say stays a guest.
    fn hear(self: &Arc<Self>, mut guest: Guest) -> Option<Guest> {
        match guest.has_greeted() {
            Ok(true) => self.admit(guest),
            Ok(false) => return Some(guest),
            Err(_) => {}
        }
        None
    }

    /// Has a thread answer a guest that has greeted, unless it is a stranger.
    fn admit(self: &Arc<Self>, guest: Guest) {
        let Some(from) = greeted(&guest.greeting, &self.token) else { return };
        let mut open = self.open.lock();
        open.calls.retain(|(_, thread)| !thread.is_finished());
        if open.closed {
            return;
        }
        let stream = Arc::new(guest.stream);
        let (desk, answered) = (self.clone(), stream.clone());
        match spawn("veloc-ec-answer", move || desk.answer(&answered, from)) {
            Ok(thread) => open.calls.push((stream, thread)),
            Err(error) => log::warn!("{error}"),
        }
    }

    fn answer(&self, stream: &Connection, from: u32) {
        if let Err(error) = self.greet(stream).and_then(|()| self.converse(stream, from)) {
            log::debug!("a call of another process has ended: {error}");
        }
        network::stop(stream);
    }

    fn greet(&self, stream: &Connection) -> Result<()> {
        let failed = |error| Error::system("setting up a call", &error);
        stream.get().and_then(|stream| stream.set_nonblocking(false)).map_err(failed)?;
        network::watch(stream, Some(PATIENCE)).map_err(failed)?;
        // Callers may say nothing for long.
        stream.get().and_then(|stream| stream.set_read_timeout(None)).map_err(failed)?;
        send(&**stream, &Reply::Bytes)
    }

    fn converse(&self, stream: &Connection, from: u32) -> Result<()> {
        let mut words = BufReader::with_capacity(4096, Awaited(stream));
        let mut message = Vec::new();
        while let Some(word) = receive(&mut words)? {
            let Word::Read { file, offset, len } = word else {
                (self.hear)(from, word);
                continue;
            };
            message.clear();
            message.extend(frame(&Reply::Bytes)?);
            let head = message.len();
            message.resize(head + len.min(LONGEST_READ) as usize, 0);
            if let Err(error) = self.offers.read(&file, offset, &mut message[head..]) {
                message = frame(&Reply::Refused(error.to_string()))?;
            }
            (&**stream).write_all(&message).map_err(|error| Error::system("sending", &error))?;
        }
        Ok(())
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let builder = Builder::new().name(name.to_owned()).stack_size(STACK);
    os::threads::unsignalled(|| builder.spawn(work))
        .map_err(|error| Error::system(format!("starting the thread {name}"), &error))
}
