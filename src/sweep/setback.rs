//! A run whose states do not get into their files any more, for which there is no room, or which are gone:
//! it goes on with what there is, and computes the rest again.
//!
//! With other processes its steps must stay theirs. So it goes on as long as memory has all that the
//! schedule asks for, and fails with the first state of which that is not so.

use std::collections::BTreeSet;

use super::run::Sweep;
use super::Reach;
use crate::adjoint::resume::Survivors;
use crate::adjoint::schedule::Stored;
use crate::error::{Error, Kind, Result};

/// What keeps a run from storing, and what that has changed.
#[derive(Debug, Default)]
pub struct Setbacks {
    /// The first one.
    pub(super) cause: Option<Error>,
    /// It was said that a state was lost.
    lost: bool,
}

/// Which version of the run's name is which slot of its schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slots {
    /// Each has its own number; and how many there are.
    Own(u64),
    /// There are fewer than there were: their versions.
    Fewer(Vec<u64>),
}

impl Slots {
    /// The version that a slot is.
    pub fn version(&self, slot: u64) -> u64 {
        match self {
            Slots::Own(_) => slot,
            // A schedule has no other slots than those it was given.
            Slots::Fewer(versions) => versions.get(slot as usize).copied().unwrap_or(slot),
        }
    }

    /// The slot that a version is.
    fn slot(&self, version: u64) -> Option<u64> {
        match self {
            // One more may have the state of a stop.
            Slots::Own(slots) => Some(version).filter(|version| version <= slots),
            Slots::Fewer(versions) => {
                versions.iter().position(|other| *other == version).map(|slot| slot as u64)
            }
        }
    }

    fn count(&self) -> u64 {
        match self {
            Slots::Own(slots) => *slots,
            Slots::Fewer(versions) => versions.len() as u64,
        }
    }
}

/// Whether an error says that something has no place in memory or in files, or no longer.
pub(super) fn is_of_the_store(error: &Error) -> bool {
    matches!(error.kind(), Kind::NoRoom | Kind::System)
}

