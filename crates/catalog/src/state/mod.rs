//! The catalog's state and its steps. Nothing here waits or moves bytes.
//!
//! The work is kept in lists (flush, write, spill, persist, victims, fetches). Each list is a function of the
//! entries; only `reindex` changes them, and it is called after every change of an entry. So finding the next
//! piece of work takes logarithmic time in the number of checkpoints.

mod arrive;
mod bypass;
mod capture;
mod down;
mod handover;
mod hints;
mod invariants;
mod level;
mod lists;
mod managed;
mod removal;
mod replaced;
mod requests;
mod restore;
mod room;
mod up;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use crate::entry::{Entry, FileCopy, Life, Readable, Stage};
use crate::ledger::Ledger;
use crate::{Id, Level, Region, MOST};
use errors::{Error, Kind};
use level::Memory;

pub use bypass::is_of_the_file_system;
pub use capture::Content;
pub use requests::*;

#[derive(Debug, Default)]
struct Versions {
    live: BTreeMap<i32, Id>,
    /// The checkpoint that was restored last.
    last_read: Option<Id>,
    /// Versions that could be fetched to a level, by level.
    fetch: [BTreeSet<i32>; MOST],
    /// Versions that could be read from a file.
    read: BTreeSet<i32>,
    /// Positions of the hints for versions that do not exist.
    hints: BTreeMap<i32, Vec<u64>>,
    begun: Begun,
}

/// The checkpoints of a name that this run has begun.
#[derive(Debug, Default)]
struct Begun {
    /// The version of the last one.
    last: Option<i32>,
    /// How often one was not above the one before.
    generation: u32,
}

/// What is told of evictions.
#[derive(Default)]
struct Evictions(Option<Box<Told>>);

type Told = dyn Fn(Level, &str, i32, u64) + Send;

impl fmt::Debug for Evictions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "told" } else { "not told" })
    }
}

/// The whole state of the catalog.
#[derive(Debug)]
pub struct State {
    shape: Shape,
    /// The random number of the run, which all processes have; 0: not known.
    run: u64,
    /// Boxed, in a tree: a growing table would move all entries while a capture waits.
    entries: BTreeMap<Id, Box<Entry>>,
    names: HashMap<Arc<str>, Versions>,
    /// The levels of memory, the fastest first.
    levels: Vec<Memory>,
    staging: Level,
    /// The first level that captures each part.
    tops: [Level; 2],
    write: BTreeSet<(Readable, Id)>,
    spill: BTreeSet<(Readable, Id)>,
    persist: BTreeSet<Id>,
    /// Checkpoints whose persistent copy the waiting application makes itself.
    claims: BTreeSet<Id>,
    /// Checkpoints with a failed step towards their files, which are not retried unless requested.
    failed: BTreeSet<Id>,
    /// Incomplete deferred captures, in the order in which they were taken.
    arrivals: VecDeque<Id>,
    /// Hinted checkpoints that could be read from a file.
    hinted: BTreeSet<(u64, Id)>,
    /// The name and version last read, from which the next reads are predicted.
    reading: Option<(Arc<str>, i64)>,
    /// Whether to fetch ahead: the application reads, or has asked for it.
    fetching: bool,
    /// Whether the application waits for room: ephemeral checkpoints may then spill to files.
    starved: Option<Level>,
    /// The scratch files of an ephemeral job, to be removed at its end.
    spilled: BTreeSet<(Arc<str>, i32)>,
    /// Checkpoints whose deferred captures are not complete.
    incomplete: BTreeSet<Id>,
    /// The last checkpoints that were cleaned up, are in persistent, and were not taken again.
    cleaned: HashMap<(Arc<str>, i32), Id>,
    /// The regions of the last checkpoint that was taken into memory.
    last_regions: Arc<[Region]>,
    next_id: Id,
    next_hint: u64,
    next_consumed: u64,
    /// Active transfers that can end a wait for room.
    in_flight: u32,
    /// How many of these are flushes, writes, persists and deferred captures.
    draining: u32,
    /// Failures that were not reported, oldest first; those of managed checkpoints with their id.
    failures: VecDeque<(Option<Id>, Error)>,
    /// Steps of checkpoints towards their files that have failed so far.
    failed_steps: u64,
    /// The last failure of a step towards files.
    last_failure: Option<Error>,
    counts: Counts,
    /// Is told of evictions from the levels of memory.
    evictions: Evictions,
    /// Records which checkpoints are not in files yet, for the successor if this process is killed.
    ledger: Option<Ledger>,
    /// Whether the ledger records all that is in the host buffer, for the next job.
    hands_over: bool,
    /// The number of checkpoints that have still to reach a file and are not in the ledger, if there is one.
    exposed: usize,
    /// Replaced checkpoints that keep their memory until the new ones are safe.
    held: BTreeSet<Id>,
    /// Grows with every change that could end a wait.
    changes: u64,
}

