//! The memory that payloads are in: chunks that are used again, up to a limit. What goes beyond it is
//! given to a store, oldest first, since parts are replayed in reverse order, and comes back before
//! it is read.
//!
//! A chunk is filled, then *sealed*. From half of the limit on, sealed chunks are given to the store
//! ahead ([`Keeper`]), so that there is memory to be had at once when the limit is reached: the one
//! whose bytes are needed last. Below that nobody is asked for anything.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use super::keeper::{Keeper, Kept};
use super::limit::Limit;
use super::mapping::{Maker, Mapped, Mapping};
use super::payload::{Chunk, News, Payload, INLINE};

/// Bytes of a chunk at the most. A payload that is longer gets one of its own.
const CHUNK: usize = 32 << 20;

/// Bytes of a chunk at least.
const LEAST: usize = 256 << 10;

/// The limit is so many chunks at least.
const CHUNKS: usize = 8;

/// How long is waited for memory while the store takes nothing at all.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a store is waited for that does nothing: once, until it has done something again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    at_most: Duration,
    /// How many orders had ended when it was lost.
    lost_at: Option<u64>,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience::of(PATIENCE)
    }
}

impl Patience {
    /// So long.
    pub(super) fn of(at_most: Duration) -> Patience {
        Patience { at_most, lost_at: None }
    }

    /// How long the store is waited for that has ended so many orders; `None`: not at all.
    pub(super) fn left(&self, ended: u64) -> Option<Duration> {
        (self.lost_at != Some(ended)).then_some(self.at_most)
    }

    /// It was waited for in vain, and had ended so many orders.
    pub(super) fn lose(&mut self, ended: u64) {
        self.lost_at = Some(ended);
    }
}

/// The chunks.
#[derive(Default)]
pub struct Arena {
    /// Where payloads are put now, and up to where it is used.
    current: Option<(Rc<Chunk>, usize)>,
    /// By number, and so by age.
    sealed: BTreeMap<u32, Rc<Chunk>>,
    /// Those of them that are in memory, or on their way back.
    resident: BTreeSet<u32>,
    /// Chunks that will be read next, in order.
    next: Vec<u32>,
    /// Memory of chunks that nobody needs any more.
    spare: Vec<Mapping>,
    /// Who makes chunks ahead, once the first one is half full.
    maker: Option<Maker>,
    news: Rc<News>,
    common: Common,
    patience: Patience,
    /// What is to be said.
    notice: Option<String>,
    is_said: bool,
}

/// What arenas that follow each other have in common.
#[derive(Clone, Debug)]
struct Common {
    /// Bytes of a chunk.
    chunk: usize,
    /// Bytes in memory.
    limit: usize,
    mapped: Mapped,
    /// The number of the next chunk.
    numbers: Arc<AtomicU32>,
    keeper: Option<Arc<Keeper>>,
}

impl Default for Common {
    fn default() -> Common {
        let (mapped, numbers) = (Mapped::default(), Arc::default());
        Common { chunk: CHUNK, limit: usize::MAX, mapped, numbers, keeper: None }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} full chunks", self.sealed.len())
    }
}

impl Arena {
    /// Chunks in so much memory, and in the store of a keeper beyond it.
    pub fn within(limit: Limit, keeper: impl FnOnce(&Mapped) -> Arc<Keeper>) -> Arena {
        let mapped = Mapped::default();
        let share = limit.0 / CHUNKS;
        // The largest power of two.
        let chunk = share.checked_ilog2().map_or(LEAST, |log| 1 << log).clamp(LEAST, CHUNK);
        let keeper = Some(keeper(&mapped));
        let common = Common { chunk, limit: limit.0, mapped, numbers: Arc::default(), keeper };
        Arena { common, ..Arena::default() }
    }

    /// An empty one in the same memory, with the same store.
    pub fn another(&self) -> Arena {
        Arena { common: self.common.clone(), is_said: self.is_said, ..Arena::default() }
    }

    /// Who gives chunks to the store.
    pub fn keeper(&self) -> Option<Arc<Keeper>> {
        self.common.keeper.clone()
    }

