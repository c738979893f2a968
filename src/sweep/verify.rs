//! Whether a run's states are what they were, where replays are verified.

use super::run::Sweep;
use super::start::hash_of;
use super::Reach;
use crate::error::Result;

impl<R: Reach> Sweep<'_, R> {
    /// Compares the state that the application has with what it was the first time. Its hash.
    pub(super) fn meet(&mut self, state: u64) -> Result<Option<u64>> {
        let hash = self.hash()?;
        self.compare(state, hash)?;
        Ok(hash)
    }

    /// The hash of the state that the application has, where replays are verified.
    pub(super) fn hash(&mut self) -> Result<Option<u64>> {
        match self.replay.is_some() && self.failure.is_none() {
            true => hash_of(self.settings, self.problem, self.reach).map(Some),
            false => Ok(None),
        }
    }

    pub(super) fn compare(&mut self, state: u64, hash: Option<u64>) -> Result<()> {
        match (&mut self.replay, hash) {
            (Some(replay), Some(hash)) => {
                let met = replay.meet(state, hash);
                self.bear(met)
            }
            _ => Ok(()),
        }
    }
}
