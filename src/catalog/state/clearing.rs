//! Room in scratch, which nobody here can count: a file system says only that there is none left.
//! What is known is whether files that are in the way may still go, so that trying again is of use.

use super::State;

/// What is known of the room in scratch by whoever finds that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleared(u64);

impl State {
    /// How often files have left scratch until now. To be asked for before a file is written.
    pub fn cleared(&self) -> Cleared {
        Cleared(self.cleared)
    }

    /// A file has left scratch.
    pub fn scratch_cleared(&mut self) {
        self.cleared += 1;
        self.changes += 1;
    }

    /// A persistent copy was made or given up, and what was in scratch for its sake alone has gone.
    pub fn persist_settled_down(&mut self) {
        self.clearing -= 1;
        self.changes += 1;
    }

    /// Whether it is of use to write a file again that had no room in scratch: true if files have left
    /// since, false if none is about to. `None`: that will show. Files leave by themselves if scratch
    /// is `limited` in its versions.
    pub fn scratch_room(&self, since: Cleared, limited: bool) -> Option<bool> {
        if self.cleared != since.0 {
            return Some(true);
        }
        let may_come = (self.clearing > 0 || !self.persist.is_empty())
            && (limited || self.entries.values().any(|entry| entry.doomed));
        if may_come {
            None
        } else {
            Some(false)
        }
    }

    /// The same for the worker that writes, which is woken when there is an answer.
    pub fn await_scratch_room(&mut self, since: Cleared, limited: bool) -> Option<bool> {
        let answer = self.scratch_room(since, limited);
        self.short_of_scratch = match answer {
            Some(_) => None,
            None => Some((since, limited)),
        };
        answer
    }
}
