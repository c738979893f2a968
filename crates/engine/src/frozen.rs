//! Frozen captures: regions are protected against writes when the checkpoint call returns, a worker copies them in
//! order, and what the application is about to write is copied first (`host_capture = protect`).
//!
//! A frozen region is a loan that the library itself releases, in blocks, each as soon as it is copied. Until all
//! are, the checkpoint counts as with every deferred capture; a kill before that leaves the version before.
//!
//! The thread that lets writers go on neither allocates nor frees memory: a writer may hold the allocator's locks.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{Builder, JoinHandle};

use super::run::Run;
use errors::{Error, ErrorKind, Result};
use levels::host_buffer::HostBuffer;
use os::access;
use os::memory::page_size;
use os::sync::Mutex;
use os::threads;
use os::write_protection::{Lifted, MemoryEvent, WriteProtection};

/// Bytes that are copied at a time, and can be written then: a huge page, which stays one.
const BLOCK: u64 = 2 << 20;

/// How many blocks behind a write are looked at for one that nobody copies yet.
const AHEAD: u64 = 4;

/// Checkpoints with frozen regions at a time.
const MOST: usize = 64;

/// Some bytes of a region, and where in the host buffer they go.
#[derive(Clone, Copy, Debug)]
struct FrozenPiece {
    from: u64,
    to: *mut u8,
    len: usize,
}

/// Whole pages of a region within one [`BLOCK`].
#[derive(Debug)]
struct Block {
    range: Range<u64>,
    /// Which of the pieces it has.
    pieces: Range<usize>,
    state: AtomicU8,
}

/// Nobody copies it yet.
const FROZEN: u8 = 0;
/// Somebody copies it.
const TAKEN: u8 = 1;
/// It is in the host buffer.
const COPIED: u8 = 2;
/// It can be written to.
const THAWED: u8 = 3;

/// The frozen regions of a checkpoint.
#[derive(Debug)]
struct FrozenRegions {
    pieces: Vec<FrozenPiece>,
    /// Ascending; they do not overlap.
    blocks: Vec<Block>,
    /// What is registered: all blocks of a region.
    ranges: Vec<Range<u64>>,
    /// Why they cannot all be copied, if so: one of [`REASONS`], counted from 1.
    failure: AtomicU8,
    /// Bytes that were copied because the application was about to write to them.
    ahead: AtomicU64,
}

const REASONS: [&str; 2] = [
    "the application has unmapped or discarded some of its memory, or made it unreadable, before it was copied",
    "the application has closed the descriptor by which the library protects memory",
];
const GONE: u8 = 1;
const UNTOLD: u8 = 2;

// SAFETY: a piece's room in the host buffer is written by whoever has taken its block alone; `from` is only passed to the
// kernel.
unsafe impl Send for FrozenRegions {}
// SAFETY: as above.
unsafe impl Sync for FrozenRegions {}

impl FrozenRegions {
    /// Copies a block, if nobody does. Allocates nothing.
    fn copy(&self, block: &Block, copying: &RwLock<()>) -> bool {
        let taken =
            block.state.compare_exchange(FROZEN, TAKEN, Ordering::Acquire, Ordering::Acquire);
        if taken.is_err() {
            return false;
        }
        let copying = copying.read().unwrap_or_else(PoisonError::into_inner);
        for piece in &self.pieces[block.pieces.clone()] {
            // SAFETY: the room in the host buffer is this block's, which is taken.
            if unsafe { access::try_copy(piece.from, piece.to, piece.len) }.is_err() {
                self.failure.store(GONE, Ordering::Relaxed);
            }
        }
        block.state.store(COPIED, Ordering::Release);
        drop(copying);
        true
    }

    /// Lets writers to a block that was copied go on. False: an event has to be read first. Allocates nothing.
    fn thaw(&self, block: &Block, protection: &WriteProtection) -> bool {
        match protection.lift(&block.range) {
            Lifted::Later => return false,
            Lifted::Yes => {}
            Lifted::Gone => {
                // Something else may have been copied.
                self.failure.store(GONE, Ordering::Relaxed);
                protection.unregister(&block.range);
            }
        }
        block.state.store(THAWED, Ordering::Release);
        true
    }

