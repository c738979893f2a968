//! What the processes of an MPI job agree on: who posts the rounds of `policy/rounds.rs`, and what
//! their results do.
//!
//! All calls of MPI are made from the application's own calls, and none waits before the end of the
//! job. A failure ends the agreement, and nothing else: then no version is removed any more, and
//! every checkpoint that is undecided is copied.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use crate::catalog::entry::{FileTier, Id};
use crate::catalog::state::State;
use crate::engine::Engine;
use crate::error::Result;
use crate::mpi::{Comm, Pending};
use crate::policy::rounds::{Rounds, Values};

/// How often a result is asked for before the application's wait goes on without it.
const POLLS: usize = 100;

/// The rounds of this process.
#[derive(Debug)]
pub struct Agreement {
    comm: Comm,
    /// Its clock decides for all.
    decides: bool,
    rounds: Rounds,
    posted: VecDeque<Pending>,
    failed: bool,
}

impl Agreement {
    /// Over a communicator of its own. Collective. `None` if there is nothing to agree on.
    pub fn start(comm: &Comm, engine: &Engine) -> Result<Option<Agreement>> {
        let config = &engine.config;
        let limits = config.max_versions > 0 || config.scratch_versions > 0;
        let at_all = limits || engine.persistence_depends_on_time();
        if config.ephemeral || !at_all || comm.size()? == 1 {
            return Ok(None);
        }
        for agreed in &engine.agreed {
            agreed.store(0, Ordering::Release);
        }
        Ok(Some(Agreement {
            decides: comm.rank()? == 0,
            comm: comm.dup()?,
            rounds: Rounds::default(),
            posted: VecDeque::new(),
            failed: false,
        }))
    }

    /// A checkpoint is about to begin on this process, and sooner or later on the others.
    pub fn begin(&mut self, engine: &Engine, name: &str, version: i32) {
        self.hear(engine);
        let persist = self.decides.then(|| engine.is_to_persist());
        let values = self.rounds.begin(key(name, version), persist, settled(engine));
        self.post(engine, &values);
    }

    /// It has begun. Whether its copy to persistent will be decided on by the round.
    pub fn opened(&mut self, engine: &Engine, id: Id) -> bool {
        let undecided = !self.failed && engine.persistence_depends_on_time();
        self.rounds.opened(id, undecided);
        undecided
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
                Ok(None) => return,
                Ok(Some(least)) => {
                    self.posted.pop_front();
                    self.apply(engine, &least);
                }
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
        for (agreed, id) in engine.agreed.iter().zip(outcome.agreed) {
            agreed.fetch_max(id.unwrap_or(0), Ordering::AcqRel);
        }
        if let Some((id, true)) = outcome.persist {
            engine.catalog.step(|state| state.want_persistent(id));
        }
    }

    fn fail(&mut self, engine: &Engine, error: &crate::error::Error) {
        engine.degrade("agreement", format!("the processes agree on nothing any more: {error}"));
        self.failed = true;
        self.posted.clear();
        self.decide_alone(engine);
    }

    /// The application waits for its files: what is undecided is copied. The results get a moment
    /// to come, but are not waited for: another process may wait for this one.
    pub fn decide_alone(&mut self, engine: &Engine) {
        for _ in 0..POLLS {
            self.hear(engine);
            if self.posted.is_empty() {
                break;
            }
            std::thread::yield_now();
        }
        for id in self.rounds.decide_alone() {
            engine.catalog.step(|state| state.want_persistent(id));
        }
    }

    /// Ends all rounds, so that everything is decided. Collective: at the end of the job.
    pub fn conclude(&mut self, engine: &Engine) -> Result<()> {
        // A process that took fewer checkpoints begins the rounds that the others wait for.
        let most = -self.comm.allreduce_min_i64(-(self.rounds.begun() as i64))?;
        while (self.rounds.begun() as i64) < most {
            let values = self.rounds.begin_last(settled(engine));
            self.post(engine, &values);
        }
        for pending in std::mem::take(&mut self.posted) {
            if let Some(least) = pending.wait()? {
                self.apply(engine, &least);
            }
        }
        Ok(())
    }

    /// Learns what all have in the end. Collective.
    pub fn finish(mut self, engine: &Engine) -> Result<()> {
        let values = self.rounds.begin_last(settled(engine));
        self.post(engine, &values);
        self.conclude(engine)?;
        self.comm.free()
    }
}

/// Whether a checkpoint is in a tier, or will never be.
fn settled(engine: &Engine) -> impl Fn(Id, usize) -> bool + '_ {
    |id, tier| {
        let tier = if tier == 0 { FileTier::Scratch } else { FileTier::Persistent };
        engine.catalog.look(|state: &State| state.is_settled(id, tier))
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
