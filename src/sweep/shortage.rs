//! A run of several processes, of which one has no room for a state: all go on with as many slots as the one
//! with the least room, and compute more steps again, as a process without others does at once.
//!
//! Their steps must stay the same, so it takes until all know: two meetings, in which a process goes on with
//! its steps and keeps aside what it cannot store. What they meet for anyway tells the lowest state that one
//! of them lacks, and for how many there is room. States are stored in ascending order and used in descending
//! one, so all have each state below the lowest that somebody lacks. Those are kept by all, at the same place
//! in the schedule; what is above goes, and is computed again. So what is in which version
//! ([`Sweep::slots`]) stays the same everywhere, whoever has it.

use std::collections::BTreeSet;

use super::aside::Asides;
use super::run::Sweep;
use super::setback::is_of_the_store;
use super::word::Shortage;
use super::Reach;
use crate::adjoint::schedule::Stored;
use crate::error::{Error, Kind, Result};

/// What a process had no room for, and what all have said of that.
#[derive(Debug, Default)]
pub struct Shortages {
    /// For how many states there was room when the last one was lacked, which the others do not know of.
    room: Option<u64>,
    /// The first of these, and why it was not stored.
    first: Option<(u64, Error)>,
    /// The same of what the others were told last.
    told: Option<(u64, Error)>,
    /// Somebody has lacked room: what the adjoint has passed makes room for what comes, on all.
    pub(super) known: bool,
}

impl Shortages {
    /// What this process tells the others of what it has lacked since the last time, and has aside.
    pub(super) fn tell(&mut self, asides: &Asides) -> Option<Shortage> {
        let room = self.room.take()?;
        self.told = self.first.take();
        Some(Shortage { lacks: asides.lowest(), room })
    }

    /// All have heard of a shortage. What this process has lacked meanwhile, above the lowest state that one
    /// lacks, need not be told: all come to it again.
    pub(super) fn hear(&mut self, shortage: Shortage, asides: &mut Asides) {
        self.known = true;
        if let Some(lowest) = shortage.lacks {
            asides.keep_below(lowest);
            if asides.lowest().is_none() {
                (self.room, self.first) = (None, None);
            }
        }
    }
}

impl<R: Reach> Sweep<'_, R> {
    /// Goes on for now with a state that could not be stored in a version because of `error`, and was set
    /// aside; with others.
    ///
    /// # Errors
    /// `error`, if it is no matter of room, or nothing is of use without this state.
    pub(super) fn lack(&mut self, state: u64, version: u64, error: Error) -> Result<()> {
        let is_of_room =
            error.kind() == Kind::NoRoom || is_of_the_store(&error) && !self.is_direct();
        if !is_of_room || state == 0 {
            return Err(error);
        }
        // What the adjoint has passed gives its room when all know.
        let kept =
            self.slots.iter().filter(|(version, state)| !self.asides.has(**version, **state));
        let room = kept.count().max(1) as u64;
        log::info!("\"{}\": state {state} is kept aside: {error}", self.settings.name);
        self.slots.insert(version, state);
        self.shortages.room = Some(self.shortages.room.map_or(room, |before| before.min(room)));
        self.shortages.first.get_or_insert((state, error));
        Ok(())
    }

    /// Goes on with the states and the slots that there is room for, all processes alike. Whether that is
    /// another schedule.
    ///
    /// # Errors
    /// There is no state to go on from.
    pub(super) fn go_on_together(&mut self, shortage: Shortage) -> Result<bool> {
        let lowest = shortage.lacks.unwrap_or(u64::MAX);
        let own = self.shortages.told.take();
        let before = self.numbers.count();
        let all = self.scheduled();
        let stored: Vec<Stored> = all.iter().copied().filter(|s| s.state < lowest).collect();
        let slots = shortage.room.min(before).max(stored.len() as u64);
        if self.fine == 0 || stored.len() == all.len() && slots == before {
            return Ok(false);
        }
        let planned = self.advances_left(&all, self.settings.slots as u64, false);
        // What the adjoint has passed as well: it was room that was wanting.
        let keeps: BTreeSet<u64> = stored.iter().map(|stored| stored.slot).collect();
        let gone: Vec<u64> = self.slots.keys().copied().filter(|v| !keeps.contains(v)).collect();
        for version in gone {
            self.remove_version(version);
        }
        self.numbers = self.numbers.fewer(stored.iter().map(|stored| stored.slot), slots);
        self.go_on_from(&stored, false)?;
        let left = self.advances_left(&stored, slots, false);
        let name = &self.settings.name;
        let fewer = format!("{slots} slots instead of {before}, and computes more steps again");
        let Some((state, error)) = own else {
            log::info!(
                "\"{name}\": another process has no room for a state: the run goes on with {fewer}"
            );
            return Ok(true);
        };
        if let (true, Some(planned), Some(left)) = (self.is_direct(), planned, left) {
            if left > self.bearable(planned) {
                // The others hear of it while this process does its steps.
                let error = self.caused(error).followed_by(format_args!(
                    "with the {slots} states that there is room for, {left} steps would remain \
                     instead of {planned}"
                ));
                self.bear(Err(error))?;
                return Ok(true);
            }
        }
        let text = format!(
            "\"{name}\": state {state} cannot be stored ({error}): the run goes on with {fewer}"
        );
        match slots < before {
            true => self.setbacks.say_fewer(slots, &text),
            false => log::info!("{text}"),
        }
        Ok(true)
    }

    /// The states that the schedule still needs, by version, whether or not this process has them.
    fn scheduled(&self) -> Vec<Stored> {
        let of_version =
            |stored: &Stored| Stored { slot: self.numbers.version(stored.slot), ..*stored };
        self.course.stored().iter().map(of_version).collect()
    }
}
