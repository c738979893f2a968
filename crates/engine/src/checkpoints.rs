//! The client's queries and notices about checkpoints; it does not use the catalog directly.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::shared::Shared;
use crate::monitor::Catalog;
use catalog::state::{Counts, State};
use catalog::{FileLevel, Id, Level};
use errors::{Error, Result};
use files::Files;
use format::identity::Identity;
use policy::rounds::FileState;

/// The checkpoints that the job knows.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointView<'a> {
    catalog: &'a Catalog,
    files: &'a Files,
}

impl Shared {
    pub(crate) fn checkpoints(&self) -> CheckpointView<'_> {
        CheckpointView { catalog: &self.catalog, files: &self.file_side.files }
    }
}

impl CheckpointView<'_> {
    /// The checkpoint of this name and version, if it is in memory or in this job's files.
    pub fn known(&self, name: &str, version: i32) -> Option<Id> {
        self.catalog.read(|state| state.checkpoints().find(name, version))
    }

    /// Whether this job has taken this version and not removed it.
    pub fn has_taken(&self, name: &str, version: i32) -> bool {
        self.catalog.read(|state| {
            let known = state.checkpoints().find(name, version);
            known.is_some_and(|id| state.checkpoints().is_taken(id))
        })
    }

    /// The versions of a name that are known, ascending.
    pub fn versions(&self, name: &str) -> BTreeSet<i32> {
        self.catalog.read(|state| state.checkpoints().versions(name))
    }

    /// The newest known version of a name that is at most `bound`.
    pub fn newest(&self, name: &str, bound: i32) -> Option<i32> {
        self.catalog.read(|state| state.checkpoints().newest(name, bound))
    }

    /// The version of a name, at most `bound`, that was taken last: by this job, or else by the times of files.
    pub fn taken_last(&self, name: &str, bound: i32) -> Option<i32> {
        let own = self.catalog.read(|state| state.checkpoints().taken_last(name, bound));
        own.or_else(|| self.files.listing().taken_last(name, bound))
    }

    /// How many steps of checkpoints towards their files have failed so far.
    pub fn failed_steps(&self) -> u64 {
        self.catalog.read(State::failed_steps)
    }

    /// Marks the region of an open checkpoint that identifies its content.
    pub fn mark(&self, id: Id, region: i32) {
        self.catalog.step(|state| state.captures().mark(id, region));
    }

    /// A file has replaced a found one: nothing else of this version is used any more.
    pub fn forget_found(&self, name: &str, version: i32) {
        self.catalog.step(|state| state.removal().forget_found(name, version));
    }

    /// Drops a version of an ephemeral job without files.
    pub fn drop_version(&self, name: &str, version: i32) {
        self.catalog.step(|state| state.removal().drop_version(name, version));
    }

    /// The bytes of checkpoints that the levels of memory can hold.
    pub fn memory(&self) -> u64 {
        self.catalog.read(|state| state.levels().capacity())
    }

    /// The room of a level of memory in bytes: all that exists, and the free part.
    pub fn room(&self, level: Level) -> (u64, u64) {
        self.catalog.read(|state| state.levels().room(level))
    }

    /// The event counters, and the number of checkpoints.
    pub fn counts(&self) -> (Counts, u64) {
        self.catalog.read(|state| (state.counts(), state.checkpoints().live() as u64))
    }

    /// The run that made a checkpoint.
    pub fn identity(&self, id: Id) -> Identity {
        self.catalog.read(|state| state.checkpoints().identity(id))
    }

    /// The random number of this run; 0: not known.
    pub fn run(&self) -> u64 {
        self.catalog.read(|state| state.checkpoints().run())
    }

    /// A checkpoint begins on other processes, and cannot here.
    pub fn pass_over(&self, name: &str, version: i32) {
        self.catalog.step(|state| state.captures().pass_over(name, version));
    }

    /// The run that made the nearest copy of a version, if there is one.
    pub fn nearest_identity(&self, name: &str, version: i32) -> Option<Identity> {
        let known = |state: &State| {
            Some(state.checkpoints().identity(state.checkpoints().find(name, version)?))
        };
        self.catalog.read(known).or_else(|| {
            let found = self.files.copies().look(name, version).ok()?;
            Some(self.files.runs().identity_found(&found))
        })
    }

    /// The runs that made what this process has of a version and can restore, the nearest first.
    pub fn identities(&self, name: &str, version: i32) -> Vec<Identity> {
        let in_memory = self.catalog.read(|state| {
            let id = state.checkpoints().find(name, version)?;
            (!state.checkpoints().is_read_from_file(id)).then(|| state.checkpoints().identity(id))
        });
        let mut all: Vec<Identity> = in_memory.into_iter().collect();
        for one in self.files.copies().identities(name, version) {
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }

    /// Whether all bytes of a region of a version are in the device cache.
    pub fn is_on_device(&self, name: &str, version: i32, region: i32) -> bool {
        let on_device =
            |state: &State| Some(state.on_device(state.checkpoints().find(name, version)?, region));
        self.catalog.read(on_device).unwrap_or_default()
    }

    /// Whether a version's file has its name in a level.
    pub fn has_file(&self, name: &str, version: i32, level: FileLevel) -> bool {
        self.catalog.read(|state| state.checkpoints().has_file(name, version, level))
    }

    /// The state of a checkpoint's file in a level.
    pub fn file_state(&self, id: Id, level: FileLevel) -> FileState {
        self.catalog.read(|state| state.checkpoints().file_state(id, level))
    }

    /// Whether a checkpoint is only in persistent, because scratch could not take it.
    pub fn is_past_scratch(&self, id: Id) -> bool {
        self.catalog.read(|state| state.checkpoints().is_past_scratch(id))
    }

    /// A checkpoint that was begun may have to be copied to persistent; this is decided later.
    pub fn await_place(&self, id: Id) {
        self.catalog.step(|state| state.captures().await_place(id));
    }

    /// It was decided that a checkpoint is not copied to persistent.
    pub fn want_no_persistent(&self, id: Id) {
        self.catalog.step(|state| state.captures().want_no_persistent(id));
    }

    /// Takes the unreported background failures, as one error.
    pub fn take_failure(&self) -> Option<Error> {
        self.catalog.step(State::take_failure)
    }

    /// The error of a failed worker, if any.
    pub fn broken(&self) -> Option<Error> {
        self.catalog.broken()
    }

    /// Retries all failed steps towards files.
    pub fn retry(&self) {
        self.catalog.step(State::retry);
    }

    /// Whether all checkpoints are where they belong.
    ///
    /// # Errors
    /// Something failed in the background, or could not be written to its files.
    pub fn is_finished(&self) -> Result<bool> {
        if let Some(failure) = self.take_failure().or_else(|| self.broken()) {
            return Err(failure);
        }
        let (unwritten, drained) = self.catalog.read(|state| (state.unwritten(), state.drained()));
        unwritten.map_or(Ok(drained), Err)
    }

    /// The checkpoints that could not be written, by name and version: those in no file, and those missing in
    /// persistent.
    pub fn left_behind(&self) -> [Vec<(Arc<str>, i32)>; 2] {
        self.catalog.read(State::left_behind)
    }
}
