//! What of a job is not in its files yet, written down in shared memory: enough for another process
//! to write it, should this one be killed.
//!
//! A record stands for a checkpoint whose bytes are complete in the host buffer, which is shared
//! memory as well, or in scratch, and which has still to reach a file. The writer changes the
//! ledger at every step; the reader reads it once, when the writer has ended. So the only question
//! is what a writer leaves that is ended between any two instructions, and the answer is one word:
//! a record counts from the moment its state is stored, and the state is stored last. For the same
//! reason a checkpoint has one record, which is changed by one store: where it goes in an aggregated
//! file, which is known later than the rest, has room beside the state that says so.

use std::borrow::Cow;
use std::sync::atomic::{compiler_fence, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::files::Place;
use super::space::Extent;
use crate::catalog::entry::{Id, Region};
use crate::error::{Error, Kind, Result};
use crate::platform::mapping::Mapping;
use crate::platform::shared::SharedMemory;

/// First word of a ledger: "veloc" and the version of this layout and of [`Record`].
const MAGIC: u64 = 0x0004_0063_6f6c_6576;
/// Words of a slot: its state, its link, a place, and content.
const SLOT: usize = 32;
/// The first word of the place, in the first slot of a record.
const PLACE: usize = 2;
/// The first word of content in a slot.
const FIRST: usize = 5;
/// Words of content in a slot.
const CONTENT: usize = SLOT - FIRST;
/// Words before the first slot: the magic, and how many slots were ever used.
const HEAD: usize = SLOT;

/// One checkpoint, as its heir needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<'a> {
    /// Larger is younger.
    pub id: Id,
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its version.
    pub version: i32,
    /// For a file-based checkpoint, the path that was routed.
    pub routed: Option<Cow<'a, str>>,
    /// Where it goes in an aggregated file, if it goes there. Beside the others, as it may come later.
    #[serde(skip)]
    pub place: Option<Place>,
    /// Its regions, ascending by id.
    pub regions: Cow<'a, [Region]>,
    /// Which of them is its mark ([`crate::format::mark`]), if one is: it is not the application's own.
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
    /// Its scratch file goes once it is persistent.
    pub doomed: bool,
    /// It is known where it goes in an aggregated file.
    pub placed: bool,
}

impl Standing {
    /// There is something left to do, and somebody else could do it.
    pub fn is_of_use(self) -> bool {
        match self.in_scratch {
            true => self.persist,
            false => self.in_host,
        }
    }

    fn word(self) -> u64 {
        1 | u64::from(self.in_host) << 1
            | u64::from(self.in_scratch) << 2
            | u64::from(self.persist) << 3
            | u64::from(self.doomed) << 4
            | u64::from(self.placed) << 5
    }

