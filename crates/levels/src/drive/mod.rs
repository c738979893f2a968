//! A drive without a file system in between: a file without a name, or a partition, whose room the catalog gives out.
//!
//! Nothing is cached by the system (`O_DIRECT`), so that memory is the host buffer's alone: whole blocks go straight
//! between that and the drive, many at a time. What is not in whole blocks goes through memory of its own.

mod place;
mod ring;
mod threads;

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::host_buffer::HostBuffer;
use crate::store::{GoOn, Put, Room, Store};
use catalog::space::{cut, side_by_side, Extent};
use catalog::state::StoreResult;
use errors::{Error, ErrorKind, Result};
use os::mapping::Mapping;
use os::sync::Mutex;
use place::Opened;
use ring::Rings;

/// The least block: no drive has larger ones that is not asked for them.
const LEAST_BLOCK: u64 = 4096;
/// Bytes of one read or write.
const PIECE: u64 = 1 << 20;
/// The most reads or writes at a time.
const DEPTH: usize = 32;
/// Bytes that go through memory of the drive's own at a time.
const BOUNCED: u64 = 8 << 20;

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Read,
    Write,
}

impl Way {
    fn verb(self) -> &'static str {
        match self {
            Way::Read => "reading",
            Way::Write => "writing",
        }
    }
}

/// Whole blocks that are read or written at once.
#[derive(Clone, Copy, Debug)]
struct Piece {
    offset: u64,
    memory: *mut u8,
    len: u64,
}

// SAFETY: an address; who transfers the piece may use its memory.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

impl Piece {
    /// What is left when `done` bytes, fewer than all, were transferred.
    fn behind(self, done: u64) -> Piece {
        // SAFETY: within the piece.
        let memory = unsafe { self.memory.add(done as usize) };
        Piece { offset: self.offset + done, memory, len: self.len - done }
    }
}

/// A drive.
#[derive(Debug)]
pub struct Drive {
    opened: Opened,
    rings: Rings,
    /// Memory for what is not in whole blocks, once it was needed.
    bounces: Mutex<Vec<Mapping>>,
    /// Bytes of which every transfer fails.
    #[cfg(any(test, debug_assertions))]
    broken: Mutex<Option<Range<u64>>>,
}

impl Drive {
    /// Opens `bytes` of a drive: a file without a name in the directory `path`, allocated at once, or the block device
    /// `path`, which nobody else may have open then.
    ///
    /// # Errors
    /// It cannot be had, is in memory (tmpfs), or has not as much room; the path and the bytes are named.
    pub fn open(path: &Path, bytes: u64) -> Result<Drive> {
        let opened = Opened::open(path, bytes)?;
        let rings = Rings::new();
        if let Err(error) = &rings {
            log::warn!(
                "the drive {} is read and written by threads, as there is no io_uring: {error}",
                path.display()
            );
        }
        Ok(Drive::over(opened, rings.unwrap_or_default()))
    }

    fn over(opened: Opened, rings: Rings) -> Drive {
        Drive {
            opened,
            rings,
            bounces: Mutex::default(),
            #[cfg(any(test, debug_assertions))]
            broken: Mutex::default(),
        }
    }

    /// The drive as on a system without io_uring.
    #[cfg(any(test, debug_assertions))]
    pub fn without_rings(self) -> Drive {
        Drive { rings: Rings::default(), ..self }
    }

    /// From here on these bytes cannot be read or written.
    #[cfg(any(test, debug_assertions))]
    pub fn break_at(&self, bytes: Range<u64>) {
        *self.broken.lock() = Some(bytes);
    }

    /// Its bytes, in whole blocks.
    #[allow(clippy::len_without_is_empty)] // Never empty.
    pub fn len(&self) -> u64 {
        self.opened.len
    }

    /// The bytes of a block, of which it has whole ones alone.
    pub fn block(&self) -> u64 {
        self.opened.block
    }

    /// Transfers these pieces, in any order. None is being transferred when this returns.
    fn transfer(
        &self,
        way: Way,
        pieces: impl Iterator<Item = Piece>,
        go_on: &GoOn<'_>,
    ) -> Result<()> {
        let file = self.opened.file()?;
        #[cfg(any(test, debug_assertions))]
        let pieces = {
            let broken = self.broken.lock().clone().unwrap_or_default();
            // Where no drive has bytes, so that the system refuses.
            pieces.map(move |piece| {
                let is_good =
                    piece.offset >= broken.end || piece.offset + piece.len <= broken.start;
                let offset = if is_good { piece.offset } else { !0 << 12 };
                Piece { offset, ..piece }
            })
        };
        let begin = self.opened.begin;
        let mut pieces = pieces
            .map(move |piece| Piece { offset: piece.offset.saturating_add(begin), ..piece })
            .fuse();
        let failed =
            |error: Error| error.within(format_args!("the drive {}", self.path().display()));
        let by_ring = self.rings.transfer(way, file, &mut pieces, go_on);
        by_ring
            .unwrap_or_else(|| threads::transfer(way, file, pieces.collect(), go_on))
            .map_err(failed)
    }

    fn path(&self) -> &PathBuf {
        &self.opened.path
    }

