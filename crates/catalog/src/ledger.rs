//! A record in shared memory of all checkpoints of a job that are not in their files yet: enough
//! for another process to write them, should this one be killed.
//!
//! A record stands for a checkpoint whose bytes are complete in the host buffer, which is shared
//! memory as well, or in scratch, and which has still to reach a file. In a job that hands its memory
//! over (`hand_over`) one stands for each checkpoint in the host buffer. The writer changes the
//! ledger at every step; the reader reads it once, when the writer has ended. So the only question
//! is what a writer leaves that is ended between any two instructions, and the answer is one word:
//! a record counts from the moment its state is stored, and the state is stored last. For the same
//! reason a checkpoint has one record, which is changed by one store: where it goes in an aggregated
//! file, which is known later than the rest, has room beside the state that says so.

use std::borrow::Cow;
use std::sync::atomic::{compiler_fence, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::space::Extent;
use crate::{Id, Region};
use errors::{Error, ErrorKind, Result};
use format::aggregate::AggregatePart;
use format::identity::Identity;

#[cfg(test)]
pub(crate) mod plain;
mod words;

pub use words::LedgerMemory;
use words::{SlotLink, Words, CONTENT, FIRST};

/// First word of a ledger: "veloc" and the version of this layout and of [`Record`].
const MAGIC: u64 = 0x0006_0063_6f6c_6576;

/// A checkpoint, as its successor needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<'a> {
    /// Larger is younger.
    pub id: Id,
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its version.
    pub version: i32,
    /// The run that made it.
    pub identity: Identity,
    /// Its files may replace those of a job with another number of processes.
    pub may_replace: bool,
    /// For a file-based checkpoint, the path that was routed.
    pub routed: Option<Cow<'a, str>>,
    /// Its place in an aggregated file, if it has one. Kept apart, as it may come later.
    #[serde(skip)]
    pub place: Option<AggregatePart>,
    /// Its regions, ascending by id.
    pub regions: Cow<'a, [Region]>,
    /// The id of its mark ([`format::mark`]), if it has one: then it is not the application's own.
    pub mark: Option<i32>,
    /// Its parts: their bytes, and where these are in the host buffer.
    pub parts: [(u64, Cow<'a, [Extent]>); 2],
}

/// How far a checkpoint in the ledger has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Its bytes are complete in the host buffer.
    pub in_host: bool,
    /// Its scratch file is complete.
    pub in_scratch: bool,
    /// A persistent copy is still to be made.
    pub persist: bool,
    /// Its scratch file is removed once it is persistent.
    pub doomed: bool,
    /// Its place in an aggregated file is known.
    pub placed: bool,
    /// It is kept for the next job, and no scratch file of it is to be written.
    pub kept: bool,
    /// Its persistent file is complete.
    pub in_persistent: bool,
    /// It was restored, and need not be again.
    pub consumed: bool,
    /// The process that is still copying its bytes to the host buffer, and sets `in_host` when all are
    /// there; 0: none.
    pub carrier: u32,
}

impl Standing {
    /// Whether there is something left to do that another process could do.
    pub fn is_due(self) -> bool {
        match self.in_scratch {
            true => self.persist,
            false => self.in_host && !self.kept,
        }
    }

    /// Whether something is left to do, or the next job finds it in the host buffer.
    pub fn is_of_use(self) -> bool {
        self.is_due() || self.in_host || self.carrier != 0
    }

    fn word(self) -> u64 {
        COUNTS
            | u64::from(self.in_host) << 1
            | u64::from(self.in_scratch) << 2
            | u64::from(self.persist) << 3
            | u64::from(self.doomed) << 4
            | u64::from(self.placed) << 5
            | u64::from(self.kept) << 6
            | u64::from(self.in_persistent) << 7
            | u64::from(self.consumed) << 8
            | u64::from(self.carrier) << 32
    }

    fn of(word: u64) -> Standing {
        let bit = |at: u32| word >> at & 1 == 1;
        Standing {
            in_host: bit(1),
            in_scratch: bit(2),
            persist: bit(3),
            doomed: bit(4),
            placed: bit(5),
            kept: bit(6),
            in_persistent: bit(7),
            consumed: bit(8),
            carrier: (word >> 32) as u32,
        }
    }
}

/// The bit of a state by which a record counts.
const COUNTS: u64 = 1;

/// The bit of a state that says that the bytes are complete in the host buffer.
pub const IN_HOST: u64 = 1 << 1;

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// A ledger, as its writer has it.
#[derive(Debug)]
pub struct Ledger {
    words: Words,
    free: Vec<u32>,
    used: u32,
    said_full: bool,
}

impl Ledger {
    /// An empty ledger in `memory`, which nobody else writes to.
    ///
    /// # Errors
    /// The memory has no room for one record.
    pub fn new(memory: LedgerMemory) -> Result<Ledger> {
        let words = Words::of(memory)?;
        words.store(words.get(0), MAGIC, Ordering::Relaxed);
        Ok(Ledger { words, free: Vec::new(), used: 0, said_full: false })
    }

    /// The ledger that another writer has left in `memory`, to be continued, and its records, the
    /// oldest checkpoint first. Records that cannot be read, or whose bytes are nowhere, are warned of and struck out.
    ///
    /// # Errors
    /// As [`read`].
    pub fn resume(memory: LedgerMemory) -> Result<(Ledger, Vec<Left>)> {
        let words = Words::of(memory)?;
        let (left, used) = scan(&words)?;
        let left = with_bytes(left);
        let mut taken = vec![false; used as usize];
        for (.., slot) in &left {
            let mut next = Some(slot.0);
            while let Some(index) = next.filter(|&index| !taken[index as usize]) {
                taken[index as usize] = true;
                next = SlotLink::of(words.slot(index, 1).load(Ordering::Relaxed)).next;
            }
        }
        let free: Vec<u32> = (0..used).rev().filter(|&index| !taken[index as usize]).collect();
        for &index in &free {
            words.store(words.slot(index, 0), 0, Ordering::Release);
        }
        Ok((Ledger { words, free, used, said_full: false }, left))
    }

    /// From here on only so many stores reach the memory, as if the process were killed then.
    #[cfg(any(test, debug_assertions))]
    pub fn kill_after(&self, stores: u64) {
        self.words.left.store(stores, Ordering::Relaxed);
    }

    /// How many stores were made, as long as there is no limit to them.
    #[cfg(any(test, debug_assertions))]
    pub fn stores(&self) -> u64 {
        u64::MAX - self.words.left.load(Ordering::Relaxed)
    }

    /// Writes a record. `None`: there is no room for it, which is warned of once.
    pub fn put(&mut self, record: &Record<'_>, standing: Standing) -> Option<Slot> {
        self.put_as(record, Some(standing))
    }

    fn put_as(&mut self, record: &Record<'_>, standing: Option<Standing>) -> Option<Slot> {
        let written = postcard::to_stdvec(record)
            .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
            .and_then(|bytes| self.write(&bytes, record.place.as_ref(), standing));
        match written {
            Ok(slot) => Some(slot),
            Err(error) => {
                if !std::mem::replace(&mut self.said_full, true) {
                    log::warn!(
                        "checkpoint \"{}\" version {} would be lost if this process were killed \
                         before it is written: {error}",
                        record.name,
                        record.version
                    );
                }
                None
            }
        }
    }

    /// Writes a record that does not count before [`Ledger::set`] is called. `None` as for
    /// [`Ledger::put`].
    pub fn prepare(&mut self, record: &Record<'_>) -> Option<Slot> {
        self.put_as(record, None)
    }

    /// The state of a record, in which another process sets [`IN_HOST`].
    pub fn state(&self, slot: Slot) -> &AtomicU64 {
        self.words.slot(slot.0, 0)
    }

    /// Changes the standing of a checkpoint. Its place is written, too, if it has become known only
    /// now.
    pub fn set(&self, slot: Slot, standing: Standing, place: Option<&AggregatePart>) {
        let before = Standing::of(self.words.slot(slot.0, 0).load(Ordering::Relaxed));
        if let Some(place) = place.filter(|_| standing.placed && !before.placed) {
            self.words.put_place(slot.0, place);
        }
        self.put_state(slot.0, standing);
    }

    /// Stores a record's state: what was stored before counts from here on. A carrier may have stored that
    /// the bytes are there.
    fn put_state(&self, slot: u32, standing: Standing) {
        let (state, word) = (self.words.slot(slot, 0), standing.word());
        match standing.carrier {
            0 => self.words.store(state, word, Ordering::Release),
            _ => self.words.merge(state, word, IN_HOST),
        }
    }

    /// Has a record not count any more whose carrier is still copying: its room stays taken until
    /// [`Ledger::remove`], as the carrier writes to it in the end.
    pub fn void(&self, slot: Slot) {
        self.words.store(self.words.slot(slot.0, 0), 0, Ordering::Release);
    }

    /// Strikes a record out.
    pub fn remove(&mut self, slot: Slot) {
        self.words.store(self.words.slot(slot.0, 0), 0, Ordering::Release);
        // The compiler must not move later writes to these slots before that, either.
        compiler_fence(Ordering::SeqCst);
        let mut next = Some(slot.0);
        while let Some(index) = next {
            self.free.push(index);
            next = SlotLink::of(self.words.slot(index, 1).load(Ordering::Relaxed)).next;
        }
    }

    fn write(
        &mut self,
        bytes: &[u8],
        place: Option<&AggregatePart>,
        standing: Option<Standing>,
    ) -> Result<Slot> {
        let pieces: Vec<&[u8]> = bytes.chunks(CONTENT * 8).collect();
        let missing = pieces.len().saturating_sub(self.free.len());
        if missing > (self.words.slots() - self.used) as usize {
            return Err(Error::new(
                ErrorKind::NoRoom,
                format!("no room for {} bytes in the ledger", bytes.len()),
            ));
        }
        let mut next = None;
        // From the last to the first, so that each knows its successor.
        for piece in pieces.into_iter().rev() {
            let index = self.free.pop().unwrap_or_else(|| {
                self.used += 1;
                let used = self.words.get(1);
                self.words.store(used, u64::from(self.used), Ordering::Relaxed);
                self.used - 1
            });
            let link = SlotLink { next, len: piece.len() as u32 };
            self.words.put(index, 1, link.word());
            for (at, word) in piece.chunks(8).enumerate() {
                let mut whole = [0; 8];
                whole[..word.len()].copy_from_slice(word);
                self.words.put(index, FIRST + at, u64::from_le_bytes(whole));
            }
            next = Some(index);
        }
        let head = next.ok_or_else(|| Error::new(ErrorKind::Internal, "an empty record"))?;
        if let Some(place) = place {
            self.words.put_place(head, place);
        }
        if let Some(standing) = standing {
            self.put_state(head, standing);
        }
        Ok(Slot(head))
    }
}

/// A checkpoint that a writer has left: its record, its standing, and the record's place.
pub type Left = (Record<'static>, Standing, Slot);

/// Reads the records that a writer has left, the oldest checkpoint first. Those that cannot be read, or whose bytes are
/// nowhere, are warned of and left out.
///
/// # Errors
/// The memory is no ledger, or one of another version of this library.
pub fn read(memory: LedgerMemory) -> Result<Vec<Left>> {
    scan(&Words::of(memory)?).map(|(left, _)| with_bytes(left))
}

/// Those that exist: the process that copied the bytes of another one was killed before they were complete.
fn with_bytes(mut left: Vec<Left>) -> Vec<Left> {
    left.retain(|(record, standing, _)| {
        let exists = standing.in_host || standing.in_scratch || standing.in_persistent;
        if !exists {
            log::error!(
                "checkpoint \"{}\" version {} is lost: the process that copied it, {}, was killed",
                record.name,
                record.version,
                standing.carrier
            );
        }
        exists
    });
    left
}

/// The processes that were copying bytes of checkpoints when a writer ended, and have not said in the ledger
/// that they are done.
///
/// # Errors
/// As [`read`].
pub fn carriers(memory: LedgerMemory) -> Result<Vec<u32>> {
    let (left, _) = scan(&Words::of(memory)?)?;
    let carrier = |(_, standing, _): &Left| (!standing.in_host).then_some(standing.carrier);
    Ok(left.iter().filter_map(carrier).filter(|&process| process != 0).collect())
}

/// Reads the records of a ledger as [`read`] does, and how many slots were ever used.
fn scan(words: &Words) -> Result<(Vec<Left>, u32)> {
    let magic = words.get(0).load(Ordering::Acquire);
    if magic != MAGIC {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!("{magic:#x} is no ledger of this version"),
        ));
    }
    let used = words.get(1).load(Ordering::Relaxed).min(u64::from(words.slots())) as u32;
    let mut found = Vec::new();
    for index in 0..used {
        let state = words.slot(index, 0).load(Ordering::Acquire);
        // Nothing, or a carrier has ended whose checkpoint was never committed.
        if state & COUNTS == 0 {
            continue;
        }
        match words.record(index, used) {
            Ok(mut record) => {
                let standing = Standing::of(state);
                record.place = standing.placed.then(|| words.place(index));
                found.push((record, standing, Slot(index)));
            }
            Err(error) => log::error!("a checkpoint in the ledger is lost: {error}"),
        }
    }
    found.sort_by_key(|(record, ..)| record.id);
    Ok((found, used))
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
