//! Where the state goes that the application has when it stops. It may be between two that the schedule
//! stores, and be the only thing that a job had the time for, while all slots have states that are needed: so
//! there is a place beside them, and a run comes to its end however short its jobs are.

use std::collections::BTreeSet;

use super::run::Sweep;
use super::setback::is_of_the_store;
use super::Reach;
use crate::catalog::entry::FileTier;
use crate::error::{Error, Result};

impl<R: Reach> Sweep<'_, R> {
    /// Stores the state that the application has, unless the store has it. Its version.
    pub(super) fn store_where_it_is(&mut self) -> Result<Option<u64>> {
        let has = |at: &u64| self.slots.values().any(|state| state == at);
        let Some(at) = self.at.filter(|at| !has(at)) else { return Ok(None) };
        let Some(version) = self.version_to_spare() else { return Ok(None) };
        self.prepare(at)?;
        match self.take(at, version) {
            Ok(()) => Ok(Some(version)),
            Err(error) if is_of_the_store(&error) => {
                self.lacks(at, &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Stops without the state of [`Sweep::store_where_it_is`], if it is what could not be written.
    pub(super) fn go_without(&mut self, version: u64, error: Error) -> Result<()> {
        let name = &self.settings.name;
        let is_there = self.reach.with(|client| {
            client.withdraw_unwritten(name, |other| other as u64 == version);
            let tiers = [FileTier::Scratch, FileTier::Persistent];
            Ok(tiers.into_iter().any(|tier| client.has_file(name, version as i32, tier)))
        })?;
        if let Some(at) = self.slots.remove(&version).filter(|_| !is_there) {
            self.lacks(at, &error);
        }
        Ok(())
    }

    fn lacks(&self, at: u64, error: &Error) {
        let text = "it stops without it, and the next one computes what lies behind the state before again";
        log::warn!("\"{}\": state {at} cannot be stored ({error}): {text}", self.settings.name);
    }

    /// A version that no state is needed from: one of a slot that has none, one whose state the adjoint has
    /// passed, or the one behind those of the slots; all processes alike.
    fn version_to_spare(&self) -> Option<u64> {
        let needed: BTreeSet<u64> = self.needed().iter().map(|stored| stored.slot).collect();
        let used = self.slots.keys().zip(0..).find(|(version, number)| **version != *number);
        let unused = used.map_or(self.slots.len() as u64, |(_, number)| number);
        let behind = self.settings.slots as u64;
        let worth = |version: &u64| match self.slots.get(version) {
            None if *version < behind => 0,
            Some(state) if *state >= self.fine => 1,
            None => 2,
            Some(_) => 3,
        };
        let all = self.slots.keys().copied().chain([unused, behind]);
        all.filter(|version| *version <= behind && !needed.contains(version)).min_by_key(worth)
    }
}
