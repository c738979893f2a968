//! The backend's clients, and which of them must wait for predecessors.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::EngineHandle;
use errors::{Error, Result};
use os::is_ending;
use os::shared::SharedMemory;
use os::socket::{wait_for, ReceivedMessage, Socket};
use os::sync::{Condvar, Mutex};
use recovery::kill::{wait_for_exit, EXIT_TIMEOUT};
use recovery::protocol::{decode, encode, Hello, Reply, Request};
use recovery::Process;

use super::keep::fits;

/// How often a waiting client is told that the backend is alive. It gives up after some seconds of
/// silence.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Who only asks what is kept: nobody's predecessor.
const NOBODY: Process = Process { rank: u32::MAX, ranks: 0, run: 0 };

/// The most clients of which no message has been received.
const MOST_UNHEARD: usize = 128;

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) socket: Socket,
    /// Shows the end of the process even if a forked child keeps the connection open.
    process: Option<OwnedFd>,
    /// The process id, for messages.
    pub(super) number: i32,
    /// Its first message has come.
    has_spoken: AtomicBool,
    writing: Mutex<Writing>,
}

/// The writing of what a client has left.
#[derive(Debug, Default)]
struct Writing {
    /// The client, while its memory may be handed over.
    hello: Option<Hello>,
    engine: Option<EngineHandle>,
    /// The next job waits for the memory.
    is_wanted: bool,
}

/// How a client has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientEnd {
    /// The client has said that it ends.
    Normal,
    /// The client was killed, or has become another program.
    Killed,
    /// The client lives on without its connection.
    Lives,
}

impl Client {
    fn new(socket: Socket) -> Client {
        let process = socket.peer();
        let number = socket.peer_number();
        Client {
            number,
            socket,
            process,
            has_spoken: AtomicBool::default(),
            writing: Mutex::default(),
        }
    }

    /// Marks what this client leaves as memory for the next job that fits.
    pub(super) fn offers(&self, hello: &Hello) {
        self.writing.lock().hello = Some(hello.clone());
    }

    /// An engine writes what this client has left, until it is stopped because the next job waits.
    pub(super) fn is_written_by(&self, engine: EngineHandle) {
        let mut writing = self.writing.lock();
        if writing.is_wanted {
            engine.stop();
        }
        writing.engine = Some(engine);
    }

    /// Whether the next job waits for what this client has left.
    pub(super) fn is_wanted(&self) -> bool {
        self.writing.lock().is_wanted
    }

    /// Writing is over. Returns whether the next job waits.
    pub(super) fn is_written(&self) -> bool {
        let mut writing = self.writing.lock();
        writing.engine = None;
        std::mem::take(&mut writing.is_wanted)
    }

    /// The job that `asks` waits for the memory of this client, if it fits.
    fn hurry(&self, asks: &Hello) {
        let mut writing = self.writing.lock();
        if writing.hello.as_ref().is_some_and(|left| fits(left, asks).is_ok()) {
            writing.is_wanted = true;
            if let Some(engine) = &writing.engine {
                engine.stop();
            }
        }
    }

    /// Whether the client has ended or sent something, waiting at most this long.
    fn has_ended(&self, at_most: Duration) -> bool {
        let files: Vec<_> = [Some(self.socket.as_fd()), self.process.as_ref().map(|p| p.as_fd())]
            .into_iter()
            .flatten()
            .collect();
        wait_for(&files, at_most).contains(&true)
    }

    /// Whether the client has ended or is exiting: the memory of a large process takes time to be freed,
    /// and its connection closes only after that.
    fn has_ended_or_ends(&self) -> bool {
        let process = u32::try_from(self.number).unwrap_or(0);
        self.has_ended(Duration::ZERO) || is_ending(process)
    }

    /// Waits for the client's end. Its data is not to be recovered if the process lives on without its
    /// connection, unless it has become another program, which does not map this `ledger`.
    pub(super) fn wait_for_end(&self, look: Duration, ledger: &SharedMemory) -> Result<ClientEnd> {
        loop {
            while !self.has_ended(look) {}
            let message = if self.has_message() { self.socket.receive()? } else { None };
            let word = message.map(|message| decode(&message.bytes)).transpose()?;
            return match (word, &self.process) {
                (Some(Request::Ping), _) => {
                    // The client may have ended meanwhile.
                    let _ = self.socket.send(&encode(&Reply::Alive)?, &[]);
                    continue;
                }
                (Some(Request::Goodbye), _) => Ok(ClientEnd::Normal),
                (None, None) => Ok(ClientEnd::Killed),
                // A killed process may close its connection before it has exited, and still has files
                // open then.
                (None, Some(process)) => Ok(self.has_left(process, ledger)),
            };
        }
    }