    fn of(word: u64) -> Standing {
        let bit = |at: u32| word >> at & 1 == 1;
        Standing {
            in_host: bit(1),
            in_scratch: bit(2),
            persist: bit(3),
            doomed: bit(4),
            placed: bit(5),
        }
    }
}

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// The writer's side.
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
    /// The memory cannot be mapped, or has no room for one record.
    pub fn new(memory: &SharedMemory) -> Result<Ledger> {
        let words = Words::map(memory)?;
        words.store(words.get(0), MAGIC, Ordering::Relaxed);
        Ok(Ledger { words, free: Vec::new(), used: 0, said_full: false })
    }

    /// From here on only so many stores are made: the process is killed then, as far as the memory
    /// shows.
    #[cfg(all(test, not(feature = "model-check")))]
    pub(crate) fn kill_after(&self, stores: u64) {
        self.words.left.store(stores, Ordering::Relaxed);
    }

    /// The stores that were made since, if there was no end to them.
    #[cfg(all(test, not(feature = "model-check")))]
    pub(crate) fn stores(&self) -> u64 {
        u64::MAX - self.words.left.load(Ordering::Relaxed)
    }

    /// Writes a record down. `None`: there is no room for it, which is said once.
    pub fn put(&mut self, record: &Record<'_>, standing: Standing) -> Option<Slot> {
        let written = postcard::to_stdvec(record)
            .map_err(|error| Error::new(Kind::Internal, error.to_string()))
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

    /// Changes how far a checkpoint has come. Its place is written down with that if it is known only
    /// now.
    pub fn set(&self, slot: Slot, standing: Standing, place: Option<&Place>) {
        let before = Standing::of(self.words.slot(slot.0, 0).load(Ordering::Relaxed));
        if let Some(place) = place.filter(|_| standing.placed && !before.placed) {
            self.words.put_place(slot.0, place);
        }
        self.put_state(slot.0, standing);
    }

    /// What was stored before counts from here on.
    fn put_state(&self, slot: u32, standing: Standing) {
        self.words.store(self.words.slot(slot, 0), standing.word(), Ordering::Release);
    }

    /// Strikes a record out.
    pub fn remove(&mut self, slot: Slot) {
        self.words.store(self.words.slot(slot.0, 0), 0, Ordering::Release);
        // Nor may the compiler have what is written to these slots next stand before that.
        compiler_fence(Ordering::SeqCst);
        let mut next = Some(slot.0);
        while let Some(index) = next {
            self.free.push(index);
            next = Link::of(self.words.slot(index, 1).load(Ordering::Relaxed)).next;
        }
    }

    fn write(&mut self, bytes: &[u8], place: Option<&Place>, standing: Standing) -> Result<Slot> {
        let pieces: Vec<&[u8]> = bytes.chunks(CONTENT * 8).collect();
        let missing = pieces.len().saturating_sub(self.free.len());
        if missing > (self.words.slots() - self.used) as usize {
            return Err(Error::new(
                Kind::NoRoom,
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
            let link = Link { next, len: piece.len() as u32 };
            self.words.put(index, 1, link.word());
            for (at, word) in piece.chunks(8).enumerate() {
                let mut whole = [0; 8];
                whole[..word.len()].copy_from_slice(word);
                self.words.put(index, FIRST + at, u64::from_le_bytes(whole));
            }
            next = Some(index);
        }
        let head = next.ok_or_else(|| Error::new(Kind::Internal, "an empty record"))?;
        if let Some(place) = place {
            self.words.put_place(head, place);
        }
        self.put_state(head, standing);
        Ok(Slot(head))
    }
}

/// Reads what a writer has left, the oldest checkpoint first. What cannot be read is said and left
/// out.
///
/// # Errors
/// The memory is no ledger, or one of another version of this library.
pub fn read(memory: &SharedMemory) -> Result<Vec<(Record<'static>, Standing)>> {
    let words = Words::map(memory)?;
    let magic = words.get(0).load(Ordering::Acquire);
    if magic != MAGIC {
        return Err(Error::new(Kind::Corrupt, format!("{magic:#x} is no ledger of this version")));
    }
    let used = words.get(1).load(Ordering::Relaxed).min(u64::from(words.slots())) as u32;
    let mut found = Vec::new();
    for index in 0..used {
        let state = words.slot(index, 0).load(Ordering::Acquire);
        if state == 0 {
            continue;
        }
        match words.record(index, used) {
            Ok(mut record) => {
                let standing = Standing::of(state);
                record.place = standing.placed.then(|| words.place(index));
                found.push((record, standing));
            }
            Err(error) => log::error!("a checkpoint in the ledger is lost: {error}"),
        }
    }
    found.sort_by_key(|(record, _)| record.id);
    Ok(found)
}

/// The second word of a slot: where the content goes on, and how many bytes of it are here.
struct Link {
    next: Option<u32>,
    len: u32,
}

impl Link {
    fn word(&self) -> u64 {
        u64::from(self.next.map_or(0, |next| next + 1)) << 32 | u64::from(self.len)
    }

    fn of(word: u64) -> Link {
        Link { next: ((word >> 32) as u32).checked_sub(1), len: word as u32 }
    }
}

/// Shared memory as words, each of which is written and read as a whole.
#[derive(Debug)]
struct Words {
    mapping: Mapping,
    len: usize,
    /// After so many stores the process is killed, as far as the memory shows.
    #[cfg(test)]
    left: AtomicU64,
}

impl Words {
    fn map(memory: &SharedMemory) -> Result<Words> {
        let mapping = Mapping::of(memory)?;
        let len = memory.len() as usize / 8;
        if len < HEAD + SLOT {
            return Err(Error::invalid(format!("{} bytes are no ledger", memory.len())));
        }
        Ok(Words {
            mapping,
            len,
            #[cfg(test)]
            left: AtomicU64::new(u64::MAX),
        })
    }

    fn get(&self, at: usize) -> &AtomicU64 {
        let first = self.mapping.base().as_ptr().cast::<AtomicU64>();
        // SAFETY: the mapping has that many words, is aligned for any type and lives as long as
        // `self`; everybody who uses the memory uses it as atomic words.
        let words = unsafe { std::slice::from_raw_parts(first, self.len) };
        &words[at]
    }

    fn slot(&self, index: u32, word: usize) -> &AtomicU64 {
        self.get(HEAD + index as usize * SLOT + word)
    }

    /// The way of every store.
    fn store(&self, to: &AtomicU64, word: u64, ordering: Ordering) {
        #[cfg(test)]
        if self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
            .is_err()
        {
            return;
        }
        to.store(word, ordering);
    }

    /// Stores what counts once a state says so.
    fn put(&self, index: u32, at: usize, word: u64) {
        self.store(self.slot(index, at), word, Ordering::Relaxed);
    }

    fn put_place(&self, index: u32, place: &Place) {
        let Place { offset, ranks, job, attempt } = *place;
        self.put(index, PLACE, offset);
        self.put(index, PLACE + 1, u64::from(ranks) << 32 | u64::from(job));
        self.put(index, PLACE + 2, attempt);
    }

    fn place(&self, index: u32) -> Place {
        let word = |at: usize| self.slot(index, PLACE + at).load(Ordering::Relaxed);
        let numbers = word(1);
        Place {
            offset: word(0),
            ranks: (numbers >> 32) as u32,
            job: numbers as u32,
            attempt: word(2),
        }
    }

    fn slots(&self) -> u32 {
        ((self.len - HEAD) / SLOT).min(u32::MAX as usize - 1) as u32
    }

    fn record(&self, head: u32, used: u32) -> Result<Record<'static>> {
        let corrupt = |text: &str| Error::new(Kind::Corrupt, format!("slot {head}: {text}"));
        let mut bytes = Vec::new();
        let mut next = Some(head);
        // Links of what has no content may go round in a circle.
        let mut steps = 0;
        while let Some(index) = next {
            steps += 1;
            let link = Link::of(self.slot(index, 1).load(Ordering::Relaxed));
            let len = link.len as usize;
            if index >= used || len > CONTENT * 8 || steps > used {
                return Err(corrupt("its links lead nowhere"));
            }
            for at in 0..len.div_ceil(8) {
                let word = self.slot(index, FIRST + at).load(Ordering::Relaxed).to_le_bytes();
                bytes.extend_from_slice(&word[..(len - at * 8).min(8)]);
            }
            next = link.next.filter(|&next| next < used);
        }
        postcard::from_bytes::<Record<'static>>(&bytes).map_err(|e| corrupt(&e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::entry::Part;
    use proptest::prelude::*;

    fn record(id: Id, regions: usize, extents: usize) -> Record<'static> {
        let region =
            |i| Region { id: i as i32 - 3, size: 7 * i as u64, part: Part::Host, offset: 1 };
        let extent = |i| Extent { offset: 512 * i as u64, len: 512 };
        Record {
            id,
            name: format!("wave.{id}").into(),
            version: id as i32,
            routed: id.is_multiple_of(2).then(|| Cow::from("/a/b")),
            place: id.is_multiple_of(3).then_some(Place {
                offset: id,
                ranks: 3,
                job: 7,
                attempt: id,
            }),
            regions: (0..regions).map(region).collect(),
            mark: id.is_multiple_of(5).then_some(-3),
            parts: [(0, Cow::from(vec![])), (99, (0..extents).map(extent).collect())],
        }
    }

    const HELD: Standing =
        Standing { in_host: true, in_scratch: false, persist: true, doomed: false, placed: false };

    fn held(record: &Record<'_>) -> Standing {
        Standing { placed: record.place.is_some(), ..HELD }
    }

    #[test]
    fn what_is_written_is_read_in_the_order_of_age() {
        let memory = SharedMemory::create("ledger", 1 << 20).unwrap();
        let mut ledger = Ledger::new(&memory).unwrap();
        let placed = held(&record(9, 1, 1));
        let young = ledger.put(&record(9, 1, 1), placed).unwrap();
        ledger.put(&record(4, 500, 70), Standing { doomed: true, ..HELD }).unwrap();
        let found = read(&memory).unwrap();
        assert_eq!(
            found,
            [(record(4, 500, 70), Standing { doomed: true, ..HELD }), (record(9, 1, 1), placed)]
        );
        let now = Standing { in_host: false, in_scratch: true, ..placed };
        ledger.set(young, now, None);
        assert_eq!(read(&memory).unwrap()[1], (record(9, 1, 1), now));
        ledger.remove(young);
        assert_eq!(read(&memory).unwrap().len(), 1);
    }

    /// Catches a record that counts before it is whole: what is left by a writer that ends before
    /// it stores the state must not be read.
    #[test]
    fn a_record_without_a_state_does_not_count() {
        let memory = SharedMemory::create("ledger", 1 << 20).unwrap();
        let mut ledger = Ledger::new(&memory).unwrap();
        let slot = ledger.put(&record(1, 100, 1), HELD).unwrap();
        ledger.words.slot(slot.0, 0).store(0, Ordering::Relaxed);
        assert_eq!(read(&memory).unwrap(), []);
    }

    #[test]
    fn room_is_used_again_and_may_run_out() {
        let memory = SharedMemory::create("ledger", 16 << 10).unwrap();
        let mut ledger = Ledger::new(&memory).unwrap();
        for id in 0..1000 {
            let record = record(id, 60, 3);
            let slot = ledger.put(&record, held(&record)).unwrap();
            ledger.remove(slot);
        }
        let kept = ledger.put(&record(1, 60, 3), HELD).unwrap();
        assert_eq!(ledger.put(&record(2, 5000, 3), HELD), None);
        assert_eq!(read(&memory).unwrap(), [(record(1, 60, 3), HELD)]);
        ledger.remove(kept);
        assert!(ledger.put(&record(2, 60, 3), HELD).is_some());
    }

    #[test]
    fn other_memory_is_no_ledger() {
        assert!(read(&SharedMemory::create("x", 1 << 20).unwrap()).is_err());
        assert!(read(&SharedMemory::create("x", 64).unwrap()).is_err());
    }

    /// Catches a backend that follows links for ever, so that the next job waits for it.
    #[test]
    fn links_in_a_circle_lead_nowhere() {
        let memory = SharedMemory::create("ledger", 1 << 20).unwrap();
        let mut ledger = Ledger::new(&memory).unwrap();
        let slot = ledger.put(&record(1, 1, 1), HELD).unwrap();
        let circle = Link { next: Some(slot.0), len: 0 };
        ledger.words.slot(slot.0, 1).store(circle.word(), Ordering::Relaxed);
        assert_eq!(read(&memory).unwrap(), []);
    }

    proptest! {
        /// A backend must survive whatever a dying client has left.
        #[test]
        fn any_bytes_are_answered(words in prop::collection::vec((0..400usize, any::<u64>()), 1..40)) {
            let memory = SharedMemory::create("ledger", 4 << 10).unwrap();
            let mut ledger = Ledger::new(&memory).unwrap();
            ledger.put(&record(1, 20, 3), HELD).unwrap();
            ledger.put(&record(2, 1, 3), HELD).unwrap();
            for (at, word) in words {
                ledger.words.get(1 + at).store(word, Ordering::Relaxed);
            }
            let _ = read(&memory);
        }
    }
}
