//! What the processes of an MPI job agree on: which versions all of them have, which checkpoints are
//! copied to persistent, and where each process's part of an aggregated file begins.
//!
//! Each checkpoint begins a round (`policy/rounds.rs`), and where files are aggregated a gathering
//! of their lengths. All calls of MPI are made from the application's own calls, and none waits
//! before the end of the job, unless the application waits for an aggregated file. A failure ends
//! the agreement, and nothing else: then no version is removed any more, and every checkpoint is
//! copied to a file of its own. A process on which MPI has failed goes on to begin as many calls as the
//! others (`mpi/series.rs`), which learn by them that it has given up.

mod aggregation;
mod ending;
mod tidings;

use std::collections::BTreeMap;
use std::fmt::Display;

use aggregation::Aggregation;
pub use ending::Standing;
use tidings::{on_this_node, News, NO_TIDINGS};

use crate::catalog::entry::{FileTier, Id};
use crate::catalog::state::State;
use crate::engine::shared::Shared;
use crate::error::Result;
use crate::mpi::{Comm, Series};
use crate::policy::rounds::{Breach, Common, Fate, Rounds, Values, GIVEN_UP, PARITIES};
use crate::tier::files::Place;

/// How often a result is asked for before the application's wait goes on without it.
const POLLS: usize = 100;

/// The agreement, as this process sees it.
#[derive(Debug)]
pub struct Agreement {
    rank: u32,
    ranks: u32,
    rounds: Rounds,
    /// The reductions of the rounds.
    calls: Series,
    aggregation: Option<Aggregation>,
    /// What is told between rounds, where room may depend on it.
    tidings: Option<News>,
    /// Checkpoints of which it is not known whether or where they are copied to persistent.
    deferred: BTreeMap<Id, Deferred>,
    /// The checkpoint that was begun and neither taken nor given up.
    open: Option<Id>,
    failed: bool,
}

/// Takes the next result of a series.
type Next = fn(&mut Series) -> Result<Option<Box<[i64]>>>;

/// What is known of a checkpoint's copy.
#[derive(Clone, Copy, Debug, Default)]
struct Deferred {
    /// Whether it is made.
    persist: Option<bool>,
    /// Where it goes; `Some(None)`: to a file of its own.
    place: Option<Option<Place>>,
}

impl Agreement {
    /// Over communicators of its own. Collective. `None` if there is nothing to agree on.
    pub fn start(comm: &Comm, engine: &Shared) -> Result<Option<Agreement>> {
        let config = &engine.config;
        let aggregated = config.aggregated && engine.files.has_persistent();
        let limits = config.max_versions > 0 || config.scratch_versions > 0;
        let at_all = limits || engine.persistence_depends_on_time();
        let (rank, ranks) = (comm.rank()?, comm.size()?);
        if config.ephemeral || !(aggregated || at_all && ranks > 1) {
            return Ok(None);
        }
        for common in &engine.common {
            *common.lock() = Common::default();
        }
        let aggregation = aggregated.then(|| Aggregation::start(comm, rank)).transpose()?;
        let tidings = (limits && ranks > 1).then(|| News::start(comm)).transpose()?;
        if tidings.is_some() {
            engine.others.begin([on_this_node(comm, engine)?, u64::from(ranks)]);
        }
        Ok(Some(Agreement {
            rank,
            ranks,
            rounds: Rounds::default(),
            calls: Series::of_least(comm.dup()?, &GIVEN_UP),
            aggregation,
            tidings,
            deferred: BTreeMap::new(),
            open: None,
            failed: false,
        }))
    }

    /// A checkpoint is about to begin on this process, and sooner or later on the others.
    pub fn begin(&mut self, engine: &Shared, name: &str, version: i32) {
        self.hear(engine);
        let key = key(name, version);
        // The first process's clock decides for all.
        let persist = (self.rank == 0).then(|| engine.is_to_persist());
        let values = self.rounds.begin(key, persist, fate(engine));
        self.post(engine, &values);
        if let Some(aggregation) = &mut self.aggregation {
            aggregation.owed = Some(key);
        }
    }

    /// It has begun. Whether it is copied to persistent when it is complete: not before it is
    /// decided if and where, or, `None`, as this process's own clock says.
    pub fn opened(&mut self, engine: &Shared, id: Id) -> Option<bool> {
        let by_time = engine.persistence_depends_on_time();
        let defers = !self.failed && (by_time || self.aggregation.is_some());
        self.rounds.opened(id, defers);
        if defers {
            let always = engine.config.persistent_interval.is_some();
            let place = if self.aggregation.is_some() { None } else { Some(None) };
            let persist = (!by_time).then_some(always);
            if persist == Some(true) {
                engine.catalog.step(|state| state.await_place(id));
            }
            self.deferred.insert(id, Deferred { persist, place });
        }
        self.open = Some(id);
        match (defers, by_time) {
            (true, _) => Some(false),
            // Nobody decides any more: each is copied.
            (false, true) => Some(true),
            (false, false) => None,
        }
    }

    /// How many rounds and gatherings of lengths this process has begun.
    pub fn begun(&self) -> [u64; 2] {
        let Standing { rounds, gathered, .. } = self.standing();
        [rounds, gathered]
    }

