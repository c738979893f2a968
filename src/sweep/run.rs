//! A run: action by action, from what the store has to the end or to a stop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::adjoints::Adjoints;
use super::clock::Clock;
use super::meetings::{Meetings, Word};
use super::position::Marker;
use super::replay::Replay;
use super::settings::Settings;
use super::start::{begin, hash_of, together, Begun};
use super::{Outcome, Problem, Reach};
use crate::adjoint::course::Course;
use crate::adjoint::schedule::Action;
use crate::error::{Error, Kind, Result};

/// Computes an adjoint, from the beginning or from what the store has. Collective under MPI at its
/// beginning and at its end. `asked` stops it.
///
/// # Errors
/// A setting that cannot be, a store of another computation (both change nothing), what failed of
/// the application's, or of the store, on this process or on another one. The store keeps what it has.
pub fn run(
    settings: &Settings,
    problem: &mut dyn Problem,
    reach: &impl Reach,
    asked: &AtomicBool,
) -> Result<Outcome> {
    let since = Instant::now();
    let adjoints = settings.name_of_adjoints();
    let ended = begin(settings, problem, reach).and_then(|begun| {
        let meetings = reach.with(|client| client.channel()?.map(Meetings::over).transpose())?;
        Sweep::new(settings, problem, reach, begun, since, asked, meetings)?.drive()
    });
    // The application's memory may go away when this returns.
    let cleared = reach.with(|client| {
        client.unprotect_all(Some(&settings.name))?;
        client.unprotect_all(Some(&adjoints))
    });
    match (ended, cleared) {
        (Ok(outcome), cleared) => cleared.map(|()| outcome),
        (Err(error), _) => Err(error),
    }
}

/// A run under way.
struct Sweep<'a, R> {
    settings: &'a Settings,
    problem: &'a mut dyn Problem,
    reach: &'a R,
    course: Course,
    run: u64,
    /// Steps of the forward sweep.
    steps: u64,
    /// Whether anything outlives the job.
    lasting: bool,
    states: Marker,
    adjoint: Marker,
    adjoints: Adjoints,
    replay: Option<Replay>,
    clock: Clock<'a>,
    /// With the other processes, if there are any.
    meetings: Option<Meetings>,
    /// What failed here, while the others do not know yet: nothing is stored from there on.
    failure: Option<Error>,
    /// The place at which state `steps` would be read: the higher a state, the sooner it is read.
    first_place: u64,
    /// What is in each slot.
    slots: BTreeMap<u64, u64>,
    /// The version of the adjoint that it goes on from.
    goes_on_from: Option<i32>,
    /// The state that the application has.
    at: Option<u64>,
    /// The state that the adjoint has come to.
    fine: u64,
}

impl<'a, R: Reach> Sweep<'a, R> {
    fn new(
        settings: &'a Settings,
        problem: &'a mut dyn Problem,
        reach: &'a R,
        begun: Begun,
        since: Instant,
        asked: &'a AtomicBool,
        meetings: Option<Meetings>,
    ) -> Result<Self> {
        let Begun { course, of, states, adjoints: adjoint, found, common, replay } = begun;
        let steps = of.steps;
        let (first_place, lasting) =
            reach.with(|client| Ok((client.reserve_hints(steps + 1), client.keeps_files())))?;
        let there: BTreeSet<i32> = match common.resumes {
            true => found.adjoints.iter().map(|(version, _)| *version).collect(),
            false => BTreeSet::new(),
        };
        let stored = common.survivors.adjoint;
        let survivors = &common.survivors.states;
        Ok(Sweep {
            adjoints: Adjoints::new(
                settings.name_of_adjoints(),
                there,
                common.next_version,
                stored,
            ),
            clock: Clock::new(since, settings.limit, asked),
            meetings,
            failure: None,
            fine: stored.unwrap_or(steps),
            slots: survivors.iter().map(|stored| (stored.slot, stored.state)).collect(),
            run: common.run,
            goes_on_from: common.adjoint.filter(|_| common.resumes).map(|(version, _)| version),
            at: None,
            settings,
            problem,
            reach,
            course,
            steps,
            lasting,
            states,
            adjoint,
            replay,
            first_place,
        })
    }

    /// From where it is to the end, all processes alike.
    fn drive(mut self) -> Result<Outcome> {
        let ended = self.resume().and_then(|()| self.go()).and_then(|outcome| {
            self.meet_at_the_end()?;
            if outcome == Outcome::Finished {
                // Not before all have come to it.
                self.remove_all()?;
                self.meet_at_the_end()?;
            }
            Ok(outcome)
        });
        // Others have been told of this one's own failure, and so it may hear of it from them.
        let ended = match self.failure.take() {
            Some(failure) => Err(failure),
            None => ended,
        };
        if let Some(meetings) = self.meetings.take() {
            meetings.end(ended.as_ref().err());
        }
        ended
    }

