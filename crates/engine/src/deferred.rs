//! Deferred captures: the application leaves a region unchanged until it is released, so that a worker can
//! copy it to the host buffer after the checkpoint call has returned.
//!
//! The catalog has the checkpoint with incomplete bytes. The deferred capture ends in any case: by the
//! worker, by the call that aborted the checkpoint, or with the job.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::AtomicUsize;
use std::sync::Arc;
use std::time::Duration;

use super::frozen::FrozenRuns;
use super::place::Place;
use super::run::Run;
use super::verify::Expected;
use catalog::Id;
use errors::{Error, Result};
use os::carrier::Carrier;
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

/// The part of a checkpoint that has still to be copied from the application's memory. Its end releases the
/// regions, on every path.
#[derive(Debug, Default)]
pub(crate) struct DeferredCapture {
    pub(super) runs: Vec<Run>,
    /// What a carrier copies.
    pub(super) carried: Option<Carried>,
    /// What is frozen until it is copied.
    pub(super) frozen: Option<FrozenRuns>,
    /// With `verify_captures`.
    pub(super) expected: Vec<Expected>,
    releases: Vec<(i32, Arc<dyn Release>)>,
}

impl DeferredCapture {
    /// All deferred runs.
    fn all(&self) -> impl Iterator<Item = &Run> {
        let carried = self.carried.iter().flat_map(|carried| &carried.runs);
        let frozen = self.frozen.iter().flat_map(|frozen| &frozen.runs);
        self.runs.iter().chain(carried).chain(frozen)
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
struct Lent {
    to: Id,
    address: u64,
    len: u64,
}

/// The deferred captures of checkpoints that are committed.
#[derive(Debug, Default)]
pub(crate) struct DeferredCaptures {
    by_checkpoint: Mutex<HashMap<Id, DeferredCapture>>,
    /// Memory that the application has lent to them, until it has been copied.
    lent: Mutex<Vec<Lent>>,
    /// How many carriers have failed.
    pub(crate) failed_carriers: AtomicUsize,
}

impl DeferredCaptures {
    /// Keeps what a checkpoint that is committed has deferred.
    pub(super) fn keep(&self, id: Id, capture: DeferredCapture) {
        let lent = |run: &Run| Lent { to: id, address: run.place.address, len: run.bytes() };
        self.lent.lock().extend(capture.runs.iter().map(lent));
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

/// Runs that a carrier is copying.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(super) carrier: Option<Carrier>,
    pub(crate) runs: Vec<Run>,
    /// How long the call took that made the carrier.
    pub(crate) call: Duration,
    /// The process's page faults until then.
    pub(crate) faults: u64,
}

impl Carried {
    /// Waits until the carrier has copied everything.
    ///
    /// # Errors
    /// It has not.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.carrier.take().map_or(Ok(()), Carrier::wait)
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        // A carrier that nobody waits for stays a zombie. Its error is that of a checkpoint nobody wants.
        let _ = self.wait();
    }
}