    /// Begins rounds and gatherings without a checkpoint until there are so many. To be called when another
    /// process has begun so many, of checkpoints that this one never takes: what comes next is the same
    /// for both again.
    pub fn even(&mut self, engine: &Shared, [rounds, gathered]: [u64; 2]) {
        while self.calls.count() < rounds {
            let values = self.rounds.begin_void(fate(engine));
            self.post(engine, &values);
        }
        self.gather_up_to(engine, gathered);
    }

    fn post(&mut self, engine: &Shared, values: &Values) {
        if let Err(error) = self.calls.begin(values) {
            self.fail(engine, &error);
        }
    }

    /// Waits for all results.
    fn hear_all(&mut self, engine: &Shared) {
        self.take(engine, Series::wait);
    }

    /// Takes results as `next` gives them, until it gives none.
    fn take(&mut self, engine: &Shared, next: Next) {
        loop {
            match next(&mut self.calls) {
                Ok(None) => break,
                Ok(Some(least)) => self.apply(engine, &least),
                Err(error) => self.fail(engine, &error),
            }
        }
        while let Some(found) =
            self.aggregation.as_mut().map(|aggregation| next(&mut aggregation.calls))
        {
            match found {
                Ok(None) => break,
                Ok(Some(all)) => self.apply_gathered(engine, &all),
                Err(error) => self.fail(engine, &error),
            }
        }
    }

    fn apply(&mut self, engine: &Shared, least: &[i64]) {
        let Ok(least) = <&Values>::try_from(least) else {
            return;
        };
        let outcome = self.rounds.end(least);
        match outcome.broke {
            None => {}
            Some(Breach::Different) => {
                engine.degrade(
                    "agreement",
                    "the processes take different checkpoints: old versions are not removed any \
                     more (max_versions, scratch_versions), because they may be the last that all \
                     have",
                );
                // Nothing goes that would be waited for.
                engine.others.end();
                engine.catalog.step(State::lose_patience);
            }
            Some(Breach::GivenUp) => self.fail(engine, "MPI has failed on another process"),
        }
        for (common, learned) in engine.common.iter().zip(outcome.common) {
            common.lock().learn(learned);
        }
        if let Some((id, persist)) = outcome.persist {
            self.learn(engine, id, |deferred| {
                deferred.persist.get_or_insert(persist);
            });
        }
    }

    /// Adds to what is known of a checkpoint's copy. Once all is, it is made.
    fn learn(&mut self, engine: &Shared, id: Id, what: impl FnOnce(&mut Deferred)) {
        let Some(deferred) = self.deferred.get_mut(&id) else {
            return;
        };
        what(deferred);
        if let Deferred { persist: Some(persist), place: Some(place) } = *deferred {
            self.deferred.remove(&id);
            self.rounds.decided(id);
            if persist {
                engine.catalog.step(|state| state.want_persistent(id, place));
            }
        }
    }

    fn fail(&mut self, engine: &Shared, why: impl Display) {
        engine.degrade("agreement", format!("the processes agree on nothing any more: {why}"));
        engine.others.end();
        engine.catalog.step(State::lose_patience);
        if let Some(news) = self.tidings.as_mut().filter(|_| !self.failed) {
            news.calls.give_up();
            // So that those who wait for what is told hear of it.
            let _ = news.calls.begin(&NO_TIDINGS);
        }
        self.failed = true;
        self.calls.give_up();
        if let Some(aggregation) = &mut self.aggregation {
            aggregation.calls.give_up();
            aggregation.awaited.clear();
        }
        self.decide_alone(engine);
    }

    /// Everything that is undecided is copied, to a file of its own.
    fn decide_alone(&mut self, engine: &Shared) {
        let ids: Vec<Id> = self.deferred.keys().copied().collect();
        for id in ids {
            self.rounds.decided_alone(id);
            self.learn(engine, id, |deferred| {
                deferred.persist.get_or_insert(true);
                deferred.place.get_or_insert(None);
            });
        }
    }

    /// The application waits for its files. What is undecided is copied: the results get a moment
    /// to come, but are not waited for, as another process may wait for this one. Parts of
    /// aggregated files have no other way: they are waited for.
    pub fn settle(&mut self, engine: &Shared) {
        if self.aggregation.is_some() {
            return self.hear_all(engine);
        }
        for _ in 0..POLLS {
            self.hear(engine);
            if !self.calls.is_waiting() {
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

/// What becomes of a checkpoint's file in a tier, or of its parities.
fn fate(engine: &Shared) -> impl Fn(Id, usize) -> Fate + '_ {
    |id, tier| match tier {
        0 => engine.catalog.look(|state: &State| state.fate(id, FileTier::Scratch)),
        PARITIES => engine.fate_of_parities(id),
        _ => engine.catalog.look(|state: &State| state.fate(id, FileTier::Persistent)),
    }
}

/// Tells a checkpoint from others, the same on every process (FNV-1a).
fn key(name: &str, version: i32) -> i64 {
    let bytes = name.bytes().chain([0]).chain(version.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash as i64
}
