//! The log of messages in the catalog: how much of the host buffer it may have, and that nothing which
//! waits for checkpoints waits for it.

use super::State;
use crate::catalog::entry::{FileCopy, Id, Part, Readable};
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

    /// What is passing under this number is to be in a file, also if it need not be (an ephemeral
    /// job), or could not be before. False: there is no such.
    pub fn want_passing(&mut self, number: i32) -> bool {
        let Some(id) = self.find(names::LOG, number) else { return false };
        if let Some(entry) = self.entries.get_mut(&id) {
            if matches!(entry.scratch, FileCopy::Absent | FileCopy::Failed) {
                entry.scratch = FileCopy::Wanted;
            }
        }
        self.reindex(id);
        self.changes += 1;
        true
    }

    /// Whether the file of what is passing under this number is there, once that is known.
    pub fn is_passing_written(&self, number: i32) -> Option<bool> {
        let entry = self.find(names::LOG, number).and_then(|id| self.entries.get(&id));
        match entry.map(|entry| entry.scratch) {
            Some(FileCopy::Wanted | FileCopy::Writing) => None,
            scratch => Some(scratch == Some(FileCopy::Present)),
        }
    }

    /// Whether some checkpoint could be written to scratch.
    pub(super) fn checkpoints_to_write(&self) -> bool {
        let of = |readable| self.write.range((readable, Id::MIN)..=(readable, Id::MAX));
        let mut of_checkpoints = of(Readable::FromHost).chain(of(Readable::FromDevice));
        of_checkpoints.next().is_some()
    }

    /// Nothing of the log of messages is being written, and nothing that could be is left.
    pub fn passing_drained(&self) -> bool {
        let (first, last) = ((Readable::Passing, Id::MIN), (Readable::Passing, Id::MAX));
        self.passing == 0 && self.write.range(first..=last).next().is_none()
    }
}
