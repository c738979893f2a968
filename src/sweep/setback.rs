//! A run whose states do not get into their files any more, for which there is no room, or which are gone:
//! it goes on with what there is, and computes the rest again. Where files alone have states (`mode = sync`),
//! each that is not taken is a slot less for good unless it was only room that was wanting, so it does that as
//! long as the steps do not become too many.
//!
//! With other processes its steps must stay theirs. So it goes on as long as memory has all that the
//! schedule asks for. Without room for a state it tells the others, and all go on with fewer
//! ([`shortage`](super::shortage)); with the first state that is lost it fails.

use super::run::Sweep;
use super::Reach;
use crate::adjoint::resume::{advances_left, Survivors};
use crate::adjoint::rule::Rule;
use crate::adjoint::schedule::{Plan, Stored};
use crate::error::{Error, Kind, Result};

/// How many times as many advances a run may still have to make without states that files do not take.
const MOST_TIMES: u128 = 10;

/// What keeps a run from storing, and what that has changed.
#[derive(Debug, Default)]
pub struct Setbacks {
    /// The first one.
    pub(super) cause: Option<Error>,
    /// There was room for a state more, which could not be stored all the same.
    pub(super) in_vain: bool,
    /// With how many slots it was said to go on.
    said: Option<u64>,
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

    /// So many of them at the most, or all of these versions and others.
    pub fn fewer(&self, versions: impl Iterator<Item = u64>, slots: u64) -> Slots {
        let mut chosen: Vec<u64> = versions.collect();
        let others = (0..self.count()).map(|slot| self.version(slot));
        let others: Vec<u64> = others.filter(|version| !chosen.contains(version)).collect();
        chosen.extend(others);
        chosen.truncate(slots as usize);
        Slots::Fewer(chosen)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
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

impl Setbacks {
    /// Says with how many slots a run goes on: not of each of many, and never of half of what was said.
    pub(super) fn say_fewer(&mut self, slots: u64, text: &str) {
        match self.said {
            Some(said) if 2 * slots > said => log::info!("{text}"),
            _ => {
                self.said = Some(slots);
                log::warn!("{text}; it is said again when these are halved");
            }
        }
    }
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
        let cost = if self.lasting { "; a crash would cost the steps since" } else { "" };
        log::warn!(
            "\"{name}\": {cause}: the run goes on with what it has, and stores nothing there from here \
             on unless that changes{cost}"
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
    pub(super) fn caused(&self, error: Error) -> Error {
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

    /// Goes on with the states that there are, as `state` could not be stored because of `error`; alone.
    ///
    /// # Errors
    /// `error`, if files alone have them, and too many steps would remain: each state that is passed may be a
    /// slot less there.
    pub(super) fn go_on_without(&mut self, state: u64, error: Error) -> Result<()> {
        self.hear_setbacks()?;
        let (mut needed, name) = (self.needed(), &self.settings.name);
        if !is_of_the_store(&error) {
            return Err(self.caused(error));
        }
        let mut keeps = false;
        if !self.has_in_memory(&needed) {
            let planned = [&needed[..], &[Stored { state, slot: u64::MAX }]].concat();
            let planned = self.advances_left(&planned, self.settings.slots as u64, false);
            // What is no matter of room can be written nowhere: what a schedule would have stored another
            // state in place of is still there.
            keeps = error.kind() != Kind::NoRoom || self.setbacks.in_vain;
            if keeps {
                needed = self.stored();
            }
            let (planned, slots) = (planned.unwrap_or(0), needed.len() as u64);
            match self.advances_left(&needed, slots, keeps) {
                Some(left) if left <= self.bearable(planned) => {}
                Some(left) => {
                    return Err(self.caused(error).followed_by(format_args!(
                        "with the {slots} states that are stored {left} steps would remain instead of \
                         {planned}"
                    )));
                }
                None => return Err(self.caused(error)),
            }
        }
        let (slots, before) = (needed.len() as u64, self.numbers.count());
        let text = format!(
            "\"{name}\": state {state} cannot be stored ({error}): the run goes on with {slots} slots \
             instead of {before}, and computes more steps again"
        );
        self.setbacks.say_fewer(slots, &text);
        self.numbers = Slots::Fewer(needed.iter().map(|stored| stored.slot).collect());
        self.go_on_from(&needed, keeps).map_err(|_| self.caused(error))
    }

    /// How many advances may remain where files alone have states, if it could have been so many.
    pub(super) fn bearable(&self, planned: u128) -> u128 {
        planned.saturating_mul(MOST_TIMES).saturating_add(self.fine.into())
    }

    /// The states that the store has and the adjoint has not passed, by version.
    fn stored(&self) -> Vec<Stored> {
        let states = self.slots.iter().map(|(&slot, &state)| Stored { state, slot });
        let mut stored: Vec<Stored> = states.filter(|stored| stored.state < self.fine).collect();
        stored.sort_unstable_by_key(|stored| (stored.state, stored.slot));
        stored.dedup_by_key(|stored| stored.state);
        stored
    }

    /// Advances that remain with these states, in so many slots; `keeps`: with all of them where they are.
    pub(super) fn advances_left(&self, states: &[Stored], slots: u64, keeps: bool) -> Option<u128> {
        let (steps, slots) = (self.steps, slots.max(1));
        let plan =
            Plan { steps, slots, resilience: u64::MAX, adjoint: None, rule: Rule::default() };
        let states = states.iter().zip(0..).map(|(stored, slot)| Stored { slot, ..*stored });
        let adjoint = (self.fine < steps).then_some(self.fine);
        let survivors = Survivors { states: states.collect(), adjoint, at_start: false };
        advances_left(&plan, &survivors, keeps)
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
        let (withdrawn, there) = self.reach.with(|client| {
            let withdrawn = client.withdraw_unwritten(name, |_| true);
            Ok((withdrawn, client.versions(name)?))
        })?;
        // A file that is still there of a version withdrawn has an older state.
        let has = |version: i32| there.contains(&version) && !withdrawn.contains(&version);
        self.slots.retain(|version, _| has(*version as i32));
        self.try_to_take(0, version).map_err(|_| self.caused(error))?;
        self.slots.insert(version, 0);
        log::info!("\"{}\": state 0 takes the room of states that were left", self.settings.name);
        let needed = self.needed();
        self.go_on_from(&needed, false)
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
        self.go_on_from(&needed, false).map_err(|_| self.caused(error))
    }

    /// Goes on with a new schedule for these states, by version; `keeps`: with all of them where they are.
    pub(super) fn go_on_from(&mut self, needed: &[Stored], keeps: bool) -> Result<()> {
        let slot = |stored: &Stored| {
            Some(Stored { slot: self.numbers.slot(stored.slot)?, state: stored.state })
        };
        let adjoint = (self.fine < self.steps).then_some(self.fine);
        let states = needed.iter().filter_map(slot).collect();
        let mut course = self.settings.course_in(self.numbers.count(), self.lasting)?;
        let survivors = Survivors { states, adjoint, at_start: false };
        match keeps {
            true => course.resume_keeping(&survivors)?,
            false => course.resume_stopped(&survivors)?,
        }
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