    /// The blocks of a copy side by side with those of the host buffer, if both have whole ones.
    fn in_blocks(
        &self,
        host: &HostBuffer,
        [in_host, here]: [&[Extent]; 2],
        len: u64,
    ) -> Option<Vec<Piece>> {
        let block = self.block();
        let whole = len.next_multiple_of(block);
        let runs: Vec<_> = side_by_side(in_host, here, whole).collect();
        let fit = |&(in_host, here, len): &(u64, u64, u64)| {
            [in_host, here, len].map(|n| n % block) == [0; 3]
        };
        let all: u64 = runs.iter().map(|(.., len)| len).sum();
        let is_whole = all == whole
            && runs.iter().all(fit)
            && host.address(0).addr() as u64 & (block - 1) == 0;
        is_whole.then(|| {
            let runs = runs.into_iter();
            let pieces = runs.flat_map(|(from, offset, len)| {
                in_pieces(Piece { offset, memory: host.address(from), len })
            });
            pieces.collect()
        })
    }

    /// Runs `work` with memory for [`BOUNCED`] bytes, and a block more.
    fn with_bounce<T>(&self, work: impl FnOnce(*mut u8) -> Result<T>) -> Result<T> {
        let kept = self.bounces.lock().pop();
        let bounce = match kept {
            Some(kept) => kept,
            None => {
                let bounce = Mapping::reserve((BOUNCED + self.block()) as usize)?;
                // Small pages, and a copy in forked children, do no harm.
                let _ = bounce.advise_huge(true).and_then(|()| bounce.dont_fork());
                bounce
            }
        };
        let result = work(bounce.base().as_ptr());
        self.bounces.lock().push(bounce);
        result
    }

    /// The whole blocks with these bytes, and how far into them these begin.
    fn blocks_of(&self, place: Extent) -> (Range<u64>, usize) {
        let start = place.offset - place.offset % self.block();
        let end = (place.offset + place.len).next_multiple_of(self.block());
        (start..end, (place.offset - start) as usize)
    }
}

/// Cuts a run into pieces that are transferred at once.
fn in_pieces(run: Piece) -> impl Iterator<Item = Piece> {
    (0..run.len).step_by(PIECE as usize).map(move |done| {
        let piece = run.behind(done);
        Piece { len: piece.len.min(PIECE), ..piece }
    })
}

/// Cuts places into such as fit in the memory for them.
fn in_bounces(places: impl Iterator<Item = Extent>) -> impl Iterator<Item = Extent> {
    places.flat_map(|place| {
        (0..place.len).step_by(BOUNCED as usize).map(move |done| Extent {
            offset: place.offset + done,
            len: (place.len - done).min(BOUNCED),
        })
    })
}

/// Goes on in any case: who gives or takes the bytes of a short transfer is asked in between.
fn always() -> Result<()> {
    Ok(())
}

impl Store for Drive {
    fn read(&self, copy: &[Extent], range: Range<u64>, put: &mut Put<'_>) -> Result<()> {
        let mut places = in_bounces(cut(copy, range.start, range.end - range.start));
        self.with_bounce(|memory| {
            places.try_for_each(|place| {
                let (blocks, before) = self.blocks_of(place);
                let run = Piece { offset: blocks.start, memory, len: blocks.end - blocks.start };
                self.transfer(Way::Read, in_pieces(run), &always)?;
                // SAFETY: bytes that were just read to this memory, which is this caller's.
                let bytes =
                    unsafe { std::slice::from_raw_parts(memory.add(before), place.len as usize) };
                bytes.chunks(crate::store::PIECE).try_for_each(&mut *put)
            })
        })
    }

    fn write(&self, room: &mut Room<'_>, bytes: &[u8]) -> Result<StoreResult> {
        self.with_bounce(|memory| {
            room.put(bytes.len() as u64, |place, range| {
                let mut from = &bytes[range];
                in_bounces(std::iter::once(place)).try_for_each(|place| {
                    let (blocks, before) = self.blocks_of(place);
                    if before > 0 {
                        // The end of what was written last.
                        let first = Piece { offset: blocks.start, memory, len: self.block() };
                        self.transfer(Way::Read, std::iter::once(first), &always)?;
                    }
                    let now = from.split_off(..place.len as usize).unwrap_or_default();
                    // SAFETY: this caller's memory, which has room for as many bytes and a block.
                    unsafe { now.as_ptr().copy_to_nonoverlapping(memory.add(before), now.len()) };
                    let run =
                        Piece { offset: blocks.start, memory, len: blocks.end - blocks.start };
                    self.transfer(Way::Write, in_pieces(run), &always)
                })
            })
        })
    }

    fn write_from(
        &self,
        room: &mut Room<'_>,
        host: &HostBuffer,
        from: &[Extent],
        len: u64,
        go_on: &GoOn<'_>,
    ) -> Result<StoreResult> {
        match self.in_blocks(host, [from, room.extents()], len) {
            Some(pieces) => {
                self.transfer(Way::Write, pieces.into_iter(), go_on)?;
                Ok(StoreResult::In(len))
            }
            None => crate::store::write_pieces(self, room, host, from, len, go_on),
        }
    }

    fn read_to(
        &self,
        copy: &[Extent],
        host: &HostBuffer,
        to: &[Extent],
        len: u64,
        go_on: &GoOn<'_>,
    ) -> Result<()> {
        match self.in_blocks(host, [to, copy], len) {
            Some(pieces) => self.transfer(Way::Read, pieces.into_iter(), go_on),
            None => crate::store::read_pieces(self, copy, host, to, len, go_on),
        }
    }
}

/// The error of a piece.
fn piece_failed(way: Way, piece: Piece, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull => ErrorKind::NoRoom,
        _ => ErrorKind::System,
    };
    let Piece { offset, len, .. } = piece;
    Error::new(kind, format!("{} {len} bytes at {offset}: {error}", way.verb()))
}

/// The error of a transfer of no bytes.
fn no_bytes() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "it ends before")
}

#[cfg(all(test, not(feature = "model-check")))]
#[path = "tests.rs"]
mod tests;
