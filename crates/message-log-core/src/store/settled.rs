//! The state of messages that are sent again, in a checkpoint.

use super::bytes::{Reader, Result, Writer};
use super::unpack::count;
use crate::parts::Parts;
use crate::resend::judge::Judge;
use crate::resend::verdicts::CheckpointOrigin;

/// The position among parts whose messages may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The checkpoint that all must restart from.
    pub origin: CheckpointOrigin,
    /// The number of exchanges whose verdicts all processes knew.
    pub settled: u64,
    /// Bytes that were dropped.
    pub dropped: u64,
    /// Bytes that were sent again.
    pub resent: u64,
}

impl Settled {
    /// The current state of a process.
    pub fn of(judge: &Judge, parts: &Parts) -> Settled {
        Settled {
            origin: judge.verdicts.origin(parts.boundaries()),
            settled: judge.verdicts.settled(),
            dropped: judge.dropped,
            resent: judge.resent,
        }
    }

    /// Restarts the process from this state with these parts.
    pub fn resume(self, judge: &mut Judge, parts: &mut Parts) {
        let Settled { origin, settled, dropped, resent } = self;
        parts.resume(settled, origin.boundaries);
        judge.verdicts.resume(origin, settled);
        judge.is_resumed = true;
        (judge.dropped, judge.resent) = (dropped, resent);
    }

    /// Writes the state.
    pub fn write(self, to: &mut Writer) {
        let Settled {
            origin: CheckpointOrigin { run, boundaries, begun },
            settled,
            dropped,
            resent,
        } = self;
        for number in [run, boundaries, begun, settled, dropped, resent] {
            to.u64(number);
        }
    }

    /// Reads what [`write`](Self::write) has written.
    ///
    /// # Errors
    /// It is invalid.
    pub fn read(from: &mut Reader<'_>) -> Result<Settled> {
        let origin =
            CheckpointOrigin { run: from.u64()?, boundaries: count(from)?, begun: count(from)? };
        let [settled, dropped, resent] = [count(from)?, count(from)?, count(from)?];
        if settled > origin.begun {
            return Err(format!("{settled} settled exchanges of {}", origin.begun));
        }
        Ok(Settled { origin, settled, dropped, resent })
    }
}