    /// Has the adjoint that the run goes on from, if there is one.
    fn resume(&mut self) -> Result<()> {
        let restored = match self.goes_on_from {
            Some(version) => self.restore_adjoint(version),
            None => Ok(()),
        };
        together(self.reach, restored, "restore its adjoint")?;
        self.expect_survivors()?;
        if !self.slots.is_empty() || self.goes_on_from.is_some() {
            log::info!(
                "\"{}\": going on with {} states and the adjoint at state {} of {}",
                self.settings.name,
                self.slots.len(),
                self.fine,
                self.steps
            );
        }
        Ok(())
    }

    fn restore_adjoint(&mut self, version: i32) -> Result<()> {
        let name = self.settings.name_of_adjoints();
        self.reach.with(|client| client.restore_managed(&name, version, None))?;
        let stored = self.adjoint.get();
        if (stored.run, stored.number) != (self.run, self.fine) {
            return Err(Error::new(
                Kind::Corrupt,
                format!(
                    "\"{name}\" version {version} has come to state {} of run {:#018x}, not to state \
                     {} of run {:#018x}",
                    stored.number, stored.run, self.fine, self.run
                ),
            ));
        }
        match (self.hash_of_adjoint()?, stored.hash) {
            (Some(hash), Some(stored)) if hash != stored => Err(Error::new(
                Kind::Corrupt,
                format!(
                    "the adjoint at state {} has the hash {hash:#018x} after it was restored from \
                     \"{name}\" version {version}, and had {stored:#018x} when it was stored: \
                     it was damaged there",
                    self.fine
                ),
            )),
            _ => Ok(()),
        }
    }

    /// A hash of the adjoint, where replays are verified and it is in the host's memory.
    fn hash_of_adjoint(&self) -> Result<Option<u64>> {
        if self.replay.is_none() {
            return Ok(None);
        }
        let digest =
            self.reach.with(|client| client.digest_of(&self.settings.name_of_adjoints()))?;
        Ok(digest.map(|digest| digest.max(1)))
    }

    /// Has the states that may be read next fetched ahead.
    fn expect_survivors(&self) -> Result<()> {
        self.reach.with(|client| {
            for (&slot, &state) in self.slots.iter().filter(|(_, state)| **state < self.fine) {
                client.expect(&self.settings.name, slot as i32, Some(self.place(state)), true);
            }
            Ok(())
        })
    }

    /// When a state is read.
    fn place(&self, state: u64) -> u64 {
        self.first_place + (self.steps - state)
    }

    fn go(&mut self) -> Result<Outcome> {
        loop {
            let stop = match self.course.next_action()? {
                Action::Advance { from, to } => self.advance(from, to)?,
                Action::Takeshot { state, slot } => self.store(state, slot)?,
                Action::Restore { state, slot } => self.restore(state, slot)?,
                Action::Firsturn { step, check } | Action::Youturn { step, check } => {
                    self.turn(step, check)?
                }
                Action::Terminate => return Ok(Outcome::Finished),
            };
            if stop && self.fine > 0 {
                if self.failure.is_none() {
                    self.stop()?;
                }
                return Ok(Outcome::Stopped);
            }
        }
    }

    /// What has failed here and can be done without until the others know: they may need this process
    /// for their own steps, as for the halo of a domain.
    fn bear(&mut self, done: Result<()>) -> Result<()> {
        match (done, &self.meetings) {
            (Err(error), Some(_)) => {
                log::error!("{error}; the run ends as soon as all processes know");
                self.failure.get_or_insert(error);
                Ok(())
            }
            (done, _) => done,
        }
    }

    /// So many steps were computed. Whether to stop now.
    fn passed(&mut self, steps: u64) -> Result<bool> {
        let Some(look) = self.clock.passed(steps, self.meetings.is_none()) else {
            return Ok(false);
        };
        let Some(meetings) = &mut self.meetings else {
            self.clock.set(Some(look.interval));
            return Ok(look.stop);
        };
        let adjoints = &mut self.adjoints;
        let newest = self.reach.with(|client| Ok(adjoints.newest(client)))?;
        let word = Word { stop: look.stop, interval: look.interval, newest, failure: None };
        let decided = meetings.next(word, self.failure.as_ref())?;
        self.clock.set(decided.as_ref().map(|decided| decided.interval));
        let Some(decided) = decided else { return Ok(false) };
        let retired = self.reach.with(|client| adjoints.retire(client, decided.newest));
        self.bear(retired)?;
        Ok(decided.stop)
    }

