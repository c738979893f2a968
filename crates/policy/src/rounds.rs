//! What the processes of a job agree on beside their work: of which checkpoints all of them have
//! their files, and which checkpoints are copied to persistent.
//!
//! Each checkpoint begins a round. A process passes what it knows to a reduction that nobody waits
//! for; the result comes some checkpoints later, and the rounds of all processes come in the same
//! order. What is not known to be had by all is never the reason to remove an older version: were it
//! removed, and the job to end here, a process that has not written the newer one, or has given it
//! up, would have no version that all have.

mod common;

use std::collections::VecDeque;

pub use common::{Common, Learned, Range};

/// Names a checkpoint; larger is younger.
type Id = u64;

/// The file in persistent, among what a process may have of a checkpoint. The one in scratch is 0.
const PERSISTENT: usize = 1;

/// The parities of the file in scratch, where there is erasure coding.
pub const PARITIES: usize = 2;

/// How many such things there are.
pub const TIERS: usize = 3;

/// How many values a round passes.
pub const VALUES: usize = 3 + 2 * TIERS;

/// What a process passes to a round, of which the least of all is found.
pub type Values = [i64; VALUES];

/// Less than any key that is passed, and than any that is passed negated.
const NO_KEY: i64 = (i64::MIN >> 1) - 1;

/// What a process passes that takes no part in the agreement any more: it ends for all by that.
pub const WITHDRAWN: Values = {
    let mut values = [0; VALUES];
    values[0] = NO_KEY;
    values[1] = NO_KEY;
    values[2] = i64::MAX;
    values
};

/// What becomes of a checkpoint's file in a tier, or of its parities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// It may still come.
    Pending,
    /// It is in its place, or none is wanted of any process.
    Present,
    /// It never comes, or was replaced before anybody asked.
    Missing,
}

/// The rounds of one process.
#[derive(Debug, Default)]
pub struct Rounds {
    /// Rounds begun.
    begun: u64,
    /// The checkpoint of the last one has not begun, as far as is known.
    unopened: bool,
    /// Rounds whose results have come.
    ended: u64,
    /// Rounds, oldest first, of which this process's file may still be missing; by tier. `None`:
    /// the checkpoint never began here.
    unsettled: [VecDeque<(u64, Option<Id>)>; TIERS],
    /// The last settled round of which this process has no file; by tier.
    missing: [u64; TIERS],
    /// The last settled round of which it has made parities.
    made: u64,
    /// Up to this round the others need not hear of all parities that this process has made.
    skipped: u64,
    /// Up to which round all is known of what all have; by tier.
    known: [u64; TIERS],
    /// The last round of which it is known that all have its checkpoint; by tier.
    reached: [u64; TIERS],
    /// Checkpoints whose copy to persistent has not been decided on, or not where it goes; oldest
    /// first.
    undecided: VecDeque<(u64, Id)>,
    /// Checkpoints that this process copies by its own decision, before it has heard the common one;
    /// oldest first.
    alone: VecDeque<(u64, Id)>,
    /// The checkpoints of all rounds of which it is not known yet whether all have them.
    taken: VecDeque<(u64, Id)>,
    /// The processes have taken different checkpoints: nothing is agreed any more.
    broken: bool,
}

/// Why nothing is agreed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// The processes have taken different checkpoints.
    Different,
    /// One of them has given the agreement up.
    Withdrawn,
}

/// What a result means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Of which checkpoints all processes have something; by tier.
    pub common: [Learned; TIERS],
    /// The checkpoint of the round, if its copy to persistent is still to be decided on, and whether
    /// it is to be made.
    pub persist: Option<(Id, bool)>,
    /// From here on nothing is agreed, and why.
    pub disagreement: Option<Disagreement>,
}

impl Rounds {
    /// Begins the round of a checkpoint, which `key` tells from others. `persist` is whether it is
    /// to be copied to persistent, for the process that decides. `state` tells what becomes of a
    /// checkpoint's file in a tier.
    pub fn begin(
        &mut self,
        key: i64,
        persist: Option<bool>,
        state: impl Fn(Id, usize) -> FileState,
    ) -> Values {
        let values = self.values(key, persist, state);
        self.unopened = true;
        values
    }

    /// Begins a round in the place of one that others have begun, of a checkpoint that never begins here and
    /// of which this process knows no key.
    pub fn begin_without_key(&mut self, state: impl Fn(Id, usize) -> FileState) -> Values {
        let mut values = self.values(0, None, state);
        // Those of the others are less.
        (values[0], values[1]) = (i64::MAX, i64::MAX);
        self.unopened = true;
        values
    }

    /// Begins a round that has no checkpoint, in the place of one that others have begun.
    pub fn begin_without_checkpoint(&mut self, state: impl Fn(Id, usize) -> FileState) -> Values {
        self.values(0, None, state)
    }

    /// Begins the last round, which has no checkpoint: at the end, to learn what all have.
    pub fn begin_last(&mut self, state: impl Fn(Id, usize) -> FileState) -> Values {
        // What lies behind the last parities is of no interest any more, nor are those before.
        let made = |id: Option<Id>| id.is_some_and(|id| state(id, PARITIES) == FileState::Present);
        let last = self.unsettled[PARITIES].iter().rev().find(|(_, id)| made(*id));
        self.skipped = last.map_or(0, |&(round, _)| round);
        self.values(0, None, state)
    }

