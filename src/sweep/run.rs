//! A run: action by action, from what the store has to the end or to a stop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::adjoints::Adjoints;
use super::clock::Clock;
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
/// the application's, or of the store. The store keeps what it has.
pub fn run(
    settings: &Settings,
    problem: &mut dyn Problem,
    reach: &impl Reach,
    asked: &AtomicBool,
) -> Result<Outcome> {
    let since = Instant::now();
    let adjoints = settings.name_of_adjoints();
    let ended = begin(settings, problem, reach).and_then(|begun| {
        let mut sweep = Sweep::new(settings, problem, reach, begun, since, asked)?;
        let outcome = sweep.go()?;
        sweep.finish(outcome)
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
    /// The place at which state `steps` would be read: the higher a state, the sooner it is read.
    first_place: u64,
    /// What is in each slot.
    slots: BTreeMap<u64, u64>,
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
    ) -> Result<Self> {
        let Begun { course, of, states, adjoints: adjoint, found, common, replay } = begun;
        let steps = of.steps;
        let (first_place, channels, lasting) = reach.with(|client| {
            let channels = [client.channel()?, client.channel()?];
            Ok((client.reserve_hints(steps + 1), channels, client.keeps_files()))
        })?;
        let [to_clock, to_adjoints] = channels;
        let there: BTreeSet<i32> = match common.resumes {
            true => found.adjoints.iter().map(|(version, _)| *version).collect(),
            false => BTreeSet::new(),
        };
        let stored = common.survivors.adjoint;
        let survivors = &common.survivors.states;
        let name_of_adjoints = settings.name_of_adjoints();
        let restored = match common.adjoint {
            Some((version, _)) => {
                reach.with(|client| client.restore_managed(&name_of_adjoints, version, None))
            }
            None => Ok(()),
        };
        together(reach, restored, "restore its adjoint")?;
        let sweep = Sweep {
            adjoints: Adjoints::new(
                name_of_adjoints,
                there,
                common.next_version,
                stored,
                to_adjoints,
            ),
            clock: Clock::new(since, settings.limit, asked, to_clock),
            fine: stored.unwrap_or(steps),
            slots: survivors.iter().map(|stored| (stored.slot, stored.state)).collect(),
            run: common.run,
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
        };
        sweep.expect_survivors()?;
        if common.resumes {
            log::info!(
                "\"{}\": going on with {} states and the adjoint at state {} of {steps}",
                settings.name,
                sweep.slots.len(),
                sweep.fine
            );
        }
        Ok(sweep)
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
                self.stop()?;
                return Ok(Outcome::Stopped);
            }
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
            if self.clock.passed(steps)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Compares the state that the application has with what it was the first time. Its hash.
    fn meet(&mut self, state: u64) -> Result<Option<u64>> {
        if self.replay.is_none() {
            return Ok(None);
        }
        let hash = hash_of(self.settings, self.problem, self.reach)?;
        if let Some(replay) = &mut self.replay {
            replay.meet(state, hash)?;
        }
        Ok(Some(hash))
    }

    fn store(&mut self, state: u64, slot: u64) -> Result<bool> {
        let hash = self.meet(state)?;
        self.states.set(self.run, state, hash);
        let place = Some(self.place(state));
        let reads = self.fine < self.steps;
        let name = &self.settings.name;
        self.reach.with(|client| client.take_managed(name, slot as i32, place, reads))?;
        self.slots.insert(slot, state);
        self.at = Some(state);
        Ok(false)
    }

    fn restore(&mut self, state: u64, slot: u64) -> Result<bool> {
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
        let hash = self.meet(state)?;
        if let (Some(hash), Some(stored)) =
            (hash, stored.hash.filter(|stored| hash != Some(*stored)))
        {
            return Err(Error::new(
                Kind::Corrupt,
                format!(
                    "state {state} has the hash {hash:#018x} after it was restored from slot \
                     {slot}, and had {stored:#018x} when it was stored"
                ),
            ));
        }
        self.at = Some(state);
        Ok(false)
    }

    fn turn(&mut self, step: u64, check: bool) -> Result<bool> {
        self.at = None;
        self.problem.adjoint(step)?;
        self.fine = step - 1;
        if check {
            self.store_adjoint()?;
        }
        self.clock.passed(1)
    }

    fn store_adjoint(&mut self) -> Result<()> {
        self.adjoint.set(self.run, self.fine, None);
        let (adjoints, fine) = (&mut self.adjoints, self.fine);
        self.reach.with(|client| adjoints.store(client, fine))
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

    /// Ends what the processes have told each other. A run that has come to its end leaves nothing:
    /// not before all have.
    fn finish(mut self, outcome: Outcome) -> Result<Outcome> {
        self.clock.conclude()?;
        self.adjoints.conclude()?;
        if outcome == Outcome::Finished {
            together(self.reach, Ok(()), "finish")?;
            let name_of_adjoints = self.settings.name_of_adjoints();
            self.reach.with(|client| {
                client.remove_all(&self.settings.name)?;
                client.remove_all(&name_of_adjoints)
            })?;
        }
        Ok(outcome)
    }
}
