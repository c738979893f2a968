//! Verifies the states of a run, if replays are verified.

use super::run::RunInProgress;
use super::state_hash::{hash_of, unstable};
use super::ClientAccess;
use errors::{Error, ErrorKind, Result};

impl<R: ClientAccess> RunInProgress<'_, R> {
    /// Checks the application's current state. Returns its hash.
    pub(super) fn verify(&mut self, state: u64) -> Result<Option<u64>> {
        let hash = self.hash(state)?;
        self.compare(state, hash)?;
        Ok(hash)
    }

    /// The hash of the application's current state, if replays are verified.
    pub(super) fn hash(&mut self, state: u64) -> Result<Option<u64>> {
        match self.hashes.replay.is_some() && self.others.failure.is_none() {
            true => hash_of(self.settings, self.problem, self.access, state).map(Some),
            false => Ok(None),
        }
    }

    /// The error for a restored state whose hash is not that when it was stored or, without one, when it
    /// was computed.
    ///
    /// # Errors
    /// The hash is unstable; the callback's.
    pub(super) fn damage(
        &mut self,
        state: u64,
        slot: u64,
        hash: Option<u64>,
        stored: Option<u64>,
    ) -> Result<Option<Error>> {
        let Some(hash) = hash else { return Ok(None) };
        let known = || Some((self.hashes.replay.as_ref()?.known(state)?, "computed"));
        let Some((before, when)) = stored.map(|stored| (stored, "stored")).or_else(known) else {
            return Ok(None);
        };
        if before == hash {
            return Ok(None);
        }
        let (settings, access) = (self.settings, self.access);
        if let Some(unstable) = unstable(settings, self.problem, access, state, hash)? {
            // The restored state may be right.
            return Err(unstable);
        }
        Ok(Some(Error::new(
            ErrorKind::Corrupt,
            format!(
                "state {state} has the hash {hash:#018x} after it was restored from slot \
                 {slot}, and had {before:#018x} when it was {when}: it was damaged there"
            ),
        )))
    }

    /// Checks a hash of the application's current state. If it differs, the state is hashed again: that
    /// tells whether the steps or the hash are at fault.
    pub(super) fn compare(&mut self, state: u64, hash: Option<u64>) -> Result<()> {
        let (Some(replay), Some(hash)) = (&mut self.hashes.replay, hash) else { return Ok(()) };
        let Err(differs) = replay.check_state(state, hash) else { return Ok(()) };
        let again = unstable(self.settings, self.problem, self.access, state, hash)?;
        Err(again.unwrap_or(differs))
    }

    /// The error for state `to`, which differs after one call from state `from`: with the first state that differs, if the
    /// steps are computed one by one. Several processes would have to do that together.
    pub(super) fn explained(&mut self, from: u64, to: u64, differs: Error) -> Error {
        if to - from < 2 || self.others.exchange.is_some() || differs.kind() != ErrorKind::Corrupt {
            return differs;
        }
        let stored = self.reached.slots.iter().filter(|(_, state)| **state <= from);
        let nearest = stored.max_by_key(|(_, state)| **state).map(|(slot, state)| (*state, *slot));
        let Some((state, slot)) = nearest else { return differs };
        let mut repeat = || -> Result<()> {
            self.restore(state, slot)?;
            for step in state..to {
                self.problem.forward(step, step + 1)?;
                self.verify(step + 1)?;
            }
            Ok(())
        };
        match repeat() {
            Err(first) => first,
            Ok(()) => differs.followed_by(format_args!(
                "it is the same if `forward` is called for each step, but not if one call computes all steps from \
                 state {from}"
            )),
        }
    }
}
