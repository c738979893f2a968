//! The clients of a backend: who is there, who has ended, and who has to wait for whom.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use os::error::{Error, Result};
use os::is_ending;
use os::shared::SharedMemory;
use os::socket::{wait_for, Message, Socket};
use os::sync::{Condvar, Mutex};
use recovery::kill::{wait_for_exit, EXIT_TIMEOUT};
use recovery::protocol::{decode, encode, Reply, Request};

/// How often a client that waits hears that it is worked for. It gives up after some seconds
/// without a word.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// So many are here at the most that have not said yet who they are.
const MOST_UNIDENTIFIED: usize = 128;

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) socket: Socket,
    /// Tells its end also where a forked child keeps the connection open.
    process: Option<OwnedFd>,
    /// Kept for messages.
    pub(super) number: i32,
}

impl Client {
    fn new(socket: Socket) -> Client {
        let process = socket.peer();
        Client { number: socket.peer_number(), socket, process }
    }

    /// Whether it has ended or says something, waited for at most so long.
    fn has_ended(&self, at_most: Duration) -> bool {
        let files: Vec<_> = [Some(self.socket.as_fd()), self.process.as_ref().map(|p| p.as_fd())]
            .into_iter()
            .flatten()
            .collect();
        wait_for(&files, at_most).contains(&true)
    }

    /// Whether it has ended, or is ending: what a process of much memory leaves behind takes time
    /// to be taken down, and its connection ends after that.
    fn has_ended_or_ends(&self) -> bool {
        let process = u32::try_from(self.number).unwrap_or(0);
        self.has_ended(Duration::ZERO) || is_ending(process)
    }

    /// Waits for its end. Whether there is a will of it: not of one that lives without its connection, as
    /// its memory is its own, unless it has become another program, which does not have this `ledger`.
    pub(super) fn wait_for_end(&self, look: Duration, ledger: &SharedMemory) -> Result<bool> {
        loop {
            while !self.has_ended(look) {}
            let message = if self.has_message() { self.socket.receive()? } else { None };
            let word = message.map(|message| decode(&message.bytes)).transpose()?;
            return match (word, &self.process) {
                (Some(Request::Ping), _) => {
                    // One that has ended meanwhile does not hear it.
                    let _ = self.socket.send(&encode(&Reply::Alive)?, &[]);
                    continue;
                }
                (Some(Request::Goodbye), _) | (None, None) => Ok(true),
                // The connection of a process that is killed may end before the process does, which
                // still has files open then that are nobody's a moment later.
                (None, Some(process)) => {
                    Ok(self.is_another_program(ledger) || wait_for_exit(process, EXIT_TIMEOUT))
                }
            };
        }
    }

    /// Whether the process goes on as another program (`execve`), and is not about to end.
    fn is_another_program(&self, ledger: &SharedMemory) -> bool {
        let process = u32::try_from(self.number).unwrap_or(0);
        !is_ending(process) && ledger.is_mapped_by(process) == Some(false)
    }

    /// Its first word, for which it has so long. A client says it as soon as it is connected, so who
    /// has not is none, or stands still and will connect again.
    pub(super) fn await_hello(&self, at_most: Duration) -> Result<Option<Message>> {
        let since = Instant::now();
        while !self.has_ended(at_most.saturating_sub(since.elapsed())) {
            if since.elapsed() >= at_most {
                let silence = at_most.as_secs();
                return Err(Error::invalid(format!("it has said nothing for {silence} s")));
            }
        }
        // Also of one that has ended since: what it has sent is there.
        if self.has_message() {
            self.socket.receive()
        } else {
            Ok(None)
        }
    }

    fn has_message(&self) -> bool {
        wait_for(&[self.socket.as_fd()], Duration::ZERO).contains(&true)
    }
}

