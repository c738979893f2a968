//! The background agreement of a job's processes: which checkpoints all of them have in files, and which
//! are copied to persistent storage.
//!
//! Each checkpoint starts a round: a non-blocking reduction whose result arrives some checkpoints later.
//! The rounds have the same order on all processes. A version that is not known to exist everywhere is
//! never a reason to remove an older one. Otherwise, if the job ended then, a process without the newer
//! version would leave no version that all have.

mod common;

use std::collections::VecDeque;

pub use common::{Common, Learned, Range};

/// A checkpoint's number; larger is younger.
type CheckpointNumber = u64;

/// Index of the persistent file among [`KINDS`]; the scratch file has index 0.
const PERSISTENT: usize = 1;

/// Index of the scratch file's parities (erasure coding).
pub const PARITIES: usize = 2;

/// The number of kinds of files: scratch files, persistent files and parities.
pub const KINDS: usize = 3;

/// The number of values in a round.
pub const VALUES: usize = 3 + 2 * KINDS;

/// The values that a process contributes to a round's minimum reduction.
pub type Values = [i64; VALUES];

/// Less than any key or negated key.
const NO_KEY: i64 = (i64::MIN >> 1) - 1;

/// The contribution of a process that leaves the agreement: it ends the agreement for all.
pub const WITHDRAWN: Values = {
    let mut values = [0; VALUES];
    values[0] = NO_KEY;
    values[1] = NO_KEY;
    values[2] = i64::MAX;
    values
};

/// The state of one of a checkpoint's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// The file may still be written.
    Pending,
    /// The file is complete, or no process needs it.
    Present,
    /// The file will never be written, or was replaced.
    Missing,
}

/// The agreement as seen by one process.
#[derive(Debug, Default)]
pub struct Rounds {
    /// Rounds begun.
    begun: u64,
    /// The checkpoint of the last round has not been opened yet.
    unopened: bool,
    /// Rounds whose results were received.
    ended: u64,
    /// By kind: rounds, oldest first, whose files may still be written here. `None`: the checkpoint was
    /// never opened here.
    unsettled: [VecDeque<(u64, Option<CheckpointNumber>)>; KINDS],
    /// By kind: the last settled round without a file here.
    missing: [u64; KINDS],
    /// The last settled round with parities made here.
    made: u64,
    /// Up to this round the others need not learn of every parity made here.
    skipped: u64,
    /// By kind: up to which round it is known which checkpoints all have.
    known: [u64; KINDS],
    /// By kind: the last round known to be complete on all processes.
    reached: [u64; KINDS],
    /// Checkpoints, oldest first, for which it is undecided whether or where they are persisted.
    undecided: VecDeque<(u64, CheckpointNumber)>,
    /// Checkpoints, oldest first, that this process persists by its own decision before it knows the
    /// common one.
    alone: VecDeque<(u64, CheckpointNumber)>,
    /// The checkpoints of all rounds that are not known to be complete everywhere.
    taken: VecDeque<(u64, CheckpointNumber)>,
    /// The processes have taken different checkpoints: the agreement has ended.
    broken: bool,
}

/// Why the agreement has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// The processes have taken different checkpoints.
    Different,
    /// A process has left the agreement.
    Withdrawn,
}

/// The result of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundOutcome {
    /// By kind: what was learned about checkpoints that all processes have.
    pub common: [Learned; KINDS],
    /// The round's checkpoint and whether to persist it, if that was undecided.
    pub persist: Option<(CheckpointNumber, bool)>,
    /// The agreement ends with this round, for this reason.
    pub disagreement: Option<Disagreement>,
}

impl Rounds {
    /// Begins the round of a checkpoint identified by `key`. `persist`: the decision, on the process
    /// that decides. `state` tells the state of a checkpoint's file of a kind.
    pub fn begin(
        &mut self,
        key: i64,
        persist: Option<bool>,
        state: impl Fn(CheckpointNumber, usize) -> FileState,
    ) -> Values {
        let values = self.values(key, persist, state);
        self.unopened = true;
        values
    }

    /// Begins a round that others have begun for a checkpoint that is never opened here and whose key is
    /// unknown here.
    pub fn begin_without_key(
        &mut self,
        state: impl Fn(CheckpointNumber, usize) -> FileState,
    ) -> Values {
        let mut values = self.values(0, None, state);
        // The other processes' values are less.
        (values[0], values[1]) = (i64::MAX, i64::MAX);
        self.unopened = true;
        values
    }

    /// Begins a round without a checkpoint, to match one that others have begun.
    pub fn begin_without_checkpoint(
        &mut self,
        state: impl Fn(CheckpointNumber, usize) -> FileState,
    ) -> Values {
        self.values(0, None, state)
    }

    /// Begins the last round, without a checkpoint, to learn at the end what all have.
    pub fn begin_last(&mut self, state: impl Fn(CheckpointNumber, usize) -> FileState) -> Values {
        // Rounds after the last parities no longer matter.
        let made = |id: Option<CheckpointNumber>| {
            id.is_some_and(|id| state(id, PARITIES) == FileState::Present)
        };
        let last = self.unsettled[PARITIES].iter().rev().find(|(_, id)| made(*id));
        self.skipped = last.map_or(0, |&(round, _)| round);
        self.values(0, None, state)
    }

