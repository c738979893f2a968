//! The bytes that a call received, and the chunk that they are in.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::keeper::{Keeper, Kept};
use super::mapping::Mapping;
use crate::digest::digest;

/// Payloads up to this length need no chunk.
pub const INLINE: usize = 22;

/// What chunks have to tell the arena, which the payloads do not know.
#[derive(Debug, Default)]
pub struct News {
    /// Sealed chunks that no payload is left in.
    pub dead: RefCell<Vec<u32>>,
    /// Chunks that were brought back because somebody has read there.
    pub brought: RefCell<Vec<u32>>,
    /// The sealed chunk that was read last.
    pub read: Cell<Option<u32>>,
    /// Another chunk was read than before, and some are away.
    pub is_due: Cell<bool>,
    /// Some chunk has been given to the store.
    pub has_given: Cell<bool>,
}

/// Memory that payloads are in, one behind another. Sealed: no more are coming, and it may be in the
/// store instead of in memory.
#[derive(Debug)]
pub struct Chunk {
    /// Where its bytes are. While it is not sealed, `memory`.
    kept: RefCell<Sealing>,
    /// Bytes of its payloads.
    live: Cell<usize>,
    keeper: Option<Arc<Keeper>>,
    news: Rc<News>,
}

#[derive(Debug)]
enum Sealing {
    Open(Arc<Mapping>),
    Sealed(Arc<Kept>),
}

impl Chunk {
    /// An empty one.
    pub fn new(memory: Mapping, keeper: Option<Arc<Keeper>>, news: &Rc<News>) -> Chunk {
        Chunk {
            kept: RefCell::new(Sealing::Open(Arc::new(memory))),
            live: Cell::new(0),
            keeper,
            news: Rc::clone(news),
        }
    }

    /// Bytes of its payloads.
    pub fn live(&self) -> usize {
        self.live.get()
    }

    /// The memory of one that is not sealed.
    pub fn open(&self) -> Option<Arc<Mapping>> {
        match &*self.kept.borrow() {
            Sealing::Open(memory) => Some(Arc::clone(memory)),
            Sealing::Sealed(_) => None,
        }
    }

    /// No payload comes to it any more; the first `used` bytes belong to some.
    pub fn seal(&self, number: u32, used: usize) -> Option<Arc<Kept>> {
        let memory = self.open()?;
        let kept = Arc::new(Kept::new(number, used, memory));
        *self.kept.borrow_mut() = Sealing::Sealed(Arc::clone(&kept));
        Some(kept)
    }

    /// Its first bytes, and where they are.
    pub fn source(&self, len: usize) -> Source {
        let (open, kept) = match &*self.kept.borrow() {
            Sealing::Open(memory) => (Some(Arc::clone(memory)), None),
            Sealing::Sealed(kept) => (kept.memory(), Some(Arc::clone(kept))),
        };
        let len = kept.as_ref().map_or(len, |kept| kept.len);
        Source { memory: open, kept, len, live: self.live() }
    }

    /// What the keeper knows of one that is sealed.
    pub fn sealed(&self) -> Option<Arc<Kept>> {
        match &*self.kept.borrow() {
            Sealing::Open(_) => None,
            Sealing::Sealed(kept) => Some(Arc::clone(kept)),
        }
    }

    /// Its memory, if need be from the store.
    fn memory(&self) -> Result<Arc<Mapping>, String> {
        let kept = match &*self.kept.borrow() {
            Sealing::Open(memory) => return Ok(Arc::clone(memory)),
            Sealing::Sealed(kept) => Arc::clone(kept),
        };
        let news = &self.news;
        if news.has_given.get() && news.read.get() != Some(kept.number) {
            news.read.set(Some(kept.number));
            news.is_due.set(true);
        }
        match (kept.memory(), &self.keeper) {
            (Some(memory), _) => Ok(memory),
            (None, Some(keeper)) => {
                let memory = keeper.memory(&kept)?;
                news.brought.borrow_mut().push(kept.number);
                Ok(memory)
            }
            (None, None) => Err("there is no store".to_owned()),
        }
    }

    fn left(&self, len: usize) {
        let live = self.live.get() - len;
        self.live.set(live);
        if live > 0 {
            return;
        }
        if let Sealing::Sealed(kept) = &*self.kept.borrow() {
            if let Some(keeper) = &self.keeper {
                keeper.forget(kept);
            }
            self.news.dead.borrow_mut().push(kept.number);
        }
    }
}

/// The bytes that a call received. They do not change.
#[derive(Default)]
pub struct Payload(Place);

#[derive(Default)]
enum Place {
    #[default]
    Nothing,
    Inline {
        len: u8,
        bytes: [u8; INLINE],
    },
    Chunk(Part),
}

/// Part of a chunk.
struct Part {
    chunk: Rc<Chunk>,
    at: usize,
    len: usize,
}

impl Drop for Part {
    fn drop(&mut self) {
        self.chunk.left(self.len);
    }
}

/// The bytes of a chunk as they are now, for who copies them. They stay as long as this does.
#[derive(Debug)]
pub struct Source {
    memory: Option<Arc<Mapping>>,
    kept: Option<Arc<Kept>>,
    len: usize,
    live: usize,
}

