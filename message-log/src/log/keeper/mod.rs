//! The thread that gives chunks to a store and brings them back, while the application goes on.
//!
//! | file | owns |
//! | --- | --- |
//! | `kept` | a chunk, and where its bytes are |
//! | `worker` | the thread |

mod kept;
mod worker;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::mapping::{Mapped, Mapping};
pub use kept::Kept;
use kept::{Order, Place};
use worker::{Queue, Shared};

/// Where chunks go that there is no memory for. Any thread may call, and waits for room.
pub trait Store: Send + Sync {
    /// Whether there is one now.
    fn is_there(&self) -> bool;

    /// Takes a copy of these bytes.
    ///
    /// # Errors
    /// The reason, in words; as for the others.
    fn take(&self, number: u32, bytes: &[u8]) -> Result<(), String>;

    /// Gives bytes back. They stay, too.
    ///
    /// # Errors
    /// As above.
    fn give(&self, number: u32, into: &mut [u8]) -> Result<(), String>;

    /// It is about to be there no more. Sees to it that it can give bytes, and forget them, all the
    /// same.
    ///
    /// # Errors
    /// It cannot.
    fn leave(&self, number: u32) -> Result<(), String>;

    /// Forgets bytes.
    ///
    /// # Errors
    /// As above.
    fn forget(&self, number: u32) -> Result<(), String>;
}

/// The keeper. Its thread begins with the first order, and ends with this.
pub struct Keeper(Arc<Shared>);

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in the store", self.stored())
    }
}

impl Keeper {
    /// That of a store, which counts what it maps.
    pub fn of(store: Box<dyn Store>, mapped: &Mapped) -> Keeper {
        Keeper(Arc::new(Shared {
            store,
            queue: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            mapped: Arc::clone(mapped),
            stored: AtomicU64::new(0),
            is_refused: AtomicBool::new(false),
            refusal: Mutex::default(),
        }))
    }

    /// Whether there is a store now.
    pub fn is_there(&self) -> bool {
        self.0.store.is_there()
    }

    /// Bytes that the store has.
    pub fn stored(&self) -> u64 {
        self.0.stored.load(Ordering::Relaxed)
    }

    /// Why the store has refused the last chunk that it was given, if it has.
    pub fn refusal(&self) -> Option<String> {
        let refused = self.0.is_refused.load(Ordering::Relaxed);
        refused.then(|| lock(&self.0.refusal).clone())
    }

    /// Has a chunk in memory given to the store. False: there is no thread for that.
    pub fn take(&self, chunk: &Arc<Kept>) -> bool {
        if !self.start() {
            return false;
        }
        chunk.place().order = Some(Order::Take);
        self.put(chunk);
        true
    }

    /// Has a chunk brought back that is away.
    pub fn bring(&self, chunk: &Arc<Kept>, into: Mapping) {
        if self.start() {
            chunk.place().order = Some(Order::Give(into));
            self.put(chunk);
        }
    }

    /// Nobody needs a chunk any more.
    pub fn forget(&self, chunk: &Arc<Kept>) {
        let is_there = {
            let mut place = chunk.place();
            place.is_dead = true;
            if !matches!(place.order, Some(Order::Running)) {
                place.order = None;
            }
            place.stored.is_some()
        };
        if is_there && self.start() {
            self.put(chunk);
        }
    }

