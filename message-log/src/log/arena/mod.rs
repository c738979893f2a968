//! The memory that payloads are in: chunks that are used again, up to a limit. What goes beyond it is
//! given to a store, oldest first, since parts are replayed in reverse order, and comes back before
//! it is read.
//!
//! A chunk is filled, then *sealed*. From half of the limit on, sealed chunks are given to the store
//! ahead ([`Keeper`]), so that there is memory to be had at once when the limit is reached: the one
//! whose bytes are needed last. Below that nobody is asked for anything.

mod beyond;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use super::keeper::Keeper;
use super::limit::Limit;
use super::mapping::{Maker, Mapped, Mapping};
use super::payload::{Chunk, News, Payload, INLINE};
pub(super) use beyond::Patience;

/// Bytes of a chunk at the most. A payload that is longer gets one of its own.
const CHUNK: usize = 32 << 20;

/// Bytes of a chunk at least.
const LEAST: usize = 256 << 10;

/// The limit is so many chunks at least.
const CHUNKS: usize = 8;

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
