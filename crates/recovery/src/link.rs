//! The client's connection to the backend.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::child::{BackendChild, START_TIMEOUT};
use super::protocol::{
    decode, encode, path as path_of, portable, First, Hello, Reply, Request, PROTOCOL,
};
use super::{kill, launch, Process};
use config::Config;
use errors::{Error, ErrorKind, Result};
use files::Inodes;
use os::shared::SharedMemory;
use os::socket::{connect_to, listen_at, wait_for, Listener, Socket};
use os::sync::{Condvar, Mutex};

/// How often a job starts a backend before it gives up.
const MOST_BACKENDS: u32 = 5;
/// The pause before another start, so that a backend that keeps crashing does not load the node.
const RESTART_PAUSE: Duration = Duration::from_millis(200);
/// The longest time for connecting: another process may be about to listen, about to exit, or stopped.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two attempts.
const CONNECT_RETRY: Duration = Duration::from_millis(1);

/// After so many times `watchdog_interval` without a message a backend that must answer is given up. A working backend
/// sends one every second, but a very busy machine may keep it from that, and what it alone has is lost with it.
const MISSED: u64 = 6;
/// The most seconds to wait for a message.
const LONGEST_SILENCE: u64 = 60;
/// After this time without a first message, a warning says that the client waits.
const FIRST_REMINDER: Duration = Duration::from_secs(1);
/// How often the warning is repeated.
const REMINDER: Duration = Duration::from_secs(30);
/// How often to check for silence.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The longest time from one look to the next that counts as silence: if it was longer, this process was stopped, or
/// the machine has more to do than it can.
const LONGEST_LOOK: Duration = Duration::from_millis(200);

/// The memory that a client hands to the backend.
#[derive(Debug)]
pub struct HandOff {
    /// The client's ledger.
    pub ledger: SharedMemory,
    /// The client's host buffer, if it has one.
    pub host: Option<SharedMemory>,
}

/// A connection to the backend. As long as it exists, the host buffer's contents survive this process.
#[derive(Debug)]
pub struct Link {
    shared: Arc<SharedConnection>,
    watcher: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct SharedConnection {
    hello: Hello,
    /// The configuration file.
    file: Option<PathBuf>,
    /// Where the backend listens.
    path: PathBuf,
    hand_off: HandOff,
    now: Mutex<LinkState>,
    changed: Condvar,
}

#[derive(Debug)]
struct LinkState {
    /// `None`: there is no backend.
    socket: Option<Arc<Socket>>,
    predecessors_done: bool,
    /// The job ends, so nobody waits for predecessors any more.
    gave_up_waiting: bool,
    /// How many messages the backend has sent.
    heard: u64,
    /// The backend does not answer and cannot be killed: it may still write an earlier client's data.
    stuck: Option<Error>,
    closing: bool,
}

impl Link {
    /// Hands the memory to the backend of this configuration, which is started if there is none. `asked` is
    /// a connection over which it has [answered](super::handover::ask) already.
    ///
    /// # Errors
    /// There is no backend, and none can be started.
    pub fn open(
        config: &Config,
        process: Process,
        directories: Inodes,
        hand_off: HandOff,
        asked: Option<Socket>,
    ) -> Result<Link> {
        super::log::prepare(config);
        let hello = Hello { protocol: PROTOCOL, config: portable(config)?, process, directories };
        let now = LinkState {
            socket: None,
            predecessors_done: false,
            gave_up_waiting: false,
            heard: 0,
            stuck: None,
            closing: false,
        };
        let path = path_of(&hello.config)?;
        let file = config.file.clone();
        let (now, changed) = (Mutex::new(now), Condvar::new());
        let shared = Arc::new(SharedConnection { hello, file, path, hand_off, now, changed });
        let said = asked.map(|socket| shared.say_hello(&socket).map(|()| (Arc::new(socket), None)));
        let (socket, started) = match said {
            Some(Ok(here)) => here,
            // The backend that was asked has ended since.
            Some(Err(_)) | None => shared.connect(launch::launch)?,
        };
        {
            let mut now = shared.now.lock();
            now.socket = Some(socket.clone());
            // A new backend holds no earlier client's memory.
            now.predecessors_done = started.is_some();
        }
        let watching = shared.clone();
        let builder = Builder::new().name("veloc-backend-link".to_owned());
        let watcher =
            os::threads::unsignalled(|| builder.spawn(move || watching.watch(socket, started)))
                .map_err(|error| Error::system("starting the thread that watches", &error))?;
        Ok(Link { shared, watcher: Some(watcher) })
    }

