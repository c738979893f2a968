//! Which checkpoint's log a process reads.

use message_log_core::parts::Parts;
use message_log_core::store::bytes::Result;
use message_log_core::store::chunks::Incoming;
use message_log_core::store::progress::PartsProgress;

use crate::resend;

/// The state for continuing in another process.
#[derive(Debug, Default)]
pub(crate) struct LineageStore {
    /// The lineage: which processes continue each other's parts.
    lineage: Option<[u64; 2]>,
    /// The progress of the parts when they were read.
    read: Option<PartsProgress>,
    /// Chunks of a log that is being read.
    pub incoming: Option<Incoming>,
    is_loss_said: bool,
}

impl LineageStore {
    /// Whether no log was written or read.
    pub(super) fn is_unused(&self) -> bool {
        self.lineage.is_none()
    }

    /// The lineage, drawn when a log is written first.
    pub(super) fn lineage(&mut self) -> [u64; 2] {
        *self.lineage.get_or_insert_with(resend::draw)
    }

    /// Whether a process with these parts reads a log of this lineage: only one that has none. `is_reported`:
    /// others know of its restart.
    ///
    /// # Errors
    /// Parts were begun, and the log is of other processes.
    pub(super) fn wants(
        &self,
        lineage: [u64; 2],
        parts: &Parts,
        is_reported: bool,
    ) -> Result<bool> {
        // Nothing has happened since, and the restart was not reported to others.
        let as_read = self.read.as_ref() == Some(&PartsProgress::of(parts)) && !is_reported;
        if self.lineage == Some(lineage) && !as_read {
            return Ok(false);
        }
        if parts.instances().now() > 0 && !as_read {
            return Err("the checkpoint has a log of messages of other processes, and parts were \
                        begun in this one: a program restarts before it begins its first part"
                .into());
        }
        Ok(true)
    }

    /// The process goes on with these parts of a log of this lineage.
    pub(super) fn has_read(&mut self, lineage: [u64; 2], parts: &Parts) {
        self.lineage = Some(lineage);
        self.read = Some(PartsProgress::of(parts));
    }

    /// Whether it is said for the first time that some of the log is lost.
    pub(super) fn says_loss(&mut self) -> bool {
        !std::mem::replace(&mut self.is_loss_said, true)
    }
}
