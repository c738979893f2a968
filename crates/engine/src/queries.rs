//! The client's queries and notices about checkpoints; it does not use the catalog directly.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use device::Device;
use errors::{Error, Result};
use format::aggregate::AggregatePart;
use format::identity::Identity;
use policy::rounds::FileState;
use policy::touch::Model;

use crate::shared::Shared;
use catalog::state::{Counts, State};
use catalog::{FileLevel, Id, Level};

impl Shared {
    /// The checkpoint of this name and version, if it is in memory or in this job's files.
    pub fn known(&self, name: &str, version: i32) -> Option<Id> {
        self.catalog.read(|state| state.checkpoints().find(name, version))
    }

    /// Whether this job has taken this version and not removed it.
    pub fn has_taken(&self, name: &str, version: i32) -> bool {
        self.catalog.read(|state| state.checkpoints().has_taken(name, version))
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
        own.or_else(|| self.files.taken_last(name, bound))
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

    /// Whether the job has a device yet.
    pub fn has_device(&self) -> bool {
        self.device.get().is_some()
    }

    /// The job's device.
    ///
    /// # Errors
    /// The job has none yet.
    pub fn device(&self) -> Result<&Arc<Device>> {
        Ok(&self.device_side()?.device)
    }

    /// The driver is about to shut down: no copy on the device begins until [`Shared::resume_copies`].
    pub fn hold_copies(&self) {
        self.gate.rest();
    }

    /// The driver has shut down, and copies get its error.
    pub fn resume_copies(&self) {
        self.gate.resume();
    }

    /// The model of touching and flushing, with its measurements.
    pub fn touch_model(&self) -> Model {
        self.pace.model()
    }

    /// The event counters, and the number of checkpoints.
    pub fn counts(&self) -> (Counts, u64) {
        self.catalog.read(|state| (state.counts(), state.checkpoints().live() as u64))
    }
}

/// The order in which checkpoints will be read.
impl Shared {
    /// This version will be read after those hinted before. It need not exist yet.
    pub fn hint(&self, name: &str, version: i32) {
        self.catalog.step(|state| state.up().hint(name, version));
    }

    /// Fetching ahead may begin.
    pub fn start_fetching(&self) {
        self.catalog.step(|state| state.up().start_fetching());
    }

    /// The first hinted checkpoint that never existed, and the number of such ones.
    pub fn hinted_in_vain(&self) -> Option<(Arc<str>, i32, usize)> {
        self.catalog.read(|state| state.checkpoints().hinted_in_vain())
    }

    /// Reserves `places` positions in the order, and returns the first.
    pub fn reserve_hints(&self, places: u64) -> u64 {
        self.catalog.step(|state| state.up().reserve_hints(places))
    }

    /// Sets the position at which each of these versions of a name will be read, if it will. All at once, so
    /// that none is fetched before the first is known. With `reads`, fetching continues.
    pub fn expect_reads(&self, name: &str, places: &[(i32, Option<u64>)], reads: bool) {
        self.catalog.step(|state| {
            for (version, place) in places {
                if let Some(id) = state.checkpoints().find(name, *version) {
                    state.up().expect(id, *place, reads);
                }
            }
        });
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
            let found = self.files.look(name, version).ok()?;
            Some(self.files.identity_found(&found))
        })
    }

    /// The runs that made what this process has of a version and can restore, the nearest first.
    pub fn identities(&self, name: &str, version: i32) -> Vec<Identity> {
        let in_memory = self.catalog.read(|state| {
            let id = state.checkpoints().find(name, version)?;
            (!state.checkpoints().is_read_from_file(id)).then(|| state.checkpoints().identity(id))
        });
        let mut all: Vec<Identity> = in_memory.into_iter().collect();
        for one in self.files.identities(name, version) {
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
}

/// Files, and their failures in the background.
impl Shared {
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

    /// It was decided that a checkpoint is copied to persistent, to its part of an aggregated file or to a
    /// file of its own.
    pub fn want_persistent(&self, id: Id, place: Option<AggregatePart>) {
        // A checkpoint that bypassed scratch is there already, and now counts among those to keep.
        let extra = self.catalog.read(|state| state.checkpoints().is_extra(id));
        let naming = extra.then(|| self.naming.lock());
        let there = self.catalog.step(|state| state.captures().want_persistent(id, place));
        if let (Some((name, version)), Some(naming)) = (there, naming) {
            self.is_extra_no_more(&naming, &name, version, id);
        }
    }

    /// Removes a name's checkpoints from memory and scratch. The backlog of earlier jobs stays.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn cleanup(&self, name: &str) -> Result<()> {
        self.await_earlier_jobs();
        self.warn_of_backlog(name);
        let _naming = self.naming.lock();
        let backlog = self.backlog(name);
        self.retention[FileLevel::Scratch as usize].lock().forget(name);
        for version in self.catalog.step(|state| state.removal().cleanup(name)) {
            if self.files.has_scratch() && !backlog.contains(&version) {
                self.files.remove_scratch(name, version, None)?;
            }
        }
        self.files.clean_scratch(name, |version| {
            self.known(name, version).is_some() || backlog.contains(&version)
        })
    }

    /// Takes the unreported background failures, as one error.
    pub fn take_failure(&self) -> Option<Error> {
        self.catalog.step(State::take_failure)
    }

    /// How many carriers have failed.
    pub fn failed_carriers(&self) -> usize {
        self.deferred.failed_carriers.load(Ordering::Relaxed)
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

    /// Whether data is lost if the process ends now.
    pub fn would_lose(&self) -> bool {
        let (drained, handed_over) =
            self.catalog.read(|state| (state.drained(), state.successor().is_handed_over()));
        let inherited = self.has_successor() && handed_over;
        !(drained || self.config.ephemeral || inherited)
    }

    /// The checkpoints that could not be written, by name and version: those in no file, and those missing in
    /// persistent.
    pub fn left_behind(&self) -> [Vec<(Arc<str>, i32)>; 2] {
        self.catalog.read(State::left_behind)
    }
}
