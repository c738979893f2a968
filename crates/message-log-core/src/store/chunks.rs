//! Chunks of the log that are stored in a checkpoint as regions of their own, without being copied into
//! the serialized log.

use std::rc::Rc;

use super::bytes::{NumberReader, NumberWriter, Result};
use crate::digest::digest;
use crate::log::{Arena, ChunkBytes, Payload, PayloadChunk};

/// A chunk's length and digest.
type ChunkMark = (u64, u64);

/// The lengths and digests of the chunks, as stored in the log.
pub fn write(sources: &[ChunkBytes], to: &mut NumberWriter) {
    to.len(sources.len());
    for source in sources {
        let bytes = source.bytes();
        to.u64(bytes.len() as u64);
        to.u64(digest(bytes));
    }
}

/// Chunks that are read from a checkpoint into an arena of their own.
#[derive(Debug)]
pub struct Incoming {
    arena: Arena,
    expected: Vec<ChunkMark>,
    read_chunks: Vec<ReadChunk>,
    /// The chunk that is being read.
    open: Option<(Rc<PayloadChunk>, usize)>,
}

/// A chunk that was read.
#[derive(Debug)]
struct ReadChunk {
    chunk: Rc<PayloadChunk>,
    mark: ChunkMark,
    /// Keeps it until the log has its payloads.
    hold: Payload,
}

impl Incoming {
    /// Starts with the chunks that the log lists.
    ///
    /// # Errors
    /// The log is invalid.
    pub fn expected(from: &mut NumberReader<'_>, arena: Arena) -> Result<Incoming> {
        let expected = marks(from)?;
        Ok(Incoming { arena, expected, read_chunks: Vec::new(), open: None })
    }

    /// The number of chunks.
    pub fn count(&self) -> usize {
        self.expected.len()
    }

    /// The address for the next chunk, which has this many bytes.
    ///
    /// # Errors
    /// It is not the next chunk, or out of memory.
    pub fn place(&mut self, len: usize) -> Result<*mut u8> {
        self.close();
        match self.expected.get(self.read_chunks.len()) {
            Some((expected, _)) if *expected == len as u64 => {}
            expected => {
                return Err(format!(
                    "the log of messages is damaged: a chunk has {len} bytes, and {expected:?} is \
                     expected"
                ))
            }
        }
        let chunk = self.arena.take_in(len)?;
        // SAFETY: nothing else uses the memory yet: the chunk has no payload.
        let at = unsafe { chunk.bytes_mut(0, len) }.as_mut_ptr();
        self.open = Some((chunk, len));
        Ok(at)
    }

    fn close(&mut self) {
        let Some((chunk, len)) = self.open.take() else { return };
        let hold = Payload::part(&chunk, 0, len);
        let mark = (len as u64, digest(hold.bytes()));
        self.read_chunks.push(ReadChunk { chunk, mark, hold });
    }

    /// All chunks, verified.
    ///
    /// # Errors
    /// They are not the chunks of the log.
    pub fn complete(mut self, from: &mut NumberReader<'_>) -> Result<LogChunks> {
        self.close();
        let expected = marks(from)?;
        let come = self.read_chunks.iter().map(|come| come.mark);
        if !come.eq(expected.iter().copied()) {
            return Err("the log of messages is damaged: its chunks do not match".to_owned());
        }
        Ok(LogChunks { arena: self.arena, read_chunks: self.read_chunks })
    }
}

fn marks(from: &mut NumberReader<'_>) -> Result<Vec<ChunkMark>> {
    from.list(16, |from| Ok((from.u64()?, from.u64()?)))
}

/// The chunks of a log that is being unpacked.
#[derive(Debug, Default)]
pub struct LogChunks {
    /// The memory of the log.
    pub arena: Arena,
    read_chunks: Vec<ReadChunk>,
}

impl LogChunks {
    /// A payload in one of them.
    ///
    /// # Errors
    /// There is no such range.
    pub fn payload(&self, nth: u32, at: u64, len: u64) -> Result<Payload> {
        let come = self.read_chunks.get(nth as usize).filter(|come| {
            len > 0 && at.checked_add(len).is_some_and(|end| end <= come.hold.len() as u64)
        });
        let come = come.ok_or_else(|| format!("{len} bytes at {at} of chunk {nth}"))?;
        Ok(Payload::part(&come.chunk, at as usize, len as usize))
    }
}
