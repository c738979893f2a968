//! The host buffer: one mapping, whose pages are touched and registered in the background.
//!
//! Which bytes hold which checkpoint is the catalog's business. This file knows what the memory is
//! like: which *units* (the steps of touching) have their pages, and which *chunks* (the steps of
//! registration) the driver has pinned. Checkpoints are written to touched and untouched pages from
//! the first moment; touching keeps what a page holds, so neither needs to know of the other.
//!
//! A copy by the device must not cross a border between chunks, nor run while its chunk is being
//! registered. So whoever copies takes a [`Lease`] of the chunk first.

use std::ops::Range;

use crate::error::Result;
use crate::platform::mapping::Mapping;
use crate::policy::register::{self, Next, Pin};
use crate::sync::{Condvar, Mutex};
use crate::tier::space::Extent;

/// Allocation unit of the host buffer in bytes.
pub const GRANULE: u64 = 512;

/// Bytes touched in one step: short enough that a flush hardly waits for the step at hand.
pub const TOUCH_UNIT: u64 = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// Not registered yet, and in use by so many copies.
    Open(u32),
    /// About to be registered: no copy may begin; so many are still running.
    Closing(u32),
    /// Being registered.
    Registering,
    /// Registered.
    Registered,
    /// The driver would not.
    Refused,
}

#[derive(Debug)]
struct Pages {
    touched: Vec<bool>,
    touched_bytes: u64,
    /// Units below this one are touched or being touched.
    front: usize,
    chunks: Vec<Chunk>,
    registered_bytes: u64,
    stopping: bool,
}

/// How pages are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchMethod {
    /// The kernel populates a unit in one call.
    Populate,
    /// One write for each page of this many bytes.
    Write(usize),
}

/// The host buffer's memory.
#[derive(Debug)]
pub struct HostBuffer {
    mapping: Mapping,
    len: u64,
    chunk: u64,
    pages: Mutex<Pages>,
    changed: Condvar,
}

/// A chunk that will not be registered while this is held.
#[derive(Debug)]
pub struct Lease<'a> {
    buffer: &'a HostBuffer,
    chunk: usize,
}

impl Lease<'_> {
    /// The copy may go on for ever: the chunk is never registered, and nobody waits for that.
    pub fn strand(self) {
        let mut pages = self.buffer.pages.lock();
        if matches!(pages.chunks[self.chunk], Chunk::Open(_) | Chunk::Closing(_)) {
            pages.chunks[self.chunk] = Chunk::Refused;
        }
        drop(pages);
        self.buffer.changed.notify_all();
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut pages = self.buffer.pages.lock();
        let last = match &mut pages.chunks[self.chunk] {
            Chunk::Open(users) => {
                *users -= 1;
                false
            }
            Chunk::Closing(users) => {
                *users -= 1;
                *users == 0
            }
            Chunk::Registering | Chunk::Registered | Chunk::Refused => false,
        };
        drop(pages);
        if last {
            self.buffer.changed.notify_all();
        }
    }
}

