//! Two levels of slots: memory, which costs nothing, and disk, where a write and a read take time.
//!
//! The last level is memory: a stretch whose states are only in memory is reversed with all memory slots, at
//! the cost of [`binomial::advances`]. Before that, states go to disk. Let `M(l)` be the cost in memory,
//! `E(l, d)` the cost of reversing `l` steps from a state that the application has, with `d` free slots on
//! disk, and `D(l, d)` the same if that state is in one of the `d` slots:
//!
//! ```text
//!     E(l, d) = min(M(l), write + D(l, d)),   E(1, d) = 0
//!     D(l, d) = min(M(l), least over j of  j + E(l - j, d - 1) + read + D(j, d))
//! ```
//!
//! For sweeps of up to [`EXACT`] steps, dynamic programming solves this: no schedule of this kind costs less.
//! For longer ones the table ends at some multiple of the length at which a state on disk pays best, and each
//! entry stands for several steps if that length is large. Beyond the table, closed forms choose the first
//! piece, as the cheaper of two ways: binomial checkpointing in blocks of one length on disk, each reversed
//! separately; and binomial checkpointing with the slots of both levels. For up to 2600 steps that costs at
//! most 4.8 % more than the recursion.
//!
//! Sources: the recursion is that of H-Revolve (Herrmann, Pallez, ACM TOMS 46 (2020)) for two levels. Aupy,
//! Herrmann, Optim. Methods Softw. 32 (2017), show that pieces have one best length if there are enough
//! slots; Stumm, Walther, SIAM J. Sci. Comput. 31 (2009), put the states of one binomial schedule on two
//! levels.

use std::sync::Arc;

use super::binomial::{self, beta};
use super::rule::Rule;

/// Parts of a step in which costs are counted.
pub const UNIT: u64 = 1000;

/// The largest cost of a write or read: a million steps.
pub const MAX_COST: u64 = 1_000_000 * UNIT;

/// Sweeps up to this length are solved by the table, with an entry for each step.
pub const EXACT: u64 = 1024;

/// Entries of a row of the table for longer sweeps, at most.
const ENTRIES: u64 = 2048;

/// Entries of the table for the length at which a state on disk pays best, at most.
const PERIOD_ENTRIES: u64 = 256;

/// The most block lengths that are tried, beside their doubles and triples.
const RANGES: usize = 12;

/// The transfers that a binomial schedule over both levels is assumed to need per best length; it needs more
/// than blocks do, as some of its pieces are short.
const MIXED_TRANSFERS: u128 = 3;

/// Slots on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// How many; at least 1.
    pub slots: u64,
    /// What a write costs, in parts ([`UNIT`]) of a step.
    pub write: u64,
    /// What a read costs.
    pub read: u64,
}

/// Where the next state is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// All steps are reversed with the slots in memory.
    Memory,
    /// This many steps further on.
    After(u64),
}

/// The best choice for a stretch of any length.
#[derive(Clone, Debug)]
pub struct Levels {
    memory: u64,
    disk: Disk,
    /// The number of steps for which an entry stands.
    stride: u64,
    /// The length at which a state on disk pays best.
    period: u64,
    /// For 1, 2, ... slots on disk: the best choice and its cost, by length. More slots than rows are no
    /// better than the last row.
    rows: Arc<Vec<Vec<(Next, u64)>>>,
    /// Lengths of the table that blocks may have beyond its end.
    blocks: Arc<Vec<u64>>,
}

impl Levels {
    /// For sweeps up to `steps` steps, with `memory` slots in memory, at least 1.
    pub fn new(steps: u64, memory: u64, disk: Disk) -> Levels {
        let period = period(memory, disk);
        let (stride, entries) = match steps <= EXACT {
            true => (1, steps),
            false => {
                let stride = period.div_ceil(PERIOD_ENTRIES);
                (stride, (8 * period.div_ceil(stride)).clamp(512, ENTRIES))
            }
        };
        let entries = entries.min(steps.div_ceil(stride));
        Levels::with_entries(memory, disk, stride, entries)
    }

    fn with_entries(memory: u64, disk: Disk, stride: u64, entries: u64) -> Levels {
        let in_memory: Vec<u64> =
            (0..=entries).map(|l| cost_in_memory(l * stride, memory)).collect();
        let mut rows: Vec<Vec<(Next, u64)>> = Vec::new();
        while (rows.len() as u64) < disk.slots {
            let row = row(&in_memory, disk, stride, rows.last());
            if rows.last().is_some_and(|last| *last == row) {
                break;
            }
            rows.push(row);
        }
        let pays = |length: &u64| {
            let fixed =
                u128::from(disk.write + disk.read) + u128::from(rows[0][*length as usize].1);
            (fixed << 32) / u128::from(length * stride)
        };
        let period = (1..=entries).min_by_key(pays).unwrap_or(1) * stride;
        let longest = entries * stride;
        let ranges = (0..).map_while(|r| u64::try_from(beta(memory, r)).ok());
        let ranges = ranges.take_while(|range| *range <= longest).take(RANGES).chain([period]);
        let mut blocks: Vec<u64> = ranges.flat_map(|range| [range, 2 * range, 3 * range]).collect();
        blocks.retain(|block| *block <= longest);
        blocks.sort_unstable();
        blocks.dedup();
        Levels { memory, disk, stride, period, rows: Arc::new(rows), blocks: Arc::new(blocks) }
    }