    /// How a client has ended whose connection is closed.
    fn has_left(&self, process: &OwnedFd, ledger: &SharedMemory) -> ClientEnd {
        match self.is_another_program(ledger) || wait_for_exit(process, EXIT_TIMEOUT) {
            true => ClientEnd::Killed,
            false => ClientEnd::Lives,
        }
    }

    /// Whether a client that has got another one's memory, and was silent since, has ended.
    pub(super) fn has_given_back(&self, ledger: &SharedMemory) -> bool {
        let left = self.process.as_ref().map(|process| self.has_left(process, ledger));
        left.is_none_or(|left| left != ClientEnd::Lives)
    }

    /// Whether the process has become another program (`execve`) and is not exiting.
    fn is_another_program(&self, ledger: &SharedMemory) -> bool {
        let process = u32::try_from(self.number).unwrap_or(0);
        !is_ending(process) && ledger.is_mapped_by(process) == Some(false)
    }

    /// Receives the hello within `at_most`. A client sends it right after connecting; one that does not
    /// is stopped and will connect again, or is no client.
    pub(super) fn await_hello(&self, at_most: Duration) -> Result<Option<ReceivedMessage>> {
        let since = Instant::now();
        while !self.has_ended(at_most.saturating_sub(since.elapsed())) {
            if since.elapsed() >= at_most {
                let silence = at_most.as_secs();
                return Err(Error::invalid(format!("it has sent nothing for {silence} s")));
            }
        }
        // A client that has ended since may have sent its hello.
        if self.has_message() {
            // Before it is received, so that there is no moment in which it seems to be silent.
            self.has_spoken.store(true, Ordering::Release);
            self.socket.receive()
        } else {
            Ok(None)
        }
    }

    /// Whether it has sent nothing yet.
    fn is_silent(&self) -> bool {
        !self.has_ended(Duration::ZERO) && !self.has_spoken.load(Ordering::Acquire)
    }

    /// Waits for the next message, for as long as the client lives and has its connection.
    pub(super) fn next_message(&self, look: Duration) -> Result<Option<ReceivedMessage>> {
        while !self.has_ended(look) {}
        match self.has_message() {
            true => self.socket.receive(),
            false => Ok(None),
        }
    }

    fn has_message(&self) -> bool {
        wait_for(&[self.socket.as_fd()], Duration::ZERO).contains(&true)
    }
}

/// All clients that have not ended or whose data is not yet written.
#[derive(Debug, Default)]
pub(super) struct Clients {
    all: Mutex<ClientTable>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ClientTable {
    /// By order of arrival, with their place in their job once it is known.
    by_number: HashMap<u64, (Option<Process>, Arc<Client>)>,
    next: u64,
}

impl ClientTable {
    /// The clients of which no message has been received.
    fn unheard(&self) -> impl Iterator<Item = (u64, &Client)> {
        let all = self.by_number.iter().map(|(&number, (_, client))| (number, &**client));
        all.filter(|(_, client)| !client.has_spoken.load(Ordering::Acquire))
    }
}

/// A registered client; unregistered when dropped.
#[derive(Debug)]
pub(super) struct ClientRegistration {
    clients: Arc<Clients>,
    number: u64,
    pub(super) client: Arc<Client>,
}

impl Clients {
    /// Registers a new client. If too many have sent nothing, the oldest of these is disconnected: clients send their
    /// first message at once, and idle ones must not use up descriptors and threads.
    pub(super) fn register(self: &Arc<Self>, socket: Socket) -> ClientRegistration {
        let client = Arc::new(Client::new(socket));
        let mut all = self.all.lock();
        all.next += 1;
        let number = all.next;
        all.by_number.insert(number, (None, client.clone()));
        while all.unheard().count() > MOST_UNHEARD {
            let silent = all.unheard().filter(|(_, client)| client.is_silent());
            let first = silent.min_by_key(|(number, _)| *number);
            if let Some((_, first)) = first {
                first.socket.close();
            }
            all = self.changed.wait_for(all, KEEP_ALIVE);
        }
        drop(all);
        ClientRegistration { clients: self.clone(), number, client }
    }

