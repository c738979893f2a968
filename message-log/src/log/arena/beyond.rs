//! What is beyond the limit: which chunks go to the store, and when they come back.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::Arena;
use crate::log::keeper::{Keeper, Kept};
use crate::log::mapping::Mapping;

/// How long is waited for memory while the store takes nothing at all.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a store is waited for that does nothing: once, until it has done something again.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Patience {
    at_most: Duration,
    /// How many orders had ended when it was lost.
    lost_at: Option<u64>,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience::of(PATIENCE)
    }
}

impl Patience {
    /// So long.
    pub(in crate::log) fn of(at_most: Duration) -> Patience {
        Patience { at_most, lost_at: None }
    }

    /// How long the store is waited for that has ended so many orders; `None`: not at all.
    pub(in crate::log) fn left(&self, ended: u64) -> Option<Duration> {
        (self.lost_at != Some(ended)).then_some(self.at_most)
    }

    /// It was waited for in vain, and had ended so many orders.
    pub(in crate::log) fn lose(&mut self, ended: u64) {
        self.lost_at = Some(ended);
    }
}

impl Arena {
    /// Whether so many bytes more are within the limit.
    pub(super) fn fits(&self, len: usize) -> bool {
        self.common.mapped.load(Ordering::Relaxed).saturating_add(len) <= self.common.limit
    }

    /// Sees to it that so many bytes more are within the limit, or says that they are not. The memory
    /// itself, if it is that of another chunk.
    pub(super) fn make_room(&mut self, len: usize) -> Option<Mapping> {
        let keeper = self.common.keeper.clone()?;
        while !self.fits(len) {
            if !self.spare.is_empty() {
                self.spare.clear();
                continue;
            }
            let ended = keeper.ended();
            if let Some(memory) = self.give_up_one(&[]) {
                if memory.size() == len {
                    self.shed();
                    return Some(memory);
                }
                continue;
            }
            if !keeper.is_there() {
                self.stays(
                    "with VELOC_Init and a scratch directory (libveloc-client) it would go to files",
                );
                return None;
            }
            let is_leaving = self.is_leaving();
            if let Some(text) = keeper.refusal() {
                // It may be taken now, but nobody waits for that.
                if !is_leaving {
                    self.give_one(&keeper);
                }
                self.stays(&format!("the checkpoint library does not take it: {text}"));
                return None;
            }
            if is_leaving && !self.awaits(&keeper, ended) {
                let waited = self.patience.at_most.as_secs();
                self.stays(&format!("the checkpoint library has taken none of it for {waited} s"));
                return None;
            }
            if !is_leaving && !self.give_one(&keeper) {
                return None;
            }
        }
        None
    }

    /// Gives up what is in memory beyond the limit, as far as the store has it.
    fn shed(&mut self) {
        while !self.fits(0) && self.give_up_one(&[]).is_some() {}
    }

    /// Says, once, that the log is larger than it should be.
    fn stays(&mut self, why: &str) {
        if std::mem::replace(&mut self.is_said, true) {
            return;
        }
        self.news.is_due.set(true);
        self.notice = Some(format!(
            "the log of messages has more than {} bytes (VELOC_MPI_LOG_MEMORY) and stays in memory: \
             {why}",
            self.common.limit
        ));
    }

    /// Waits until the keeper has ended another order than these, unless that was in vain before.
    fn awaits(&mut self, keeper: &Keeper, ended: u64) -> bool {
        let Some(at_most) = self.patience.left(ended) else { return false };
        let goes_on = keeper.wait(ended, at_most);
        if !goes_on {
            self.patience.lose(ended);
        }
        goes_on
    }

    /// Has less patience, or more.
    #[cfg(test)]
    pub(in crate::log) fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    fn is_leaving(&self) -> bool {
        self.kept().any(|kept| kept.is_leaving())
    }

