//! What the processes of an MPI job agree on: which versions all of them have, which checkpoints are
//! copied to persistent, and where each process's part of an aggregated file begins.
//!
//! Each checkpoint begins a round (`policy/rounds.rs`), and where files are aggregated a gathering
//! of the parts' lengths. All calls of MPI are made from the application's own calls, and none
//! waits before the end of the job, unless the application waits for an aggregated file.
//!
//! An error of MPI ends the agreement for good: this process begins one last call, which tells the
//! others so, and none after it. From there on no version is removed, and every checkpoint is copied
//! to a file of its own.

mod aggregation;
mod ending;

use std::collections::BTreeMap;
use std::fmt::Display;

use aggregation::{Aggregation, LAST_LENGTH};
pub(crate) use ending::ProcessProgress;

use catalog::{FileLevel, Id};
use engine::Engine;
use errors::Result;
use format::aggregate::AggregatePart;
use mpi::{CollectiveQueue, Comm};
use policy::rounds::{Common, Disagreement, FileState, Rounds, Values, PARITIES, WITHDRAWN};

const OTHER_HAS_FAILED: &str = "MPI has failed on another process";

/// How often a result is asked for before the application's wait goes on without it.
const POLLS: usize = 100;

/// The agreement, as this process sees it.
#[derive(Debug)]
pub struct Agreement {
    rank: u32,
    ranks: u32,
    rounds: Rounds,
    /// The reductions of the rounds.
    calls: CollectiveQueue,
    aggregation: Option<Aggregation>,
    /// Checkpoints of which it is not known whether or where they are copied to persistent.
    deferred: BTreeMap<Id, Deferred>,
    /// The checkpoint that was begun and neither taken nor given up.
    open: Option<Id>,
    /// This process has given up: it makes no call of MPI and takes no result any more.
    failed: bool,
}

/// Takes the next result of a queue.
type QueueStep = fn(&mut CollectiveQueue) -> Result<Option<Box<[i64]>>>;

/// What is decided about a checkpoint's copy in persistent.
#[derive(Clone, Copy, Debug, Default)]
struct Deferred {
    /// Whether the copy is made.
    persist: Option<bool>,
    /// Where the copy goes; `Some(None)`: to a file of its own.
    place: Option<Option<AggregatePart>>,
}

impl Agreement {
    /// Starts over new communicators. Returns `None` if there is nothing to agree on. Collective.
    pub(crate) fn start(comm: &Comm, engine: &Engine) -> Result<Option<Agreement>> {
        let config = engine.config();
        let aggregated = config.aggregated && engine.files().places().has_persistent();
        let limits = config.max_versions > 0 || config.scratch_versions > 0;
        let at_all = limits || engine.file_side().persistence_depends_on_time();
        let (rank, ranks) = (comm.rank()?, comm.size()?);
        if config.ephemeral || !(aggregated || at_all && ranks > 1) {
            return Ok(None);
        }
        for common in engine.file_side().common() {
            *common.lock() = Common::default();
        }
        let aggregation = aggregated.then(|| Aggregation::start(comm)).transpose()?;
        Ok(Some(Agreement {
            rank,
            ranks,
            rounds: Rounds::default(),
            calls: CollectiveQueue::over(comm.dup()?),
            aggregation,
            deferred: BTreeMap::new(),
            open: None,
            failed: false,
        }))
    }

    /// A checkpoint is about to begin on this process, and sooner or later on the others.
    pub fn begin(&mut self, engine: &Engine, name: &str, version: i32) {
        self.hear(engine);
        if self.failed {
            return;
        }
        let key = key(name, version);
        // The first process's clock decides for all.
        let persist = (self.rank == 0).then(|| engine.file_side().is_to_persist());
        let values = self.rounds.begin(key, persist, file_state(engine));
        self.post(engine, &values);
        if let Some(aggregation) = &mut self.aggregation {
            aggregation.due = Some(key);
        }
    }

    /// The checkpoint has begun. Returns whether it is copied to persistent once it is complete:
    /// `Some(false)`: when it is decided if and where; `None`: as this process's own clock says.
    pub fn opened(&mut self, engine: &Engine, id: Id) -> Option<bool> {
        let by_time = engine.file_side().persistence_depends_on_time();
        let defers = !self.failed && (by_time || self.aggregation.is_some());
        self.rounds.opened(id, defers);
        if defers {
            let always = engine.config().persistent_interval.is_some();
            let place = if self.aggregation.is_some() { None } else { Some(None) };
            let persist = (!by_time).then_some(always);
            if self.aggregation.is_some() && persist != Some(false) {
                engine.checkpoints().await_place(id);
            }
            self.deferred.insert(id, Deferred { persist, place });
        }
        self.open = Some(id);
        match (defers, by_time) {
            (true, _) => Some(false),
            // Nobody decides any more: each checkpoint is copied.
            (false, true) => Some(true),
            (false, false) => None,
        }
    }

    /// How many rounds and gatherings of lengths this process has begun.
    pub fn begun(&self) -> [u64; 2] {
        let gathered = self.aggregation.as_ref().map_or(0, |aggregation| aggregation.calls.begun());
        [self.calls.begun(), gathered]
    }

    /// Begins rounds and gatherings without a checkpoint until there are so many. To be called when
    /// another process has begun so many, for checkpoints that this one never takes: the next round
    /// is the same for both again.
    pub fn even(&mut self, engine: &Engine, [rounds, gathered]: [u64; 2]) {
        while !self.failed && self.calls.begun() < rounds {
            let values = self.rounds.begin_without_key(file_state(engine));
            self.post(engine, &values);
        }
        self.gather_up_to(engine, gathered);
    }