    /// The blocks that overlap a range.
    fn overlapping(&self, range: &Range<u64>) -> &[Block] {
        let first = self.blocks.partition_point(|block| block.range.end <= range.start);
        let rest = &self.blocks[first..];
        &rest[..rest.partition_point(|block| block.range.start < range.end)]
    }

    /// Notes that a range will not be what it was. Blocks that are copied do not need it.
    fn lose(&self, range: &Range<u64>) {
        let missing = |block: &Block| block.state.load(Ordering::Acquire) < COPIED;
        if self.overlapping(range).iter().any(missing) {
            self.failure.store(GONE, Ordering::Relaxed);
        }
    }
}

/// Freezes memory, and copies what the application is about to write.
#[derive(Debug)]
pub(crate) struct Freezer {
    shared: Arc<Freezing>,
    thread: Option<JoinHandle<()>>,
}

/// What the freezer shares with its thread.
#[derive(Debug)]
struct Freezing {
    protection: WriteProtection,
    /// Those that are not complete; no allocation and no release of memory while it is locked.
    active: Mutex<Vec<Arc<FrozenRegions>>>,
    /// Held by those who copy, and alone by who reads events: what the application discards then was copied before,
    /// or is lost.
    copying: RwLock<()>,
    /// Whether the thread serves: until then it allocates.
    serves: AtomicBool,
}

/// Addresses that threads of the application want to write to.
struct Writers {
    addresses: [u64; Writers::MOST],
    len: usize,
}

impl Writers {
    /// More threads than that are served in turns.
    const MOST: usize = 1024;

    fn is_full(&self) -> bool {
        self.len == Writers::MOST
    }

    fn push(&mut self, address: u64) {
        self.addresses[self.len] = address;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<u64> {
        self.len = self.len.checked_sub(1)?;
        Some(self.addresses[self.len])
    }
}

impl Freezer {
    /// Starts its thread.
    ///
    /// # Errors
    /// The system has no such protection, or forbids it.
    pub(crate) fn start() -> Result<Freezer> {
        let protection = WriteProtection::open()?;
        let shared = Arc::new(Freezing {
            protection,
            active: Mutex::new(Vec::with_capacity(MOST)),
            copying: RwLock::new(()),
            serves: AtomicBool::new(false),
        });
        let its = shared.clone();
        let builder = Builder::new().name("veloc-freeze".to_owned());
        let thread = threads::unsignalled(|| builder.spawn(move || its.serve()));
        let thread = thread.map_err(|error| Error::system("starting a thread", &error))?;
        while !shared.serves.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        Ok(Freezer { shared, thread: Some(thread) })
    }

    /// Freezes the memory of these runs, whose room in the host buffer is backed by pages. Bytes on pages that they
    /// have only in part are copied at once.
    ///
    /// # Errors
    /// The system refuses to protect it, or too much else is frozen: nothing is.
    ///
    /// # Safety
    /// The runs' extents are in this host buffer, and theirs alone until the result is dropped.
    pub(crate) unsafe fn freeze(&self, host: &HostBuffer, runs: &[Run]) -> Result<Frozen> {
        let (regions, edges) = cut(host, runs)?;
        let regions = Arc::new(regions);
        let overlaps = |other: &&Arc<FrozenRegions>| {
            regions.ranges.iter().any(|range| !other.overlapping(range).is_empty())
        };
        // The same memory is frozen once at a time: this call ends what is left of the one before.
        loop {
            let before = self.shared.active.lock().iter().find(overlaps).cloned();
            let Some(before) = before else { break };
            self.shared.finish(&before);
            self.shared.end(&before);
        }
        if self.shared.is_in(&regions.ranges, &regions) {
            return Err(Error::invalid("the regions include memory of this library"));
        }
        let entry = regions.clone();
        let is_full = {
            let mut active = self.shared.active.lock();
            match active.len() < active.capacity() {
                true => {
                    active.push(entry);
                    None
                }
                false => Some(entry),
            }
        };
        if is_full.is_some() {
            return Err(Error::new(
                ErrorKind::NoRoom,
                format!("{MOST} checkpoints wait to be copied already"),
            ));
        }
        // From here on its drop ends it.
        let frozen = Frozen { freezing: self.shared.clone(), regions };
        for range in &frozen.regions.ranges {
            self.shared.protection.register(range)?;
            self.shared.protection.protect(range)?;
        }
        for edge in edges {
            // SAFETY: the caller's promise.
            unsafe { access::try_copy(edge.from, edge.to, edge.len) }
                .map_err(|error| Error::system("reading a region", &error))?;
        }
        Ok(frozen)
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.shared.protection.stop();
        for what in threads::join(self.thread.take(), threads::JOIN_TIMEOUT) {
            log::warn!("{what}");
        }
    }
}

impl Freezing {
    /// Lets writers go on, until the freezer ends. Allocates nothing, and frees nothing.
    fn serve(&self) {
        let mut writers = Writers { addresses: [0; Writers::MOST], len: 0 };
        self.serves.store(true, Ordering::Release);
        while let Ok(true) = self.protection.wait() {
            let active = self.active.lock();
            if self.read_events(&active, &mut writers).is_err() {
                break;
            }
            while let Some(address) = writers.pop() {
                self.serve_writer(&active, address, &mut writers);
            }
        }
        // Nobody is there any more to whom a writer could be told.
        for regions in self.active.lock().iter() {
            regions.failure.store(UNTOLD, Ordering::Relaxed);
            regions.ranges.iter().for_each(|range| self.protection.unregister(range));
        }
    }

