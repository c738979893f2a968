//! Schedules with slots in memory and on disk, action by action.
//!
//! The stored states are a stack of those on disk with one of those in memory on top. Slots in memory
//! have the numbers from 0 on, those on disk the numbers from the number of slots in memory on.

use std::cell::OnceCell;
use std::collections::HashSet;

use super::adjoint_interval::{AdjointInterval, Threshold};
use super::disk::{Disk, Levels, Next};
use super::schedule::{Action, Done, Plan, Stored};

/// A schedule in progress.
#[derive(Clone, Debug)]
pub struct TwoLevel {
    pub(super) plan: Plan,
    pub(super) disk: Disk,
    /// Made on first use.
    pub(super) levels: OnceCell<Levels>,
    /// States on disk that are needed, ascending.
    pub(super) on_disk: Vec<Stored>,
    /// States in memory, ascending; each is in the slot whose number is its index.
    pub(super) in_memory: Vec<u64>,
    /// Slots on disk that were used and are free; the last is used next.
    pub(super) free: Vec<u64>,
    /// Slots on disk from here on have never been used.
    pub(super) unused: u64,
    /// The state that the application has.
    pub(super) at: Option<u64>,
    /// The state that the adjoint has come to.
    pub(super) fine: u64,
    pub(super) interval: AdjointInterval,
    pub(super) done: Done,
    pub(super) transfers: Transfers,
}

/// How often disk was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// States written there.
    pub writes: u64,
    /// States read from there.
    pub reads: u64,
}

impl TwoLevel {
    /// Begins at state 0, which the application has. The plan is one that [`Plan::check`] accepts; its
    /// slots are those in memory, and it has no resilience distance.
    pub fn new(plan: Plan, disk: Disk) -> TwoLevel {
        TwoLevel::resumed(plan, disk, &[], plan.steps)
    }

    /// Continues after a crash with the states left on disk; the application has state 0 if that is not
    /// there. States in memory are lost.
    ///
    /// Without state 0 on disk, no state there is used and the schedule starts over: the others lie where a
    /// schedule with state 0 wanted them, and would take slots from one that stores state 0 again. If one of
    /// them would save most of the way, that is forgone.
    pub fn resumed(plan: Plan, disk: Disk, states: &[Stored], fine: u64) -> TwoLevel {
        let slots = plan.slots..plan.slots.saturating_add(disk.slots);
        let mut on_disk: Vec<Stored> = states
            .iter()
            .copied()
            .filter(|stored| slots.contains(&stored.slot) && stored.state < fine)
            .collect();
        on_disk.sort_unstable_by_key(|stored| (stored.state, stored.slot));
        on_disk.dedup_by_key(|stored| stored.state);
        let has_start = on_disk.first().is_some_and(|first| first.state == 0);
        if !has_start {
            // The application has state 0, and the schedule starts over.
            on_disk.clear();
        }
        let unused = on_disk.iter().map(|stored| stored.slot + 1).max().unwrap_or(plan.slots);
        let used: HashSet<u64> = on_disk.iter().map(|stored| stored.slot).collect();
        let free = (plan.slots..unused).rev().filter(|slot| !used.contains(slot)).collect();
        TwoLevel {
            levels: OnceCell::new(),
            plan,
            disk,
            on_disk,
            in_memory: Vec::new(),
            free,
            unused,
            at: (!has_start).then_some(0),
            fine,
            interval: AdjointInterval::default(),
            done: Done::default(),
            transfers: Transfers::default(),
        }
    }

    /// Stores the adjoint by the work that a crash would lose, instead of by its distance.
    pub(crate) fn store_adjoint_by_work(&mut self, threshold: Threshold) {
        self.interval.threshold = Some(threshold);
    }

    /// Returns the next action.
    pub fn next_action(&mut self) -> Action {
        if self.fine == 0 {
            return Action::Terminate;
        }
        let Some(at) = self.at else { return self.restore() };
        let left = self.fine - at;
        if left == 1 {
            return self.turn();
        }
        if let Some(&top) = self.in_memory.last() {
            let slots = self.plan.slots - self.in_memory.len() as u64 + 1;
            return match slots {
                1 => self.advance(at, self.fine - 1),
                _ if at > top => self.keep_in_memory(at),
                _ => {
                    let piece = self.plan.rule.first_piece(left, slots, u64::MAX);
                    self.advance(at, at + piece)
                }
            };
        }
        let free = self.disk.slots - self.on_disk.len() as u64;
        if self.on_disk.last().is_some_and(|top| top.state == at) {
            return match self.levels().next(left, free + 1) {
                Next::Memory => self.keep_in_memory(at),
                Next::After(piece) => self.advance(at, at + piece),
            };
        }
        match self.levels().goes_to_disk(left, free) {
            true => self.keep_on_disk(at),
            false => self.keep_in_memory(at),
        }
    }