    /// Whether there are no clients.
    pub(super) fn is_empty(&self) -> bool {
        self.all.lock().by_number.is_empty()
    }
}

impl ClientRegistration {
    /// Sets this client's place in its job, and waits until the data of its predecessors that have ended is written: of
    /// all earlier clients of its rank, and of all ranks of a job of another number of processes, whose files it may
    /// read. Live clients are not waited for. If this one `asks` for their memory, what fits is not written any further.
    /// Returns a live client that could have left some.
    pub(super) fn wait_for_predecessors(
        &self,
        process: Process,
        asks: Option<&Hello>,
    ) -> Option<i32> {
        let follows = |other: Process| {
            other != NOBODY && (other.rank == process.rank || other.ranks != process.ranks)
        };
        let Clients { all, changed } = &*self.clients;
        let here = encode(&Reply::Alive).unwrap_or_default();
        let mut now = all.lock();
        if let Some(mine) = now.by_number.get_mut(&self.number) {
            mine.0 = Some(process);
        }
        changed.notify_all();
        let earlier: Vec<u64> =
            now.by_number.keys().copied().filter(|&other| other < self.number).collect();
        // Clients that were alive when this one arrived.
        let mut lives: Vec<u64> = Vec::new();
        loop {
            let mut waits = false;
            for number in &earlier {
                let Some((of, client)) = now.by_number.get(number) else { continue };
                match *of {
                    // The hello of that client has not been read yet.
                    None => waits = true,
                    Some(of) if !follows(of) || lives.contains(number) => {}
                    Some(_) if client.has_ended_or_ends() => {
                        waits = true;
                        if let Some(asks) = asks {
                            client.hurry(asks);
                        }
                    }
                    Some(_) => lives.push(*number),
                }
            }
            if !waits {
                let alive = lives.iter().filter_map(|number| now.by_number.get(number));
                let own = |of: &Option<Process>| of.is_some_and(|of| of.rank == process.rank);
                return alive
                    .filter(|(of, _)| own(of))
                    .map(|(_, client)| client.number)
                    .next_back();
            }
            drop(now);
            // Without the lock, as the client may be stopped; it may also have ended.
            let _ = self.client.socket.send(&here, &[]);
            now = changed.wait_for(all.lock(), KEEP_ALIVE);
        }
    }

    /// Waits until what the earlier clients have left that have ended is written or kept, at most for so long.
    pub(super) fn wait_for_ended(&self, at_most: Duration) {
        let Clients { all, changed } = &*self.clients;
        let here = encode(&Reply::Alive).unwrap_or_default();
        let since = Instant::now();
        let mut now = all.lock();
        if let Some(mine) = now.by_number.get_mut(&self.number) {
            mine.0 = Some(NOBODY);
        }
        changed.notify_all();
        loop {
            let ended = |(number, (process, client)): (&u64, &(Option<Process>, Arc<Client>))| {
                let wrote = process.is_some_and(|process| process != NOBODY);
                *number < self.number && wrote && client.has_ended_or_ends()
            };
            let left = at_most.saturating_sub(since.elapsed());
            if !now.by_number.iter().any(ended) || left.is_zero() {
                return;
            }
            drop(now);
            // Who does not listen any more waits for nothing.
            if self.client.socket.send(&here, &[]).is_err() || self.client.has_ended(Duration::ZERO)
            {
                return;
            }
            now = changed.wait_for(all.lock(), KEEP_ALIVE.min(left));
        }
    }
}

impl Drop for ClientRegistration {
    fn drop(&mut self) {
        // Also after a panic, because later clients of that rank wait for it.
        self.clients.all.lock().by_number.remove(&self.number);
        self.clients.changed.notify_all();
    }
}

// The model checks' locks work only within a model check.
#[cfg(not(feature = "model-check"))]
#[cfg(test)]
mod tests {
    use super::*;
    use os::socket::{connect_to, listen_at};
    use std::thread;

    const LONG: Duration = Duration::from_secs(60);

    /// Connections of this process to itself: the backend's ends and the clients'.
    fn connections(what: &str, count: usize) -> Vec<(Socket, Socket)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(what);
        let listener = listen_at(&path).unwrap().unwrap();
        let one = |_| {
            let own = connect_to(&path).unwrap().unwrap();
            (listener.accept(LONG).unwrap().unwrap(), own)
        };
        (0..count).map(one).collect()
    }

    /// Two registered clients of this process, with the clients' ends of their sockets.
    fn clients(what: &str) -> (Arc<Clients>, [(ClientRegistration, Socket); 2]) {
        let clients = Arc::<Clients>::default();
        let both = connections(what, 2).into_iter();
        let both: Vec<_> = both.map(|(socket, own)| (clients.register(socket), own)).collect();
        (clients, both.try_into().unwrap())
    }

    /// Catches a client that is taken for a silent one after its hello was received, where connections are many.
    #[test]
    fn who_has_spoken_is_not_silent() {
        let clients = Arc::<Clients>::default();
        let mut all = connections("many", MOST_UNHEARD + 2).into_iter();
        let mut next = || all.next().map(|(socket, own)| (clients.register(socket), own)).unwrap();
        let ((first, own), (second, other)) = (next(), next());
        own.send(b"hello", &[]).unwrap();
        assert!(first.client.await_hello(LONG).unwrap().is_some());
        thread::scope(|scope| {
            let rest = scope.spawn(|| (0..MOST_UNHEARD).map(|_| next()).collect::<Vec<_>>());
            let closed = wait_for(&[own.as_fd(), other.as_fd()], LONG);
            drop((first, second));
            assert_eq!(rest.join().unwrap().len(), MOST_UNHEARD);
            assert_eq!(closed, [false, true]);
        });
    }