    /// A chunk for bytes of another process, with its memory, of which nobody knows yet: to be
    /// sealed before the next one.
    ///
    /// # Errors
    /// The system gives no memory.
    pub fn take_in(&mut self, len: usize) -> Result<(Rc<Chunk>, Arc<Mapping>), String> {
        let none = || format!("there is no memory for {len} bytes of the log of messages");
        let memory = self.fresh(len.max(self.common.chunk)).ok_or_else(none)?;
        let chunk = Rc::new(self.chunk(memory));
        let memory = chunk.open().ok_or_else(none)?;
        Ok((chunk, memory))
    }

    /// Bytes that the store has.
    pub fn stored(&self) -> u64 {
        self.common.keeper.as_ref().map_or(0, |keeper| keeper.stored())
    }

    /// Bytes of payloads that are in the store alone.
    pub fn away(&self) -> u64 {
        let away = self.sealed.iter().filter(|(number, _)| !self.resident.contains(number));
        away.map(|(_, chunk)| chunk.live() as u64).sum()
    }

    /// What is to be said to the user, once.
    pub fn notice(&mut self) -> Option<String> {
        self.notice.take()
    }

    /// Whether another chunk was read than before, and some are in the store: what is read next
    /// should be asked for.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.news.is_due.get()
    }

    /// How many bytes are worth asking for.
    pub fn reach(&self) -> usize {
        self.common.limit / 2
    }

    /// A payload of `len` bytes, which `write` writes.
    ///
    /// # Errors
    /// The system gives no memory, or those of `write`.
    pub fn keep(
        &mut self,
        len: usize,
        write: impl FnOnce(&mut [u8]) -> Result<(), String>,
    ) -> Result<Payload, String> {
        let none = || format!("there is no memory to log {len} bytes that were received");
        if len <= self.common.chunk {
            let mut payload = self.room(len).ok_or_else(none)?;
            payload.fill(write)?;
            return Ok(payload);
        }
        let memory = self.fresh(len).ok_or_else(none)?;
        let chunk = Rc::new(self.chunk(memory));
        let mut payload = Payload::part(&chunk, 0, len);
        let filled = payload.fill(write);
        self.seal(chunk, len);
        filled.map(|()| payload)
    }

    fn room(&mut self, len: usize) -> Option<Payload> {
        if len <= INLINE {
            return Some(Payload::inline(len));
        }
        // Copies are quicker between lines of the cache.
        let size = self.common.chunk;
        let room = len.next_multiple_of(64).min(size);
        if let Some((chunk, used)) = &mut self.current {
            // No payload is left in it: from the start again, in memory that is there.
            if chunk.live() == 0 {
                *used = 0;
            }
        }
        match &mut self.current {
            Some((chunk, used)) if size - *used >= room => {
                let at = *used;
                *used += room;
                let payload = Payload::part(chunk, at, len);
                if at < size / 2 && at + room >= size / 2 {
                    self.order();
                }
                Some(payload)
            }
            _ => {
                if let Some((full, used)) = self.current.take() {
                    self.seal(full, used);
                }
                let memory = self.fresh(size)?;
                let chunk = Rc::new(self.chunk(memory));
                let payload = Payload::part(&chunk, 0, len);
                self.current = Some((chunk, room));
                Some(payload)
            }
        }
    }

    fn chunk(&self, memory: Mapping) -> Chunk {
        Chunk::new(memory, self.common.keeper.clone(), &self.news)
    }

    /// A chunk is full: so many bytes of it belong to payloads, or did.
    pub fn seal(&mut self, chunk: Rc<Chunk>, used: usize) {
        let number = self.common.numbers.fetch_add(1, Ordering::Relaxed);
        if chunk.seal(number, used).is_none() {
            return;
        }
        self.sealed.insert(number, chunk);
        self.resident.insert(number);
        self.give_ahead();
    }

    /// Memory for a chunk: used before, made ahead, or made now; from the store's copy of another
    /// one, if there is no more to be had.
    fn fresh(&mut self, len: usize) -> Option<Mapping> {
        self.collect();
        if len == self.common.chunk {
            if let Some(memory) = self.spare.pop() {
                return Some(memory);
            }
            if let Some(memory) = self.maker.as_mut().and_then(Maker::take) {
                return Some(memory);
            }
        }
        if let Some(memory) = self.make_room(len) {
            return Some(memory);
        }
        Mapping::map(len, &self.common.mapped)
    }

    /// Takes note of chunks that nobody needs any more, and of those that were brought back.
    fn collect(&mut self) {
        let brought = std::mem::take(&mut *self.news.brought.borrow_mut());
        self.resident.extend(brought.iter().filter(|number| self.sealed.contains_key(number)));
        let dead = std::mem::take(&mut *self.news.dead.borrow_mut());
        for number in dead {
            self.resident.remove(&number);
            let Some(chunk) = self.sealed.remove(&number) else { continue };
            let memory = chunk.sealed().and_then(|kept| kept.give_up_dead());
            self.reuse(memory);
        }
    }

    /// Memory that is not needed any more, unless somebody still has it.
    fn reuse(&mut self, memory: Option<Arc<Mapping>>) {
        let Some(memory) = memory.and_then(Arc::into_inner) else { return };
        if memory.size() == self.common.chunk {
            self.spare.push(memory);
        }
    }

    /// Whether so many bytes more are within the limit.
    fn fits(&self, len: usize) -> bool {
        self.common.mapped.load(Ordering::Relaxed).saturating_add(len) <= self.common.limit
    }

    /// Sees to it that so many bytes more are within the limit, or says that they are not. The memory
    /// itself, if it is that of another chunk.
    fn make_room(&mut self, len: usize) -> Option<Mapping> {
        let keeper = self.common.keeper.clone()?;
        while !self.fits(len) {
            if !self.spare.is_empty() {
                self.spare.clear();
                continue;
            }
            let ended = keeper.ended();
            if let Some(memory) = self.give_up_one(&[]) {
                if memory.size() == len {
                    self.shed();
                    return Some(memory);
                }
                continue;
            }
            if !keeper.is_there() {
                self.stays(
                    "with VELOC_Init and a scratch directory (libveloc-client) it would go to files",
                );
                return None;
            }
            let is_leaving = self.is_leaving();
            if let Some(text) = keeper.refusal() {
                // It may be taken now, but nobody waits for that.
                if !is_leaving {
                    self.give_one(&keeper);
                }
                self.stays(&format!("the checkpoint library does not take it: {text}"));
                return None;
            }
            if is_leaving && !self.awaits(&keeper, ended) {
                let waited = self.patience.at_most.as_secs();
                self.stays(&format!("the checkpoint library has taken none of it for {waited} s"));
                return None;
            }
            if !is_leaving && !self.give_one(&keeper) {
                return None;
            }
        }
        None
    }

    /// Gives up what is in memory beyond the limit, as far as the store has it.
    fn shed(&mut self) {
        while !self.fits(0) && self.give_up_one(&[]).is_some() {}
    }

    /// Says, once, that the log is larger than it should be.
    fn stays(&mut self, why: &str) {
        if std::mem::replace(&mut self.is_said, true) {
            return;
        }
        self.news.is_due.set(true);
        self.notice = Some(format!(
            "the log of messages has more than {} bytes (VELOC_MPI_LOG_MEMORY) and stays in memory: \
             {why}",
            self.common.limit
        ));
    }

    /// Waits until the keeper has ended another order than these, unless that was in vain before.
    fn awaits(&mut self, keeper: &Keeper, ended: u64) -> bool {
        let Some(at_most) = self.patience.left(ended) else { return false };
        let goes_on = keeper.wait(ended, at_most);
        if !goes_on {
            self.patience.lose(ended);
        }
        goes_on
    }

    /// Has less patience, or more.
    #[cfg(test)]
    pub(super) fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    fn is_leaving(&self) -> bool {
        self.kept().any(|kept| kept.is_leaving())
    }

    /// The sealed chunks in memory, or on their way back.
    fn kept(&self) -> impl Iterator<Item = Arc<Kept>> + '_ {
        self.resident.iter().filter_map(|number| self.sealed.get(number)?.sealed())
    }

    /// The memory of the chunk that will be needed last, of those that the store has and that are not
    /// to stay.
    fn give_up_one(&mut self, stay: &[u32]) -> Option<Mapping> {
        for number in self.last_needed_first() {
            if stay.contains(&number) {
                continue;
            }
            let kept = self.sealed.get(&number).and_then(|chunk| chunk.sealed());
            let Some(memory) = kept.and_then(|kept| kept.give_up_memory()) else { continue };
            self.resident.remove(&number);
            if let Some(memory) = Arc::into_inner(memory) {
                return Some(memory);
            }
        }
        None
    }

    /// The chunks in memory: those that are not read soon, from the oldest on, then those that are,
    /// from the last on. The one that is being read is none of them.
    fn last_needed_first(&self) -> Vec<u32> {
        let soon: HashSet<u32> = self.next.iter().copied().collect();
        let now = self.news.read.get();
        let free = self.resident.iter().filter(|number| !soon.contains(number)).copied();
        let free = free.filter(|number| Some(*number) != now);
        let rest = self.next.iter().rev().filter(|number| self.resident.contains(number)).copied();
        free.chain(rest.filter(|number| Some(*number) != now)).collect()
    }

    /// Gives the store one more chunk. False: there is none, or it cannot be given.
    fn give_one(&mut self, keeper: &Keeper) -> bool {
        for number in self.last_needed_first() {
            let kept = self.sealed.get(&number).and_then(|chunk| chunk.sealed());
            let Some(kept) = kept.filter(|kept| kept.is_dirty()) else { continue };
            self.news.has_given.set(true);
            return keeper.take(&kept);
        }
        false
    }

    /// Gives chunks to the store that it has not, if they have more than half of the limit.
    fn give_ahead(&mut self) {
        let Some(keeper) = self.common.keeper.clone() else { return };
        // Cheap where the limit is far.
        if self.common.mapped.load(Ordering::Relaxed) <= self.common.limit / 2
            || keeper.refusal().is_some()
            || !keeper.is_there()
        {
            return;
        }
        let dirty = |arena: &Arena| -> usize {
            let dirty = arena.kept().filter(|kept| kept.is_dirty());
            dirty.map(|kept| kept.len).sum()
        };
        while dirty(self) > self.common.limit / 2 {
            if !self.give_one(&keeper) {
                return;
            }
        }
    }

    /// These chunks are read next, in order: brings back those that are in the store, as far as
    /// there is memory.
    pub fn expect(&mut self, next: Vec<u32>) {
        self.news.is_due.set(false);
        self.collect();
        self.next = next;
        let Some(keeper) = self.common.keeper.clone() else { return };
        // What was read unexpectedly has come all the same.
        self.shed();
        for place in 0..self.next.len() {
            let number = self.next[place];
            let kept = self.sealed.get(&number).and_then(|chunk| chunk.sealed());
            let Some(kept) = kept.filter(|kept| kept.is_away()) else { continue };
            let is_common = kept.room == self.common.chunk;
            let mut memory = if is_common { self.spare.pop() } else { None };
            while memory.is_none() && !self.fits(kept.room) {
                // Not for one that is read later.
                let sooner = self.next[..place].to_vec();
                match self.give_up_one(&sooner) {
                    Some(given) if given.size() == kept.room => memory = Some(given),
                    Some(_) => {}
                    None => return,
                }
            }
            let memory = memory.or_else(|| Mapping::map(kept.room, &self.common.mapped));
            let Some(memory) = memory else { return };
            self.resident.insert(number);
            keeper.bring(&kept, memory);
        }
    }

    /// The store is about to be there no more. What it can give all the same stays with it; the rest
    /// comes back, whatever the limit says.
    pub fn leave(&mut self) {
        self.collect();
        let Some(keeper) = self.common.keeper.clone() else { return };
        let all: Vec<_> = self.sealed.iter().filter_map(|(n, c)| Some((*n, c.sealed()?))).collect();
        for (number, kept) in all {
            let Err(why) = keeper.leave(&kept) else { continue };
            match keeper.take_back(&kept) {
                Ok(()) => {
                    self.resident.insert(number);
                    if !self.fits(0) {
                        self.stays(&format!("the checkpoint library cannot keep it: {why}"));
                    }
                }
                Err(text) => {
                    let lost = "a part of the log of messages is lost at VELOC_Finalize";
                    self.notice.get_or_insert(format!("{lost}: {text}"));
                }
            }
        }
        keeper.rest();
    }

    /// Has a chunk made, if the next one would not be there.
    #[cold]
    fn order(&mut self) {
        self.collect();
        let len = self.common.chunk;
        if !self.spare.is_empty() || !self.fits(len) {
            return;
        }
        let maker = match &mut self.maker {
            Some(maker) => maker,
            none => match Maker::start(len, &self.common.mapped) {
                Some(maker) => none.insert(maker),
                None => return,
            },
        };
        maker.order();
    }
}