    /// Whether a state that the application has, with `l >= 2` steps ahead of it and `free` free slots
    /// on disk, is stored there.
    pub(crate) fn goes_to_disk(&self, l: u64, free: u64) -> bool {
        match self.row(free) {
            None => false,
            Some(row) => match row.get(self.entry(l)) {
                Some((_, cost)) => {
                    let in_memory = cost_in_memory(self.rounded(l), self.memory);
                    cost.saturating_add(self.disk.write) < in_memory
                }
                None => true,
            },
        }
    }

    /// The best choice for `l >= 2` steps ahead of a state in one of `slots` slots on disk; the slots behind
    /// it are free.
    pub fn next(&self, l: u64, slots: u64) -> Next {
        if let Some(&(next, _)) = self.row(slots).and_then(|row| row.get(self.entry(l))) {
            return next;
        }
        Next::After(self.beyond_table(l, slots).min(l - 1))
    }

    /// The first piece of a stretch beyond the table.
    fn beyond_table(&self, l: u64, slots: u64) -> u64 {
        let (write, read) = (u128::from(self.disk.write), u128::from(self.disk.read));
        let in_blocks = |block: u64| {
            let blocks = l.div_ceil(block);
            let (r, range) = binomial::repetitions(blocks, slots);
            // Counted like Griewank and Walther; `cost` does the same.
            let writes = u128::from(blocks)
                .saturating_sub(range * u128::from(r) / u128::from(slots + r))
                .max(beta(slots - 1, r.saturating_sub(1)));
            let alone = u128::from(self.rows[0][self.entry(block)].1);
            binomial::advances(blocks, slots) * u128::from(block * UNIT)
                + u128::from(blocks) * (alone + read)
                + writes * write
        };
        let all = slots.saturating_add(self.memory).min(binomial::MAX_STEPS);
        let mixed = binomial::advances(l, all) * u128::from(UNIT)
            + MIXED_TRANSFERS * u128::from(l.div_ceil(self.period)) * (write + read);
        match self.blocks.iter().map(|block| (in_blocks(*block), *block)).min() {
            Some((least, block)) if slots > 1 && least < mixed => {
                block * Rule::Optimal.first_piece(l.div_ceil(block), slots, u64::MAX)
            }
            _ => Rule::Optimal.first_piece(l, all, u64::MAX).max(self.period),
        }
    }

    fn row(&self, slots: u64) -> Option<&Vec<(Next, u64)>> {
        let last = self.rows.len() as u64;
        slots.min(last).checked_sub(1).map(|row| &self.rows[row as usize])
    }

    fn entry(&self, l: u64) -> usize {
        usize::try_from(l.div_ceil(self.stride)).unwrap_or(usize::MAX)
    }

    fn rounded(&self, l: u64) -> u64 {
        l.div_ceil(self.stride) * self.stride
    }
}

/// The length of a piece at which a state on disk, written and read once, pays best, if the piece is reversed
/// with the slots in memory. Each further step of the same repetition number costs the same, so this is the
/// largest length of some repetition number.
fn period(memory: u64, disk: Disk) -> u64 {
    let fixed = u128::from(disk.write + disk.read);
    let mut best = 1;
    for r in 1.. {
        let length = u64::try_from(beta(memory, r)).unwrap_or(u64::MAX).min(binomial::MAX_STEPS);
        let cost = |length: u64| fixed + u128::from(UNIT) * binomial::advances(length, memory);
        // Neither product is more than 2^96 · 10^3.
        let is_better = cost(length) * u128::from(best) < cost(best) * u128::from(length);
        if !is_better || length == binomial::MAX_STEPS {
            break;
        }
        best = length;
    }
    best
}

fn cost_in_memory(l: u64, memory: u64) -> u64 {
    u64::try_from(binomial::advances(l, memory) * u128::from(UNIT)).unwrap_or(u64::MAX)
}

/// One row of the table: with one slot more than `fewer`.
fn row(
    in_memory: &[u64],
    disk: Disk,
    stride: u64,
    fewer: Option<&Vec<(Next, u64)>>,
) -> Vec<(Next, u64)> {
    // From a state that the application has, with the slots that are left.
    let ahead: Vec<u64> = match fewer {
        None => in_memory.to_vec(),
        Some(row) => {
            let stored = row.iter().map(|(_, cost)| cost.saturating_add(disk.write));
            in_memory.iter().zip(stored).map(|(memory, stored)| stored.min(*memory)).collect()
        }
    };
    let mut row: Vec<(Next, u64)> = Vec::with_capacity(in_memory.len());
    for l in 0..in_memory.len() {
        let mut best = None::<(u64, usize)>;
        for j in 1..l {
            let left = (j as u64 * stride * UNIT + disk.read).saturating_add(row[j].1);
            if best.is_some_and(|(least, _)| left >= least) {
                // Larger ones are no better.
                break;
            }
            let cost = left.saturating_add(ahead[l - j]);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, j));
            }
        }
        row.push(match best {
            Some((cost, j)) if cost < in_memory[l] => (Next::After(j as u64 * stride), cost),
            _ => (Next::Memory, in_memory[l]),
        });
    }
    row
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