impl<R: Reach> Sweep<'_, R> {
    /// Hears what has failed in the background since the last time.
    pub(super) fn hear_setbacks(&mut self) -> Result<()> {
        match self.reach.with(|client| Ok(client.setback()))? {
            None => Ok(()),
            Some(cause) => self.set_back(cause),
        }
    }

    /// Goes on although something that only a later job needs could not be stored.
    pub(super) fn do_without(&mut self, stored: Result<()>) -> Result<()> {
        match stored {
            Err(error) if self.lasting && is_of_the_store(&error) => self.set_back(error),
            stored => self.bear(stored),
        }
    }

    /// What is stored does not come into its files. That is said once. If what was there has gone, too,
    /// memory is not to count on it.
    fn set_back(&mut self, cause: Error) -> Result<()> {
        if self.setbacks.cause.is_some() {
            return Ok(());
        }
        let name = &self.settings.name;
        log::warn!(
            "\"{name}\": {cause}: the run goes on with what memory has, and stores nothing there from \
             here on unless that changes; a crash would cost the steps since"
        );
        self.setbacks.cause = Some(cause);
        let gone = self.reach.with(|client| Ok(client.missing(name)))?;
        let needed = self.needed();
        let lost = needed.iter().find(|stored| gone.iter().any(|gone| *gone as u64 == stored.slot));
        match lost {
            // The others hear of it while this process can still do its steps.
            Some(Stored { state, slot }) if self.meetings.is_some() => {
                let lost =
                    Error::new(Kind::NotFound, format!("state {state} (slot {slot}) is lost"));
                let lost = self.caused(lost);
                self.bear(Err(lost))
            }
            _ => Ok(()),
        }
    }

    /// With what has kept the run from storing.
    fn caused(&self, error: Error) -> Error {
        match &self.setbacks.cause {
            Some(cause) if !error.to_string().contains(&cause.to_string()) => {
                error.followed_by(cause)
            }
            _ => error,
        }
    }

    /// The states that the schedule still needs and the store has, by version.
    pub(super) fn needed(&self) -> Vec<Stored> {
        let of_version =
            |stored: &Stored| Stored { slot: self.numbers.version(stored.slot), ..*stored };
        let has = |stored: &Stored| self.slots.get(&stored.slot) == Some(&stored.state);
        self.course.stored().iter().map(of_version).filter(has).collect()
    }

    /// Stores a state in a version. What could not be written and is of no use gives way.
    pub(super) fn take(&mut self, state: u64, version: u64) -> Result<()> {
        self.hear_setbacks()?;
        if self.setbacks.cause.is_some() {
            self.give_way()?;
        }
        self.make_way(version)?;
        let mut taken = self.try_to_take(state, version);
        // With others a checkpoint is begun once: they count it.
        if self.meetings.is_none() && taken.as_ref().is_err_and(is_of_the_store) {
            self.give_way()?;
            self.remove_passed(taken.as_ref().err());
            taken = self.try_to_take(state, version);
        }
        taken?;
        self.slots.insert(version, state);
        Ok(())
    }

    fn try_to_take(&self, state: u64, version: u64) -> Result<()> {
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

    /// Goes on with the states that there are, as `state` could not be stored because of `error`; alone.
    ///
    /// # Errors
    /// `error`, if memory has none of them: then each state that is passed would be a slot less.
    pub(super) fn go_on_without(&mut self, state: u64, error: Error) -> Result<()> {
        self.hear_setbacks()?;
        let (needed, name) = (self.needed(), &self.settings.name);
        let in_memory = |stored: &Stored| {
            let version = stored.slot as i32;
            self.reach.with(|client| Ok(client.is_in_memory(name, version))).unwrap_or(false)
        };
        if !is_of_the_store(&error) || !needed.iter().any(in_memory) {
            return Err(self.caused(error));
        }
        let (slots, before) = (needed.len() as u64, self.numbers.count());
        let text = format!(
            "\"{name}\": state {state} cannot be stored ({error}): the run goes on with {slots} slots \
             instead of {before}, and computes more steps again"
        );
        log::warn!("{text}");
        self.numbers = Slots::Fewer(needed.iter().map(|stored| stored.slot).collect());
        self.go_on_from(&needed).map_err(|_| self.caused(error))
    }

    /// Stores state 0 after all, which there was no room for because of `error`. Nothing is of use without
    /// it: what an earlier run has left in memory alone gives way; alone.
    ///
    /// # Errors
    /// `error`, if there is no room all the same.
    pub(super) fn store_the_first(&mut self, version: u64, error: Error) -> Result<()> {
        self.hear_setbacks()?;
        if !is_of_the_store(&error) {
            return Err(error);
        }
        let name = &self.settings.name;
        let there = self.reach.with(|client| {
            client.withdraw_unwritten(name, |_| true);
            client.versions(name)
        })?;
        self.slots.retain(|version, _| there.contains(&(*version as i32)));
        self.try_to_take(0, version).map_err(|_| self.caused(error))?;
        self.slots.insert(version, 0);
        log::info!("\"{}\": state 0 takes the room of states that were left", self.settings.name);
        let needed = self.needed();
        self.go_on_from(&needed)
    }

    /// Goes on without a state that the store had in a version, and does not give back because of `error`;
    /// alone.
    ///
    /// # Errors
    /// `error`, if there is no state any more to compute it from.
    pub(super) fn compute_again(&mut self, state: u64, version: u64, error: Error) -> Result<()> {
        self.hear_setbacks()?;
        self.slots.remove(&version);
        let needed = self.needed();
        if needed.first().is_none_or(|first| first.state > 0) {
            let error = error.followed_by(format!(
                "state {state} cannot be computed again: state 0 is lost, too, which the application \
                 has when it makes the same call again"
            ));
            return Err(self.caused(error));
        }
        let name = &self.settings.name;
        let text = format!("\"{name}\": state {state} is lost ({error}), and computed again");
        match std::mem::replace(&mut self.setbacks.lost, true) {
            false => log::warn!("{text}, as is each that is found to be lost"),
            true => log::info!("{text}"),
        }
        self.go_on_from(&needed).map_err(|_| self.caused(error))
    }

    /// Goes on with a new schedule for these states, by version.
    fn go_on_from(&mut self, needed: &[Stored]) -> Result<()> {
        let slot = |stored: &Stored| {
            Some(Stored { slot: self.numbers.slot(stored.slot)?, state: stored.state })
        };
        let adjoint = (self.fine < self.steps).then_some(self.fine);
        let states = needed.iter().filter_map(slot).collect();
        let mut course = self.settings.course_in(self.numbers.count(), self.lasting)?;
        course.resume_stopped(&Survivors { states, adjoint, at_start: false })?;
        (self.course, self.at) = (course, None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_versions_name_each_other() {
        for (slots, versions) in
            [(Slots::Own(3), vec![0, 1, 2]), (Slots::Fewer(vec![4, 0, 7]), vec![4, 0, 7])]
        {
            assert_eq!(slots.count(), 3);
            for (slot, version) in versions.into_iter().enumerate() {
                assert_eq!(slots.version(slot as u64), version);
                assert_eq!(slots.slot(version), Some(slot as u64));
            }
            assert_eq!(slots.slot(5), None);
        }
    }
}
