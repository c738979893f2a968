//! Storing a state, and the room for it: what is of no use any more gives way.

use std::collections::BTreeSet;

use super::run::Sweep;
use super::setback::is_of_the_store;
use super::Reach;
use crate::adjoint::schedule::Stored;
use crate::client::Client;
use crate::error::{Kind, Result};

impl<R: Reach> Sweep<'_, R> {
    /// Stores a state in a version. What could not be written and is of no use gives way.
    pub(super) fn take(&mut self, state: u64, version: u64) -> Result<()> {
        self.hear_setbacks()?;
        if self.setbacks.cause.is_some() {
            self.give_way()?;
        }
        if self.shortages.known {
            self.remove_passed();
        }
        self.make_way(version)?;
        let mut taken = self.take_somewhere(state, version);
        // With others a checkpoint is begun once: they count it.
        if let (None, Some(error)) = (&self.meetings, taken.as_ref().err()) {
            if is_of_the_store(error) {
                let is_full = error.kind() == Kind::NoRoom;
                self.give_way()?;
                let is_direct = self.is_direct();
                if is_full && !is_direct {
                    self.remove_passed();
                }
                if is_full && !self.lasting {
                    // Memory may have nothing of it, and a file that only this job reads.
                    self.remove_version(version);
                }
                let cleared = is_full && is_direct && self.clear_files(version);
                taken = self.take_somewhere(state, version);
                self.setbacks.in_vain |= cleared && taken.is_err();
            }
        }
        taken?;
        self.slots.insert(version, state);
        self.asides.drop_version(version);
        Ok(())
    }

    /// Stores a state in a version. That it comes to scratch and not to persistent, which is known at once in
    /// `mode = sync`, is no reason to do without it.
    fn take_somewhere(&mut self, state: u64, version: u64) -> Result<()> {
        match self.try_to_take(state, version) {
            Err(error) if is_of_the_store(&error) && self.has_taken(state, version) => {
                self.hear_setbacks()?;
                self.do_without(Err(error))
            }
            taken => taken,
        }
    }

    /// Whether the store has this state in a version.
    fn has_taken(&self, state: u64, version: u64) -> bool {
        let own = self.states.get();
        let name = &self.settings.name;
        let read = self.reach.with(|client| client.read_managed(name, version as i32));
        let found = self.states.get();
        // It may be stored once more.
        self.states.set(own.run, own.number, own.hash);
        matches!(read, Ok(true)) && (found.run, found.number) == (self.run, state)
    }

    /// Whether memory has one of these states, by version.
    pub(super) fn has_in_memory(&self, states: &[Stored]) -> bool {
        let name = &self.settings.name;
        let has = |client: &mut Client| {
            Ok(states.iter().any(|stored| client.is_in_memory(name, stored.slot as i32)))
        };
        self.reach.with(has).unwrap_or(false)
    }

    /// Whether files alone have states.
    pub(super) fn is_direct(&self) -> bool {
        self.reach.with(|client| Ok(client.is_direct())).unwrap_or(false)
    }

    /// Makes room in files that are full, where these alone have states, as to take a version again wants room
    /// for both: removes what the adjoint has passed or, if that is nothing, what the version has. Whether
    /// there is room for a state more.
    fn clear_files(&mut self, version: u64) -> bool {
        let passed = self.slots.iter().filter(|(_, state)| **state >= self.fine);
        let mut versions: Vec<u64> = passed.map(|(version, _)| *version).collect();
        if versions.is_empty() && self.slots.contains_key(&version) {
            versions.push(version);
        }
        let mut cleared = false;
        for version in versions {
            cleared |= self.remove_version(version);
        }
        cleared
    }

    pub(super) fn try_to_take(&self, state: u64, version: u64) -> Result<()> {
        let (name, place) = (&self.settings.name, Some(self.place(state)));
        let reads = self.fine < self.steps;
        self.reach.with(|client| client.take_managed(name, version as i32, place, reads))
    }

    /// Gives up what could not be written, and only a later job would need.
    fn give_way(&mut self) -> Result<()> {
        let (needed, hashes) = (self.needed(), self.settings.name_of_hashes());
        let needed: BTreeSet<u64> = needed.iter().map(|stored| stored.slot).collect();
        let is_needed = |version: i32| needed.contains(&(version as u64));
        let (name, adjoints) = (&self.settings.name, &mut self.adjoints);
        self.reach.with(|client| {
            client.withdraw_unwritten(name, |version| !is_needed(version));
            client.withdraw_unwritten(&hashes, |_| true);
            adjoints.withdraw_unwritten(client);
            Ok(())
        })
    }
}
