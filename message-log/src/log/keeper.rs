//! The thread that gives chunks to a store and brings them back, while the application goes on.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::mapping::{Mapped, Mapping};
use crate::digest::digest;
use crate::guard;

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

/// What is to be done with a chunk.
#[derive(Debug)]
enum Order {
    /// It is to be given to the store.
    Take,
    /// It is to be brought back, into this memory.
    Give(Mapping),
    /// The keeper is at it.
    Running,
}

/// Where the bytes of a chunk are.
#[derive(Debug, Default)]
struct Place {
    memory: Option<Arc<Mapping>>,
    /// The digest of what the store has.
    stored: Option<u64>,
    order: Option<Order>,
    /// Nobody needs it any more.
    is_dead: bool,
    /// Where it is not any more, and why.
    lost: Option<String>,
}

/// A chunk, for the application's thread and for the keeper's.
#[derive(Debug)]
pub struct Kept {
    /// Names it in the store.
    pub number: u32,
    /// The bytes that the store gets.
    pub len: usize,
    /// The bytes of its memory.
    pub room: usize,
    place: Mutex<Place>,
}

impl Kept {
    /// A chunk in memory, of which so many bytes are used.
    pub fn new(number: u32, len: usize, memory: Arc<Mapping>) -> Kept {
        let room = memory.size();
        let place = Place { memory: Some(memory), ..Place::default() };
        Kept { number, len, room, place: Mutex::new(place) }
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        lock(&self.place)
    }

    /// Its memory, if it is there.
    pub fn memory(&self) -> Option<Arc<Mapping>> {
        self.place().memory.clone()
    }

    /// The digest of what the store has.
    ///
    /// # Errors
    /// It has nothing.
    pub fn digest(&self) -> Result<u64, String> {
        let place = self.place();
        let why = || place.lost.clone().unwrap_or_else(|| "it is nowhere".to_owned());
        place.stored.ok_or_else(|| format!("chunk {} of the log: {}", self.number, why()))
    }

    /// Whether it is in memory, and nobody has ordered that it goes elsewhere.
    pub fn is_dirty(&self) -> bool {
        let place = self.place();
        place.memory.is_some() && place.stored.is_none() && place.order.is_none()
    }

    /// Whether it is on its way to the store.
    pub fn is_leaving(&self) -> bool {
        let place = self.place();
        place.order.is_some() && place.memory.is_some()
    }

    /// Whether it is in the store alone, and nobody has ordered that it comes back.
    pub fn is_away(&self) -> bool {
        let place = self.place();
        place.memory.is_none() && place.order.is_none() && place.lost.is_none()
    }

    /// Gives up the memory of a chunk that the store has. `None` if it has it not.
    pub fn give_up_memory(&self) -> Option<Arc<Mapping>> {
        let mut place = self.place();
        if place.stored.is_none() || place.order.is_some() {
            return None;
        }
        place.memory.take()
    }

    /// Gives up the memory of a chunk that nobody needs. `None` if the keeper is still at it.
    pub fn give_up_dead(&self) -> Option<Arc<Mapping>> {
        self.place().memory.take()
    }
}

#[derive(Debug, Default)]
struct Queue {
    orders: VecDeque<Arc<Kept>>,
    /// The keeper works on one.
    is_busy: bool,
    /// How many it has ended.
    ended: u64,
    stops: bool,
    is_started: bool,
}

/// What both threads see.
struct Shared {
    store: Box<dyn Store>,
    queue: Mutex<Queue>,
    work: Condvar,
    done: Condvar,
    mapped: Mapped,
    /// Bytes that the store has.
    stored: AtomicU64,
    /// The last chunk was refused.
    is_refused: AtomicBool,
    refusal: Mutex<String>,
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
            let thread = std::thread::Builder::new().name("veloc-mpi log".into()).spawn(work);
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

impl Shared {
    fn work(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let chunk = loop {
                if let Some(chunk) = queue.orders.pop_front() {
                    break chunk;
                }
                if queue.stops {
                    return;
                }
                queue = wait(&self.work, queue);
            };
            queue.is_busy = true;
            drop(queue);
            // A panic must not keep anybody waiting: the chunk stays where it is.
            if let Err(panic) = guard::caught(|| self.serve(&chunk)) {
                self.refused(panic.text());
                chunk.place().order = None;
            }
            let mut queue = lock(&self.queue);
            queue.is_busy = false;
            queue.ended += 1;
            self.done.notify_all();
        }
    }

    fn serve(&self, chunk: &Arc<Kept>) {
        let (order, memory, stored) = {
            let mut place = chunk.place();
            let order = place.order.take();
            if order.is_some() {
                place.order = Some(Order::Running);
            }
            (order, place.memory.clone(), place.stored)
        };
        match (order, memory) {
            (Some(Order::Take), Some(memory)) => {
                let bytes = memory.slice(0, chunk.len);
                let taken = self.store.take(chunk.number, bytes);
                let digest = taken.as_ref().ok().map(|()| digest(bytes));
                match taken {
                    Ok(()) => self.is_refused.store(false, Ordering::Relaxed),
                    Err(text) => self.refused(text),
                }
                if digest.is_some() {
                    self.stored.fetch_add(chunk.len as u64, Ordering::Relaxed);
                }
                let mut place = chunk.place();
                place.stored = digest;
                place.order = None;
            }
            (Some(Order::Give(into)), _) => {
                // One that cannot be read is tried again by who needs it, and told.
                let read = self.read(chunk, stored, Some(into)).ok().map(Arc::new);
                let mut place = chunk.place();
                place.memory = read;
                place.order = None;
            }
            (Some(_), _) => chunk.place().order = None,
            // It was called off, or is to be forgotten.
            (None, _) => {}
        }
        let mut place = chunk.place();
        if place.is_dead && place.stored.take().is_some() {
            drop(place);
            self.let_go(chunk);
        }
    }

    /// Has the store forget what it has of a chunk.
    fn let_go(&self, chunk: &Kept) {
        // A file that stays goes at the end of the job.
        let _ = self.store.forget(chunk.number);
        self.stored.fetch_sub(chunk.len as u64, Ordering::Relaxed);
    }

    fn refused(&self, text: String) {
        *lock(&self.refusal) = text;
        self.is_refused.store(true, Ordering::Relaxed);
    }

    fn read(
        &self,
        chunk: &Kept,
        stored: Option<u64>,
        into: Option<Mapping>,
    ) -> Result<Mapping, String> {
        let number = chunk.number;
        let stored = stored.ok_or_else(|| format!("chunk {number} of the log is nowhere"))?;
        let mapping = into.or_else(|| Mapping::map(chunk.room, &self.mapped));
        let mut mapping =
            mapping.ok_or_else(|| format!("there is no memory for chunk {number} of the log"))?;
        let bytes = &mut mapping.all_mut()[..chunk.len];
        self.store.give(number, bytes)?;
        match digest(bytes) == stored {
            true => Ok(mapping),
            false => {
                Err(format!("chunk {number} of the log is not what was stored: it is damaged"))
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
