//! The memory of payloads: reused chunks, up to a limit. Chunks beyond the limit are unnamed files in the
//! job's scratch directory, mapped to memory: the system caches what fits, and removes a file when it is
//! unmapped or the process ends.

use std::fmt;
use std::fs::File;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use super::limit::Limit;
use super::mapping::{LogMapping, Maker, MappedBytes};
use super::payload::{ChunkPool, Payload, PayloadChunk, INLINE};

/// Largest chunk in bytes; a longer payload gets its own.
const CHUNK: usize = 32 << 20;

/// Smallest chunk in bytes.
const LEAST: usize = 256 << 10;

/// The limit is at least this many chunks.
const CHUNKS: usize = 8;

/// Creates a file of this many bytes, or returns why it cannot.
pub(super) type MakeFile = fn(usize) -> Result<File, String>;

/// The chunks.
pub struct Arena {
    /// The chunk that is being filled, and its used bytes.
    current: Option<(Rc<PayloadChunk>, usize)>,
    /// Memory of free chunks.
    pool: Rc<ChunkPool>,
    /// Allocates the next chunk in the background once the first one is half full.
    maker: Option<Maker>,
    /// The size of a chunk in bytes.
    chunk: usize,
    /// Bytes in memory.
    limit: usize,
    mapped: MappedBytes,
    make_file: MakeFile,
    /// A message for the user.
    notice: Option<String>,
    has_warned: bool,
}

impl Default for Arena {
    fn default() -> Arena {
        Arena::new(CHUNK, usize::MAX, |_| Err(String::new()))
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in memory", self.mapped.load(Ordering::Relaxed))
    }
}

impl Arena {
    /// Chunks within this limit of memory, and in files beyond it.
    pub fn within(limit: Limit, make_file: MakeFile) -> Arena {
        let share = limit.0 / CHUNKS;
        // The largest power of two.
        let chunk = share.checked_ilog2().map_or(LEAST, |log| 1 << log).clamp(LEAST, CHUNK);
        Arena::new(chunk, limit.0, make_file)
    }

    fn new(chunk: usize, limit: usize, make_file: MakeFile) -> Arena {
        Arena {
            current: None,
            pool: Rc::new(ChunkPool::of(chunk)),
            maker: None,
            chunk,
            limit,
            mapped: MappedBytes::default(),
            make_file,
            notice: None,
            has_warned: false,
        }
    }

    /// An empty arena that shares memory and limit with this one.
    pub fn another(&self) -> Arena {
        let (pool, mapped) = (Rc::clone(&self.pool), MappedBytes::clone(&self.mapped));
        let own = Arena::new(self.chunk, self.limit, self.make_file);
        Arena { pool, mapped, has_warned: self.has_warned, ..own }
    }

    /// A chunk for bytes of another process.
    ///
    /// # Errors
    /// Out of memory.
    pub fn take_in(&mut self, len: usize) -> Result<Rc<PayloadChunk>, String> {
        let memory = self
            .fresh(len.max(self.chunk))
            .ok_or_else(|| format!("there is no memory for {len} bytes of the log of messages"))?;
        Ok(self.new_chunk(memory))
    }

    /// Bytes of payloads in files.
    pub fn in_files(&self) -> u64 {
        self.pool.in_files()
    }

    /// Bytes of memory allocated.
    #[cfg(test)]
    pub fn in_memory(&self) -> usize {
        self.mapped.load(Ordering::Relaxed)
    }

    /// The message for the user, returned once.
    pub fn notice(&mut self) -> Option<String> {
        self.notice.take()
    }

    /// Whether there is a message.
    #[inline]
    pub fn has_notice(&self) -> bool {
        self.notice.is_some()
    }

    /// A payload of `len` bytes, filled by `write`.
    ///
    /// # Errors
    /// Out of memory, or the error of `write`.
    pub fn keep(
        &mut self,
        len: usize,
        write: impl FnOnce(&mut [u8]) -> Result<(), String>,
    ) -> Result<Payload, String> {
        let none = || format!("there is no memory to log {len} bytes that were received");
        let mut payload = if len <= self.chunk {
            self.room(len).ok_or_else(none)?
        } else {
            let memory = self.fresh(len).ok_or_else(none)?;
            Payload::part(&self.new_chunk(memory), 0, len)
        };
        payload.fill(write)?;
        Ok(payload)
    }

    fn room(&mut self, len: usize) -> Option<Payload> {
        if len <= INLINE {
            return Some(Payload::inline(len));
        }
        // Copies are faster at cache line boundaries.
        let size = self.chunk;
        let room = len.next_multiple_of(64).min(size);
        if let Some((chunk, used)) = &mut self.current {
            // The chunk has no payloads left: fill it again from the start.
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
                self.current = None;
                let memory = self.fresh(size)?;
                let chunk = self.new_chunk(memory);
                let payload = Payload::part(&chunk, 0, len);
                self.current = Some((chunk, room));
                Some(payload)
            }
        }
    }

    fn new_chunk(&self, memory: LogMapping) -> Rc<PayloadChunk> {
        Rc::new(PayloadChunk::new(memory, &self.pool))
    }

    /// Memory for a chunk: free, allocated ahead, or new; beyond the limit, a file.
    fn fresh(&mut self, len: usize) -> Option<LogMapping> {
        if len == self.chunk {
            if let Some(memory) = self.pool.take() {
                return Some(memory);
            }
            if let Some(memory) = self.maker.as_mut().and_then(Maker::take) {
                return Some(memory);
            }
        }
        if !self.fits(len) {
            self.pool.clear();
        }
        if !self.fits(len) {
            let file = (self.make_file)(len);
            match file.and_then(|file| LogMapping::of_file(&file, len)) {
                Ok(memory) => return Some(memory),
                Err(why) => self.warn_in_memory(&why),
            }
        }
        LogMapping::map(len, &self.mapped)
    }

    /// Whether this many more bytes are within the limit.
    fn fits(&self, len: usize) -> bool {
        self.mapped.load(Ordering::Relaxed).saturating_add(len) <= self.limit
    }

    /// Warns, once, that the log exceeds its limit.
    fn warn_in_memory(&mut self, why: &str) {
        if std::mem::replace(&mut self.has_warned, true) {
            return;
        }
        self.notice = Some(format!(
            "the log of messages has more than {} bytes (VELOC_MPI_LOG_MEMORY) and stays in memory: \
             {why}",
            self.limit
        ));
    }

    /// Starts to allocate a chunk in the background, if none is free.
    #[cold]
    fn order(&mut self) {
        let len = self.chunk;
        if !self.pool.is_empty() || !self.fits(len) {
            return;
        }
        let maker = match &mut self.maker {
            Some(maker) => maker,
            none => match Maker::start(len, &self.mapped) {
                Some(maker) => none.insert(maker),
                None => return,
            },
        };
        maker.order();
    }
}