    /// The sealed chunks in memory, or on their way back.
    fn kept(&self) -> impl Iterator<Item = Arc<Kept>> + '_ {
        self.resident.iter().filter_map(|number| self.sealed.get(number)?.sealed())
    }

    /// The memory of the chunk that will be needed last, of those that the store has and that are not
    /// to stay.
    fn give_up_one(&mut self, stay: &[u32]) -> Option<Mapping> {
        for number in self.last_needed_first() {
            if stay.contains(&number) {
                continue;
            }
            let kept = self.sealed.get(&number).and_then(|chunk| chunk.sealed());
            let Some(memory) = kept.and_then(|kept| kept.give_up_memory()) else { continue };
            self.resident.remove(&number);
            if let Some(memory) = Arc::into_inner(memory) {
                return Some(memory);
            }
        }
        None
    }

    /// The chunks in memory: those that are not read soon, from the oldest on, then those that are,
    /// from the last on. The one that is being read is none of them.
    fn last_needed_first(&self) -> Vec<u32> {
        let soon: HashSet<u32> = self.next.iter().copied().collect();
        let now = self.news.read.get();
        let free = self.resident.iter().filter(|number| !soon.contains(number)).copied();
        let free = free.filter(|number| Some(*number) != now);
        let rest = self.next.iter().rev().filter(|number| self.resident.contains(number)).copied();
        free.chain(rest.filter(|number| Some(*number) != now)).collect()
    }

    /// Gives the store one more chunk. False: there is none, or it cannot be given.
    fn give_one(&mut self, keeper: &Keeper) -> bool {
        for number in self.last_needed_first() {
            let kept = self.sealed.get(&number).and_then(|chunk| chunk.sealed());
            let Some(kept) = kept.filter(|kept| kept.is_dirty()) else { continue };
            self.news.has_given.set(true);
            return keeper.take(&kept);
        }
        false
    }

    /// Gives chunks to the store that it has not, if they have more than half of the limit.
    pub(super) fn give_ahead(&mut self) {
        let Some(keeper) = self.common.keeper.clone() else { return };
        // Cheap where the limit is far.
        if self.common.mapped.load(Ordering::Relaxed) <= self.common.limit / 2
            || keeper.refusal().is_some()
            || !keeper.is_there()
        {
            return;
        }
        let dirty = |arena: &Arena| -> usize {
            let dirty = arena.kept().filter(|kept| kept.is_dirty());
            dirty.map(|kept| kept.len).sum()
        };
        while dirty(self) > self.common.limit / 2 {
            if !self.give_one(&keeper) {
                return;
            }
        }
    }

    /// These chunks are read next, in order: brings back those that are in the store, as far as
    /// there is memory.
    pub fn expect(&mut self, next: Vec<u32>) {
        self.news.is_due.set(false);
        self.collect();
        self.next = next;
        let Some(keeper) = self.common.keeper.clone() else { return };
        // What was read unexpectedly has come all the same.
        self.shed();
        for place in 0..self.next.len() {
            let number = self.next[place];
            let kept = self.sealed.get(&number).and_then(|chunk| chunk.sealed());
            let Some(kept) = kept.filter(|kept| kept.is_away()) else { continue };
            let is_common = kept.room == self.common.chunk;
            let mut memory = if is_common { self.spare.pop() } else { None };
            while memory.is_none() && !self.fits(kept.room) {
                // Not for one that is read later.
                let sooner = self.next[..place].to_vec();
                match self.give_up_one(&sooner) {
                    Some(given) if given.size() == kept.room => memory = Some(given),
                    Some(_) => {}
                    None => return,
                }
            }
            let memory = memory.or_else(|| Mapping::map(kept.room, &self.common.mapped));
            let Some(memory) = memory else { return };
            self.resident.insert(number);
            keeper.bring(&kept, memory);
        }
    }

    /// The store is about to be there no more. What it can give all the same stays with it; the rest
    /// comes back, whatever the limit says.
    pub fn leave(&mut self) {
        self.collect();
        let Some(keeper) = self.common.keeper.clone() else { return };
        let all: Vec<_> = self.sealed.iter().filter_map(|(n, c)| Some((*n, c.sealed()?))).collect();
        for (number, kept) in all {
            let Err(why) = keeper.leave(&kept) else { continue };
            match keeper.take_back(&kept) {
                Ok(()) => {
                    self.resident.insert(number);
                    if !self.fits(0) {
                        self.stays(&format!("the checkpoint library cannot keep it: {why}"));
                    }
                }
                Err(text) => {
                    let lost = "a part of the log of messages is lost at VELOC_Finalize";
                    self.notice.get_or_insert(format!("{lost}: {text}"));
                }
            }
        }
        keeper.rest();
    }
}
