//! What the processes of an MPI job agree on: which versions all of them have, which checkpoints are
//! copied to persistent, and where each process's part of an aggregated file begins.
//!
//! Each checkpoint begins a round (`policy/rounds.rs`), and where files are aggregated a gathering
//! of their lengths. All calls of MPI are made from the application's own calls, and none waits
//! before the end of the job, unless the application waits for an aggregated file. A failure ends
//! the agreement, and nothing else: then no version is removed any more, and every checkpoint is
//! copied to a file of its own. A process on which MPI has failed goes on to begin as many calls as the
//! others (`mpi/series.rs`), which learn by them that it has given up.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::os::unix::fs::MetadataExt as _;

use super::farewell::Farewell;
use crate::catalog::entry::{FileTier, Id};
use crate::catalog::state::State;
use crate::engine::shared::Shared;
use crate::error::Result;
use crate::mpi::{Comm, Series};
use crate::policy::rounds::{
    Breach, Common, Fate, Rounds, Tidings, Values, GIVEN_UP, PARITIES, TIERS, VALUES,
};
use crate::tier::files::Place;

/// How often a result is asked for before the application's wait goes on without it.
const POLLS: usize = 100;

/// What is passed for the length of a checkpoint that a process could not take.
const NOT_TAKEN: i64 = -1;

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

/// How far a process has come, or how far one of all has at the most.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Rounds that were begun.
    pub rounds: u64,
    /// Gatherings of lengths that were begun.
    pub gathered: u64,
    /// It still agrees, or all do.
    pub agrees: bool,
}

/// Takes the next result of a series.
type Next = fn(&mut Series) -> Result<Option<Box<[i64]>>>;

/// The lengths that the processes tell each other.
#[derive(Debug)]
struct Aggregation {
    calls: Series,
    /// Tells this job's files from others'.
    job: u32,
    /// The checkpoints whose gatherings are under way, and the numbers of these.
    awaited: VecDeque<(u64, Option<Id>)>,
    /// The checkpoint that was begun and whose length was not told yet.
    owed: Option<i64>,
}

/// What the processes tell each other between rounds: each begins the next reduction in the first call
/// after the last one has ended.
#[derive(Debug)]
struct News {
    calls: Series,
    /// This process waits for none any more.
    idle: bool,
    /// Nobody does.
    all_idle: bool,
}

/// How much is passed for whether a process still agrees, and whether it waits for no room.
const STATES: usize = 2;

