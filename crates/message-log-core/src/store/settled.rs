//! The state of messages that are sent again, in a checkpoint.

use super::bytes::{NumberReader, NumberWriter, Result};
use super::unpack::count;
use crate::parts::Parts;
use crate::resend::judge::PartJudge;
use crate::resend::verdicts::CheckpointOrigin;

/// The position among parts whose messages may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettledPosition {
    /// The checkpoint that all must restart from.
    pub origin: CheckpointOrigin,
    /// The number of exchanges whose verdicts all processes knew.
    pub settled: u64,
    /// Bytes that were dropped.
    pub dropped: u64,
    /// Bytes that were sent again.
    pub resent: u64,
}

impl SettledPosition {
    /// The current state of a process.
    pub fn of(judge: &PartJudge, parts: &Parts) -> SettledPosition {
        SettledPosition {
            origin: judge.verdicts.origin(parts.boundaries()),
            settled: judge.verdicts.settled(),
            dropped: judge.dropped,
            resent: judge.resent,
        }
    }

    /// Restarts the process from this state with these parts.
    pub fn resume(self, judge: &mut PartJudge, parts: &mut Parts) {
        let SettledPosition { origin, settled, dropped, resent } = self;
        parts.resume(settled, origin.boundaries);
        judge.verdicts.resume(origin, settled);
        judge.is_resumed = true;
        (judge.dropped, judge.resent) = (dropped, resent);
    }

    /// Writes the state.
    pub fn write(self, to: &mut NumberWriter) {
        let SettledPosition {
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
    pub fn read(from: &mut NumberReader<'_>) -> Result<SettledPosition> {
        let origin =
            CheckpointOrigin { run: from.u64()?, boundaries: count(from)?, begun: count(from)? };
        let [settled, dropped, resent] = [count(from)?, count(from)?, count(from)?];
        if settled > origin.begun {
            return Err(format!("{settled} settled exchanges of {}", origin.begun));
        }
        Ok(SettledPosition { origin, settled, dropped, resent })
    }
}