    /// Reads all events: notes what is lost, and who wants to write.
    fn read_events(
        &self,
        active: &[Arc<FrozenRegions>],
        writers: &mut Writers,
    ) -> std::io::Result<()> {
        let _alone = self.copying.write().unwrap_or_else(PoisonError::into_inner);
        while !writers.is_full() {
            match self.protection.read()? {
                None => break,
                Some(MemoryEvent::Write(address)) => writers.push(address),
                Some(MemoryEvent::Gone(range)) => {
                    active.iter().for_each(|regions| regions.lose(&range))
                }
                Some(MemoryEvent::Moved(from, to)) => {
                    active.iter().for_each(|regions| regions.lose(&from));
                    self.protection.unregister(&to);
                }
            }
        }
        Ok(())
    }

    fn serve_writer(&self, active: &[Arc<FrozenRegions>], address: u64, writers: &mut Writers) {
        let byte = address..address + 1;
        // The same memory is in one of them.
        let found = active
            .iter()
            .find_map(|regions| regions.overlapping(&byte).first().map(|block| (regions, block)));
        let Some((regions, block)) = found else {
            // Nobody's any more.
            let page = page_size() as u64;
            let start = address & !(page - 1);
            return self.protection.unregister(&(start..start + page));
        };
        if regions.copy(block, &self.copying) {
            let len = block.range.end - block.range.start;
            regions.ahead.fetch_add(len, Ordering::Relaxed);
            self.thaw(regions, block, active, writers);
        }
        // Otherwise, whoever has taken it thaws it. The application writes on: this thread and the worker copy ahead
        // of it together.
        let behind = block.range.end..block.range.end + AHEAD * BLOCK;
        let next =
            regions.overlapping(&behind).iter().find(|next| regions.copy(next, &self.copying));
        if let Some(next) = next {
            self.thaw(regions, next, active, writers);
        }
    }

    /// Thaws a block, in the thread that reads events.
    fn thaw(
        &self,
        regions: &FrozenRegions,
        block: &Block,
        active: &[Arc<FrozenRegions>],
        writers: &mut Writers,
    ) {
        while !regions.thaw(block, &self.protection) {
            if writers.is_full() || self.read_events(active, writers).is_err() {
                regions.failure.store(UNTOLD, Ordering::Relaxed);
                self.protection.unregister(&block.range);
                block.state.store(THAWED, Ordering::Release);
                return;
            }
        }
    }

    /// Whether these ranges have what the thread that serves writers writes to itself, for these regions or others:
    /// it would wait for itself.
    fn is_in(&self, ranges: &[Range<u64>], new: &Arc<FrozenRegions>) -> bool {
        fn bytes<T>(of: &[T]) -> Range<u64> {
            let range = of.as_ptr_range();
            range.start as u64..range.end as u64
        }
        let active = self.active.lock();
        let own = [bytes(std::slice::from_ref(self)), bytes(&active)];
        let of = |regions: &FrozenRegions| {
            let itself = bytes(std::slice::from_ref(regions));
            [itself, bytes(&regions.blocks), bytes(&regions.pieces), bytes(&regions.ranges)]
        };
        let mut all =
            own.into_iter().chain(of(new)).chain(active.iter().flat_map(|other| of(other)));
        all.any(|own| ranges.iter().any(|range| own.start < range.end && range.start < own.end))
    }

