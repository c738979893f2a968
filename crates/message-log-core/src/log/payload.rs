//! The bytes that a call received, and their chunk.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::mapping::LogMapping;

/// The longest payload that is stored inline.
pub(super) const INLINE: usize = 22;

/// Memory of dropped chunks for reuse, and the bytes in files.
#[derive(Debug)]
pub struct ChunkPool {
    /// The size of a chunk in bytes.
    chunk: usize,
    spare: RefCell<Vec<LogMapping>>,
    /// Bytes of payloads in files.
    in_files: Cell<u64>,
}

impl ChunkPool {
    /// An empty pool for chunks of this size.
    pub fn of(chunk: usize) -> ChunkPool {
        ChunkPool { chunk, spare: RefCell::default(), in_files: Cell::default() }
    }

    /// Takes memory for a chunk.
    pub fn take(&self) -> Option<LogMapping> {
        self.spare.borrow_mut().pop()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.spare.borrow().is_empty()
    }

    /// Returns all memory to the system.
    pub fn clear(&self) {
        self.spare.borrow_mut().clear();
    }

    /// Bytes of payloads in files.
    pub fn in_files(&self) -> u64 {
        self.in_files.get()
    }
}

/// Memory with payloads, one after the other.
#[derive(Debug)]
pub struct PayloadChunk {
    /// Present until the chunk is dropped.
    memory: Option<Arc<LogMapping>>,
    /// Bytes of its payloads.
    live: Cell<usize>,
    pool: Rc<ChunkPool>,
}

impl PayloadChunk {
    /// An empty chunk.
    pub fn new(memory: LogMapping, pool: &Rc<ChunkPool>) -> PayloadChunk {
        PayloadChunk { memory: Some(Arc::new(memory)), live: Cell::new(0), pool: Rc::clone(pool) }
    }

    /// Bytes of its payloads.
    pub fn live(&self) -> usize {
        self.live.get()
    }

    fn is_file(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.is_file())
    }

    /// Some of its bytes, which must exist.
    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| memory.slice(at, len))
    }

    /// Some of its bytes, for writing; they must exist.
    ///
    /// # Safety
    /// Nobody else reads or writes them at the same time.
    #[allow(clippy::mut_from_ref)] // Parts of a chunk are read while others are written.
    pub unsafe fn bytes_mut(&self, at: usize, len: usize) -> &mut [u8] {
        // SAFETY: by the caller's promise.
        self.memory.as_ref().map_or(&mut [], |memory| unsafe { memory.slice_mut(at, len) })
    }

    /// Its first bytes, for copying.
    pub fn source(&self, len: usize) -> ChunkBytes {
        ChunkBytes { memory: self.memory.clone(), len, live: self.live() }
    }

    fn come(&self, len: usize) {
        self.live.set(self.live.get() + len);
        if self.is_file() {
            self.pool.in_files.set(self.pool.in_files.get() + len as u64);
        }
    }

    fn leave(&self, len: usize) {
        self.live.set(self.live.get() - len);
        if self.is_file() {
            self.pool.in_files.set(self.pool.in_files.get() - len as u64);
        }
    }
}

impl Drop for PayloadChunk {
    fn drop(&mut self) {
        // Unless a checkpoint still reads it, the memory is reused; a file is removed to free its space.
        let memory = self.memory.take().and_then(Arc::into_inner);
        let again = |memory: &LogMapping| memory.size() == self.pool.chunk && !memory.is_file();
        if let Some(memory) = memory.filter(again) {
            self.pool.spare.borrow_mut().push(memory);
        }
    }
}

/// The bytes that a call received. They are immutable.
#[derive(Default)]
pub struct Payload(Storage);

#[derive(Default)]
enum Storage {
    #[default]
    Nothing,
    Inline {
        len: u8,
        bytes: [u8; INLINE],
    },
    Chunk(ChunkPart),
}

/// Part of a chunk.
struct ChunkPart {
    chunk: Rc<PayloadChunk>,
    at: usize,
    len: usize,
}

impl Drop for ChunkPart {
    fn drop(&mut self) {
        self.chunk.leave(self.len);
    }
}

/// The current bytes of a chunk, for copying; valid as long as this value.
#[derive(Debug)]
pub struct ChunkBytes {
    memory: Option<Arc<LogMapping>>,
    len: usize,
    live: usize,
}

impl ChunkBytes {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| memory.slice(0, self.len))
    }

    /// How many of them belong to payloads.
    pub fn live(&self) -> usize {
        self.live
    }
}

impl Payload {
    /// Bytes stored inline, at most `INLINE`.
    pub fn inline(len: usize) -> Payload {
        match len {
            0 => Payload::default(),
            len => Payload(Storage::Inline { len: len as u8, bytes: [0; INLINE] }),
        }
    }

    /// Stores the bytes inline, if they fit.
    ///
    /// # Safety
    /// `from` points to `len` bytes.
    #[inline(always)]
    pub unsafe fn copied(from: *const u8, len: usize) -> Option<Payload> {
        if len > INLINE {
            return None;
        }
        if len == 0 {
            return Some(Payload::default());
        }
        let mut bytes = [0; INLINE];
        // Copies of a constant length are inlined.
        // SAFETY: by the caller's promise, and there is room for as many.
        unsafe {
            match len {
                8 => std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), 8),
                4 => std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), 4),
                len => std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len),
            }
        };
        Some(Payload(Storage::Inline { len: len as u8, bytes }))
    }

    /// Part of a chunk, used only by this payload.
    pub fn part(chunk: &Rc<PayloadChunk>, at: usize, len: usize) -> Payload {
        chunk.come(len);
        Payload(Storage::Chunk(ChunkPart { chunk: Rc::clone(chunk), at, len }))
    }

    /// How many bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Storage::Nothing => 0,
            Storage::Inline { len, .. } => usize::from(*len),
            Storage::Chunk(part) => part.len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their chunk and the offset in it; `None` if stored inline.
    pub fn home(&self) -> Option<(&Rc<PayloadChunk>, usize)> {
        match &self.0 {
            Storage::Chunk(part) => Some((&part.chunk, part.at)),
            Storage::Nothing | Storage::Inline { .. } => None,
        }
    }

    /// Fills a new payload.
    pub(super) fn fill<E>(
        &mut self,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match &mut self.0 {
            Storage::Nothing => write(&mut []),
            Storage::Inline { len, bytes } => write(&mut bytes[..usize::from(*len)]),
            Storage::Chunk(ChunkPart { chunk, at, len }) => {
                // SAFETY: the range belongs to this payload alone, which nobody shares yet.
                write(unsafe { chunk.bytes_mut(*at, *len) })
            }
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Storage::Nothing => &[],
            Storage::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Storage::Chunk(ChunkPart { chunk, at, len }) => chunk.bytes(*at, *len),
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}
