//! The client's side: its connection to the backend.

use std::os::fd::AsFd as _;
use std::process::Child;
use std::sync::Arc;
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

use super::{decode, encode, launch, name, portable, Hello, Reply, Word, PROTOCOL};
use crate::config::Config;
use crate::error::{Error, Kind, Result};
use crate::platform::shared::SharedMemory;
use crate::platform::socket::{connect_to, listen_as, Socket};
use crate::sync::{Condvar, Mutex};

/// How often a backend is started for a job whose backends keep ending.
const MOST_BACKENDS: u32 = 5;
/// Before another backend is started, so that one that cannot live does not keep the node busy.
const PAUSE: Duration = Duration::from_millis(200);
/// How often somebody else who has just taken the name is looked for.
const LOOKS: u32 = 200;
/// Between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// What a client leaves.
#[derive(Debug)]
pub struct Estate {
    /// Its host buffer.
    pub host: SharedMemory,
    /// Its ledger.
    pub ledger: SharedMemory,
}

/// A connection to the backend. While it stands, what is in the host buffer outlives this process.
#[derive(Debug)]
pub struct Link {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    hello: Hello,
    estate: Estate,
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Debug)]
struct Now {
    /// `None`: there is no backend.
    socket: Option<Arc<Socket>>,
    settled: bool,
    /// Nobody waits any more for what an earlier client has left.
    hurried: bool,
    leaving: bool,
}

impl Link {
    /// Hands the estate to the backend of this configuration, which is started if there is none.
    ///
    /// # Errors
    /// There is none, and none can be started.
    pub fn open(config: &Config, rank: u32, estate: Estate) -> Result<Link> {
        let hello = Hello { protocol: PROTOCOL, config: portable(config)?, rank };
        let now = Now { socket: None, settled: false, hurried: false, leaving: false };
        let shared =
            Arc::new(Shared { hello, estate, now: Mutex::new(now), changed: Condvar::new() });
        let (socket, child) = shared.connect()?;
        shared.now.lock().socket = Some(socket.clone());
        let watching = shared.clone();
        let watcher = Builder::new()
            .name("veloc-backend-link".to_owned())
            .spawn(move || watching.watch(socket, child))
            .map_err(|error| Error::system("starting the thread that watches", &error))?;
        Ok(Link { shared, watcher: Some(watcher) })
    }

    /// Waits until nothing of an earlier client of this rank is left to be written, which would
    /// otherwise take the place of what this one writes. False: [`Link::hurry`] was called.
    pub fn settle(&self) -> bool {
        let mut now = self.shared.now.lock();
        while !now.settled && !now.hurried {
            now = self.shared.changed.wait(now);
        }
        now.settled
    }

    /// Whether there is a backend.
    pub fn is_up(&self) -> bool {
        self.shared.now.lock().socket.is_some()
    }

    /// Ends the waiting of [`Link::settle`]: the job ends.
    pub fn hurry(&self) {
        self.shared.now.lock().hurried = true;
        self.shared.changed.notify_all();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let mut now = self.shared.now.lock();
        now.leaving = true;
        if let Some(socket) = &now.socket {
            // One that has ended already needs no word.
            let _ = encode(&Word::Goodbye).and_then(|word| socket.send(&word, &[]));
            socket.close();
        }
        drop(now);
        self.shared.changed.notify_all();
        if let Some(watcher) = self.watcher.take() {
            if watcher.join().is_err() {
                log::error!("the thread that watches the backend panicked");
            }
        }
    }
}

impl Shared {
    /// A connection over which the estate was handed over, and the process to be waited for that a
    /// backend was started by.
    fn connect(&self) -> Result<(Arc<Socket>, Option<Child>)> {
        let name = name(&self.hello.config)?;
        let mut child = None;
        for _ in 0..LOOKS {
            if let Some(socket) = connect_to(&name)? {
                let files = [self.estate.host.as_fd(), self.estate.ledger.as_fd()];
                socket.send(&encode(&self.hello)?, &files)?;
                return Ok((Arc::new(socket), child));
            }
            // Nobody has the name, or somebody has it and does not listen yet.
            match listen_as(&name)? {
                Some(listener) => child = Some(launch::launch(listener)?),
                None => thread::sleep(BETWEEN_LOOKS),
            }
        }
        Err(Error::new(Kind::Internal, format!("nobody listens as \"{name}\"")))
    }

    fn watch(&self, mut socket: Arc<Socket>, mut child: Option<Child>) {
        let mut backends = 1;
        loop {
            if let Some(mut child) = child.take() {
                // It ends at once; whether its backend lives is told by the connection.
                let _ = child.wait();
            }
            let ended = self.listen(&socket);
            let mut now = self.now.lock();
            now.socket = None;
            now.settled = true;
            self.changed.notify_all();
            if now.leaving {
                return;
            }
            log::warn!(
                "veloc-backend {ended}: going on without it; what is not written yet would be lost \
                 with this process"
            );
            drop(self.changed.wait_for(now, PAUSE));
            if self.now.lock().leaving || backends == MOST_BACKENDS {
                return;
            }
            backends += 1;
            match self.connect() {
                Ok((again, started)) => {
                    log::warn!("there is a veloc-backend again");
                    let mut now = self.now.lock();
                    if now.leaving {
                        again.close();
                    }
                    now.socket = Some(again.clone());
                    (socket, child) = (again, started);
                }
                Err(error) => {
                    log::warn!("{error}");
                    return;
                }
            }
        }
    }

    /// Hears the backend until the connection ends. How it ended.
    fn listen(&self, socket: &Socket) -> String {
        loop {
            let reply = match socket.receive() {
                Ok(Some(message)) => decode(&message.bytes),
                Ok(None) => return "has ended".to_owned(),
                Err(error) => Err(error),
            };
            match reply {
                Ok(Reply::Settled) => {
                    self.now.lock().settled = true;
                    self.changed.notify_all();
                }
                Err(error) => return format!("cannot be understood ({error})"),
            }
        }
    }
}