impl State {
    /// An empty catalog for a job with these levels.
    pub fn new(shape: Shape) -> Self {
        let levels: Vec<Memory> = shape.memory.iter().cloned().map(Memory::new).collect();
        let first = |is: &dyn Fn(&Memory) -> bool| levels.iter().position(is).map(Level::new);
        let staging = first(&|level| level.spec.staging).unwrap_or(Level::HOST);
        let tops = [0, 1].map(|part| first(&|level| level.spec.captures[part]).unwrap_or(staging));
        State {
            levels,
            staging,
            tops,
            shape,
            run: 0,
            entries: BTreeMap::new(),
            names: HashMap::new(),
            write: BTreeSet::new(),
            spill: BTreeSet::new(),
            persist: BTreeSet::new(),
            claims: BTreeSet::new(),
            failed: BTreeSet::new(),
            arrivals: VecDeque::new(),
            hinted: BTreeSet::new(),
            reading: None,
            fetching: false,
            starved: None,
            spilled: BTreeSet::new(),
            incomplete: BTreeSet::new(),
            cleaned: HashMap::new(),
            last_regions: Arc::from([]),
            next_id: 1,
            next_hint: 1,
            next_consumed: 1,
            in_flight: 0,
            draining: 0,
            failures: VecDeque::new(),
            failed_steps: 0,
            last_failure: None,
            counts: Counts::default(),
            evictions: Evictions::default(),
            ledger: None,
            hands_over: false,
            exposed: 0,
            held: BTreeSet::new(),
            changes: 0,
        }
    }

    /// Checkpoints that are opened are of this run from now on.
    pub fn in_run(&mut self, run: u64) {
        self.run = run;
    }

    /// The random number of the run; 0: not known.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Tells of evictions from the levels of memory from now on: the level, name, version and bytes.
    pub fn tell_evictions(&mut self, told: impl Fn(Level, &str, i32, u64) + Send + 'static) {
        self.evictions = Evictions(Some(Box::new(told)));
    }

    /// A number that changes with everything that may be waited for.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether persistent files are written from memory where it has the bytes.
    pub fn writes_beside(&self) -> bool {
        self.shape.beside.is_some()
    }

    /// Whether no checkpoint is being flushed, written or persisted, or could be.
    pub fn drained(&self) -> bool {
        self.draining == 0
            && self.write.is_empty()
            && self.persist.is_empty()
            && !self.levels().any(|level| self.flush_can_come(level))
    }

    /// Whether this checkpoint's persistent copy is as it should be; `None` while one is needed or being
    /// made.
    pub fn persist_settled(&self, id: Id) -> Option<bool> {
        match self.entries.get(&id).map(|entry| entry.persistent) {
            Some(FileCopy::Wanted | FileCopy::Writing) => None,
            file => Some(file != Some(FileCopy::Failed)),
        }
    }

    /// Whether a checkpoint is in a file; `None` while a worker is to write it. What is decided together with other
    /// processes is not waited for: they may wait for this one.
    pub fn file_settled(&self, id: Id) -> Option<bool> {
        let Some(entry) = self.entries.get(&id) else { return Some(false) };
        let is_due =
            entry.scratch.is_due() || entry.scratch.is_bypassed() && entry.persistent.is_due();
        match entry.in_file() || entry.has_failed() || !is_due {
            true => Some(entry.in_file()),
            false => None,
        }
    }

    /// How many steps of checkpoints towards their files have failed so far.
    pub fn failed_steps(&self) -> u64 {
        self.failed_steps
    }

    /// A step of a checkpoint towards its files has failed.
    fn has_failed(&mut self, id: Id, cause: Error) {
        self.failed_steps += 1;
        self.last_failure = Some(cause.clone());
        self.failures.push_back((self.is_managed(id).then_some(id), cause));
    }

    /// Adds a background failure to be reported.
    pub fn report(&mut self, failure: Error) {
        self.failures.push_back((None, failure));
    }

    /// Takes the unreported background failures as one error: the oldest, and the number of others.
    /// Failures of managed checkpoints that were dropped are left out.
    pub fn take_failure(&mut self) -> Option<Error> {
        let mut failures = std::mem::take(&mut self.failures);
        failures.retain(|(id, _)| {
            let is_live = |id: &Id| self.entries.get(id).is_some_and(|e| e.life == Life::Live);
            id.as_ref().is_none_or(is_live)
        });
        let (_, oldest) = failures.pop_front()?;
        let more = failures.len();
        Some(match more {
            0 => oldest,
            more => Error::new(oldest.kind(), format!("{oldest} (and {more} more)")),
        })
    }

    /// An error that names the oldest checkpoint that could not be written to its files. It is returned until
    /// that is retried, replaced or removed.
    pub fn unwritten(&self) -> Option<Error> {
        let mut failed = self.failed.iter().filter_map(|id| self.entries.get(id));
        let oldest = failed.next()?;
        let level = if oldest.scratch.is_due() { "scratch" } else { "persistent" };
        let more = match failed.count() {
            0 => String::new(),
            more => format!(" (nor could {more} more)"),
        };
        Some(Error::new(
            Kind::System,
            format!(
                "checkpoint \"{}\" version {} could not be written to {level}{more}; \
                 VELOC_Checkpoint_wait tries again",
                oldest.name, oldest.version
            ),
        ))
    }