    /// Waits until the data of earlier clients of this rank is written, which would otherwise overwrite
    /// this client's files, or until the backend has ended. False: [`Link::stop_waiting`] was called, or
    /// files [may not be written](Link::may_write).
    pub fn wait_for_predecessors(&self) -> bool {
        let mut now = self.shared.now.lock();
        while !now.predecessors_done && !now.gave_up_waiting && now.stuck.is_none() {
            now = self.shared.changed.wait(now);
        }
        now.predecessors_done
    }

    /// Whether files may be written.
    ///
    /// # Errors
    /// The backend does not answer, cannot be killed, and may still write an earlier client's data of
    /// this rank over newer files.
    pub fn may_write(&self) -> Result<()> {
        match &self.shared.now.lock().stuck {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Whether there is a backend.
    pub fn is_connected(&self) -> bool {
        self.shared.now.lock().socket.is_some()
    }

    /// Whether the backend answers a ping within the time limit of [`Link::wait_for_predecessors`].
    pub fn answers_in_time(&self) -> bool {
        let shared = &self.shared;
        let now = shared.now.lock();
        let (Some(socket), heard) = (now.socket.clone(), now.heard) else { return false };
        drop(now);
        let mut wait = shared.await_reply(&socket, None);
        if encode(&Request::Ping).and_then(|request| socket.send(&request, &[])).is_err() {
            return false;
        }
        let mut now = shared.now.lock();
        while now.heard == heard && now.socket.is_some() {
            now = shared.changed.wait_for(now, POLL_INTERVAL);
            // Until the predecessors are done, the watcher thread handles silence.
            if now.predecessors_done && now.heard == heard {
                if let Some(silence) = wait.check_silence() {
                    log::warn!(
                        "veloc-backend{} has not answered for {} s (watchdog_interval): this \
                         process writes its data itself",
                        named(backend_of(&socket)),
                        silence.as_secs()
                    );
                    return false;
                }
            }
        }
        now.socket.is_some()
    }

    /// Ends the wait in [`Link::wait_for_predecessors`], because the job ends.
    pub fn stop_waiting(&self) {
        self.shared.now.lock().gave_up_waiting = true;
        self.shared.changed.notify_all();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let mut now = self.shared.now.lock();
        now.closing = true;
        if let Some(socket) = &now.socket {
            send_goodbye(socket);
        }
        drop(now);
        self.shared.changed.notify_all();
        for what in os::threads::join(self.watcher.take(), os::threads::JOIN_TIMEOUT) {
            log::error!("{what}");
        }
    }
}

fn send_goodbye(socket: &Socket) {
    // The backend may have ended already.
    let _ = encode(&Request::Goodbye).and_then(|request| socket.send(&request, &[]));
    socket.close();
}

impl SharedConnection {
    /// Connects and sends the memory. Returns the connection, and the child if `launch` started a
    /// backend.
    ///
    /// A backend ends with its last client, so a connection may be lost just when it is made; then
    /// another attempt follows.
    ///
    /// # Errors
    /// The started program exits before anybody is connected to it; another one would, too.
    fn connect(
        &self,
        launch: impl Fn(Listener, Option<&Path>) -> Result<Child>,
    ) -> Result<(Arc<Socket>, Option<BackendChild>)> {
        let path = &self.path;
        let mut started: Option<BackendChild> = None;
        let mut failed = Error::new(ErrorKind::System, "nobody takes a connection");
        let mut since = Instant::now();
        while since.elapsed() < CONNECT_TIMEOUT {
            if let Some(socket) = connect_to(path)? {
                match (self.say_hello(&socket), started.take()) {
                    (Ok(()), started) => return Ok((Arc::new(socket), started)),
                    (Err(error), Some(started)) => {
                        return Err(started.ended_error().followed_by(error));
                    }
                    // The backend has just ended; another one can be started.
                    (Err(error), None) => failed = error,
                }
            }
            match (listen_at(path)?, started.take()) {
                (Some(listener), None) => {
                    started = Some(BackendChild::new(launch(listener, self.file.as_deref())?));
                    // However long that has taken.
                    since = Instant::now();
                }
                (Some(_), Some(started)) => return Err(started.ended_error()),
                (None, still) => {
                    started = still;
                    thread::sleep(CONNECT_RETRY);
                }
            }
        }
        Err(failed.within(format!("connecting to {}", path.display())))
    }

    fn say_hello(&self, socket: &Socket) -> Result<()> {
        let hello = encode(&First::Hello(Box::new(self.hello.clone())))?;
        let HandOff { ledger, host } = &self.hand_off;
        let files: Vec<_> =
            std::iter::once(ledger).chain(host).map(SharedMemory::file).collect::<Result<_>>()?;
        socket.send(&hello, &files)
    }

    fn watch(&self, mut socket: Arc<Socket>, mut started: Option<BackendChild>) {
        let mut backends = 1;
        loop {
            let ended = match self.receive_until_end(&socket, started.as_mut()) {
                Ended::Gone(ended) => ended,
                Ended::Silent(silence) => {
                    let silence =
                        format!("has not answered for {} s (watchdog_interval)", silence.as_secs());
                    if let Some(started) = &mut started {
                        log::warn!(
                            "veloc-backend {silence}: going on without it. If this process is killed, data \
                             that is not in files yet is lost"
                        );
                        started.end_unless_daemon(Duration::ZERO);
                        self.disconnect(&socket);
                        return;
                    }
                    match self.kill_silent_backend(&socket, &silence) {
                        Ok(ended) => ended,
                        Err(error) => return self.set_stuck(error),
                    }
                }
            };
            let leaves = self.now.lock().closing;
            if let Some(mut started) = started.take() {
                started.end_unless_daemon(if leaves {
                    START_TIMEOUT
                } else {
                    self.longest_silence()
                });
            }
            let mut now = self.now.lock();
            now.socket = None;
            now.predecessors_done = true;
            self.changed.notify_all();
            if now.closing {
                return;
            }
            log::warn!(
                "veloc-backend {ended}: going on without it; if this process is killed, data that is not in \
                 files yet is lost"
            );
            drop(self.changed.wait_for(now, RESTART_PAUSE));
            if self.now.lock().closing || backends == MOST_BACKENDS {
                return;
            }
            backends += 1;
            match self.connect(launch::launch) {
                Ok((again, by)) => {
                    log::warn!("there is a veloc-backend again");
                    let mut now = self.now.lock();
                    if now.closing {
                        send_goodbye(&again);
                    }
                    now.socket = Some(again.clone());
                    (socket, started) = (again, by);
                }
                Err(error) => {
                    log::warn!("{error}");
                    return;
                }
            }
        }
    }

    fn longest_silence(&self) -> Duration {
        longest_silence(&self.hello.config)
    }

    /// Starts to wait for the backend's answer. `started`: its process, if this client has started it.
    fn await_reply(&self, socket: &Socket, started: Option<u32>) -> ReplyWait {
        let (patience, now) = (self.longest_silence(), Instant::now());
        let backend = started.or_else(|| backend_of(socket));
        let silence = Duration::ZERO;
        ReplyWait { backend, patience, since: now, looked: now, silence, heard: None, said: None }
    }

    /// Receives messages until the connection ends, and says how it ended.
    fn receive_until_end(&self, socket: &Socket, mut started: Option<&mut BackendChild>) -> Ended {
        let mut wait = self.await_reply(socket, started.as_ref().map(|started| started.child.id()));
        loop {
            // A backend that has answered, and whose predecessors are done, need not send anything.
            if wait.heard.is_none() || !self.now.lock().predecessors_done {
                if wait_for(&[socket.as_fd()], POLL_INTERVAL) != [true] {
                    if let Some(silence) = wait.check_silence() {
                        return Ended::Silent(silence);
                    }
                    continue;
                }
            } else if let Some(started) = started.take() {
                // The backend has become a daemon by now.
                started.reap();
            }
            let reply = match socket.receive() {
                Ok(Some(message)) => decode::<Reply>(&message.bytes),
                Ok(None) => return Ended::Gone("has ended".to_owned()),
                Err(error) => Err(error),
            };
            match reply {
                Ok(reply) => {
                    wait.heard_reply();
                    let mut now = self.now.lock();
                    now.heard += 1;
                    now.predecessors_done |= reply == Reply::PredecessorsDone;
                    drop(now);
                    self.changed.notify_all();
                }
                Err(error) => return Ended::Gone(format!("cannot be understood ({error})")),
            }
        }
    }

    /// Continues without a backend for good.
    fn disconnect(&self, socket: &Socket) {
        socket.close();
        let mut now = self.now.lock();
        now.socket = None;
        now.predecessors_done = true;
        drop(now);
        self.changed.notify_all();
    }

    /// Kills a silent backend that may still write an earlier client's data. Returns what happened
    /// to the backend, for a message.
    fn kill_silent_backend(&self, socket: &Socket, silence: &str) -> Result<String> {
        let rank = self.hello.process.rank;
        let error = match kill::kill_backend(socket, &self.path) {
            Ok((number, did)) => {
                return Ok(format!(
                    "(process {number}) {silence} and was killed (its threads: {did}). Data of an earlier \
                     job's rank {rank} that was only in its memory is lost"
                ));
            }
            Err(error) => error,
        };
        Err(error.within(format!(
            "veloc-backend{} {silence} and may still write data of an earlier job's rank {rank}, so \
             this process writes no files",
            named(backend_of(socket))
        )))
    }

    fn set_stuck(&self, error: Error) {
        log::error!("{error}");
        self.now.lock().stuck = Some(error);
        self.changed.notify_all();
    }
}

/// How long a backend that must answer may be silent.
pub(crate) fn longest_silence(config: &Config) -> Duration {
    let seconds = config.watchdog_interval.max(1).saturating_mul(MISSED);
    Duration::from_secs(seconds.min(LONGEST_SILENCE))
}

/// How receiving ended.
enum Ended {
    /// The backend is gone, for this reason.
    Gone(String),
    /// The backend has been silent for this long.
    Silent(Duration),
}

/// The process at the other end. `None`: unknown, as this process has created the socket.
fn backend_of(socket: &Socket) -> Option<u32> {
    let number = u32::try_from(socket.peer_number()).ok();
    number.filter(|number| *number != std::process::id())
}

/// The process as shown in messages.
fn named(process: Option<u32>) -> String {
    process.map_or(String::new(), |number| format!(" (process {number})"))
}

/// A wait for a backend that must answer.
struct ReplyWait {
    /// The backend's process, if known.
    backend: Option<u32>,
    patience: Duration,
    /// When the wait began.
    since: Instant,
    /// When it was last looked for a message.
    looked: Instant,
    /// How long there was none while this process looked: what was stopped with it had no time to answer.
    silence: Duration,
    /// When the last message came, and the last reminder.
    heard: Option<Instant>,
    said: Option<Instant>,
}

impl ReplyWait {
    fn heard_reply(&mut self) {
        let now = Instant::now();
        (self.heard, self.looked, self.silence) = (Some(now), now, Duration::ZERO);
    }

    /// There is no message. How long the backend has been silent, if that is too long. Logs a reminder from time to
    /// time.
    fn check_silence(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.silence += now.duration_since(self.looked).min(LONGEST_LOOK);
        self.looked = now;
        let silence = self.silence;
        if silence >= self.patience {
            return Some(silence);
        }
        let due = match (self.said, self.heard) {
            (Some(said), _) => said.elapsed() >= REMINDER,
            (None, Some(_)) => self.since.elapsed() >= self.patience,
            (None, None) => silence >= FIRST_REMINDER,
        };
        if due {
            self.said = Some(Instant::now());
            let does = match self.heard {
                Some(_) => "writes what an earlier job has left",
                None => "does not answer",
            };
            log::warn!("waiting for veloc-backend{}, which {does}", named(self.backend));
        }
        None
    }
}

// The model checks' locks work only within a model check.
#[cfg(not(feature = "model-check"))]
#[cfg(test)]
mod tests;
