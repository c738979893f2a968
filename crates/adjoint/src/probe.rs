//! Two looks at each new run, whose cost is small beside its steps: whether `forward` changes the state at all, and
//! whether it computes the same again. A run that fails one of them has a wrong adjoint: it is warned, and goes on,
//! or ends, if its replays are verified.

use super::run::RunInProgress;
use super::ClientAccess;
use errors::{Error, ErrorKind, Result};

/// Steps that are computed twice: an odd number, so that two buffers have changed places.
pub(super) const PROBE: u64 = 3;
/// The least steps of a run for which so many more do not matter.
const LEAST_FOR_PROBE: u64 = 300;
/// The least steps of a run for which a hash of the state does not matter.
const LEAST_FOR_HASH: u64 = 20;

/// What is still to be looked at.
#[derive(Debug)]
pub(super) struct RunProbe {
    /// The first steps are to be computed twice.
    repeats: bool,
    /// The state is to be hashed before the first step.
    hashes: bool,
    /// The hash of state 0, as long as no other state had another one.
    unchanged: Option<u64>,
}

impl RunProbe {
    /// For a run of `steps` steps, which begins anew if `fresh`. `verified`: all of its replays are compared, in the
    /// run's own calls or, of several processes (`together`), step by step, which says less. `exact`: a state that is
    /// restored is as it was.
    pub(super) fn new(
        steps: u64,
        fresh: bool,
        verified: bool,
        together: bool,
        exact: bool,
    ) -> RunProbe {
        let pays = if verified { together } else { steps >= LEAST_FOR_PROBE };
        RunProbe {
            repeats: fresh && pays && exact,
            hashes: fresh && steps >= LEAST_FOR_HASH,
            unchanged: None,
        }
    }
}

impl<R: ClientAccess> RunInProgress<'_, R> {
    /// Whether the first steps, from state 0 towards `to`, are to be computed twice.
    pub(super) fn repeats(&self, from: u64, to: u64) -> bool {
        from == 0 && to >= PROBE && self.hashes.probe.repeats && self.slot_of_first().is_some()
    }

    /// Computes the first steps in one call, and again, from the stored state 0, one by one.
    pub(super) fn forward_twice(&mut self) -> Result<()> {
        self.hashes.probe.repeats = false;
        self.reached.at = None;
        self.problem.forward(0, PROBE)?;
        let once = self.digest(PROBE)?;
        if let Some(slot) = self.slot_of_first() {
            let restored = self.restore(0, slot);
            self.defer_failure(restored)?;
            self.synchronize()?;
        }
        self.reached.at = None;
        for step in 0..PROBE {
            self.problem.forward(step, step + 1)?;
            let verified = self.verify(step + 1);
            self.defer_failure(verified.map(drop))?;
        }
        if self.others.failure.is_some() || self.digest(PROBE)? == once {
            return Ok(());
        }
        let text = format!(
            "state {PROBE}, computed again from state 0, is not what it was the first time, so the adjoint will be wrong: \
             `forward` must compute the same from a restored state, with any number of steps in a call (what else does \
             it change, and is not protected? random numbers, counters, a second buffer, a first step of its own in \
             each call?)"
        );
        if self.hashes.replay.is_some() {
            return self.defer_failure(Err(Error::new(ErrorKind::Corrupt, text)));
        }
        log::warn!(
            "\"{}\": {text}; VELOC_VERIFY_REPLAY ends a run at the first such state",
            self.settings.name
        );
        Ok(())
    }

    fn slot_of_first(&self) -> Option<u64> {
        self.reached.slots.iter().find(|(_, state)| **state == 0).map(|(slot, _)| *slot)
    }

    /// Before the first step: takes the hash with which later states are compared.
    pub(super) fn begin_looking(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.hashes.probe.hashes, false) {
            self.hashes.probe.unchanged = self.digest(0)?;
        }
        Ok(())
    }

    /// After steps of the first sweep.
    pub(super) fn look_for_change(&mut self, state: u64) -> Result<()> {
        if self.hashes.probe.unchanged.is_some()
            && self.digest(state)? != self.hashes.probe.unchanged
        {
            self.hashes.probe.unchanged = None;
        }
        Ok(())
    }

    /// At the end of the first sweep: warns if all states were the same.
    pub(super) fn judge_change(&mut self) {
        if self.hashes.probe.unchanged.take().is_some() {
            log::warn!(
                "\"{}\": `forward` has changed nothing of the state from state 0 to state {}: if that is not meant, \
                 the adjoint will be wrong. Does it make new arrays (`u = u + ...`) instead of changing the protected \
                 ones (`u += ...`), or is other memory protected than it computes in?",
                self.settings.name,
                self.steps - 1
            );
        }
    }

    /// A hash of the application's current state; `None` where it cannot be read: in device memory, without the
    /// callback `hash`.
    fn digest(&mut self, state: u64) -> Result<Option<u64>> {
        if self.others.failure.is_some() {
            return Ok(None);
        }
        match self.problem.hash(state)? {
            Some(hash) => Ok(Some(hash)),
            None => self.access.with(|client| client.protecting().digest_of(&self.settings.name)),
        }
    }
}
