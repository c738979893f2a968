//! What the processes of an MPI job agree on: which versions all of them have, which checkpoints are
//! copied to persistent, and where each process's part of an aggregated file begins.
//!
//! Each checkpoint begins a round (`policy/rounds.rs`), and where files are aggregated a gathering
//! of their lengths. All calls of MPI are made from the application's own calls, and none waits
//! before the end of the job, unless the application waits for an aggregated file. A failure ends
//! the agreement, and nothing else: then no version is removed any more, and every checkpoint is
//! copied to a file of its own.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use crate::catalog::entry::{FileTier, Id};
use crate::catalog::state::State;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::mpi::{Comm, Pending};
use crate::policy::rounds::{Common, Fate, Rounds, Values, PARITIES};
use crate::tier::files::Place;

/// How often a result is asked for before the application's wait goes on without it.
const POLLS: usize = 100;

/// What is passed for the length of a checkpoint that a process could not take.
const NOT_TAKEN: i64 = -1;

/// The agreement, as this process sees it.
#[derive(Debug)]
pub struct Agreement {
    comm: Comm,
    rank: u32,
    ranks: u32,
    rounds: Rounds,
    posted: VecDeque<Pending>,
    aggregation: Option<Aggregation>,
    /// Checkpoints of which it is not known whether or where they are copied to persistent.
    deferred: BTreeMap<Id, Deferred>,
    /// The checkpoint that was begun and neither taken nor given up.
    open: Option<Id>,
    failed: bool,
}