    fn post(&mut self, engine: &Engine, values: &Values) {
        if let Err(error) = self.calls.begin(|comm| comm.start_allreduce_min(values)) {
            self.fail(engine, &error);
        }
    }

    /// Takes the results that have come.
    pub fn hear(&mut self, engine: &Engine) {
        self.take(engine, CollectiveQueue::poll);
    }

    /// Whether results are still to come.
    fn is_waiting(&self) -> bool {
        let gathers =
            self.aggregation.as_ref().is_some_and(|aggregation| aggregation.calls.is_pending());
        !self.failed && (self.calls.is_pending() || gathers)
    }

    /// Takes results as `next` gives them, until it gives none.
    fn take(&mut self, engine: &Engine, next: QueueStep) {
        while !self.failed {
            match next(&mut self.calls) {
                Ok(None) => break,
                Ok(Some(least)) => self.apply(engine, &least),
                Err(error) => self.fail(engine, &error),
            }
        }
        while let Some(aggregation) = self.aggregation.as_mut().filter(|_| !self.failed) {
            match next(&mut aggregation.calls) {
                Ok(None) => break,
                Ok(Some(all)) => self.apply_gathered(engine, &all),
                Err(error) => self.fail(engine, &error),
            }
        }
    }

    fn apply(&mut self, engine: &Engine, least: &[i64]) {
        let Ok(least) = <&Values>::try_from(least) else {
            return;
        };
        let outcome = self.rounds.end(least);
        match outcome.disagreement {
            None => {}
            Some(Disagreement::Different) => {
                engine.telemetry().degrade(
                    "agreement",
                    "the processes take different checkpoints: old versions are not removed any \
                     more (max_versions, scratch_versions), because they may be the last that all \
                     have",
                );
            }
            Some(Disagreement::Withdrawn) => self.fail(engine, OTHER_HAS_FAILED),
        }
        for (common, learned) in engine.file_side().common().iter().zip(outcome.common) {
            common.lock().learn(learned);
        }
        if let Some((id, persist)) = outcome.persist {
            self.learn(engine, id, |deferred| {
                deferred.persist.get_or_insert(persist);
            });
        }
    }

    /// Adds to what is decided about a checkpoint's copy, and carries it out once all is decided.
    fn learn(&mut self, engine: &Engine, id: Id, what: impl FnOnce(&mut Deferred)) {
        let Some(deferred) = self.deferred.get_mut(&id) else {
            return;
        };
        what(deferred);
        if let Deferred { persist: Some(persist), place: Some(place) } = *deferred {
            self.deferred.remove(&id);
            self.rounds.decided(id);
            if !persist {
                return engine.checkpoints().want_no_persistent(id);
            }
            engine.file_side().want_persistent(id, place);
        }
    }

    /// Gives the agreement up, once. The others may wait for this process's next calls: one last call
    /// of each kind tells them, if MPI can still make it.
    fn fail(&mut self, engine: &Engine, why: impl Display) {
        if std::mem::replace(&mut self.failed, true) {
            return;
        }
        engine.telemetry().degrade(
            "agreement given up",
            format!(
                "the processes no longer agree on versions: {why}; old versions are not removed any more \
                 (max_versions, scratch_versions), and each checkpoint is copied to a persistent file of its own"
            ),
        );
        let _ = self.calls.begin(|comm| comm.start_allreduce_min(&WITHDRAWN));
        if let Some(aggregation) = &mut self.aggregation {
            let _ = aggregation.calls.begin(|comm| comm.start_allgather(&LAST_LENGTH));
            aggregation.awaited.clear();
        }
        self.decide_alone(engine);
    }

    /// Has every undecided checkpoint copied to a file of its own.
    fn decide_alone(&mut self, engine: &Engine) {
        let ids: Vec<Id> = self.deferred.keys().copied().collect();
        for id in ids {
            self.rounds.decided_alone(id);
            self.learn(engine, id, |deferred| {
                deferred.persist.get_or_insert(true);
                deferred.place.get_or_insert(None);
            });
        }
    }

    /// The application waits for its files: undecided checkpoints are copied. The results get a
    /// moment to come but are not waited for, as another process may wait for this one. Parts of
    /// aggregated files have no other way: their results are waited for.
    pub fn await_all(&mut self, engine: &Engine) {
        if self.aggregation.is_some() {
            return self.take(engine, CollectiveQueue::wait);
        }
        for _ in 0..POLLS {
            self.hear(engine);
            if !self.is_waiting() {
                break;
            }
            std::thread::yield_now();
        }
        self.decide_alone(engine);
    }

    /// Whether files are aggregated.
    pub fn aggregates(&self) -> bool {
        self.aggregation.is_some()
    }
}

/// The state of a checkpoint's file in each level, and of its parities.
fn file_state(engine: &Engine) -> impl Fn(Id, usize) -> FileState + '_ {
    |id, level| match level {
        0 => engine.checkpoints().file_state(id, FileLevel::Scratch),
        PARITIES => engine.file_side().parity_state(id),
        _ => engine.checkpoints().file_state(id, FileLevel::Persistent),
    }
}

/// A key of a checkpoint that is the same on every process (FNV-1a).
fn key(name: &str, version: i32) -> i64 {
    let bytes = name.bytes().chain([0]).chain(version.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash as i64
}