    fn hears(client: &Socket) -> bool {
        let heard = wait_for(&[client.as_fd()], LONG) == [true];
        heard && client.receive().unwrap().is_some()
    }

    /// A job is killed right after its start, and the next one begins: the backend may see both at once.
    /// Catches a client that does not wait for an earlier one whose hello was not read yet.
    #[test]
    fn who_has_not_said_its_rank_may_be_a_predecessor() {
        for same in [false, true] {
            let (_, [(first, own), (second, other)]) = clients(&format!("unread-{same}"));
            drop(own);
            thread::scope(|scope| {
                let waiting =
                    scope.spawn(|| second.wait_for_predecessors(Process::single(7), None));
                assert!(hears(&other), "it does not wait");
                first.wait_for_predecessors(Process::single(if same { 7 } else { 8 }), None);
                if same {
                    assert!(hears(&other) && hears(&other), "it waits no more");
                    drop(first);
                }
                waiting.join().unwrap();
            });
        }
    }

    /// A job of four processes is killed, and one of six begins, which may read the files of all four. Catches one whose
    /// process waits for that of its own rank alone.
    #[test]
    fn all_ranks_of_a_job_of_another_size_are_predecessors() {
        let of = |rank, ranks| Process { rank, ranks, run: 1 };
        for (ranks, waits) in [(4, true), (6, false)] {
            let (_, [(first, own), (second, other)]) = clients(&format!("size-{ranks}"));
            first.wait_for_predecessors(of(3, ranks), None);
            drop(own);
            thread::scope(|scope| {
                let waiting = scope.spawn(|| second.wait_for_predecessors(of(5, 6), None));
                if waits {
                    assert!(hears(&other) && hears(&other), "it does not wait");
                    drop(first);
                }
                waiting.join().unwrap();
            });
        }
    }

    /// Two live jobs of one rank: the second does not wait for the first, even if that ends.
    #[test]
    fn who_lives_is_no_predecessor() {
        let (_, [(first, _own), (second, _other)]) = clients("lives");
        first.wait_for_predecessors(Process::single(7), None);
        second.wait_for_predecessors(Process::single(7), None);
    }

    /// Catches a list without what a job has left that has just ended, and one that waits for a job that runs, or for
    /// ever.
    #[test]
    fn who_has_ended_is_waited_for_by_who_asks() {
        let (clients, [(first, own), (second, other)]) = clients("ended");
        first.wait_for_predecessors(Process::single(7), None);
        second.wait_for_ended(Duration::MAX);
        drop(own);
        second.wait_for_ended(Duration::from_millis(1));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| second.wait_for_ended(Duration::MAX));
            assert!(hears(&other) && hears(&other), "it does not wait");
            drop(first);
            waiting.join().unwrap();
        });
        drop(clients);
    }

    /// Catches somebody who asks for whom later jobs wait, and who goes on waiting though nobody listens.
    #[test]
    fn nobody_waits_for_who_only_asks() {
        let (clients, [(first, own), (second, other)]) = clients("asks");
        first.wait_for_predecessors(Process::single(7), None);
        drop(own);
        second.wait_for_ended(Duration::from_millis(1));
        let folder = tempfile::tempdir().unwrap();
        let listener = listen_at(&folder.path().join("third")).unwrap().unwrap();
        let _third = connect_to(&folder.path().join("third")).unwrap().unwrap();
        let socket = listener.accept(Duration::from_secs(60)).unwrap().unwrap();
        clients.register(socket).wait_for_predecessors(Process::single(8), None);
        drop(other);
        second.wait_for_ended(Duration::MAX);
    }

    /// Catches a client that stays registered after a panic, so that later ones wait for ever.
    #[test]
    fn after_a_panic_nobody_waits() {
        let (clients, [(first, own), (second, _other)]) = clients("panic");
        first.wait_for_predecessors(Process::single(7), None);
        drop(own);
        let attending = thread::spawn(move || {
            let _attended = first;
            panic!("as a fault of the library would");
        });
        assert!(attending.join().is_err());
        let (done, ends) = std::sync::mpsc::channel();
        thread::spawn(move || {
            second.wait_for_predecessors(Process::single(7), None);
            drop(second);
            done.send(()).unwrap();
        });
        ends.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(clients.is_empty());
    }
}
