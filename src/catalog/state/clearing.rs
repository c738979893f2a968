//! Room in scratch and in persistent, which nobody here can count: a file system says only that there
//! is none left. What is known is whether files that are in the way may still go, so that trying again
//! is of use.

use super::State;
use crate::catalog::entry::FileTier;

/// What is known of the room in a tier by whoever finds that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleared(u64);

/// Who writes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The worker of the tier.
    Worker = 0,
    /// The application's thread.
    Application = 1,
}

/// What somebody waits with who has found no room in a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// What was known before it was tried.
    pub since: Cleared,
    /// Files leave scratch by themselves: their versions are limited.
    pub limited: bool,
}

impl State {
    /// How often files have left a tier until now. To be asked for before a file is written.
    pub fn cleared(&self, tier: FileTier) -> Cleared {
        Cleared(self.cleared[tier as usize])
    }

    /// A file has left a tier.
    pub fn file_cleared(&mut self, tier: FileTier) {
        self.cleared[tier as usize] += 1;
        self.changes += 1;
    }

    /// A persistent copy was made or given up, and what was in scratch for its sake alone has gone.
    pub fn persist_settled_down(&mut self) {
        self.clearing -= 1;
        self.changes += 1;
    }

    /// Whether it is of use to write a file again that had no room in a tier: true if files have left
    /// it since, false if none is about to. `None`: that will show.
    fn room_in(&self, tier: FileTier, short: Short) -> Option<bool> {
        if self.cleared(tier) != short.since {
            return Some(true);
        }
        let copies = tier == FileTier::Scratch
            && (self.clearing > 0 || !self.persist.is_empty())
            && (short.limited || self.entries.values().any(|entry| entry.doomed));
        if copies {
            None
        } else {
            Some(false)
        }
    }

    /// The same for `who` waits for the answer: a worker is woken when there is one.
    pub fn await_room_in(&mut self, tier: FileTier, who: Writer, short: Short) -> Option<bool> {
        let answer = self.room_in(tier, short);
        let waits = answer.is_none().then_some(short);
        let before = &mut self.short_of[who as usize][tier as usize];
        if waits != *before {
            *before = waits;
            self.changes += 1;
        }
        answer
    }

    /// Whether a worker that waits for room in a tier has an answer; `None`: none waits.
    pub(super) fn has_answer(&self, tier: FileTier) -> Option<bool> {
        let short = self.short_of[Writer::Worker as usize][tier as usize];
        short.map(|short| self.room_in(tier, short).is_some())
    }
}
