//! What the processes tell each other between rounds, where room may depend on it.

use std::os::unix::fs::MetadataExt as _;

use super::{fate, Agreement};
use crate::catalog::entry::FileTier;
use crate::engine::shared::Shared;
use crate::error::Result;
use crate::mpi::{Comm, Series};
use crate::policy::rounds::{Tidings, TIERS};

/// What the processes tell each other between rounds: each begins the next reduction in the first call
/// after the last one has ended.
#[derive(Debug)]
pub(super) struct News {
    pub(super) calls: Series,
    /// This process waits for none any more.
    pub(super) idle: bool,
    /// Nobody does.
    pub(super) all_idle: bool,
}

/// How much is passed for whether a process still agrees, and whether it waits for no room.
const STATES: usize = 2;

/// What a process passes between rounds that has given up.
pub(super) const NO_TIDINGS: [i64; STATES + 2 * TIERS] = [0; STATES + 2 * TIERS];

impl News {
    pub(super) fn start(comm: &Comm) -> Result<News> {
        let calls = Series::of_least(comm.dup()?, &NO_TIDINGS);
        Ok(News { calls, idle: false, all_idle: false })
    }
}

impl Agreement {
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

    pub(super) fn apply_tidings(&mut self, engine: &Shared, least: &[i64]) {
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
}

/// How many processes have their scratch directory on the file system of this one's. Collective.
pub(super) fn on_this_node(comm: &Comm, engine: &Shared) -> Result<u64> {
    let scratch = engine.files.directory(FileTier::Scratch);
    let device = scratch.and_then(|scratch| std::fs::metadata(scratch).ok()).map_or(0, |m| m.dev());
    let system = rustix::system::uname();
    let mine = [&device.to_le_bytes(), system.nodename().to_bytes()].concat();
    let all = comm.allgather(&mine)?;
    Ok(all.iter().filter(|other| **other == mine).count() as u64)
}
