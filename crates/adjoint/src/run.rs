//! A run: action by action, from what the store has to the end or to a stop.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::adjoints::Adjoints;
use super::clock::Clock;
use super::consent;
use super::meetings::Meetings;
use super::message::Message;
use super::position::Marker;
use super::replay::Replay;
use super::settings::Settings;
use super::start::{begin, Begun};
use super::trail::Trail;
use super::{refused, Outcome, Problem, Reach};
use engine::catalog::entry::FileLevel;
use os::error::{Error, Result};
use schedule::course::Course;
use schedule::schedule::Action;

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
    let (adjoints, hashes) = (settings.name_of_adjoints(), settings.name_of_hashes());
    let ended = begin(settings, problem, reach).and_then(|begun| {
        let meetings = reach.with(|client| client.channel()?.map(Meetings::over).transpose())?;
        Sweep::new(settings, problem, reach, begun, since, asked, meetings)?.drive()
    });
    // The application's memory may go away when this returns.
    let cleared = reach.with(|client| {
        client.release_names();
        for name in [&settings.name, &hashes] {
            client.choose_parities_from(name, true);
        }
        client.unprotect_all(Some(&settings.name))?;
        client.unprotect_all(Some(&adjoints))?;
        client.unprotect_all(Some(&hashes))
    });
    match (ended, cleared) {
        (Ok(outcome), cleared) => cleared.map(|()| outcome),
        (Err(error), _) => Err(error),
    }
}

/// Takes the part of a process that cannot take part, because of `error`: the others, which wait for it,
/// are told. Collective, as the beginning of a run. The error.
pub fn decline(error: Error, reach: &impl Reach) -> Error {
    consent::agree(Err(error.clone()), reach).err().unwrap_or(error)
}

