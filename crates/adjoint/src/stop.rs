//! A stop: stores what the next run needs. The application's current state may lie between two that the
//! schedule stores, and be all that a short job had time to compute. All slots may be needed, so one
//! more slot exists for it: a run makes progress however short its jobs are.

use std::collections::BTreeSet;

use super::run::RunInProgress;
use super::ClientAccess;
use errors::{Error, Result};

impl<R: ClientAccess> RunInProgress<'_, R> {
    /// Stores what the next run needs, and waits until it is in files.
    pub(super) fn stop(&mut self) -> Result<()> {
        if self.others.failure.is_some() {
            return Ok(());
        }
        if !self.durable {
            // The request is withdrawn: making the call again does not repeat it.
            self.clock.cancel_stop();
            return Err(Error::invalid(
                "the run was asked to stop, but nothing outlives the job (ephemeral = true)",
            ));
        }
        if self.reached.fine < self.steps && self.adjoints.stored() != Some(self.reached.fine) {
            self.store_adjoint()?;
        }
        let has = |at: &u64| self.reached.slots.values().any(|state| state == at);
        let at = self.reached.at.filter(|at| !has(at));
        if let Some((at, slot)) = at.zip(self.free_slot()) {
            self.store(at, slot)?;
        }
        self.access.with(|client| client.checkpoint_wait())
    }

    /// A slot that is not needed: an empty one, one whose state the adjoint has passed, or the extra
    /// one. The same on all processes.
    fn free_slot(&self) -> Option<u64> {
        let needed = self.course.stored().iter();
        let needed =
            needed.filter(|stored| self.reached.slots.get(&stored.slot) == Some(&stored.state));
        let needed: BTreeSet<u64> = needed.map(|stored| stored.slot).collect();
        let used = self.reached.slots.keys().zip(0..).find(|(slot, number)| **slot != *number);
        let unused = used.map_or(self.reached.slots.len() as u64, |(_, number)| number);
        let behind = self.slots;
        let worth = |slot: &u64| match self.reached.slots.get(slot) {
            None if *slot < behind => 0,
            Some(state) if *state >= self.reached.fine => 1,
            None => 2,
            Some(_) => 3,
        };
        let all = self.reached.slots.keys().copied().chain([unused, behind]);
        all.filter(|slot| *slot <= behind && !needed.contains(slot)).min_by_key(worth)
    }
}