/// What a process passes between rounds that has given up.
const NO_TIDINGS: [i64; STATES + 2 * TIERS] = [0; STATES + 2 * TIERS];

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

    /// It was taken, with a file of so many bytes; `None`: it was not, or is not to be aggregated.
    pub fn taken(&mut self, engine: &Shared, taken: Option<(Id, u64)>) {
        if let Some(id) = self.open.take().filter(|_| taken.is_none()) {
            // Given up: there is nothing to copy, and nothing that others wait for.
            self.learn(engine, id, |deferred| {
                *deferred = Deferred { persist: Some(false), place: Some(None) };
            });
        }
        let Some(aggregation) = &mut self.aggregation else {
            return;
        };
        let Some(key) = aggregation.owed.take() else {
            return;
        };
        let len = taken.map_or(NOT_TAKEN, |(_, len)| i64::try_from(len).unwrap_or(NOT_TAKEN));
        let begun = aggregation.calls.begin(&[key, len]);
        let awaited = (aggregation.calls.count(), taken.map(|(id, _)| id));
        match begun {
            Ok(()) if self.failed => {}
            Ok(()) => aggregation.awaited.push_back(awaited),
            Err(error) => self.fail(engine, &error),
        }
    }

    /// A checkpoint that is a file of the application's own: it is copied to where that belongs.
    pub fn taken_alone(&mut self, engine: &Shared, id: Id) {
        self.open = None;
        self.taken(engine, None);
        self.learn(engine, id, |deferred| deferred.place = Some(None));
    }

    fn post(&mut self, engine: &Shared, values: &Values) {
        if let Err(error) = self.calls.begin(values) {
            self.fail(engine, &error);
        }
    }

    /// Takes the results that have come, and tells the others what has changed since the last time.
    pub fn hear(&mut self, engine: &Shared) {
        self.take(engine, Series::poll);
        while let Some(found) = self.tidings.as_mut().map(|news| news.calls.poll()) {
            match found {
                Ok(None) => break,
                Ok(Some(least)) => self.apply_tidings(engine, &least),
                Err(error) => self.fail(engine, &error),
            }
        }
        let Some(news) = &mut self.tidings else { return };
        if self.failed || news.all_idle || news.calls.is_waiting() {
            return;
        }
        let mut told = NO_TIDINGS;
        told[..STATES].copy_from_slice(&[1, i64::from(news.idle)]);
        told[STATES..].copy_from_slice(&self.rounds.tidings(fate(engine)));
        if let Err(error) = news.calls.begin(&told) {
            self.fail(engine, &error);
        }
    }

    fn apply_tidings(&mut self, engine: &Shared, least: &[i64]) {
        let (&[agree, idle], tidings) =
            least.split_first_chunk::<STATES>().unwrap_or((&[0, 0], &[]));
        let Ok(tidings) = <&Tidings>::try_from(tidings) else { return };
        if agree == 0 {
            return self.fail(engine, "MPI has failed on another process");
        }
        if let Some(news) = &mut self.tidings {
            news.all_idle = idle == 1;
        }
        for (common, learned) in engine.common.iter().zip(self.rounds.hear_tidings(tidings)) {
            common.lock().learn(learned);
        }
    }

    /// Takes part in what is told between rounds until nobody waits for room any more; `idle`: this
    /// process does not. Whether that is so. Collective: at the end of the job.
    pub fn rest(&mut self, engine: &Shared, idle: bool) -> bool {
        if let Some(news) = &mut self.tidings {
            news.idle = idle;
        }
        self.hear(engine);
        self.failed || self.tidings.as_ref().is_none_or(|news| news.all_idle)
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

    /// Takes the lengths of the first gathering: each process's key and length.
    fn apply_gathered(&mut self, engine: &Shared, all: &[i64]) {
        let first = self.aggregation.as_mut().and_then(|aggregation| {
            let (attempt, id) = aggregation.awaited.pop_front()?;
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

    /// How many rounds and gatherings this process has begun, and whether it still agrees: what
    /// [`Agreement::conclude`] needs to know of all.
    pub fn standing(&self) -> Standing {
        let gathered = self.aggregation.as_ref().map_or(0, |aggregation| aggregation.calls.count());
        Standing { rounds: self.calls.count(), gathered, agrees: !self.failed }
    }

    /// Ends all rounds, so that everything is decided. `most` is the most that a process has begun, if
    /// that is known, and whether all of them agree. Collective: at the end of the job.
    pub fn conclude(
        &mut self,
        engine: &Shared,
        farewell: &mut Farewell<'_>,
        most: Result<Standing>,
    ) {
        match &most {
            Ok(Standing { agrees: true, .. }) => {}
            Ok(_) => self.fail(engine, "MPI has failed on another process"),
            Err(error) => self.fail(engine, error),
        }
        let most = most.unwrap_or_else(|_| self.standing());
        // A process that took fewer checkpoints begins the rounds that the others wait for.
        while self.calls.count() < most.rounds {
            let values = self.rounds.begin_last(fate(engine));
            self.post(engine, &values);
        }
        while self.standing().gathered < most.gathered {
            if let Some(aggregation) = &mut self.aggregation {
                aggregation.owed = Some(0);
            }
            self.taken(engine, None);
        }
        // Only now is it certain that results come.
        let whole = farewell.least([i64::from(self.is_whole())]);
        match whole {
            Ok([1]) => self.hear_all(engine),
            Ok(_) => self.fail(engine, "MPI has failed on another process"),
            Err(error) => self.fail(engine, error),
        }
    }

    fn is_whole(&self) -> bool {
        let gathers = self.aggregation.as_ref().map(|aggregation| &aggregation.calls);
        let tidings = self.tidings.as_ref().map(|news| &news.calls);
        self.calls.is_whole() && [gathers, tidings].into_iter().flatten().all(Series::is_whole)
    }

    /// Learns what all have in the end; `drained`: this process has no file under way any more.
    /// Collective.
    pub fn finish(
        mut self,
        engine: &Shared,
        farewell: &mut Farewell<'_>,
        drained: bool,
    ) -> Result<()> {
        let values = if self.failed { GIVEN_UP } else { self.rounds.begin_last(fate(engine)) };
        let mut told = [0; VALUES + 2];
        told[..VALUES].copy_from_slice(&values);
        told[VALUES..].copy_from_slice(&[i64::from(drained), i64::from(self.is_whole())]);
        let least = farewell.least(told)?;
        let (drained, agrees) = (least[VALUES] == 1, least[VALUES + 1] == 1);
        let job = self.aggregation.as_ref().map(|aggregation| aggregation.job);
        let tidied = match job.filter(|_| drained) {
            // Some have copied their parts to where the others have not.
            Some(_) if !agrees => engine.files.rescue_parts(),
            Some(job) if self.rank == 0 => engine.files.remove_incomplete(job),
            _ => Ok(()),
        };
        // Otherwise calls may be under way, which keep the communicators.
        if agrees {
            self.apply(engine, &least[..VALUES]);
            self.aggregation.map_or(Ok(()), |aggregation| aggregation.calls.free())?;
            self.tidings.map_or(Ok(()), |news| news.calls.free())?;
            self.calls.free()?;
        }
        tidied
    }
}

impl Aggregation {
    fn start(comm: &Comm, rank: u32) -> Result<Aggregation> {
        let random = RandomState::new().build_hasher().finish();
        let mine = if rank == 0 { i64::from(random as u32) } else { i64::MAX };
        let job = comm.allreduce_min_i64(mine)? as u32;
        let calls = Series::of_all(comm.dup()?, &[GIVEN_UP[0], NOT_TAKEN]);
        Ok(Aggregation { calls, job, awaited: VecDeque::new(), owed: None })
    }
}

impl News {
    fn start(comm: &Comm) -> Result<News> {
        let calls = Series::of_least(comm.dup()?, &NO_TIDINGS);
        Ok(News { calls, idle: false, all_idle: false })
    }
}

/// How many processes have their scratch directory on the file system of this one's. Collective.
fn on_this_node(comm: &Comm, engine: &Shared) -> Result<u64> {
    let scratch = engine.files.directory(FileTier::Scratch);
    let device = scratch.and_then(|scratch| std::fs::metadata(scratch).ok()).map_or(0, |m| m.dev());
    let system = rustix::system::uname();
    let mine = [&device.to_le_bytes(), system.nodename().to_bytes()].concat();
    let all = comm.allgather(&mine)?;
    Ok(all.iter().filter(|other| **other == mine).count() as u64)
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