impl HostBuffer {
    /// Reserves `bytes` of addresses; registration will go by `chunk` bytes. Touches nothing.
    pub fn reserve(bytes: u64, chunk: u64, huge_pages: bool) -> Result<HostBuffer> {
        let mapping = Mapping::reserve(bytes as usize)?;
        if let Err(error) = mapping.advise_huge(huge_pages) {
            log::warn!("the host buffer goes without huge pages: {error}");
        }
        if let Err(error) = mapping.dont_fork() {
            log::warn!("the host buffer is copied into forked processes: {error}");
        }
        let len = mapping.len() as u64;
        let chunk = chunk.max(TOUCH_UNIT).next_multiple_of(TOUCH_UNIT);
        Ok(HostBuffer {
            len,
            chunk,
            pages: Mutex::new(Pages {
                touched: vec![false; len.div_ceil(TOUCH_UNIT) as usize],
                touched_bytes: 0,
                front: 0,
                chunks: vec![Chunk::Open(0); len.div_ceil(chunk) as usize],
                registered_bytes: 0,
                stopping: false,
            }),
            mapping,
            changed: Condvar::new(),
        })
    }

    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// It is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The mapping, to bind it to a node of memory.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The address of a byte.
    pub fn address(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.len);
        // SAFETY: callers name bytes of extents, which lie within the mapping.
        unsafe { self.mapping.base().as_ptr().add(offset as usize) }
    }

    // ---- touching ------------------------------------------------------------------------

    /// Claims the next unit that has no pages yet, in ascending order. `None`: all have, or are
    /// being given them.
    pub fn claim(&self) -> Option<Range<u64>> {
        let mut pages = self.pages.lock();
        while pages.touched.get(pages.front).is_some_and(|&touched| touched) {
            pages.front += 1;
        }
        if pages.front == pages.touched.len() {
            return None;
        }
        let unit = pages.front as u64;
        pages.front += 1;
        Some(unit * TOUCH_UNIT..((unit + 1) * TOUCH_UNIT).min(self.len))
    }

    /// Makes the pages of a claimed unit.
    pub fn touch(&self, unit: &Range<u64>, method: TouchMethod) -> Result<()> {
        let bytes = unit.start as usize..unit.end as usize;
        match method {
            TouchMethod::Populate => self.mapping.populate(bytes)?,
            TouchMethod::Write(page) => self.mapping.touch(bytes, page)?,
        }
        let mut pages = self.pages.lock();
        mark(&mut pages, unit.clone(), self.len);
        drop(pages);
        self.changed.notify_all();
        Ok(())
    }

    /// Bytes were written there, so their pages exist. Units that are wholly covered count as
    /// touched.
    pub fn written(&self, extents: &[Extent]) {
        let mut pages = self.pages.lock();
        if pages.touched_bytes == self.len {
            return;
        }
        for extent in extents {
            let first = extent.offset.div_ceil(TOUCH_UNIT) * TOUCH_UNIT;
            let end = extent.offset + extent.len;
            let last = if end == self.len { end } else { end - end % TOUCH_UNIT };
            if first < last {
                mark(&mut pages, first..last, self.len);
            }
        }
        drop(pages);
        self.changed.notify_all();
    }

    /// How many of these bytes lie in units without pages.
    pub fn untouched(&self, extents: &[Extent]) -> u64 {
        let pages = self.pages.lock();
        if pages.touched_bytes == self.len {
            return 0;
        }
        let mut bytes = 0;
        for extent in extents {
            let end = extent.offset + extent.len;
            let mut at = extent.offset;
            while at < end {
                let unit_end = (at / TOUCH_UNIT + 1) * TOUCH_UNIT;
                if !pages.touched[(at / TOUCH_UNIT) as usize] {
                    bytes += unit_end.min(end) - at;
                }
                at = unit_end;
            }
        }
        bytes
    }

    /// What has no pages yet will not be touched: only the rest is to be registered.
    pub fn give_up(&self) {
        let mut pages = self.pages.lock();
        for chunk in 0..pages.chunks.len() {
            if matches!(pages.chunks[chunk], Chunk::Open(_)) && !self.chunk_touched(&pages, chunk) {
                pages.chunks[chunk] = Chunk::Refused;
            }
        }
        drop(pages);
        self.changed.notify_all();
    }

    /// Every byte before this one has its page, or is being given it.
    pub fn front(&self) -> u64 {
        (self.pages.lock().front as u64 * TOUCH_UNIT).min(self.len)
    }

    /// Bytes that have their pages.
    pub fn touched_bytes(&self) -> u64 {
        self.pages.lock().touched_bytes
    }

    /// Bytes that are registered.
    pub fn registered_bytes(&self) -> u64 {
        self.pages.lock().registered_bytes
    }

    // ---- registration --------------------------------------------------------------------

    /// The bytes of a chunk.
    pub fn chunk(&self, chunk: usize) -> Range<u64> {
        let start = chunk as u64 * self.chunk;
        start..(start + self.chunk).min(self.len)
    }

    /// Where the chunk of `offset` ends: no copy by the device goes beyond.
    pub fn chunk_end(&self, offset: u64) -> u64 {
        ((offset / self.chunk + 1) * self.chunk).min(self.len)
    }

    /// Waits until there is a chunk to register. `None`: nothing is left to register, or [`HostBuffer::stop`] was called.
    pub fn next_registration(&self, pin: Pin) -> Option<usize> {
        let mut pages = self.pages.lock();
        let chunk = loop {
            if pages.stopping {
                return None;
            }
            let next = register::next(
                pin,
                pages.chunks.len(),
                (0..pages.chunks.len()).all(|chunk| {
                    pages.touched_bytes == self.len
                        || !matches!(pages.chunks[chunk], Chunk::Open(_))
                        || self.chunk_touched(&pages, chunk)
                }),
                |chunk| self.chunk_touched(&pages, chunk),
                |chunk| !matches!(pages.chunks[chunk], Chunk::Open(_)),
            );
            match next {
                Next::Done => return None,
                Next::Register(chunk) => break chunk,
                Next::Wait => pages = self.changed.wait(pages),
            }
        };
        Some(chunk)
    }

    /// Keeps copies from using the chunk, and waits for those that do. False if the engine stops
    /// meanwhile; then the chunk is as it was.
    pub fn close(&self, chunk: usize) -> bool {
        let mut pages = self.pages.lock();
        if let Chunk::Open(users) = pages.chunks[chunk] {
            pages.chunks[chunk] = Chunk::Closing(users);
        }
        loop {
            match pages.chunks[chunk] {
                Chunk::Closing(0) => {
                    pages.chunks[chunk] = Chunk::Registering;
                    return true;
                }
                Chunk::Closing(users) if pages.stopping => {
                    pages.chunks[chunk] = Chunk::Open(users);
                    drop(pages);
                    self.changed.notify_all();
                    return false;
                }
                Chunk::Closing(_) => pages = self.changed.wait(pages),
                _ => return false,
            }
        }
    }

    /// Opens a chunk again: registered, or refused by the driver.
    pub fn settle(&self, chunk: usize, registered: bool) {
        let mut pages = self.pages.lock();
        if registered {
            pages.chunks[chunk] = Chunk::Registered;
            pages.registered_bytes += self.chunk(chunk).end - self.chunk(chunk).start;
        } else {
            pages.chunks[chunk] = Chunk::Refused;
        }
        drop(pages);
        self.changed.notify_all();
    }

    /// The chunks that are registered, each of which must be unregistered before the end.
    pub fn registered(&self) -> Vec<usize> {
        let pages = self.pages.lock();
        (0..pages.chunks.len()).filter(|&c| pages.chunks[c] == Chunk::Registered).collect()
    }

    /// Takes a lease of the chunk of `offset`, unless it is being registered.
    pub fn try_lease(&self, offset: u64) -> Option<Lease<'_>> {
        let chunk = (offset / self.chunk) as usize;
        let mut pages = self.pages.lock();
        match &mut pages.chunks[chunk] {
            Chunk::Open(users) => *users += 1,
            Chunk::Registered | Chunk::Refused => {}
            Chunk::Closing(_) | Chunk::Registering => return None,
        }
        Some(Lease { buffer: self, chunk })
    }

    /// Takes a lease, waiting for a registration under way. The caller must hold no other lease of
    /// the chunk: the registration would wait for it.
    pub fn lease(&self, offset: u64) -> Lease<'_> {
        loop {
            if let Some(lease) = self.try_lease(offset) {
                return lease;
            }
            let pages = self.pages.lock();
            let chunk = (offset / self.chunk) as usize;
            if matches!(pages.chunks[chunk], Chunk::Closing(_) | Chunk::Registering) {
                drop(self.changed.wait(pages));
            }
        }
    }

    /// Ends waits for pages and chunks.
    pub fn stop(&self) {
        self.pages.lock().stopping = true;
        self.changed.notify_all();
    }

    fn chunk_touched(&self, pages: &Pages, chunk: usize) -> bool {
        let bytes = self.chunk(chunk);
        let units = bytes.start / TOUCH_UNIT..bytes.end.div_ceil(TOUCH_UNIT);
        pages.touched_bytes == self.len
            || pages.touched[units.start as usize..units.end as usize].iter().all(|&t| t)
    }
}

