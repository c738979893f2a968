//! Whether a run's states are what they were, where replays are verified.

use super::run::Sweep;
use super::start::hash_of;
use super::Reach;
use crate::error::{Error, Kind, Result};

impl<R: Reach> Sweep<'_, R> {
    /// Compares the state that the application has with what it was the first time. Its hash.
    pub(super) fn meet(&mut self, state: u64) -> Result<Option<u64>> {
        let hash = self.hash(state)?;
        self.compare(state, hash)?;
        Ok(hash)
    }

    /// The hash of the state that the application has, which is this one, where replays are verified.
    pub(super) fn hash(&mut self, state: u64) -> Result<Option<u64>> {
        match self.replay.is_some() && self.failure.is_none() {
            true => hash_of(self.settings, self.problem, self.reach, state).map(Some),
            false => Ok(None),
        }
    }

    /// What is wrong with a state that was restored from a version, if its hash says so: it is another than
    /// when it was stored or, if it was stored without one, than when it was computed.
    pub(super) fn damage(
        &self,
        state: u64,
        version: u64,
        hash: Option<u64>,
        stored: Option<u64>,
    ) -> Option<Error> {
        let hash = hash?;
        let (before, when) = match stored {
            Some(stored) => (stored, "stored"),
            None => (self.replay.as_ref()?.known(state)?, "computed"),
        };
        (before != hash).then(|| {
            Error::new(
                Kind::Corrupt,
                format!(
                    "state {state} has the hash {hash:#018x} after it was restored from slot \
                     {version}, and had {before:#018x} when it was {when}: it was damaged there"
                ),
            )
        })
    }

    /// Removes what was found to be damaged: a later run would come to it again.
    pub(super) fn remove_damaged(&mut self) {
        let (name, damaged) = (&self.settings.name, std::mem::take(&mut self.damaged));
        for version in damaged {
            if let Err(error) = self.reach.with(|client| client.remove(name, version)) {
                log::warn!(
                    "\"{name}\" version {version} is damaged and remains, for a later run to come to: {error}"
                );
            }
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