    fn values(
        &mut self,
        key: i64,
        persist: Option<bool>,
        state: impl Fn(Id, usize) -> FileState,
    ) -> Values {
        if std::mem::take(&mut self.unopened) {
            for unsettled in &mut self.unsettled {
                unsettled.push_back((self.begun, None));
            }
        }
        let settled = self.settled_rounds(state);
        self.begun += 1;
        let key = key >> 1; // So that it can be negated.
        let mut values = [0; VALUES];
        values[..3].copy_from_slice(&[key, -key, persist.map_or(i64::MAX, i64::from)]);
        for tier in 0..TIERS {
            values[3 + tier] = settled[tier] as i64;
            values[3 + TIERS + tier] = -(self.missing[tier] as i64);
        }
        values
    }

    /// The checkpoint of the round that was begun last. Whether its copy to persistent is still to
    /// be decided on.
    pub fn opened(&mut self, id: Id, undecided: bool) {
        self.unopened = false;
        if undecided {
            self.undecided.push_back((self.begun, id));
        }
        if self.broken {
            return;
        }
        for unsettled in &mut self.unsettled {
            unsettled.push_back((self.begun, Some(id)));
        }
        self.taken.push_back((self.begun, id));
    }

    /// Takes the result of the next round.
    pub fn end(&mut self, least: &Values) -> Outcome {
        self.ended += 1;
        let same = least[0] == -least[1];
        let why =
            if least[0] == NO_KEY { Disagreement::Withdrawn } else { Disagreement::Different };
        let disagreement = (!same && !self.broken).then_some(why);
        self.broken |= !same;
        let of_round = self.undecided.iter().find(|&&(round, _)| round == self.ended);
        // When in doubt, a copy too many.
        let persist = of_round.map(|&(_, id)| (id, self.broken || least[2] != 0));
        self.end_alone(least[2] != 0);
        let mut common = [Learned::default(); TIERS];
        if self.broken {
            self.taken.clear();
        } else {
            for (tier, common) in common.iter_mut().enumerate() {
                let round = |value: i64| u64::try_from(value).unwrap_or(0);
                let settled = round(least[3 + tier]);
                let missing = round(least[3 + TIERS + tier].saturating_neg());
                *common = self.learn(tier, settled, missing);
            }
            let lowest = self.known.into_iter().min().unwrap_or(0);
            while self.taken.front().is_some_and(|(round, _)| *round <= lowest) {
                self.taken.pop_front();
            }
        }
        Outcome { common, persist, disagreement }
    }

    /// The checkpoints that are common by this and were not known to be: every process knows about
    /// its own up to the round `settled`, and `missing` is the last of which one of them has none.
    fn learn(&mut self, tier: usize, settled: u64, missing: u64) -> Learned {
        let before = self.known[tier];
        let behind = before.max(missing);
        let known = behind.max(settled);
        self.known[tier] = known;
        let up_to = |last: u64| self.taken.partition_point(|(round, _)| *round <= last);
        let id = |at: usize| self.taken.get(at).map(|&(_, id)| id);
        let last_of = |behind: usize| behind.checked_sub(1).and_then(id);
        let between =
            |from: usize, to: usize| Some((id(from)?, last_of(to)?)).filter(|_| from < to);
        let known = last_of(up_to(known)).unwrap_or(0);
        let Some((first, last)) = between(up_to(behind), up_to(settled)) else {
            return Learned { more: None, settled: known };
        };
        let goes_on = self.reached[tier] == behind;
        self.reached[tier] = settled;
        Learned { more: Some(Range { first, last, goes_on }), settled: known }
    }

    /// It is decided whether and where a checkpoint is copied to persistent.
    pub fn decided(&mut self, id: Id) {
        self.undecided.retain(|&(_, other)| other != id);
    }

    /// A checkpoint is copied to persistent before that is decided.
    pub fn decided_alone(&mut self, id: Id) {
        let round = self.undecided.iter().find(|&&(_, other)| other == id).copied();
        self.alone.extend(round);
        self.decided(id);
    }

    /// The round that has ended is one of those: others have no copy if it was decided not to make
    /// one.
    fn end_alone(&mut self, persist: bool) {
        let Some(at) = self.alone.iter().position(|&(round, _)| round == self.ended) else {
            return;
        };
        self.alone.remove(at);
        let persistent = &mut self.unsettled[PERSISTENT];
        if let Some(unsettled) = persistent.iter_mut().find(|(round, _)| *round == self.ended) {
            unsettled.1 = unsettled.1.filter(|_| persist);
        }
    }

    /// Up to which round the fate of all of this process's files is known, by tier.
    fn settled_rounds(&mut self, state: impl Fn(Id, usize) -> FileState) -> [u64; TIERS] {
        let undecided = [self.undecided.front(), self.alone.front()];
        let undecided = undecided.into_iter().flatten().map(|&(round, _)| round).min();
        let mut settled = [0; TIERS];
        for (tier, unsettled) in self.unsettled.iter_mut().enumerate() {
            while let Some(&(round, id)) = unsettled.front() {
                let open = tier == PERSISTENT && undecided.is_some_and(|first| first <= round);
                let state = id.map_or(FileState::Missing, |id| state(id, tier));
                if open || state == FileState::Pending {
                    break;
                }
                // Most versions have no parities. To tell of a later one that it lacks them, before all
                // have told of the last one that has some, would leave that in doubt.
                let is_heard = self.made <= self.known[tier] || round <= self.skipped;
                match state {
                    FileState::Missing if tier == PARITIES && !is_heard => break,
                    FileState::Missing => self.missing[tier] = round,
                    _ if tier == PARITIES => self.made = round,
                    _ => {}
                }
                unsettled.pop_front();
            }
            settled[tier] = unsettled.front().map_or(self.begun, |(round, _)| round - 1);
        }
        settled
    }
}

#[cfg(test)]
mod parity_tests;
#[cfg(test)]
mod tests;
