//! The server end: accepts connections of the job's processes, handles their messages, and sends them
//! bytes of served files. Each caller has its own thread, which waits for nobody else, so processes
//! cannot wait for each other in a circle.
//!
//! Anybody can connect. Until a caller has sent the job's token it has no thread, and only a few such
//! callers are kept, the oldest being dropped first. So strangers use up few descriptors, and cannot
//! keep out the job's processes, which send the token at once.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::peer::REPLY_TIMEOUT;
use super::served::ServedFiles;
use super::wire::{
    frame, receive, send, verify_greeting, Message, ReadReply, Token, GREETING, LONGEST_READ,
};
use errors::{Error, Result};
use os::descriptors::GuardedReader;
use os::fork::CloseOnFork;
use os::network::{self, Connection};
use os::socket::wait_for;
use os::sync::Mutex;

/// How long a caller may take to send its token.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// The most callers that have not sent their token.
const MOST_UNAUTHENTICATED: usize = 8;
/// How often to check whether the job ends, in case the application has closed the descriptor that would
/// tell.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after an error such as a lack of descriptors, which does not pass at once.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Stack size of a thread, in bytes.
const STACK: usize = 256 << 10;

/// Handles a message of a rank.
pub(crate) type OnMessage = dyn Fn(u32, Message) + Send + Sync;

/// The threads that answer.
#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<SharedServer>,
    acceptor: Option<JoinHandle<()>>,
}

struct SharedServer {
    listeners: Vec<CloseOnFork<TcpListener>>,
    token: Token,
    served: Arc<ServedFiles>,
    on_message: Box<OnMessage>,
    open: Mutex<OpenConnections>,
}

/// A connection that another process has made, and the thread that answers it.
#[derive(Debug)]
struct IncomingCall {
    from: u32,
    stream: Arc<Connection>,
    thread: JoinHandle<()>,
}

/// The open connections.
#[derive(Debug, Default)]
struct OpenConnections {
    calls: Vec<IncomingCall>,
    closed: bool,
}

impl std::fmt::Debug for SharedServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Desk({:?})", self.listeners)
    }
}

impl Server {
    /// Answers callers that send this token.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(
        listeners: Vec<CloseOnFork<TcpListener>>,
        token: Token,
        served: Arc<ServedFiles>,
        on_message: Box<OnMessage>,
    ) -> Result<Server> {
        let shared =
            Arc::new(SharedServer { listeners, token, served, on_message, open: Mutex::default() });
        let accepting = shared.clone();
        let acceptor = spawn("veloc-ec-accept", move || accepting.accept())?;
        Ok(Server { shared, acceptor: Some(acceptor) })
    }

    /// Closes all connections, and accepts no more.
    pub(crate) fn stop(&self) {
        let mut open = self.shared.open.lock();
        // Set first, so that the acceptor does not report the closed sockets as failures.
        open.closed = true;
        open.calls.iter().for_each(|call| network::stop(&call.stream));
        drop(open);
        self.shared.listeners.iter().for_each(network::stop);
    }

    /// Closes the connections that a process has made: whoever regards it as gone can tell it nothing, and it must not
    /// wait for that.
    pub(crate) fn hang_up_on(&self, rank: u32) {
        let open = self.shared.open.lock();
        let of_it = open.calls.iter().filter(|call| call.from == rank);
        of_it.for_each(|call| network::stop(&call.stream));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let calls = std::mem::take(&mut self.shared.open.lock().calls);
        let threads = calls.into_iter().map(|call| call.thread).chain(self.acceptor.take());
        for what in os::threads::join(threads, os::threads::JOIN_TIMEOUT) {
            log::error!("{what}");
        }
    }
}

/// A caller that has not sent its token.
struct Unauthenticated {
    stream: Connection,
    since: Instant,
    greeting: [u8; GREETING],
    received: usize,
}

impl Unauthenticated {
    fn new(stream: Connection) -> Unauthenticated {
        Unauthenticated { stream, since: Instant::now(), greeting: [0; GREETING], received: 0 }
    }