    /// Puts failed checkpoints on the lists again. Returns whether there were any. Unreported failures of
    /// managed checkpoints are dropped.
    pub fn retry(&mut self) -> bool {
        self.failures.retain(|(id, _)| id.is_none());
        let failed: Vec<Id> = self.failed.iter().copied().collect();
        for &id in &failed {
            if let Some(entry) = self.entries.get_mut(&id) {
                let copies = entry.parts.iter_mut().flat_map(|part| &mut part.copies);
                for copy in copies.filter(|copy| copy.stage == Stage::Failed) {
                    copy.stage = Stage::Absent;
                }
                for file in [&mut entry.scratch, &mut entry.persistent] {
                    if *file == FileCopy::Failed {
                        *file = FileCopy::Wanted;
                    }
                }
            }
            self.reindex(id);
        }
        !failed.is_empty()
    }

    /// Whether a failed step may keep room from being freed.
    pub(crate) fn anything_failed(&self) -> bool {
        let mut failed = self.failed.iter().filter_map(|id| self.entries.get(id));
        failed.any(|entry| entry.flush_has_failed() || entry.scratch == FileCopy::Failed)
    }

    /// Whether a worker has something to do.
    pub fn has_work(&self, worker: Worker) -> bool {
        match worker {
            Worker::Flush(level) => self.flush_can_come(level),
            Worker::Write => {
                self.writable(&self.write).is_some_and(|(_, id)| self.is_in_turn(id))
                    || (self.pressed() && !self.spill.is_empty())
            }
            Worker::Persist => self.persist.first().is_some_and(|id| self.is_in_turn(*id)),
            Worker::Fetch(level) => self.next_to_fetch(level).is_some(),
            Worker::Read => self.next_to_read().is_some(),
            Worker::Arrive => !self.arrivals.is_empty(),
        }
    }

    /// A checkpoint's entry, for reading.
    #[cfg(test)]
    pub(crate) fn entry(&self, id: Id) -> Option<&Entry> {
        self.entries.get(&id).map(|entry| &**entry)
    }

    /// The number of stores to the ledger so far.
    #[cfg(test)]
    pub(crate) fn ledger_stores(&self) -> u64 {
        self.ledger.as_ref().map_or(0, Ledger::stores)
    }

    /// The event counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The number of checkpoints that can be restored.
    pub fn live(&self) -> usize {
        self.names.values().map(|versions| versions.live.len()).sum()
    }

    fn interned(&self, name: &str) -> Arc<str> {
        match self.names.get_key_value(name) {
            Some((known, _)) => known.clone(),
            None => Arc::from(name),
        }
    }

    /// The application waits for room in a level.
    fn starves(&mut self, level: Level) {
        if self.starved.replace(level) != Some(level) {
            self.changes += 1;
        }
    }

    /// Flushes from a level wait for room.
    fn flush_starves(&mut self, level: Level) {
        if !std::mem::replace(&mut self.level_mut(level).starved, true) {
            self.changes += 1;
        }
    }

    /// Whether room only comes if ephemeral checkpoints spill to files.
    fn pressed(&self) -> bool {
        // Flushes make room for the application where they have room themselves.
        let flushes =
            |level: &Memory| level.flushing > 0 || !(level.starved || level.flush.is_empty());
        let waits = |level| level == self.staging || !flushes(self.level(level));
        // The checkpoints to be flushed may be gone.
        self.starved.is_some_and(waits)
            || self.levels.iter().any(|level| level.starved && !level.flush.is_empty())
    }

    fn started(&mut self, id: Id, draining: bool) {
        self.in_flight += 1;
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.busy += 1;
            self.draining += u32::from(draining);
        }
        self.reindex(id);
    }

    fn ended(&mut self, id: Id, draining: bool) {
        self.in_flight -= 1;
        self.changes += 1;
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.busy -= 1;
            self.draining -= u32::from(draining);
        }
        self.free_or_reindex(id);
    }

    /// Frees a dropped entry that is not used any more; otherwise updates the lists.
    fn free_or_reindex(&mut self, id: Id) {
        match self.entries.get(&id) {
            Some(entry) if entry.life == Life::Dropped && entry.busy == 0 => {
                self.note(id);
                self.release_memory(id);
                self.entries.remove(&id);
                self.changes += 1;
            }
            Some(_) => self.reindex(id),
            None => {}
        }
    }

    fn release_memory(&mut self, id: Id) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        self.changes += 1;
        for part in &mut entry.parts {
            part.len = 0;
            for (copy, level) in part.copies.iter_mut().zip(&mut self.levels) {
                level.space.release(&std::mem::take(copy).extents);
            }
        }
    }
}