    fn values(
        &mut self,
        key: i64,
        persist: Option<bool>,
        state: impl Fn(CheckpointNumber, usize) -> FileState,
    ) -> Values {
        if std::mem::take(&mut self.unopened) {
            for unsettled in &mut self.unsettled {
                unsettled.push_back((self.begun, None));
            }
        }
        let settled = self.settled_rounds(state);
        self.begun += 1;
        let key = key >> 1; // The key is halved so that it can be negated.
        let mut values = [0; VALUES];
        values[..3].copy_from_slice(&[key, -key, persist.map_or(i64::MAX, i64::from)]);
        for kind in 0..KINDS {
            values[3 + kind] = settled[kind] as i64;
            values[3 + KINDS + kind] = -(self.missing[kind] as i64);
        }
        values
    }

    /// Opens checkpoint `id` of the last round. `undecided`: whether to persist it is not decided yet.
    pub fn opened(&mut self, id: CheckpointNumber, undecided: bool) {
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
    pub fn end(&mut self, least: &Values) -> RoundOutcome {
        self.ended += 1;
        let same = least[0] == -least[1];
        let why =
            if least[0] == NO_KEY { Disagreement::Withdrawn } else { Disagreement::Different };
        let disagreement = (!same && !self.broken).then_some(why);
        self.broken |= !same;
        let of_round = self.undecided.iter().find(|&&(round, _)| round == self.ended);
        // When in doubt, persist.
        let persist = of_round.map(|&(_, id)| (id, self.broken || least[2] != 0));
        self.end_alone(least[2] != 0);
        let mut common = [Learned::default(); KINDS];
        if self.broken {
            self.taken.clear();
        } else {
            for (kind, common) in common.iter_mut().enumerate() {
                let round = |value: i64| u64::try_from(value).unwrap_or(0);
                let settled = round(least[3 + kind]);
                let missing = round(least[3 + KINDS + kind].saturating_neg());
                *common = self.learn(kind, settled, missing);
            }
            let lowest = self.known.into_iter().min().unwrap_or(0);
            while self.taken.front().is_some_and(|(round, _)| *round <= lowest) {
                self.taken.pop_front();
            }
        }
        RoundOutcome { common, persist, disagreement }
    }

    /// Records for a kind that each process knows its own files up to round `settled`, and that
    /// `missing` is the last round for which some process has no file. Returns what is new.
    fn learn(&mut self, kind: usize, settled: u64, missing: u64) -> Learned {
        let before = self.known[kind];
        let behind = before.max(missing);
        let known = behind.max(settled);
        self.known[kind] = known;
        let up_to = |last: u64| self.taken.partition_point(|(round, _)| *round <= last);
        let id = |at: usize| self.taken.get(at).map(|&(_, id)| id);
        let last_of = |behind: usize| behind.checked_sub(1).and_then(id);
        let between =
            |from: usize, to: usize| Some((id(from)?, last_of(to)?)).filter(|_| from < to);
        let known = last_of(up_to(known)).unwrap_or(0);
        let Some((first, last)) = between(up_to(behind), up_to(settled)) else {
            return Learned { more: None, settled: known };
        };
        let goes_on = self.reached[kind] == behind;
        self.reached[kind] = settled;
        Learned { more: Some(Range { first, last, goes_on }), settled: known }
    }

    /// It is decided whether and where checkpoint `id` is persisted.
    pub fn decided(&mut self, id: CheckpointNumber) {
        self.undecided.retain(|&(_, other)| other != id);
    }

    /// This process persists checkpoint `id` before that is decided.
    pub fn decided_alone(&mut self, id: CheckpointNumber) {
        let round = self.undecided.iter().find(|&&(_, other)| other == id).copied();
        self.alone.extend(round);
        self.decided(id);
    }

    /// Ends the round of a checkpoint that was persisted early: if the decision was against it, the
    /// others have no copy.
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

    /// By kind: up to which round the state of all of this process's files is known.
    fn settled_rounds(
        &mut self,
        state: impl Fn(CheckpointNumber, usize) -> FileState,
    ) -> [u64; KINDS] {
        let undecided = [self.undecided.front(), self.alone.front()];
        let undecided = undecided.into_iter().flatten().map(|&(round, _)| round).min();
        let mut settled = [0; KINDS];
        for (kind, unsettled) in self.unsettled.iter_mut().enumerate() {
            while let Some(&(round, id)) = unsettled.front() {
                let open = kind == PERSISTENT && undecided.is_some_and(|first| first <= round);
                let state = id.map_or(FileState::Missing, |id| state(id, kind));
                if open || state == FileState::Pending {
                    break;
                }
                // Most versions have no parities. This process must not report that a later one lacks
                // them before all processes have reported the last one that has some.
                let is_heard = self.made <= self.known[kind] || round <= self.skipped;
                match state {
                    FileState::Missing if kind == PARITIES && !is_heard => break,
                    FileState::Missing => self.missing[kind] = round,
                    _ if kind == PARITIES => self.made = round,
                    _ => {}
                }
                unsettled.pop_front();
            }
            settled[kind] = unsettled.front().map_or(self.begun, |(round, _)| round - 1);
        }
        settled
    }
}

#[cfg(test)]
mod parity_tests;
#[cfg(test)]
mod tests;
