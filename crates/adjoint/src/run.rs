//! Executes a run: action by action, from the contents of the store to the end or to a stop.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::adjoints::Adjoints;
use super::clock::RunClock;
use super::message::RunMessage;
use super::position::Marker;
use super::probe::{RunProbe, PROBE};
use super::progress_exchange::ProgressExchange;
use super::replay::ReplayCheck;
use super::same_settings;
use super::settings::AdjointSettings;
use super::start::{begin, StartedRun};
use super::stored_hashes::StoredHashes;
use super::{schedule_error, ClientAccess, Problem, RunOutcome};
use catalog::FileLevel;
use errors::{Error, Result};
use schedule::configured::ConfiguredSchedule;
use schedule::schedule::Action;

/// Computes an adjoint, from the beginning or from the contents of the store. Collective at its
/// beginning and at its end. `asked` stops it.
///
/// # Errors
/// Impossible settings or a store of another computation (neither changes anything), or a failure of the
/// application or of the store, here or on another process. The store keeps its contents.
pub fn run(
    settings: &AdjointSettings,
    problem: &mut dyn Problem,
    access: &impl ClientAccess,
    asked: &AtomicBool,
) -> Result<RunOutcome> {
    let since = Instant::now();
    let (adjoints, hashes) = (settings.name_of_adjoints(), settings.name_of_hashes());
    let ended = begin(settings, problem, access).and_then(|begun| {
        let exchange = access
            .with(|client| client.processes().channel()?.map(ProgressExchange::over).transpose())?;
        RunInProgress::new(settings, problem, access, begun, since, asked, exchange)?.drive()
    });
    // The application's memory may become invalid after the return.
    let cleared = access.with(|client| {
        client.protecting().release_names();
        for name in [&settings.name, &hashes] {
            client.versions().choose_parities_from(name, true);
        }
        client.protecting().unprotect_all(Some(&settings.name))?;
        client.protecting().unprotect_all(Some(&adjoints))?;
        client.protecting().unprotect_all(Some(&hashes))
    });
    match (ended, cleared) {
        (Ok(outcome), cleared) => cleared.map(|()| outcome),
        (Err(error), _) => Err(error),
    }
}

/// Tells the other processes, which wait for this one, that it cannot take part. Collective, as the
/// beginning of a run. Returns the error.
pub fn decline(error: Error, access: &impl ClientAccess) -> Error {
    same_settings::check(Err(error.clone()), access).err().unwrap_or(error)
}

/// A run in progress.
pub(super) struct RunInProgress<'a, R> {
    pub(super) settings: &'a AdjointSettings,
    pub(super) problem: &'a mut dyn Problem,
    pub(super) access: &'a R,
    pub(super) course: ConfiguredSchedule,
    pub(super) run: u64,
    /// Steps of the forward sweep.
    pub(super) steps: u64,
    /// The states that can be stored at a time.
    pub(super) slots: u64,
    /// Whether files survive the job.
    pub(super) durable: bool,
    pub(super) marks: RunMarks,
    pub(super) hashes: RunHashes,
    pub(super) adjoints: Adjoints,
    pub(super) clock: RunClock<'a>,
    pub(super) others: OtherProcesses,
    pub(super) reached: Reached,
    /// The position of state `steps` in the read order; higher states are read sooner.
    pub(super) first_read_order: u64,
}

/// What is stored with states and adjoints, to know them by.
pub(super) struct RunMarks {
    pub(super) states: Marker,
    pub(super) adjoint: Marker,
}

/// Hashes of states, and what is compared with them.
pub(super) struct RunHashes {
    pub(super) stored: StoredHashes,
    /// The next version of the stored hashes.
    pub(super) next_version: i32,
    pub(super) replay: Option<ReplayCheck>,
    pub(super) probe: RunProbe,
}

