//! The memory that payloads are in: chunks that are used again. A thread touches the next one ahead
//! of its use, so that a copy into the log meets no page fault.

use std::fmt;
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, Sender};

/// Bytes of a chunk. A payload that is longer gets one of its own.
const CHUNK: usize = 32 << 20;

/// Payloads up to this length need no chunk.
const INLINE: usize = 22;

/// The bytes that a call received.
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
    Chunk {
        chunk: Rc<Chunk>,
        at: usize,
        len: usize,
    },
}

impl Payload {
    /// How many bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Place::Nothing => 0,
            Place::Inline { len, .. } => usize::from(*len),
            Place::Chunk { len, .. } => *len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Place::Nothing => &[],
            Place::Inline { len, bytes } => &bytes[..usize::from(*len)],
            // SAFETY: the range was given to this payload alone, lies in the chunk, and was
            // initialised by the system with zeros.
            Place::Chunk { chunk, at, len } => unsafe {
                std::slice::from_raw_parts(chunk.base.add(*at), *len)
            },
        }
    }

    /// The bytes, to be written.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Place::Nothing => &mut [],
            Place::Inline { len, bytes } => &mut bytes[..usize::from(*len)],
            // SAFETY: as above; no other payload has a byte of the range, and this one is borrowed
            // for as long.
            Place::Chunk { chunk, at, len } => unsafe {
                std::slice::from_raw_parts_mut(chunk.base.add(*at), *len)
            },
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// A mapping.
struct Chunk {
    base: *mut u8,
    len: usize,
}

impl Chunk {
    fn map(len: usize) -> Option<Chunk> {
        // SAFETY: an anonymous mapping at an address of the system's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        // Fewer faults and fewer misses. A system without huge pages goes on with small ones.
        // SAFETY: the mapping just made.
        unsafe { libc::madvise(base, len, libc::MADV_HUGEPAGE) };
        Some(Chunk { base: base.cast(), len })
    }
}

// SAFETY: the mapping is nobody else's, and not bound to a thread.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Makes its pages.
    fn touch(&self) {
        for at in (0..self.len).step_by(4096) {
            // SAFETY: in the mapping, which nobody else knows yet.
            unsafe { self.base.add(at).write_volatile(0) };
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the mapping is this chunk's, and no payload has it any more.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// The chunks.
#[derive(Default)]
pub struct Arena {
    /// Where payloads are put now, and up to where it is used.
    current: Option<(Rc<Chunk>, usize)>,
    /// Chunks that were full. One that no payload holds is used again.
    full: Vec<Rc<Chunk>>,
    /// Who makes chunks ahead, once the first one is half full.
    maker: Option<Maker>,
}

/// The thread that makes chunks ahead. It ends with the arena.
struct Maker {
    orders: Sender<()>,
    chunks: Receiver<Chunk>,
    /// One is on its way.
    is_ordered: bool,
}

impl Maker {
    fn start() -> Option<Maker> {
        let (orders, to_do) = mpsc::channel();
        let (done, chunks) = mpsc::channel();
        let work = move || {
            while to_do.recv().is_ok() {
                let Some(chunk) = Chunk::map(CHUNK) else { continue };
                chunk.touch();
                if done.send(chunk).is_err() {
                    break;
                }
            }
        };
        // Without it the application's thread meets the page faults.
        std::thread::Builder::new().name("veloc-mpi log".into()).spawn(work).ok()?;
        Some(Maker { orders, chunks, is_ordered: false })
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} full chunks", self.full.len())
    }
}

impl Arena {
    /// Room for `len` bytes, with any content. `None` if the system gives no memory.
    pub fn room(&mut self, len: usize) -> Option<Payload> {
        if len == 0 {
            return Some(Payload(Place::Nothing));
        }
        if len <= INLINE {
            return Some(Payload(Place::Inline { len: len as u8, bytes: [0; INLINE] }));
        }
        if len > CHUNK {
            let chunk = Rc::new(Chunk::map(len)?);
            return Some(Payload(Place::Chunk { chunk, at: 0, len }));
        }
        // Copies are quicker between lines of the cache.
        let room = len.next_multiple_of(64);
        let room = room.min(CHUNK);
        if let Some((chunk, used)) = &mut self.current {
            // No payload is left in it: from the start again, in memory that is there.
            if Rc::strong_count(chunk) == 1 {
                *used = 0;
            }
        }
        match &mut self.current {
            Some((chunk, used)) if CHUNK - *used >= room => {
                let at = *used;
                *used += room;
                let payload = Payload(Place::Chunk { chunk: Rc::clone(chunk), at, len });
                if at < CHUNK / 2 && at + room >= CHUNK / 2 {
                    self.order();
                }
                Some(payload)
            }
            _ => {
                let chunk = self.free_chunk()?;
                if let Some((full, _)) = self.current.replace((Rc::clone(&chunk), room)) {
                    self.full.push(full);
                }
                Some(Payload(Place::Chunk { chunk, at: 0, len }))
            }
        }
    }

    /// A chunk that no payload holds: used before, made ahead, or made now.
    fn free_chunk(&mut self) -> Option<Rc<Chunk>> {
        if let Some(index) = self.unused() {
            return Some(self.full.swap_remove(index));
        }
        if let Some(maker) = &mut self.maker {
            if let Ok(chunk) = maker.chunks.try_recv() {
                maker.is_ordered = false;
                return Some(Rc::new(chunk));
            }
        }
        Chunk::map(CHUNK).map(Rc::new)
    }

    /// A full chunk whose payloads are gone.
    fn unused(&self) -> Option<usize> {
        self.full.iter().position(|chunk| Rc::strong_count(chunk) == 1)
    }

    /// Has a chunk made, if the next one would not be there.
    #[cold]
    fn order(&mut self) {
        if self.unused().is_some() {
            return;
        }
        let maker = match &mut self.maker {
            Some(maker) => maker,
            none => match Maker::start() {
                Some(maker) => none.insert(maker),
                None => return,
            },
        };
        if !maker.is_ordered && maker.orders.send(()).is_ok() {
            maker.is_ordered = true;
        }
    }
}
