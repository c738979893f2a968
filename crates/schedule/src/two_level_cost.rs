//! The cost of a schedule with slots on disk, computed without going through its actions.
//!
//! The cost of a stretch depends only on its length and on the free slots on disk, and there are few such
//! pairs: with few slots on disk, hundreds for any number of steps.

use std::collections::HashMap;

use super::binomial::{advances, repetitions};
use super::cost::{PlanCost, MOST_ACTIONS};
use super::disk::{Disk, Levels, Next};
use super::levels::{Transfers, TwoLevel};
use super::schedule::{Action, Plan};
use super::takeshots::takeshots;

/// The most pairs of a length and a number of slots that are evaluated: some seconds, and 200 MB.
pub const MOST_PAIRS: usize = 1_000_000;

/// The cost of a stretch.
#[derive(Clone, Copy, Debug, Default)]
struct StretchCost {
    advances: u128,
    takeshots: u128,
    repetition: u64,
    transfers: Transfers,
}

impl StretchCost {
    /// The sum of this and another stretch, or of this and additional costs of the same steps.
    fn and(self, other: StretchCost) -> StretchCost {
        StretchCost {
            advances: self.advances + other.advances,
            takeshots: self.takeshots + other.takeshots,
            repetition: self.repetition.max(other.repetition),
            transfers: Transfers {
                writes: self.transfers.writes + other.transfers.writes,
                reads: self.transfers.reads + other.transfers.reads,
            },
        }
    }
}

/// What is to be done next.
enum CostStep {
    /// Evaluate a stretch.
    Evaluate(u64, u64),
    /// Add up its two parts; the last number is the length of the first.
    Add(u64, u64, u64),
}

/// The stretches of a plan.
struct TwoLevelCost<'a> {
    plan: &'a Plan,
    levels: Levels,
    /// By length and slots on disk, including that of the first state.
    known: HashMap<(u64, u64), StretchCost>,
}

impl TwoLevelCost<'_> {
    /// The cost of a stretch that is reversed in memory only.
    fn in_memory(&self, steps: u64) -> StretchCost {
        let slots = self.plan.slots;
        StretchCost {
            advances: advances(steps, slots),
            takeshots: takeshots(self.plan.rule, steps, slots, false),
            repetition: repetitions(steps, slots).0,
            transfers: Transfers::default(),
        }
    }

    /// The cost of a stretch whose first state is stored on disk; `None` if it is not known yet.
    fn of_stored(&self, steps: u64, slots: u64) -> Option<StretchCost> {
        match steps {
            0 | 1 => Some(StretchCost::default()),
            _ => self.known.get(&(steps, slots)).copied(),
        }
    }

    /// The cost of a stretch whose first state the application has.
    fn of_reached(&self, steps: u64, free: u64) -> Option<StretchCost> {
        match steps {
            0 | 1 => Some(StretchCost::default()),
            _ if !self.levels.goes_to_disk(steps, free) => Some(self.in_memory(steps)),
            _ => self.of_stored(steps, free).map(|sum| {
                let transfers = Transfers { writes: 1, reads: 0 };
                sum.and(StretchCost { takeshots: 1, transfers, ..StretchCost::default() })
            }),
        }
    }

    /// The cost of all steps.
    fn of_all(&mut self, steps: u64, free: u64) -> Option<StretchCost> {
        let mut open = vec![CostStep::Evaluate(steps, free)];
        while let Some(next) = open.pop() {
            match next {
                // Without a slot on disk the stretch is reversed in memory.
                CostStep::Evaluate(steps, slots)
                    if slots == 0 || self.of_stored(steps, slots).is_some() => {}
                CostStep::Evaluate(steps, slots) => match self.levels.next(steps, slots) {
                    Next::Memory => {
                        self.known.insert((steps, slots), self.in_memory(steps));
                    }
                    Next::After(first) => {
                        open.push(CostStep::Add(steps, slots, first));
                        open.push(CostStep::Evaluate(first, slots));
                        if self.levels.goes_to_disk(steps - first, slots - 1) {
                            open.push(CostStep::Evaluate(steps - first, slots - 1));
                        }
                    }
                },
                CostStep::Add(steps, slots, first) => {
                    let behind = self.of_reached(steps - first, slots - 1)?;
                    let before = self.of_stored(first, slots)?;
                    let way = StretchCost {
                        advances: u128::from(first),
                        takeshots: 0,
                        repetition: before.repetition + 1,
                        transfers: Transfers { writes: 0, reads: 1 },
                    };
                    self.known.insert((steps, slots), behind.and(before).and(way));
                }
            }
            if self.known.len() > MOST_PAIRS {
                return None;
            }
        }
        self.of_reached(steps, free)
    }

    /// The states that are stored before the adjoint begins, ascending.
    fn first_sweep(&self, disk: Disk) -> Vec<u64> {
        let (mut state, mut left, mut free) = (0, self.plan.steps, disk.slots);
        let mut states = Vec::new();
        while left > 1 && self.levels.goes_to_disk(left, free) {
            states.push(state);
            match self.levels.next(left, free) {
                Next::Memory => break,
                Next::After(piece) => (state, left, free) = (state + piece, left - piece, free - 1),
            }
        }
        let mut slots = self.plan.slots;
        while left > 1 && slots > 0 {
            states.push(state);
            let last = slots == 1;
            let piece = if last { 0 } else { self.plan.rule.first_piece(left, slots, u64::MAX) };
            (state, left, slots) = (state + piece, left - piece, slots - 1);
        }
        states.dedup();
        states
    }
}