/// A run under way.
pub(super) struct Sweep<'a, R> {
    pub(super) settings: &'a Settings,
    pub(super) problem: &'a mut dyn Problem,
    pub(super) reach: &'a R,
    pub(super) course: Course,
    pub(super) run: u64,
    /// Steps of the forward sweep.
    pub(super) steps: u64,
    /// Whether anything outlives the job.
    pub(super) lasting: bool,
    pub(super) states: Marker,
    pub(super) adjoint: Marker,
    pub(super) trail: Trail,
    /// The version of the next hashes that are stored.
    pub(super) next_hashes: i32,
    pub(super) adjoints: Adjoints,
    pub(super) replay: Option<Replay>,
    pub(super) clock: Clock<'a>,
    /// With the other processes, if there are any.
    pub(super) meetings: Option<Meetings>,
    /// What has failed here, and after how many steps, while the others do not know yet.
    pub(super) failure: Option<(Error, u64)>,
    /// What all have told at the meeting at which they have come to know of a failure.
    pub(super) parting: Option<Message>,
    /// Steps of this call.
    pub(super) computed: u64,
    /// The place at which state `steps` would be read: the higher a state, the sooner it is read.
    pub(super) first_place: u64,
    /// The state in each slot, which is the version of that number.
    pub(super) slots: BTreeMap<u64, u64>,
    /// The version of the adjoint that it goes on from.
    pub(super) goes_on_from: Option<i32>,
    /// The state that the application has.
    pub(super) at: Option<u64>,
    /// The state that the adjoint has come to.
    pub(super) fine: u64,
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
        let Begun { course, of, states, adjoints: adjoint, hashes, found, common, replay } = begun;
        let steps = of.steps;
        let (first_place, lasting, tiers) = reach.with(|client| {
            let tiers =
                [FileLevel::Scratch, FileLevel::Persistent].map(|tier| client.has_level(tier));
            Ok((client.reserve_hints(steps + 1), client.keeps_files(), tiers))
        })?;
        let there: BTreeSet<i32> = match common.resumes {
            true => found.adjoints.iter().map(|(version, _)| *version).collect(),
            false => BTreeSet::new(),
        };
        let stored = common.survivors.adjoint;
        let survivors = &common.survivors.states;
        Ok(Sweep {
            adjoints: Adjoints::new(
                settings.name_of_adjoints(),
                tiers.map(|exists| exists.then(|| there.clone())),
                common.next_version,
                stored,
            ),
            clock: Clock::new(since, settings.limit, asked),
            meetings,
            failure: None,
            parting: None,
            computed: 0,
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
            trail: hashes,
            next_hashes: common.next_hashes,
            replay,
            first_place,
        })
    }

    /// From where it is to the end, all processes alike.
    fn drive(mut self) -> Result<Outcome> {
        let ended = self.drive_to_the_end();
        self.part(ended)
    }

    fn drive_to_the_end(&mut self) -> Result<Outcome> {
        self.resume()?;
        let outcome = self.go()?;
        self.meet_plainly()?;
        if outcome == Outcome::Finished {
            // Not before all have come to it.
            let removed = self.remove_all();
            self.endure(removed)?;
            self.meet_plainly()?;
        }
        Ok(outcome)
    }

    /// Has the adjoint that the run goes on from, if there is one.
    fn resume(&mut self) -> Result<()> {
        if let Some(version) = self.goes_on_from {
            let restored = self.restore_adjoint(version);
            self.endure(restored)?;
        }
        self.meet_plainly()?;
        self.expect_survivors()?;
        self.choose_parities(self.fine < self.steps)?;
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

    /// Has the states that may be read next fetched ahead.
    fn expect_survivors(&self) -> Result<()> {
        let needed = self.slots.iter().filter(|(_, state)| **state < self.fine);
        let places: Vec<(i32, u64)> =
            needed.map(|(slot, state)| (*slot as i32, self.place(*state))).collect();
        self.reach.with(|client| {
            client.expect_all(&self.settings.name, &places);
            Ok(())
        })
    }

    /// When a state is read.
    pub(super) fn place(&self, state: u64) -> u64 {
        self.first_place + (self.steps - state)
    }

    /// Where parities are made at intervals, of which versions. Hashes can be done without; and in the
    /// reverse sweep states, which are soon overwritten: an adjoint is worth more there.
    fn choose_parities(&self, reverse: bool) -> Result<()> {
        self.reach.with(|client| {
            client.choose_parities_from(&self.settings.name_of_hashes(), false);
            client.choose_parities_from(&self.settings.name, !reverse);
            Ok(())
        })
    }

    fn go(&mut self) -> Result<Outcome> {
        loop {
            let stops = match self.course.next_action().map_err(refused)? {
                Action::Advance { from, to } => self.advance(from, to)?,
                Action::Takeshot { state, slot } => {
                    let stored = self.store(state, slot);
                    self.endure(stored)?;
                    false
                }
                Action::Restore { state, slot } => {
                    let restored = self.restore(state, slot);
                    self.endure(restored)?;
                    // Who has no such state can compute no step from it, which others may need.
                    self.meet_plainly()?;
                    false
                }
                Action::Firsturn { step, check } | Action::Youturn { step, check } => {
                    self.turn(step, check)?
                }
                Action::Terminate => return Ok(Outcome::Finished),
            };
            if stops && self.fine > 0 {
                let stopped = self.stop();
                self.endure(stopped)?;
                return Ok(Outcome::Stopped);
            }
        }
    }

    /// Computes states, in pieces between which there is something to look at. Whether the run stops.
    fn advance(&mut self, from: u64, to: u64) -> Result<bool> {
        let mut at = from;
        while at < to {
            let look = self.replay.as_ref().map_or(u64::MAX, |replay| replay.next_after(at));
            let next = to.min(look).min(at.saturating_add(self.clock.left()));
            self.at = None;
            self.problem.forward(at, next)?;
            self.at = Some(next);
            let verified = self.verify(next);
            self.endure(verified.map(drop))?;
            let stops = self.passed(next - at)?;
            if stops {
                return Ok(true);
            }
            at = next;
        }
        Ok(false)
    }

    fn turn(&mut self, step: u64, check: bool) -> Result<bool> {
        if step == self.steps {
            let stored = self.store_hashes(step - 1);
            self.endure(stored)?;
            self.choose_parities(true)?;
        }
        self.at = None;
        self.problem.adjoint(step)?;
        self.fine = step - 1;
        if check {
            let stored = self.store_adjoint();
            self.endure(stored)?;
        }
        self.passed(1)
    }
}