    /// The memory of a chunk, which is brought back if it is away: now, or by the keeper if that is
    /// at it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn memory(&self, chunk: &Kept) -> Result<Arc<Mapping>, String> {
        let mut into = None;
        loop {
            let ended = lock(&self.0.queue).ended;
            {
                let mut place = chunk.place();
                if let Some(memory) = &place.memory {
                    return Ok(Arc::clone(memory));
                }
                if let Some(text) = &place.lost {
                    return Err(text.clone());
                }
                match place.order.take() {
                    Some(Order::Running) => place.order = Some(Order::Running),
                    Some(Order::Give(mapping)) => into = Some(mapping),
                    Some(Order::Take) | None => {}
                }
                if place.order.is_none() {
                    // The keeper lets it be from here on.
                    let memory = Arc::new(self.0.read(chunk, place.stored, into.take())?);
                    place.memory = Some(Arc::clone(&memory));
                    return Ok(memory);
                }
            }
            let queue = lock(&self.0.queue);
            if queue.ended == ended {
                drop(wait(&self.0.done, queue));
            }
        }
    }

    /// The memory of a chunk, which stays where it is: if that is away, what is read is the caller's.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn look(&self, chunk: &Kept) -> Result<Arc<Mapping>, String> {
        let (memory, stored, lost) = {
            let place = chunk.place();
            (place.memory.clone(), place.stored, place.lost.clone())
        };
        match (memory, lost) {
            (Some(memory), _) => Ok(memory),
            (None, Some(text)) => Err(text),
            (None, None) => self.0.read(chunk, stored, None).map(Arc::new),
        }
    }

    /// The store is about to be there no more: it can give a chunk that it has all the same.
    ///
    /// # Errors
    /// It cannot: why.
    pub fn leave(&self, chunk: &Arc<Kept>) -> Result<(), String> {
        let place = self.settled(chunk);
        let is_stored = place.stored.is_some();
        drop(place);
        if is_stored {
            self.0.store.leave(chunk.number)?;
        }
        Ok(())
    }

    /// A chunk that nobody gives to the store any more, when the keeper is not at it.
    fn settled<'a>(&self, chunk: &'a Kept) -> MutexGuard<'a, Place> {
        let mut place = chunk.place();
        if matches!(place.order, Some(Order::Take)) {
            place.order = None;
        }
        while matches!(place.order, Some(Order::Running)) {
            drop(place);
            let queue = lock(&self.0.queue);
            drop(self.0.done.wait_timeout(queue, PAUSE));
            place = chunk.place();
        }
        place
    }

    /// A chunk is to be in memory, and nowhere else, from here on.
    ///
    /// # Errors
    /// It cannot be read: then it is nowhere.
    pub fn take_back(&self, chunk: &Arc<Kept>) -> Result<(), String> {
        drop(self.settled(chunk));
        let got = self.memory(chunk).map(drop);
        let mut place = self.settled(chunk);
        if let Err(text) = &got {
            place.lost = Some(text.clone());
        }
        if place.stored.take().is_some() {
            self.0.let_go(chunk);
        }
        got
    }

    /// How many orders have ended.
    pub fn ended(&self) -> u64 {
        lock(&self.0.queue).ended
    }

    /// Waits until another order has ended, for this long at the most. Whether one has.
    pub fn wait(&self, ended: u64, at_most: Duration) -> bool {
        let queue = lock(&self.0.queue);
        let rests = |queue: &mut Queue| queue.ended == ended;
        let waited = self.0.done.wait_timeout_while(queue, at_most, rests);
        waited.map_or(true, |(_, timeout)| !timeout.timed_out())
    }

    /// Waits until nothing is to be done any more.
    pub fn rest(&self) {
        let mut queue = lock(&self.0.queue);
        while queue.is_busy || !queue.orders.is_empty() {
            queue = wait(&self.0.done, queue);
        }
    }

    fn put(&self, chunk: &Arc<Kept>) {
        lock(&self.0.queue).orders.push_back(Arc::clone(chunk));
        self.0.work.notify_one();
    }

    fn start(&self) -> bool {
        let mut queue = lock(&self.0.queue);
        if !queue.is_started {
            let shared = Arc::clone(&self.0);
            let work = move || shared.work();
            let builder = std::thread::Builder::new().name("veloc-mpi log".into());
            let thread = threads::unsignalled(|| builder.spawn(work));
            queue.is_started = thread.is_ok();
        }
        queue.is_started
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        lock(&self.0.queue).stops = true;
        self.0.work.notify_all();
    }
}

/// Between two looks at a chunk that the keeper is at.
const PAUSE: Duration = Duration::from_millis(1);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::mapping::tests::takes_no_signals;
    use super::*;

    struct Nowhere;

    impl Store for Nowhere {
        fn is_there(&self) -> bool {
            false
        }

        fn take(&self, _: u32, _: &[u8]) -> Result<(), String> {
            Err("nowhere".into())
        }

        fn give(&self, _: u32, _: &mut [u8]) -> Result<(), String> {
            Err("nowhere".into())
        }

        fn leave(&self, _: u32) -> Result<(), String> {
            Ok(())
        }

        fn forget(&self, _: u32) -> Result<(), String> {
            Ok(())
        }
    }

    /// Catches a thread that takes the application's signals.
    #[test]
    fn the_keeper_takes_no_signals() {
        let keeper = Keeper::of(Box::new(Nowhere), &Mapped::default());
        assert!(keeper.start());
        assert!(takes_no_signals("veloc-mpi log"));
    }
}
