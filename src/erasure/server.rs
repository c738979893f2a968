//! The called end: takes calls of the other processes of the job, hears what they say, and gives
//! them bytes of the files that are offered. One thread for each caller, which waits for nobody but
//! its caller: so no circle of processes can wait for each other.

use std::io::{BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::offers::Offers;
use super::peer::PATIENCE;
use super::wire::{frame, receive, send, Reply, Token, Word, LONGEST_READ, PROTOCOL};
use crate::error::{Error, Result};
use crate::platform::fork::Private;
use crate::platform::network::{self, Connection};
use crate::sync::Mutex;

/// Who does not say who it is within this time is not of this job.
const HELLO: Duration = Duration::from_secs(10);
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
    listener: Private<TcpListener>,
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
        write!(f, "Desk({:?})", self.listener)
    }
}

impl Server {
    /// Answers who calls with this token.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        listener: Private<TcpListener>,
        token: Token,
        offers: Arc<Offers>,
        hear: Box<Hear>,
    ) -> Result<Server> {
        let desk = Arc::new(Desk { listener, token, offers, hear, open: Mutex::default() });
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
            // One that has ended has nothing to be shut down.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(open);
        network::stop(&self.desk.listener);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let calls = std::mem::take(&mut self.desk.open.lock().calls);
        let threads = calls.into_iter().map(|(_, thread)| thread).chain(self.acceptor.take());
        for thread in threads {
            if thread.join().is_err() {
                log::error!("a thread that answers other processes panicked");
            }
        }
    }
}

impl Desk {
    fn accept(self: &Arc<Self>) {
        loop {
            let accepted = network::accept(&self.listener);
            let mut open = self.open.lock();
            if open.closed {
                return;
            }
            open.calls.retain(|(_, thread)| !thread.is_finished());
            let answering = accepted
                .map_err(|error| Error::system("accepting a call", &error))
                .and_then(|stream| {
                    let stream = Arc::new(stream);
                    let (desk, answered) = (self.clone(), stream.clone());
                    let thread = spawn("veloc-ec-answer", move || desk.answer(&answered))?;
                    Ok((stream, thread))
                });
            match answering {
                Ok(call) => open.calls.push(call),
                Err(error) => {
                    log::warn!("{error}");
                    drop(open);
                    // What is short now (descriptors, threads) is short the next moment, too.
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn answer(&self, stream: &TcpStream) {
        let ended = self.greet(stream).and_then(|from| match from {
            Some(from) => self.converse(stream, from),
            None => Ok(()),
        });
        if let Err(error) = ended {
            log::debug!("a call of another process has ended: {error}");
        }
        let _ = stream.shutdown(Shutdown::Both);
    }

    /// Who calls; `None` for strangers.
    fn greet(&self, stream: &TcpStream) -> Result<Option<u32>> {
        let failed = |error| Error::system("setting up a call", &error);
        network::watch(stream, Some(HELLO)).map_err(failed)?;
        match receive(stream)? {
            Some(Word::Hello { protocol: PROTOCOL, token, from }) if self.knows(&token) => {
                network::watch(stream, Some(PATIENCE)).map_err(failed)?;
                // Callers may say nothing for long.
                stream.set_read_timeout(None).map_err(failed)?;
                send(stream, &Reply::Bytes)?;
                Ok(Some(from))
            }
            _ => Ok(None),
        }
    }

    /// Compares without saying by its time how much was right.
    fn knows(&self, token: &Token) -> bool {
        token.iter().zip(&self.token).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }

    fn converse(&self, stream: &TcpStream, from: u32) -> Result<()> {
        let mut words = BufReader::with_capacity(4096, stream);
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
            (&*stream).write_all(&message).map_err(|error| Error::system("sending", &error))?;
        }
        Ok(())
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let builder = Builder::new().name(name.to_owned()).stack_size(STACK);
    threads::unsignalled(|| builder.spawn(work))
        .map_err(|error| Error::system(format!("starting the thread {name}"), &error))
}