impl Source {
    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many of them belong to payloads.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Where they are, if they are in memory.
    pub fn memory(&self) -> Option<&Mapping> {
        self.memory.as_deref()
    }

    /// The bytes out of the store.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read(&self, keeper: Option<&Keeper>) -> Result<Arc<Mapping>, String> {
        match (&self.kept, keeper) {
            (Some(kept), Some(keeper)) => keeper.look(kept),
            _ => Err("a chunk of the log is nowhere".to_owned()),
        }
    }

    /// What tells them from others.
    ///
    /// # Errors
    /// They are nowhere.
    pub fn digest(&self) -> Result<u64, String> {
        match (&self.memory, &self.kept) {
            (Some(memory), _) => Ok(digest(memory.slice(0, self.len))),
            (None, Some(kept)) => kept.digest(),
            (None, None) => Err("a chunk of the log is nowhere".to_owned()),
        }
    }
}

/// The last chunk that was looked at and is not in memory: for who reads them all, and leaves them
/// where they are.
#[derive(Debug, Default)]
pub struct Window(Option<(u32, Arc<Mapping>)>);

impl Payload {
    /// Bytes that need no chunk. There are at most `INLINE`.
    pub fn inline(len: usize) -> Payload {
        match len {
            0 => Payload::default(),
            len => Payload(Place::Inline { len: len as u8, bytes: [0; INLINE] }),
        }
    }

    /// These bytes, if they need no chunk.
    ///
    /// # Safety
    /// So many bytes are there.
    #[inline(always)]
    pub unsafe fn copied(from: *const u8, len: usize) -> Option<Payload> {
        if len > INLINE {
            return None;
        }
        if len == 0 {
            return Some(Payload::default());
        }
        let mut bytes = [0; INLINE];
        // Lengths that are known are copied on the spot.
        // SAFETY: by the caller's promise, and there is room for as many.
        unsafe {
            match len {
                8 => std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), 8),
                4 => std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), 4),
                len => std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len),
            }
        };
        Some(Payload(Place::Inline { len: len as u8, bytes }))
    }

    /// Part of a chunk, which is this payload's alone.
    pub fn part(chunk: &Rc<Chunk>, at: usize, len: usize) -> Payload {
        chunk.live.set(chunk.live.get() + len);
        Payload(Place::Chunk(Part { chunk: Rc::clone(chunk), at, len }))
    }

    /// How many bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Place::Nothing => 0,
            Place::Inline { len, .. } => usize::from(*len),
            Place::Chunk(part) => part.len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The chunk that they are in, and their place in it.
    pub fn home(&self) -> Option<(&Rc<Chunk>, usize)> {
        match &self.0 {
            Place::Chunk(part) => Some((&part.chunk, part.at)),
            Place::Nothing | Place::Inline { .. } => None,
        }
    }

    /// The sealed chunk that they are in, and its length.
    pub fn chunk(&self) -> Option<(u32, usize)> {
        match &self.0 {
            Place::Chunk(part) => match &*part.chunk.kept.borrow() {
                Sealing::Open(_) => None,
                Sealing::Sealed(kept) => Some((kept.number, kept.len)),
            },
            Place::Nothing | Place::Inline { .. } => None,
        }
    }

    /// Writes them, when they are made.
    pub(super) fn fill<E>(
        &mut self,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match &mut self.0 {
            Place::Nothing => write(&mut []),
            Place::Inline { len, bytes } => write(&mut bytes[..usize::from(*len)]),
            Place::Chunk(Part { chunk, at, len }) => match chunk.open() {
                // SAFETY: the range was given to this payload alone, which nobody has yet.
                Some(memory) => write(unsafe { memory.slice_mut(*at, *len) }),
                // It is filled before its chunk is sealed.
                None => write(&mut []),
            },
        }
    }

    /// Does something with the bytes, which are brought back if they are in the store.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read<T>(&self, body: impl FnOnce(&[u8]) -> T) -> Result<T, String> {
        match &self.0 {
            Place::Nothing => Ok(body(&[])),
            Place::Inline { len, bytes } => Ok(body(&bytes[..usize::from(*len)])),
            Place::Chunk(Part { chunk, at, len }) => {
                let memory = chunk.memory()?;
                Ok(body(memory.slice(*at, *len)))
            }
        }
    }

    /// The same of bytes that stay where they are.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn look<T>(&self, window: &mut Window, body: impl FnOnce(&[u8]) -> T) -> Result<T, String> {
        let Place::Chunk(Part { chunk, at, len }) = &self.0 else { return self.read(body) };
        let away = chunk.sealed().zip(chunk.keeper.as_ref());
        let Some((kept, keeper)) = away.filter(|(kept, _)| kept.is_away()) else {
            return self.read(body);
        };
        let memory = match &window.0 {
            Some((number, memory)) if *number == kept.number => Arc::clone(memory),
            _ => {
                // One at a time.
                window.0 = None;
                let memory = keeper.look(&kept)?;
                window.0 = Some((kept.number, Arc::clone(&memory)));
                memory
            }
        };
        Ok(body(memory.slice(*at, *len)))
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}