/// The cost of a plan with slots on disk beside its own; `None` if it has more than a million different
/// stretches, and more than [`MOST_ACTIONS`] actions.
pub fn of_levels(plan: &Plan, disk: Disk) -> Option<(PlanCost, Transfers)> {
    let levels = Levels::new(plan.steps, plan.slots, disk);
    let mut sums = TwoLevelCost { plan, levels, known: HashMap::new() };
    match sums.of_all(plan.steps, disk.slots) {
        None => by_actions(plan, disk),
        Some(sum) => {
            let first_sweep = sums.first_sweep(disk);
            let cost = PlanCost::with(first_sweep, plan.steps);
            let StretchCost { advances, takeshots, repetition, transfers } = sum;
            Some((PlanCost { advances, takeshots, repetition, ..cost }, transfers))
        }
    }
}

/// The same, by going through the actions.
fn by_actions(plan: &Plan, disk: Disk) -> Option<(PlanCost, Transfers)> {
    // Each step is reversed by its own action.
    if plan.steps > MOST_ACTIONS {
        return None;
    }
    let mut schedule = TwoLevel::new(*plan, disk);
    // At each state, how many more advances begin than end there.
    let mut more = vec![0_i64; plan.steps as usize + 1];
    let mut first_sweep = Vec::new();
    for action in (&mut schedule).take(MOST_ACTIONS as usize) {
        match action {
            Action::Advance { from, to } => {
                more[from as usize] += 1;
                more[to as usize] -= 1;
            }
            Action::Takeshot { state, .. } => first_sweep.push(state),
            _ => {}
        }
    }
    if schedule.fine() > 0 {
        return None;
    }
    // Later states follow the last of the first sweep.
    let ascending = first_sweep.windows(2).take_while(|pair| pair[0] < pair[1]).count();
    first_sweep.truncate(ascending + 1);
    let times = more.iter().scan(0, |times, more| {
        *times += more;
        Some(*times)
    });
    let cost = PlanCost {
        advances: schedule.done().advances,
        takeshots: schedule.done().takeshots.into(),
        repetition: times.max().unwrap_or(0) as u64,
        ..PlanCost::with(first_sweep, plan.steps)
    };
    Some((cost, schedule.transfers()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MAX_COST;
    use crate::rule::Rule;

    fn plan(steps: u64, slots: u64) -> Plan {
        Plan { steps, slots, resilience: u64::MAX, adjoint: None, rule: Rule::Optimal }
    }

    /// Compared with all actions, within the table and beyond it. Catches a write or a read that is counted
    /// twice or not at all, and a part with the slots of another.
    #[test]
    fn sums_are_what_the_actions_do() {
        for (memory, slots, write, read) in [
            (1, 1, 0, 0),
            (1, 2, 500, 1500),
            (2, 1, 0, 3000),
            (2, 3, 2000, 2000),
            (3, 4, 100, 100),
            (3, 50, 5000, 1000),
            (5, 2, 0, 0),
            (4, 9, MAX_COST, MAX_COST),
        ] {
            let disk = Disk { slots, write, read };
            for steps in (1..=90).chain([300, 1024, 1025, 2600, 4001]) {
                let plan = plan(steps, memory);
                let found = of_levels(&plan, disk);
                assert_eq!(found, by_actions(&plan, disk), "{steps} steps, {memory}, {disk:?}");
            }
        }
    }

    /// Catches work in proportion to the actions, or to the slots.
    #[test]
    fn the_longest() {
        for (memory, slots, cost) in [(9, 9, 1000), (100, 1000, 50_000), (3, 5, 5000), (10, 1, 0)] {
            let (steps, disk) = (1_000_000_000_000, Disk { slots, write: cost, read: cost });
            let (cost, transfers) = of_levels(&plan(steps, memory), disk).unwrap();
            assert!(cost.advances >= advances(steps, memory + slots));
            assert!(cost.advances <= advances(steps, memory));
            assert!(transfers.writes <= transfers.reads + 1, "{transfers:?}");
        }
    }
}