/// The lengths that the processes tell each other.
#[derive(Debug)]
struct Aggregation {
    comm: Comm,
    /// Tells this job's files from others'.
    job: u32,
    begun: u64,
    posted: VecDeque<(Pending, u64, Option<Id>)>,
    /// The checkpoint that was begun and whose length was not told yet.
    owed: Option<i64>,
}

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
    pub fn start(comm: &Comm, engine: &Engine) -> Result<Option<Agreement>> {
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
        Ok(Some(Agreement {
            comm: comm.dup()?,
            rank,
            ranks,
            rounds: Rounds::default(),
            posted: VecDeque::new(),
            aggregation,
            deferred: BTreeMap::new(),
            open: None,
            failed: false,
        }))
    }

    /// A checkpoint is about to begin on this process, and sooner or later on the others.
    pub fn begin(&mut self, engine: &Engine, name: &str, version: i32) {
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
    pub fn opened(&mut self, engine: &Engine, id: Id) -> Option<bool> {
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

    /// It was taken, with a file of so many bytes; `None`: it was not, or is not to be aggregated.
    pub fn taken(&mut self, engine: &Engine, taken: Option<(Id, u64)>) {
        if let Some(id) = self.open.take().filter(|_| taken.is_none()) {
            // Given up: there is nothing to copy, and nothing that others wait for.
            self.learn(engine, id, |deferred| {
                *deferred = Deferred { persist: Some(false), place: Some(None) };
            });
        }
        let Some(aggregation) = &mut self.aggregation else {
            return;
        };
        let Some(key) = aggregation.owed.take().filter(|_| !self.failed) else {
            return;
        };
        let len = taken.map_or(NOT_TAKEN, |(_, len)| i64::try_from(len).unwrap_or(NOT_TAKEN));
        aggregation.begun += 1;
        match aggregation.comm.begin_gather(&[key, len]) {
            Ok(pending) => {
                let id = taken.map(|(id, _)| id);
                aggregation.posted.push_back((pending, aggregation.begun, id));
            }
            Err(error) => self.fail(engine, &error),
        }
    }

    /// A checkpoint that is a file of the application's own: it is copied to where that belongs.
    pub fn taken_alone(&mut self, engine: &Engine, id: Id) {
        self.open = None;
        self.taken(engine, None);
        self.learn(engine, id, |deferred| deferred.place = Some(None));
    }

    fn post(&mut self, engine: &Engine, values: &Values) {
        if self.failed {
            return;
        }
        match self.comm.begin_least(values) {
            Ok(pending) => self.posted.push_back(pending),
            Err(error) => self.fail(engine, &error),
        }
    }

    /// Takes the results that have come.
    pub fn hear(&mut self, engine: &Engine) {
        while let Some(first) = self.posted.front_mut() {
            match first.poll() {
                Ok(None) => break,
                Ok(Some(least)) => {
                    self.posted.pop_front();
                    self.apply(engine, &least);
                }
                Err(error) => return self.fail(engine, &error),
            }
        }
        while let Some((first, ..)) =
            self.aggregation.as_mut().and_then(|aggregation| aggregation.posted.front_mut())
        {
            match first.poll() {
                Ok(None) => break,
                Ok(Some(all)) => self.apply_gathered(engine, &all),
                Err(error) => return self.fail(engine, &error),
            }
        }
    }

    fn apply(&mut self, engine: &Engine, least: &[i64]) {
        let Ok(least) = <&Values>::try_from(least) else {
            return;
        };
        let outcome = self.rounds.end(least);
        if outcome.broke {
            engine.degrade(
                "agreement",
                "the processes take different checkpoints: old versions are not removed any more \
                 (max_versions, scratch_versions), because they may be the last that all have",
            );
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

    /// Takes the lengths of the first gathering: each process's key and length.
    fn apply_gathered(&mut self, engine: &Engine, all: &[i64]) {
        let first = self.aggregation.as_mut().and_then(|aggregation| {
            let (_, attempt, id) = aggregation.posted.pop_front()?;
            Some((aggregation.job, attempt, id?))
        });
        let Some((job, attempt, id)) = first else {
            return;
        };
        let lines: Vec<(i64, u64)> = all
            .chunks_exact(2)
            .filter_map(|line| Some((line[0], u64::try_from(line[1]).ok()?)))
            .collect();
        let same = lines.iter().all(|line| line.0 == lines[0].0);
        let place = (same && lines.len() == self.ranks as usize).then(|| {
            let offset = lines[..self.rank as usize].iter().map(|line| line.1).sum();
            Place { offset, ranks: self.ranks, job, attempt }
        });
        if place.is_none() {
            engine.degrade(
                "aggregation",
                "a checkpoint that not all processes have taken is not aggregated: each of them \
                 copies it to a file of its own",
            );
        }
        self.learn(engine, id, |deferred| deferred.place = Some(place));
    }

    /// Adds to what is known of a checkpoint's copy. Once all is, it is made.
    fn learn(&mut self, engine: &Engine, id: Id, what: impl FnOnce(&mut Deferred)) {
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

    fn fail(&mut self, engine: &Engine, error: &Error) {
        engine.degrade("agreement", format!("the processes agree on nothing any more: {error}"));
        self.failed = true;
        self.posted.clear();
        if let Some(aggregation) = &mut self.aggregation {
            aggregation.posted.clear();
        }
        self.decide_alone(engine);
    }

    /// Everything that is undecided is copied, to a file of its own.
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

    /// The application waits for its files. What is undecided is copied: the results get a moment
    /// to come, but are not waited for, as another process may wait for this one. Parts of
    /// aggregated files have no other way: they are waited for.
    pub fn settle(&mut self, engine: &Engine) {
        if self.aggregation.is_some() {
            if let Err(error) = self.hear_all(engine) {
                self.fail(engine, &error);
            }
            return;
        }
        for _ in 0..POLLS {
            self.hear(engine);
            if self.posted.is_empty() {
                break;
            }
            std::thread::yield_now();
        }
        self.decide_alone(engine);
    }

    /// Waits for all results.
    fn hear_all(&mut self, engine: &Engine) -> Result<()> {
        while let Some(mut pending) = self.posted.pop_front() {
            if let Some(least) = pending.wait()? {
                self.apply(engine, &least);
            }
        }
        while let Some((first, ..)) =
            self.aggregation.as_mut().and_then(|aggregation| aggregation.posted.front_mut())
        {
            if let Some(all) = first.wait()? {
                self.apply_gathered(engine, &all);
            }
        }
        Ok(())
    }

    /// Whether files are aggregated.
    pub fn aggregates(&self) -> bool {
        self.aggregation.is_some()
    }

    /// Ends all rounds, so that everything is decided. Collective: at the end of the job.
    pub fn conclude(&mut self, engine: &Engine) -> Result<()> {
        // A process that took fewer checkpoints begins the rounds that the others wait for.
        let most = -self.comm.allreduce_min_i64(-(self.rounds.begun() as i64))?;
        while (self.rounds.begun() as i64) < most {
            let values = self.rounds.begin_last(fate(engine));
            self.post(engine, &values);
            if let Some(aggregation) = &mut self.aggregation {
                aggregation.owed = Some(0);
            }
            self.taken(engine, None);
        }
        self.hear_all(engine)
    }

    /// Learns what all have in the end; `drained`: this process has no file under way any more.
    /// Collective.
    pub fn finish(mut self, engine: &Engine, drained: bool) -> Result<()> {
        let values = self.rounds.begin_last(fate(engine));
        self.post(engine, &values);
        self.hear_all(engine)?;
        if let Some(aggregation) = self.aggregation {
            let all = aggregation.comm.allreduce_min_i64(i64::from(drained))? == 1;
            if all && self.rank == 0 {
                engine.files.remove_incomplete(aggregation.job)?;
            }
            aggregation.comm.free()?;
        }
        self.comm.free()
    }
}

impl Aggregation {
    fn start(comm: &Comm, rank: u32) -> Result<Aggregation> {
        let random = RandomState::new().build_hasher().finish();
        let mine = if rank == 0 { i64::from(random as u32) } else { i64::MAX };
        let job = comm.allreduce_min_i64(mine)? as u32;
        Ok(Aggregation { comm: comm.dup()?, job, begun: 0, posted: VecDeque::new(), owed: None })
    }
}

/// What becomes of a checkpoint's file in a tier, or of its parities.
fn fate(engine: &Engine) -> impl Fn(Id, usize) -> Fate + '_ {
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