/// The other processes, and what they know of this one.
pub(super) struct OtherProcesses {
    /// The exchange with them, if there are any.
    pub(super) exchange: Option<ProgressExchange>,
    /// A failure here that they do not know yet, and the steps before it.
    pub(super) failure: Option<(Error, u64)>,
    /// The message by which all have learned of a failure.
    pub(super) final_message: Option<RunMessage>,
}

/// How far the run has come.
pub(super) struct Reached {
    /// Steps computed in this call.
    pub(super) computed: u64,
    /// The state in each slot (a version).
    pub(super) slots: BTreeMap<u64, u64>,
    /// The version of the adjoint to go on from.
    pub(super) goes_on_from: Option<i32>,
    /// The state that the application has.
    pub(super) at: Option<u64>,
    /// The state that the adjoint has come to.
    pub(super) fine: u64,
}

impl<'a, R: ClientAccess> RunInProgress<'a, R> {
    fn new(
        settings: &'a AdjointSettings,
        problem: &'a mut dyn Problem,
        access: &'a R,
        begun: StartedRun,
        since: Instant,
        asked: &'a AtomicBool,
        exchange: Option<ProgressExchange>,
    ) -> Result<Self> {
        let StartedRun {
            course,
            of,
            states,
            adjoints: adjoint,
            hashes,
            found,
            common,
            replay,
            exact,
        } = begun;
        let (steps, slots) = (of.steps, of.slots);
        let (first_read_order, durable, levels) = access.with(|client| {
            let levels = [FileLevel::Scratch, FileLevel::Persistent]
                .map(|level| client.versions().has_level(level));
            Ok((client.hints().reserve(steps + 1), client.versions().keeps_files(), levels))
        })?;
        let there: BTreeSet<i32> = match common.resumes {
            true => found.adjoints.iter().map(|(version, _)| *version).collect(),
            false => BTreeSet::new(),
        };
        let stored = common.survivors.adjoint;
        let survivors = &common.survivors.states;
        Ok(RunInProgress {
            hashes: RunHashes {
                stored: hashes,
                next_version: common.next_hashes,
                probe: RunProbe::new(
                    steps,
                    !common.resumes,
                    replay.is_some(),
                    exchange.is_some(),
                    exact,
                ),
                replay,
            },
            adjoints: Adjoints::new(
                settings.name_of_adjoints(),
                levels.map(|exists| exists.then(|| there.clone())),
                common.next_version,
                stored,
            ),
            clock: RunClock::new(since, settings.limit, asked),
            others: OtherProcesses { exchange, failure: None, final_message: None },
            reached: Reached {
                computed: 0,
                slots: survivors.iter().map(|stored| (stored.slot, stored.state)).collect(),
                goes_on_from: common.adjoint.filter(|_| common.resumes).map(|(version, _)| version),
                at: None,
                fine: stored.unwrap_or(steps),
            },
            run: common.run,
            settings,
            problem,
            access,
            course,
            steps,
            slots,
            durable,
            marks: RunMarks { states, adjoint },
            first_read_order,
        })
    }

    /// Runs to the end; all processes take part.
    fn drive(mut self) -> Result<RunOutcome> {
        let ended = self.drive_until_end();
        self.finish(ended)
    }

    fn drive_until_end(&mut self) -> Result<RunOutcome> {
        self.resume()?;
        let outcome = self.run_actions()?;
        self.synchronize()?;
        if outcome == RunOutcome::Finished {
            // Removed only after all have finished.
            let removed = self.remove_all();
            self.defer_failure(removed)?;
            self.synchronize()?;
        }
        Ok(outcome)
    }

    /// Restores the adjoint to go on from, if there is one.
    fn resume(&mut self) -> Result<()> {
        if let Some(version) = self.reached.goes_on_from {
            let restored = self.restore_adjoint(version);
            self.defer_failure(restored)?;
        }
        self.synchronize()?;
        self.hint_survivors()?;
        self.choose_parities(self.reached.fine < self.steps)?;
        if !self.reached.slots.is_empty() || self.reached.goes_on_from.is_some() {
            log::info!(
                "\"{}\": going on with {} states and the adjoint at state {} of {}",
                self.settings.name,
                self.reached.slots.len(),
                self.reached.fine,
                self.steps
            );
        }
        Ok(())
    }