    /// Waits until all processes have come here, unless one has failed.
    fn meet_at_the_end(&mut self) -> Result<()> {
        match (&self.failure, &mut self.meetings) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(meetings)) => meetings.last(),
            (None, None) => Ok(()),
        }
    }

    /// Computes states, in pieces between which there is something to look at. Whether to stop.
    fn advance(&mut self, from: u64, to: u64) -> Result<bool> {
        let mut at = from;
        while at < to {
            let look = self.replay.as_ref().map_or(u64::MAX, |replay| replay.next_after(at));
            let next = to.min(look).min(at.saturating_add(self.clock.left()));
            self.at = None;
            self.problem.forward(at, next)?;
            self.at = Some(next);
            self.meet(next)?;
            let steps = next - at;
            at = next;
            if self.passed(steps)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Compares the state that the application has with what it was the first time. Its hash.
    fn meet(&mut self, state: u64) -> Result<Option<u64>> {
        let hash = self.hash()?;
        self.compare(state, hash)?;
        Ok(hash)
    }

    /// The hash of the state that the application has, where replays are verified.
    fn hash(&mut self) -> Result<Option<u64>> {
        match self.replay.is_some() && self.failure.is_none() {
            true => hash_of(self.settings, self.problem, self.reach).map(Some),
            false => Ok(None),
        }
    }

    fn compare(&mut self, state: u64, hash: Option<u64>) -> Result<()> {
        match (&mut self.replay, hash) {
            (Some(replay), Some(hash)) => {
                let met = replay.meet(state, hash);
                self.bear(met)
            }
            _ => Ok(()),
        }
    }

    fn store(&mut self, state: u64, slot: u64) -> Result<bool> {
        let hash = self.meet(state)?;
        if self.failure.is_some() {
            return Ok(false);
        }
        self.states.set(self.run, state, hash);
        let place = Some(self.place(state));
        let reads = self.fine < self.steps;
        let name = &self.settings.name;
        let taken = self.reach.with(|client| client.take_managed(name, slot as i32, place, reads));
        if taken.is_ok() {
            self.slots.insert(slot, state);
        }
        self.bear(taken)?;
        self.at = Some(state);
        Ok(false)
    }

    fn restore(&mut self, state: u64, slot: u64) -> Result<bool> {
        if let Some(failure) =
            self.failure.as_ref().filter(|_| self.slots.get(&slot) != Some(&state))
        {
            // It was not stored.
            return Err(failure.clone());
        }
        // It is read once more unless the adjoint takes its step from it now.
        let next = (state + 1 < self.fine).then(|| self.place(state));
        let name = &self.settings.name;
        self.at = None;
        self.reach.with(|client| client.restore_managed(name, slot as i32, next))?;
        let stored = self.states.get();
        if (stored.run, stored.number) != (self.run, state) {
            return Err(Error::new(
                Kind::Corrupt,
                format!(
                    "slot {slot} has state {} of run {:#018x}, not state {state} of run {:#018x}",
                    stored.number, stored.run, self.run
                ),
            ));
        }
        match (self.hash()?, stored.hash) {
            (Some(hash), Some(stored)) if hash != stored => self.bear(Err(Error::new(
                Kind::Corrupt,
                format!(
                    "state {state} has the hash {hash:#018x} after it was restored from slot {slot}, \
                     and had {stored:#018x} when it was stored: it was damaged there"
                ),
            )))?,
            (hash, _) => self.compare(state, hash)?,
        }
        self.at = Some(state);
        Ok(false)
    }

    fn turn(&mut self, step: u64, check: bool) -> Result<bool> {
        self.at = None;
        self.problem.adjoint(step)?;
        self.fine = step - 1;
        if check && self.failure.is_none() {
            let stored = self.store_adjoint();
            self.bear(stored)?;
        }
        self.passed(1)
    }

    fn store_adjoint(&mut self) -> Result<()> {
        let hash = self.hash_of_adjoint()?;
        self.adjoint.set(self.run, self.fine, hash);
        let (adjoints, fine) = (&mut self.adjoints, self.fine);
        let alone = self.meetings.is_none();
        self.reach.with(|client| {
            adjoints.store(client, fine)?;
            match alone {
                true => adjoints.retire(client, adjoints.newest(client)),
                false => Ok(()),
            }
        })
    }

    /// Stores what the next run needs to go on from here, and waits until it is in its files.
    fn stop(&mut self) -> Result<()> {
        if !self.lasting {
            return Err(Error::invalid(
                "the run was asked to stop, but nothing outlives the job (ephemeral = true)",
            ));
        }
        if self.fine < self.steps && self.adjoints.stored() != Some(self.fine) {
            self.store_adjoint()?;
        }
        let is_new = |at: &u64| !self.slots.values().any(|state| state == at);
        if let (Some(at), Some(slot)) = (self.at.filter(is_new), self.free_slot()) {
            self.store(at, slot)?;
        }
        self.reach.with(|client| client.checkpoint_wait())
    }

    /// A slot that no state is needed from.
    fn free_slot(&self) -> Option<u64> {
        let used = self.slots.iter().zip(0..).find(|((slot, _), number)| **slot != *number);
        let unused = used.map_or(self.slots.len() as u64, |(_, number)| number);
        let passed = || self.slots.iter().find(|(_, state)| **state >= self.fine);
        Some(unused)
            .filter(|slot| *slot < self.settings.slots as u64)
            .or_else(|| passed().map(|(slot, _)| *slot))
    }

    /// A run that has come to its end leaves nothing.
    fn remove_all(&self) -> Result<()> {
        let name_of_adjoints = self.settings.name_of_adjoints();
        self.reach.with(|client| {
            client.remove_all(&self.settings.name)?;
            client.remove_all(&name_of_adjoints)
        })
    }
}
