//! The catalog's state and its steps. Nothing here waits or moves bytes.
//!
//! The work is kept in lists (flush, write, spill, persist, victims, fetches). Each list is a function of the
//! entries; only `reindex` changes them, and it is called after every change of an entry. So finding the next
//! piece of work takes logarithmic time in the number of checkpoints.

mod ahead;
mod capture;
mod checkpoints;
mod down;
mod failures;
mod handover;
mod invariants;
mod level;
mod lists;
mod removal;
mod requests;
mod room;
mod up;
mod work;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::entry::Life;
use crate::{Id, Level, Part};
use ahead::{next_to_fetch, next_to_read, Ahead};
use failures::Failures;
use lists::writable;
use room::{flush_can_come, Eviction};
use work::Work;

pub use capture::{CaptureSteps, Content};
pub use checkpoints::Checkpoints;
pub use down::{is_of_the_file_system, Down};
pub use handover::{Handover, Successor};
pub use level::{Growth, MemoryLevels};
pub use removal::RemovalSteps;
pub use requests::*;
pub use up::Up;

/// What is told of evictions.
#[derive(Default)]
struct Evictions(Option<Box<Told>>);

type Told = dyn Fn(Level, &str, i32, u64) + Send;

impl fmt::Debug for Evictions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "told" } else { "not told" })
    }
}

/// The whole state of the catalog: parts with what they know, and steps by subject, each of which keeps the invariants.
#[derive(Debug)]
pub struct State {
    shape: Shape,
    checkpoints: Checkpoints,
    levels: MemoryLevels,
    work: Work,
    ahead: Ahead,
    failures: Failures,
    successor: Successor,
    /// The scratch files of an ephemeral job, to be removed at its end.
    spilled: BTreeSet<(Arc<str>, i32)>,
    counts: Counts,
    /// Is told of evictions from the levels of memory.
    evictions: Evictions,
}

impl State {
    /// An empty catalog for a job with these levels.
    pub fn new(shape: Shape) -> Self {
        State {
            checkpoints: Checkpoints::new(),
            levels: MemoryLevels::new(&shape.memory),
            work: Work::default(),
            ahead: Ahead::new(shape.order),
            failures: Failures::default(),
            successor: Successor::default(),
            spilled: BTreeSet::new(),
            counts: Counts::default(),
            evictions: Evictions::default(),
            shape,
        }
    }

    /// All checkpoints.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// The levels of memory.
    pub fn levels(&self) -> &MemoryLevels {
        &self.levels
    }

    /// What a successor knows.
    pub fn successor(&self) -> &Successor {
        &self.successor
    }

    /// Steps of a capture.
    pub fn captures(&mut self) -> CaptureSteps<'_> {
        CaptureSteps { state: self }
    }

    /// Steps down the levels.
    pub fn down(&mut self) -> Down<'_> {
        Down { state: self }
    }

    /// Steps up the levels.
    pub fn up(&mut self) -> Up<'_> {
        Up { state: self }
    }

    /// Steps that end a checkpoint's life.
    pub fn removal(&mut self) -> RemovalSteps<'_> {
        RemovalSteps { state: self }
    }

    /// Steps that make room.
    fn eviction(&mut self) -> Eviction<'_> {
        Eviction { state: self }
    }

    /// Steps of levels that get room, or lose it.
    pub fn growth(&mut self) -> Growth<'_> {
        Growth { state: self }
    }

    /// Steps of a job that goes on from another, or records for another.
    pub fn handover(&mut self) -> Handover<'_> {
        Handover { state: self }
    }

    /// Tells of evictions from the levels of memory from now on: the level, name, version and bytes.
    pub fn tell_evictions(&mut self, told: impl Fn(Level, &str, i32, u64) + Send + 'static) {
        self.evictions = Evictions(Some(Box::new(told)));
    }

    /// A number that changes with everything that may be waited for.
    pub fn changes(&self) -> u64 {
        self.work.changes
    }

    /// Whether persistent files are written from memory where it has the bytes.
    pub fn writes_beside(&self) -> bool {
        self.shape.beside.is_some()
    }

    /// Whether no checkpoint is being flushed, written or persisted, or could be.
    pub fn drained(&self) -> bool {
        self.work.draining == 0
            && self.work.write.is_empty()
            && self.work.persist.is_empty()
            && !self.levels.all().any(|level| flush_can_come(self, level))
    }

    /// Whether a worker has something to do.
    pub fn has_work(&self, worker: Worker) -> bool {
        match worker {
            Worker::Flush(level) => flush_can_come(self, level),
            Worker::Write => {
                writable(self, &self.work.write).is_some_and(|(_, id)| self.work.is_in_turn(id))
                    || (self.levels.pressed() && !self.work.spill.is_empty())
            }
            Worker::Persist => {
                self.work.persist.first().is_some_and(|id| self.work.is_in_turn(*id))
            }
            Worker::Fetch(level) => next_to_fetch(self, level).is_some(),
            Worker::Read => next_to_read(self).is_some(),
            Worker::Arrive => !self.work.arrivals.is_empty(),
            Worker::Grow => self.levels.all().any(|level| self.levels.wanted(level) > 0),
        }
    }

    /// The event counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn started(&mut self, id: Id, draining: bool) {
        self.work.in_flight += 1;
        if let Some(entry) = self.checkpoints.entries.get_mut(&id) {
            entry.busy += 1;
            self.work.draining += u32::from(draining);
        }
        self.reindex(id);
    }

    fn ended(&mut self, id: Id, draining: bool) {
        self.work.in_flight -= 1;
        self.work.changes += 1;
        if let Some(entry) = self.checkpoints.entries.get_mut(&id) {
            entry.busy -= 1;
            self.work.draining -= u32::from(draining);
        }
        self.free_or_reindex(id);
    }

    /// Frees a dropped entry that is not used any more; otherwise updates the lists.
    fn free_or_reindex(&mut self, id: Id) {
        match self.checkpoints.entries.get(&id) {
            Some(entry) if entry.life == Life::Dropped && entry.busy == 0 => {
                self.note(id);
                self.levels.release(self.checkpoints.entries.remove(&id).as_deref_mut());
                self.work.changes += 1;
            }
            Some(_) => self.reindex(id),
            None => {}
        }
    }

    /// The scratch files that an ephemeral job has written or is writing, by name and version.
    pub fn spilled(&self) -> Vec<(Arc<str>, i32)> {
        self.spilled.iter().cloned().collect()
    }

    /// Whether all bytes of the region are in the first level that captures device memory.
    pub fn on_device(&self, id: Id, region: i32) -> bool {
        let Some(entry) = self.checkpoints.entries.get(&id) else {
            return false;
        };
        entry.regions.iter().find(|r| r.id == region).is_some_and(|region| {
            region.part == Part::Device
                && entry.part(Part::Device).is_ready(self.levels.top(Part::Device))
        })
    }
}