/// Marks every unit that begins in `bytes` (whole units, or up to the end) as touched.
fn mark(pages: &mut Pages, bytes: Range<u64>, len: u64) {
    for unit in bytes.start / TOUCH_UNIT..bytes.end.div_ceil(TOUCH_UNIT) {
        if !std::mem::replace(&mut pages.touched[unit as usize], true) {
            pages.touched_bytes += ((unit + 1) * TOUCH_UNIT).min(len) - unit * TOUCH_UNIT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const U: u64 = TOUCH_UNIT;

    fn buffer(units: u64) -> HostBuffer {
        HostBuffer::reserve(units * U, 2 * U, false).unwrap()
    }

    #[test]
    fn touching_goes_up_and_passes_over_what_was_written() {
        let buffer = buffer(4);
        assert_eq!(buffer.claim(), Some(0..U));
        buffer.written(&[Extent { offset: U / 2, len: 2 * U }]);
        assert_eq!(buffer.touched_bytes(), U, "only the unit that is wholly covered counts");
        assert_eq!(buffer.claim(), Some(2 * U..3 * U));
        assert_eq!(buffer.untouched(&[Extent { offset: 0, len: 3 * U }]), 2 * U);
        assert_eq!(buffer.claim(), Some(3 * U..4 * U));
        assert_eq!(buffer.claim(), None);
    }

    #[test]
    fn touching_keeps_what_is_there() {
        let buffer = buffer(1);
        // SAFETY: within the mapping; no other thread.
        unsafe { buffer.address(0).write(7) };
        let unit = buffer.claim().unwrap();
        buffer.touch(&unit, TouchMethod::Write(4096)).unwrap();
        // SAFETY: within the mapping; no other thread.
        assert_eq!(unsafe { buffer.address(0).read() }, 7);
        assert_eq!(buffer.touched_bytes(), U);
    }

    /// Catches a registrar that waits for a copy that nobody can wait for, and whoever waits for the
    /// registrar.
    #[test]
    fn a_stranded_copy_keeps_nobody_waiting() {
        let buffer = buffer(2);
        let lease = buffer.lease(0);
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| buffer.close(0));
            while buffer.try_lease(0).is_some() {
                std::thread::yield_now();
            }
            lease.strand();
            assert!(!closing.join().unwrap(), "nothing is to be registered");
        });
        assert!(buffer.try_lease(0).is_some());
    }

    #[test]
    fn a_chunk_closes_only_when_its_last_copy_is_done() {
        let buffer = buffer(4);
        while let Some(unit) = buffer.claim() {
            buffer.touch(&unit, TouchMethod::Populate).unwrap();
        }
        let chunk = buffer.next_registration(Pin::Serial).unwrap();
        assert_eq!(chunk, 0);
        let lease = buffer.lease(0);
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| buffer.close(0));
            while buffer.try_lease(0).is_some() {
                std::thread::yield_now();
            }
            assert!(!closing.is_finished(), "a lease is still held");
            drop(lease);
            assert!(closing.join().unwrap());
        });
        assert!(buffer.try_lease(0).is_none());
        assert!(buffer.try_lease(2 * U).is_some());
        buffer.settle(0, true);
        assert_eq!(buffer.registered_bytes(), 2 * U);
        assert!(buffer.try_lease(0).is_some());
        assert_eq!(buffer.next_registration(Pin::Serial), Some(1));
    }
}