    /// Whether the whole greeting has arrived.
    ///
    /// # Errors
    /// The caller has closed the connection.
    fn has_authenticated(&mut self) -> io::Result<bool> {
        match (&*self.stream).read(&mut self.greeting[self.received..]) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => {
                self.received += more;
                Ok(self.received == GREETING)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl SharedServer {
    fn accept(self: &Arc<Self>) {
        let mut unauthenticated: VecDeque<Unauthenticated> = VecDeque::new();
        let mut short = false;
        loop {
            unauthenticated.retain(|caller| caller.since.elapsed() < AUTHENTICATION_TIMEOUT);
            let listeners = self.listeners.iter().map(|listener| listener.as_fd());
            let files: Vec<_> = listeners
                .chain(unauthenticated.iter().map(|caller| caller.stream.as_fd()))
                .collect();
            let ready = wait_for(&files, POLL_INTERVAL);
            if self.open.lock().closed {
                return;
            }
            let (called, received) = ready.split_at(self.listeners.len());
            let heard = unauthenticated.into_iter().zip(received);
            unauthenticated = heard
                .filter_map(
                    |(caller, received)| {
                        if *received {
                            self.poll_caller(caller)
                        } else {
                            Some(caller)
                        }
                    },
                )
                .collect();
            for (listener, _) in self.listeners.iter().zip(called).filter(|(_, called)| **called) {
                match network::accept(listener) {
                    Ok(stream) => {
                        short = false;
                        // Read at once: a member's greeting may have arrived, so that it is not dropped
                        // as the oldest.
                        unauthenticated.extend(
                            stream
                                .and_then(|stream| self.poll_caller(Unauthenticated::new(stream))),
                        );
                        unauthenticated
                            .drain(..unauthenticated.len().saturating_sub(MOST_UNAUTHENTICATED));
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut short, true) {
                            log::warn!("{}", Error::system("accepting a call", &error));
                        }
                        std::thread::sleep(RETRY_PAUSE);
                    }
                }
            }
        }
    }

    /// Serves a caller whose greeting has arrived, and drops one that has hung up. Returns a caller that
    /// needs more time.
    fn poll_caller(self: &Arc<Self>, mut caller: Unauthenticated) -> Option<Unauthenticated> {
        match caller.has_authenticated() {
            Ok(true) => self.start_handler(caller),
            Ok(false) => return Some(caller),
            Err(_) => {}
        }
        None
    }

    /// Starts a thread for a caller whose token is right.
    fn start_handler(self: &Arc<Self>, caller: Unauthenticated) {
        let Some(from) = verify_greeting(&caller.greeting, &self.token) else { return };
        let mut open = self.open.lock();
        open.calls.retain(|call| !call.thread.is_finished());
        if open.closed {
            return;
        }
        let stream = Arc::new(caller.stream);
        let (shared, answered) = (self.clone(), stream.clone());
        match spawn("veloc-ec-answer", move || shared.handle_call(&answered, from)) {
            Ok(thread) => open.calls.push(IncomingCall { from, stream, thread }),
            Err(error) => log::warn!("{error}"),
        }
    }

    fn handle_call(&self, stream: &Connection, from: u32) {
        if let Err(error) =
            self.accept_call(stream).and_then(|()| self.serve_requests(stream, from))
        {
            log::debug!("a call of another process has ended: {error}");
        }
        network::stop(stream);
    }

    fn accept_call(&self, stream: &Connection) -> Result<()> {
        let failed = |error| Error::system("setting up a call", &error);
        stream.get().and_then(|stream| stream.set_nonblocking(false)).map_err(failed)?;
        network::watch(stream, Some(REPLY_TIMEOUT)).map_err(failed)?;
        // Callers may be silent for a long time.
        stream.get().and_then(|stream| stream.set_read_timeout(None)).map_err(failed)?;
        send(&**stream, &ReadReply::Bytes)
    }

    fn serve_requests(&self, stream: &Connection, from: u32) -> Result<()> {
        let mut input = BufReader::with_capacity(4096, GuardedReader(stream));
        let mut message = Vec::new();
        while let Some(request) = receive(&mut input)? {
            let Message::Read { file, offset, len } = request else {
                (self.on_message)(from, request);
                continue;
            };
            message.clear();
            message.extend(frame(&ReadReply::Bytes)?);
            let head = message.len();
            message.resize(head + len.min(LONGEST_READ) as usize, 0);
            if let Err(error) = self.served.read(&file, offset, &mut message[head..]) {
                message = frame(&match self.served.has_another(&file) {
                    true => ReadReply::TakenAgain,
                    false => ReadReply::Refused(error.to_string()),
                })?;
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
