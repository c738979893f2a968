//! `mode = sync`: the application waits for the persistent copies of its checkpoints, and makes itself those
//! that it would wait for.

use std::panic::{catch_unwind, AssertUnwindSafe};

use super::place::Place;
use super::shared::{Capturing, Shared};
use super::storage;
use catalog::state::{PersistJob, State};
use catalog::Id;
use device::PAGEABLE;
use errors::{Error, ErrorKind, Result};
use files::Output;

impl<'a> Capturing<'a> {
    /// In `mode = sync`, waits for the persistent copy.
    pub fn wait_persistent(&self, id: Id) -> Result<()> {
        self.shared.make_persistent(id, None, None)
    }

    /// Claims the persistent copy of a checkpoint for this thread, which will wait for it: no worker makes it
    /// before the claim is used or returned.
    pub fn claim(self, id: Id) -> PersistClaim<'a> {
        self.shared.catalog.step(|state| state.down().claim_persist(id));
        PersistClaim { shared: self.shared, id }
    }
}

impl Shared {
    /// In `mode = sync`, makes the persistent copy if it is `own`, or waits for it. `complete`: its file, if
    /// that was written already.
    pub(crate) fn make_persistent(
        &self,
        id: Id,
        own: Option<PersistJob>,
        complete: Option<Output>,
    ) -> Result<()> {
        if !self.config.writes_directly() {
            return Ok(());
        }
        self.persist_and_wait(id, own, None, complete)
    }

    fn persist_and_wait(
        &self,
        id: Id,
        own: Option<PersistJob>,
        memory: Option<&[Place]>,
        complete: Option<Output>,
    ) -> Result<()> {
        let mut complete = complete;
        if let Some(job) = own {
            let complete = complete.take();
            let copied = catch_unwind(AssertUnwindSafe(|| {
                storage::persist_one(self, job, memory, complete);
            }));
            if copied.is_err() {
                // Handled like a failed worker: nothing else would wake threads that wait for it.
                let what = "copying a checkpoint to persistent panicked";
                self.catalog.fail(Error::new(ErrorKind::Internal, what));
            }
        }
        if let Some(unwanted) = complete {
            unwanted.finish().discard();
        }
        if self.catalog.wait(|state| state.checkpoints().persist_settled(id))? {
            return Ok(());
        }
        let failure = self.catalog.step(State::take_failure);
        Err(failure.unwrap_or_else(|| Error::new(ErrorKind::System, "there is no persistent copy")))
    }
}

/// The right to make a checkpoint's persistent copy. If it is dropped, a worker makes the copy, so no wait
/// lasts for ever.
#[derive(Debug)]
#[must_use]
pub struct PersistClaim<'a> {
    shared: &'a Shared,
    id: Id,
}

impl PersistClaim<'_> {
    /// Makes the copy if it is known by now that it is needed, or waits for it. `places` are all regions of
    /// the checkpoint, if the application's memory has not changed since they were captured.
    pub fn copy(self, places: Option<&[Place]>) -> Result<()> {
        let own = self.shared.catalog.step(|state| state.down().take_claimed(self.id));
        let plain = |places: &&[Place]| places.iter().all(|place| place.kind == PAGEABLE);
        self.shared.persist_and_wait(self.id, own, places.filter(plain), None)
    }
}

impl Drop for PersistClaim<'_> {
    fn drop(&mut self) {
        self.shared.catalog.step(|state| state.down().give_claim_back(self.id));
    }
}