    /// The best choices for a stretch of any length.
    pub(super) fn levels(&self) -> &Levels {
        let Plan { steps, slots, .. } = self.plan;
        self.levels.get_or_init(|| Levels::new(steps, slots, self.disk))
    }

    fn restore(&mut self) -> Action {
        let from_memory = self
            .in_memory
            .last()
            .map(|&state| Stored { state, slot: self.in_memory.len() as u64 - 1 });
        self.transfers.reads += u64::from(from_memory.is_none());
        let from_disk = || self.on_disk.last().copied();
        // Until the adjoint has come to state 0, that state is stored.
        let Stored { state, slot } =
            from_memory.or_else(from_disk).unwrap_or(Stored { state: 0, slot: 0 });
        self.at = Some(state);
        let left = self.fine - state;
        let read_again = match from_memory {
            // What is not turned from at once is restored again for the step behind it.
            Some(_) => left > 1,
            // What is reversed in memory is kept there as well.
            None => {
                left > 1 && {
                    let slots = self.disk.slots - self.on_disk.len() as u64 + 1;
                    self.levels().next(left, slots) != Next::Memory
                }
            }
        };
        Action::Restore { state, slot, read_again }
    }

    fn advance(&mut self, from: u64, to: u64) -> Action {
        self.at = Some(to);
        self.done.advances += u128::from(to - from);
        Action::Advance { from, to }
    }

    fn keep_in_memory(&mut self, state: u64) -> Action {
        self.done.takeshots += 1;
        self.in_memory.push(state);
        // It is not turned from, so it is restored for the step behind it.
        Action::Takeshot { state, slot: self.in_memory.len() as u64 - 1, read_again: true }
    }

    fn keep_on_disk(&mut self, state: u64) -> Action {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.unused += 1;
            self.unused - 1
        });
        self.on_disk.push(Stored { state, slot });
        self.done.takeshots += 1;
        self.transfers.writes += 1;
        // Disk is written only where that pays.
        Action::Takeshot { state, slot, read_again: true }
    }

    fn turn(&mut self) -> Action {
        let step = self.fine;
        self.fine -= 1;
        self.at = None;
        self.done.turns += 1;
        if self.in_memory.last() == Some(&self.fine) {
            self.in_memory.pop();
        }
        if self.on_disk.last().is_some_and(|top| top.state == self.fine) {
            self.free.extend(self.on_disk.pop().map(|top| top.slot));
        }
        let on_disk = self.on_disk.last().map(|stored| stored.state);
        let top = self.in_memory.last().copied().or(on_disk).unwrap_or(0);
        let ahead = self.fine.saturating_sub(top + 1);
        let place = (self.fine, self.plan.steps);
        let check = self.interval.is_due(self.plan.adjoint, place, self.done, ahead);
        self.done.adjoints += u64::from(check);
        match step == self.plan.steps {
            true => Action::Firsturn { step, check },
            false => Action::Youturn { step, check },
        }
    }

    /// The plan of this schedule.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The state that the adjoint has come to; the number of steps if it has not begun.
    pub fn fine(&self) -> u64 {
        self.fine
    }

    /// The states on disk that are needed, ascending.
    pub(crate) fn on_disk(&self) -> &[Stored] {
        &self.on_disk
    }

    /// What has been done.
    pub fn done(&self) -> Done {
        self.done
    }

    /// How often disk was used.
    pub fn transfers(&self) -> Transfers {
        self.transfers
    }

    /// The steps computed without being recorded plus the disk transfers, in parts of a step
    /// ([`super::disk::UNIT`]).
    pub fn cost(&self) -> u128 {
        let Transfers { writes, reads } = self.transfers;
        self.done.advances * u128::from(super::disk::UNIT)
            + u128::from(writes) * u128::from(self.disk.write)
            + u128::from(reads) * u128::from(self.disk.read)
    }
}

impl Iterator for TwoLevel {
    type Item = Action;

    /// All actions but the last, [`Action::Terminate`].
    fn next(&mut self) -> Option<Action> {
        Some(self.next_action()).filter(|action| *action != Action::Terminate)
    }
}
