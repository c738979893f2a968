//! The state of messages that are sent again, in a checkpoint.

use super::bytes::{Reader, Result, Writer};
use super::unpack::count;
use crate::parts::Parts;
use crate::resend::verdicts::CheckpointOrigin;
use crate::resend::Resend;

/// The position among parts whose messages may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
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
    pub(crate) fn of(resend: &Resend, parts: &Parts) -> Settled {
        Settled {
            origin: resend.verdicts.origin(parts.boundaries()),
            settled: resend.verdicts.settled(),
            dropped: resend.dropped,
            resent: resend.resent,
        }
    }

    /// Restarts the process from this state with these parts.
    pub(crate) fn resume(self, resend: &mut Resend, parts: &mut Parts) {
        let Settled { origin, settled, dropped, resent } = self;
        parts.resume(settled, origin.boundaries);
        resend.verdicts.resume(origin, settled);
        resend.is_resumed = true;
        (resend.dropped, resend.resent) = (dropped, resent);
    }

    /// Writes the state.
    pub(crate) fn write(self, to: &mut Writer) {
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
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Settled> {
        let origin =
            CheckpointOrigin { run: from.u64()?, boundaries: count(from)?, begun: count(from)? };
        let [settled, dropped, resent] = [count(from)?, count(from)?, count(from)?];
        if settled > origin.begun {
            return Err(format!("{settled} settled exchanges of {}", origin.begun));
        }
        Ok(Settled { origin, settled, dropped, resent })
    }
}