    /// Hints the states that may be read next, so that they are prefetched.
    fn hint_survivors(&self) -> Result<()> {
        let needed = self.reached.slots.iter().filter(|(_, state)| **state < self.reached.fine);
        let places: Vec<(i32, u64)> =
            needed.map(|(slot, state)| (*slot as i32, self.read_order(*state))).collect();
        self.access.with(|client| {
            client.hints().expect_all(&self.settings.name, &places);
            Ok(())
        })
    }

    /// The position of a state in the read order.
    pub(super) fn read_order(&self, state: u64) -> u64 {
        self.first_read_order + (self.steps - state)
    }

    /// Selects what parities are made of, if they are made at intervals: never hashes, which can be
    /// lost; and in the reverse sweep adjoints rather than states, which are soon overwritten.
    fn choose_parities(&self, reverse: bool) -> Result<()> {
        self.access.with(|client| {
            client.versions().choose_parities_from(&self.settings.name_of_hashes(), false);
            client.versions().choose_parities_from(&self.settings.name, !reverse);
            Ok(())
        })
    }

    fn run_actions(&mut self) -> Result<RunOutcome> {
        loop {
            let stops = match self.course.next_action().map_err(schedule_error)? {
                Action::Advance { from, to } => self.advance(from, to)?,
                Action::Takeshot { state, slot, .. } => {
                    let stored = self.store(state, slot);
                    self.defer_failure(stored)?;
                    false
                }
                Action::Restore { state, slot, .. } => {
                    let restored = self.restore(state, slot);
                    self.defer_failure(restored)?;
                    // A process without the state cannot compute steps that others may need.
                    self.synchronize()?;
                    false
                }
                Action::Firsturn { step, check } | Action::Youturn { step, check } => {
                    self.turn(step, check)?
                }
                Action::Record { .. } | Action::Reverse { .. } => {
                    return Err(Error::invalid("an adjoint run with the rule mixed"))
                }
                Action::Terminate => return Ok(RunOutcome::Finished),
            };
            if stops && self.reached.fine > 0 {
                let stopped = self.stop();
                self.defer_failure(stopped)?;
                return Ok(RunOutcome::Stopped);
            }
        }
    }

    /// Computes states, in pieces between two checks. Returns whether the run stops.
    fn advance(&mut self, from: u64, to: u64) -> Result<bool> {
        let mut at = from;
        self.begin_looking()?;
        while at < to {
            let next = if self.repeats(at, to) {
                self.forward_twice()?;
                PROBE
            } else {
                // Step by step the first time: what is computed again, in calls of more steps, is compared with that. Of
                // several processes the first one whose state differs could not be told then.
                let look =
                    self.hashes.replay.as_ref().and_then(|replay| match self.others.exchange {
                        Some(_) => Some(replay.next_checked_after(at)),
                        None => replay.next_unknown(at, to),
                    });
                let next = at.saturating_add(self.clock.left()).min(look.unwrap_or(to)).min(to);
                self.reached.at = None;
                self.problem.forward(at, next)?;
                next
            };
            self.reached.at = Some(next);
            self.look_for_change(next)?;
            let verified = self.verify(next).map_err(|differs| self.explained(at, next, differs));
            self.defer_failure(verified.map(drop))?;
            let stops = self.after_steps(next - at)?;
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
            self.defer_failure(stored)?;
            self.choose_parities(true)?;
            self.judge_change();
        }
        self.reached.at = None;
        self.problem.adjoint(step)?;
        self.reached.fine = step - 1;
        if check {
            let stored = self.store_adjoint();
            self.defer_failure(stored)?;
        }
        self.after_steps(1)
    }
}