    /// Lets all writers to these regions go on, copied or not. The second time it does nothing: the same memory may
    /// be frozen again.
    fn end(&self, regions: &Arc<FrozenRegions>) {
        let entry = {
            let mut active = self.active.lock();
            let at = active.iter().position(|other| Arc::ptr_eq(other, regions));
            at.map(|at| {
                regions.ranges.iter().for_each(|range| self.protection.unregister(range));
                active.swap_remove(at)
            })
        };
        // Behind the lock.
        drop(entry);
    }

    /// Copies what is left, and waits for what others copy.
    fn finish(&self, regions: &FrozenRegions) {
        for block in &regions.blocks {
            if regions.copy(block, &self.copying) {
                // The other thread reads the event.
                while !regions.thaw(block, &self.protection) {
                    std::thread::yield_now();
                }
            }
        }
        for block in &regions.blocks {
            // A block takes less than a millisecond.
            while block.state.load(Ordering::Acquire) != THAWED {
                std::thread::yield_now();
            }
        }
    }
}

/// Frozen regions of a checkpoint. If it is dropped, they can be written to, copied or not.
#[derive(Debug)]
pub(crate) struct Frozen {
    freezing: Arc<Freezing>,
    regions: Arc<FrozenRegions>,
}

impl Frozen {
    /// Copies what is not copied yet. Returns the bytes that were copied because the application was about to write
    /// to them.
    ///
    /// # Errors
    /// Some of it cannot be had any more.
    pub(crate) fn copy(&self) -> Result<u64> {
        self.freezing.finish(&self.regions);
        if !self.freezing.protection.is_open() {
            self.regions.failure.store(UNTOLD, Ordering::Relaxed);
        }
        match self.regions.failure.load(Ordering::Relaxed) {
            0 => Ok(self.regions.ahead.load(Ordering::Relaxed)),
            reason => Err(Error::new(ErrorKind::System, REASONS[usize::from(reason) - 1])),
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.freezing.end(&self.regions);
    }
}

/// The blocks of these runs, and the bytes outside whole pages.
///
/// # Errors
/// Two regions share memory: what one of them releases would be the other's.
fn cut(host: &HostBuffer, runs: &[Run]) -> Result<(FrozenRegions, Vec<FrozenPiece>)> {
    let page = page_size() as u64;
    let mut runs: Vec<&Run> = runs.iter().collect();
    runs.sort_by_key(|run| run.place.address);
    let (mut pieces, mut edges, mut blocks, mut ranges) =
        (vec![], vec![], Vec::<Block>::new(), vec![]);
    for run in runs {
        let (start, end) = (run.place.address, run.place.address + run.place.len);
        let whole = start.next_multiple_of(page)..end & !(page - 1);
        if whole.start < whole.end {
            if ranges.last().is_some_and(|before: &Range<u64>| whole.start < before.end) {
                return Err(Error::invalid(format!(
                    "region {} shares memory with another",
                    run.place.id
                )));
            }
            ranges.push(whole.clone());
        }
        let mut from = start;
        for extent in &run.extents {
            let (mut offset, behind) = (extent.offset, from + extent.len);
            while from < behind {
                let is_whole = whole.contains(&from);
                let stop = match is_whole {
                    true => ((from / BLOCK + 1) * BLOCK).min(whole.end),
                    false if from < whole.start => whole.start.min(end),
                    false => end,
                };
                let len = stop.min(behind) - from;
                let piece = FrozenPiece { from, to: host.address(offset), len: len as usize };
                match blocks.last_mut() {
                    _ if !is_whole => edges.push(piece),
                    // The room in the host buffer is cut within the block.
                    Some(block) if block.range.contains(&from) => {
                        block.pieces.end += 1;
                        pieces.push(piece);
                    }
                    _ => {
                        let at = pieces.len();
                        let state = AtomicU8::new(FROZEN);
                        blocks.push(Block { range: from..stop, pieces: at..at + 1, state });
                        pieces.push(piece);
                    }
                }
                from += len;
                offset += len;
            }
        }
    }
    let (failure, ahead) = (AtomicU8::new(0), AtomicU64::new(0));
    Ok((FrozenRegions { pieces, blocks, ranges, failure, ahead }, edges))
}
