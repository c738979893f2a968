//! How much of the host buffer the log of messages may have.

use super::State;
use crate::catalog::entry::{FileCopy, Part};
use crate::format::names;

impl State {
    /// Bytes of the log of messages that are in the host buffer alone.
    pub fn passing_bytes(&self) -> u64 {
        let chunks = self.names.get(names::LOG).into_iter().flat_map(|of| of.live.values());
        let entries = chunks.filter_map(|id| self.entries.get(id));
        let unwritten = entries.filter(|entry| entry.scratch != FileCopy::Present);
        unwritten.map(|entry| entry.part(Part::Host).len).sum()
    }

    /// Whether so many bytes more of it would leave checkpoints less than half of the host buffer, as
    /// long as files do not take what is there already.
    pub fn is_crowded_by_passing(&self, more: u64) -> bool {
        self.passing_bytes().saturating_add(more) > self.host.capacity() / 2
    }
}