/// All clients that have not ended, or whose work is not finished.
#[derive(Debug, Default)]
pub(super) struct Clients {
    all: Mutex<ClientTable>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ClientTable {
    /// In the order in which they came; with their rank, once that is known.
    by_number: HashMap<u64, (Option<u32>, Arc<Client>)>,
    next: u64,
}

impl ClientTable {
    /// Those that have not said yet who they are.
    fn unidentified(&self) -> impl Iterator<Item = (u64, &Client)> {
        let unidentified = self.by_number.iter().filter(|(_, (rank, _))| rank.is_none());
        unidentified.map(|(&number, (_, client))| (number, &**client))
    }
}

/// A client that is among them until this is dropped.
#[derive(Debug)]
pub(super) struct Registration {
    clients: Arc<Clients>,
    number: u64,
    pub(super) client: Arc<Client>,
}

impl Clients {
    /// Takes a new one in. If there are too many that have not said who they are, the one that has been
    /// here longest goes for it, so that they take few descriptors and threads: a client says it at once.
    pub(super) fn register(self: &Arc<Self>, socket: Socket) -> Registration {
        let client = Arc::new(Client::new(socket));
        let mut all = self.all.lock();
        all.next += 1;
        let number = all.next;
        all.by_number.insert(number, (None, client.clone()));
        while all.unidentified().count() > MOST_UNIDENTIFIED {
            let silent = |client: &Client| !client.has_ended(Duration::ZERO);
            let first =
                all.unidentified().filter(|(_, client)| silent(client)).min_by_key(|(n, _)| *n);
            if let Some((_, first)) = first {
                first.socket.close();
            }
            all = self.changed.wait_for(all, KEEP_ALIVE);
        }
        drop(all);
        Registration { clients: self.clone(), number, client }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.all.lock().by_number.is_empty()
    }
}

impl Registration {
    /// Says that this client is of a rank, and waits until what ended clients of that rank have left
    /// is written. Those that live are left alone: two that use one rank at a time are no predecessor
    /// and successor.
    pub(super) fn wait_for_predecessors(&self, rank: u32) {
        let Clients { all, changed } = &*self.clients;
        let here = encode(&Reply::Alive).unwrap_or_default();
        let mut now = all.lock();
        if let Some(mine) = now.by_number.get_mut(&self.number) {
            mine.0 = Some(rank);
        }
        changed.notify_all();
        let earlier: Vec<u64> =
            now.by_number.keys().copied().filter(|&other| other < self.number).collect();
        // Those that are no predecessors were so when this one came.
        let mut lives: Vec<u64> = Vec::new();
        loop {
            let mut waits = false;
            for number in &earlier {
                let Some((of, client)) = now.by_number.get(number) else { continue };
                match *of {
                    // It has come, and what it is has not been read yet.
                    None => waits = true,
                    Some(of) if of != rank || lives.contains(number) => {}
                    Some(_) if client.has_ended_or_ends() => waits = true,
                    Some(_) => lives.push(*number),
                }
            }
            if !waits {
                return;
            }
            drop(now);
            // Not with the lock: a client that is stopped hears nothing. One that has ended neither.
            let _ = self.client.socket.send(&here, &[]);
            now = changed.wait_for(all.lock(), KEEP_ALIVE);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Also after a panic: the next client of that rank waits for this.
        self.clients.all.lock().by_number.remove(&self.number);
        self.clients.changed.notify_all();
    }
}

// Not with the locks of the model checks, which are for those alone.
#[cfg(not(feature = "model-check"))]
#[cfg(test)]
mod tests {
    use super::*;
    use os::socket::{connect_to, listen_at};
    use std::thread;

    /// Clients of this process, as the backend has them, and their own ends.
    fn clients(what: &str) -> (Arc<Clients>, [(Registration, Socket); 2]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(what);
        let listener = listen_at(&path).unwrap().unwrap();
        let clients = Arc::<Clients>::default();
        let one = || {
            let own = connect_to(&path).unwrap().unwrap();
            let socket = listener.accept(Duration::from_secs(60)).unwrap().unwrap();
            (clients.register(socket), own)
        };
        let both = [one(), one()];
        (clients, both)
    }

    fn hears(client: &Socket) -> bool {
        let heard = wait_for(&[client.as_fd()], Duration::from_secs(60)) == [true];
        heard && client.receive().unwrap().is_some()
    }

    /// A job that is killed right after it has begun, and the next one: the backend may hear of both at
    /// a time. Catches a successor that does not wait for a predecessor whose hello was not read.
    #[test]
    fn who_has_not_said_its_rank_may_be_a_predecessor() {
        for same in [false, true] {
            let (_, [(first, own), (second, other)]) = clients(&format!("unread-{same}"));
            drop(own);
            thread::scope(|scope| {
                let waiting = scope.spawn(|| second.wait_for_predecessors(7));
                assert!(hears(&other), "it does not wait");
                first.wait_for_predecessors(if same { 7 } else { 8 });
                if same {
                    assert!(hears(&other) && hears(&other), "it waits no more");
                    drop(first);
                }
                waiting.join().unwrap();
            });
        }
    }

    /// Two jobs of one rank at a time: the second does not wait for the first, not even if it ends.
    #[test]
    fn who_lives_is_no_predecessor() {
        let (_, [(first, _own), (second, _other)]) = clients("lives");
        first.wait_for_predecessors(7);
        second.wait_for_predecessors(7);
    }

    /// Catches a client that stays for ever after a panic, so that its successors wait for ever.
    #[test]
    fn after_a_panic_nobody_waits() {
        let (clients, [(first, own), (second, _other)]) = clients("panic");
        first.wait_for_predecessors(7);
        drop(own);
        let attending = thread::spawn(move || {
            let _attended = first;
            panic!("as a fault of the library would");
        });
        assert!(attending.join().is_err());
        let (done, ends) = std::sync::mpsc::channel();
        thread::spawn(move || {
            second.wait_for_predecessors(7);
            drop(second);
            done.send(()).unwrap();
        });
        ends.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(clients.is_empty());
    }
}
