//! Deferred captures: what is copied after the checkpoint call has returned, by a worker or by the device.
//!
//! The catalog has the checkpoint with incomplete bytes. The deferred capture ends in any case: by the
//! worker, by the call that aborted the checkpoint, or with the job.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::AtomicUsize;
use std::sync::Arc;

use super::ordered::QueuedCopies;
use super::place::Place;
use super::run::Run;
use super::shared::Shared;
use super::verify::ExpectedRun;
use catalog::state::{Arrival, MoveEnd};
use catalog::Id;
use errors::{Error, Result};
use os::sync::Mutex;
use policy::capture::Capture;

/// Tells the application that a region may be changed again.
pub trait Release: Debug + Send + Sync {
    /// The bytes are not needed any more: the application may change its memory.
    ///
    /// # Errors
    /// The application's callback has failed; the memory is released all the same.
    fn release(&self) -> Result<()>;
}

/// Runs of a checkpoint whose capture has begun in its call, in one of the ways (`ways`). When it is dropped, nothing of
/// it is being copied.
pub(super) trait BegunCapture: Debug + Send {
    /// The runs.
    fn runs(&self) -> &[Run];

    /// Their copies, if its call has queued them.
    fn queued(&self) -> Option<&QueuedCopies> {
        None
    }

    /// Ends it without waiting for copies that its call has queued.
    fn give_up(self: Box<Self>) {}

    /// Brings them to their level, or waits until they are there. Returns the bytes that were copied because the
    /// application was about to write to them.
    ///
    /// # Errors
    /// They are not there: [`MoveEnd::Failed`], or [`MoveEnd::Stranded`].
    fn finish(
        self: Box<Self>,
        shared: &Shared,
        arrival: &Arrival,
    ) -> std::result::Result<u64, MoveEnd>;
}

/// The part of a checkpoint that has still to be copied from the application's memory. Its end releases the
/// regions, on every path.
#[derive(Debug, Default)]
pub(crate) struct DeferredCapture {
    /// What has still to begin, in the call.
    pub(super) runs: Vec<Run>,
    /// What has begun.
    pub(super) begun: Vec<Box<dyn BegunCapture>>,
    /// With `verify_captures`.
    pub(super) expected: Vec<ExpectedRun>,
    releases: Vec<(i32, Arc<dyn Release>)>,
}

impl DeferredCapture {
    /// All deferred runs.
    fn all(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain(self.begun.iter().flat_map(|begun| begun.runs()))
    }

    /// Whether nothing is deferred.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.begun.is_empty()
    }

    /// The copies that its call has queued, if it has.
    pub(super) fn queued(&self) -> Option<QueuedCopies> {
        self.begun.iter().find_map(|begun| begun.queued()).cloned()
    }

    /// Takes the deferred runs that are captured in this way.
    pub(super) fn take(&mut self, way: Capture) -> Vec<Run> {
        let (taken, others) = self.runs.drain(..).partition(|run: &Run| run.place.capture == way);
        self.runs = others;
        taken
    }

    /// Whether a region of this id is deferred.
    pub(crate) fn has(&self, id: i32) -> bool {
        self.all().any(|run| run.place.id == id)
    }

    /// Sets the callback for a region, for the end of the capture.
    pub(crate) fn until(&mut self, region: i32, release: Arc<dyn Release>) {
        self.releases.push((region, release));
    }

    /// Releases the regions. Returns the errors of the callbacks.
    pub(super) fn release(&mut self) -> Vec<Error> {
        let failed = |(region, release): (i32, Arc<dyn Release>)| {
            release.release().err().map(|error| error.within(format!("region {region}")))
        };
        self.releases.drain(..).filter_map(failed).collect()
    }

    /// The parts of the checkpoint with deferred bytes, indexed by `Part`.
    pub(super) fn parts(&self) -> [bool; 2] {
        let mut parts = [false; 2];
        for run in self.all() {
            parts[run.place.part as usize] = true;
        }
        parts
    }
}

impl Drop for DeferredCapture {
    fn drop(&mut self) {
        for error in self.release() {
            // No later call can report it.
            log::error!("{error}");
        }
    }
}

/// A range of memory that the application has lent to a checkpoint.
#[derive(Debug)]
struct LentRange {
    to: Id,
    address: u64,
    len: u64,
}

/// The deferred captures of checkpoints that are committed.
#[derive(Debug, Default)]
pub(crate) struct DeferredCaptures {
    by_checkpoint: Mutex<HashMap<Id, DeferredCapture>>,
    /// Memory that the application has lent to them, until it has been copied.
    lent: Mutex<Vec<LentRange>>,
    /// How many carriers have failed.
    pub(crate) failed_carriers: AtomicUsize,
}

impl DeferredCaptures {
    /// Keeps what a checkpoint that is committed has deferred.
    pub(super) fn keep(&self, id: Id, capture: DeferredCapture) {
        let lent = |run: &Run| LentRange { to: id, address: run.place.address, len: run.bytes() };
        let all = capture.all().filter(|run| !run.place.capture.row().may_change);
        self.lent.lock().extend(all.map(lent));
        self.by_checkpoint.lock().insert(id, capture);
    }

    pub(super) fn take(&self, id: Id) -> Option<DeferredCapture> {
        self.by_checkpoint.lock().remove(&id)
    }

    /// The lent memory of a checkpoint has been copied, or never will be.
    pub(super) fn ended(&self, id: Id) {
        self.lent.lock().retain(|lent| lent.to != id);
    }

    /// Whether some of these places are lent.
    pub(super) fn are_lent(&self, places: &[Place]) -> bool {
        let lent = self.lent.lock();
        lent.iter().any(|lent| {
            places.iter().any(|place| {
                lent.address < place.address + place.len && place.address < lent.address + lent.len
            })
        })
    }
}
