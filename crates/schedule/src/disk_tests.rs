//! Schedules with two levels of slots, carried out to the end and compared with the recursion.

use super::*;
use crate::levels::TwoLevel;
use crate::schedule::{Action, Plan};
use std::collections::HashMap;

/// The recursion, straight from its definition.
struct Recursion {
    memory: u64,
    disk: Disk,
    known: HashMap<(u64, u64, bool), u64>,
}

impl Recursion {
    fn new(memory: u64, disk: Disk) -> Recursion {
        Recursion { memory, disk, known: HashMap::new() }
    }

    /// D if the state is stored, else E.
    fn cost(&mut self, l: u64, slots: u64, stored: bool) -> u64 {
        if l < 2 {
            return 0;
        }
        if let Some(known) = self.known.get(&(l, slots, stored)) {
            return *known;
        }
        let mut least = cost_in_memory(l, self.memory);
        if stored {
            for j in 1..l {
                let right = self.cost(l - j, slots - 1, false);
                let left = self.cost(j, slots, true);
                least = least.min(j * UNIT + right + self.disk.read + left);
            }
        } else if slots > 0 {
            least = least.min(self.disk.write + self.cost(l, slots, true));
        }
        self.known.insert((l, slots, stored), least);
        least
    }
}

fn plan(steps: u64, memory: u64) -> Plan {
    Plan { steps, slots: memory, resilience: u64::MAX, adjoint: None, rule: Rule::Optimal }
}

/// Carries out a schedule with slots that hold what was stored in them, and returns its cost.
fn walk(mut schedule: TwoLevel, slots: u64) -> u128 {
    let (mut at, mut fine, mut kept) = (Some(0), schedule.plan().steps, HashMap::new());
    while let Some(action) = Iterator::next(&mut schedule) {
        match action {
            Action::Advance { from, to } => {
                assert!(at == Some(from) && from < to && to < fine);
                at = Some(to);
            }
            Action::Takeshot { state, slot, .. } => {
                assert!(at == Some(state) && slot < slots);
                kept.insert(slot, state);
            }
            Action::Restore { state, slot, .. } => {
                assert_eq!(kept[&slot], state);
                at = Some(state);
            }
            Action::Firsturn { step, .. } | Action::Youturn { step, .. } => {
                assert!(at == Some(step - 1) && fine == step);
                (at, fine) = (None, step - 1);
            }
            Action::Record { .. } | Action::Reverse { .. } => panic!("{action:?}"),
            Action::Terminate => {}
        }
    }
    assert_eq!(fine, 0);
    schedule.cost()
}

#[test]
fn short_sweeps_cost_what_the_recursion_says() {
    for (memory, slots, write, read) in [
        (1, 1, 0, 0),
        (1, 2, 500, 1500),
        (1, 9, 2000, 2000),
        (2, 1, 0, 3000),
        (2, 3, 2000, 2000),
        (3, 4, 100, 100),
        (3, 50, 5000, 1000),
        (5, 2, 0, 0),
    ] {
        let disk = Disk { slots, write, read };
        let mut recursion = Recursion::new(memory, disk);
        for steps in 1..=90 {
            let cost = walk(TwoLevel::new(plan(steps, memory), disk), memory + slots);
            let least = recursion.cost(steps, slots, false);
            assert_eq!(cost, u128::from(least), "{steps} steps, {memory} in memory, {disk:?}");
        }
    }
}

/// Beyond the table, compared with a table of the full length. Catches a rule that writes too often, or not
/// often enough.
#[test]
fn long_sweeps_cost_little_more() {
    for (steps, memory, slots, write, read) in [
        (2600, 1, 1, 1000, 1000),
        (2600, 1, 3, 2000, 2000),
        (2600, 2, 10, 500, 500),
        (1500, 3, 5, 5000, 5000),
        (1500, 3, 40, 2000, 2000),
        (1500, 3, 80, 2000, 2000),
        (1500, 3, 320, 2000, 2000),
        (2600, 5, 20, 10_000, 10_000),
        (2600, 5, 1000, 10_000, 10_000),
        (2600, 10, 3, 10_000, 10_000),
        (2600, 10, 8, 50_000, 20_000),
        (2600, 10, 30, 50_000, 20_000),
        (2600, 20, 30, 50_000, 20_000),
    ] {
        let disk = Disk { slots, write, read };
        let exact = Levels::with_entries(memory, disk, 1, steps);
        let stored = disk.write + exact.row(slots).unwrap()[steps as usize].1;
        let least = stored.min(cost_in_memory(steps, memory)) as f64;
        let excess = walk(TwoLevel::new(plan(steps, memory), disk), memory + slots) as f64 / least;
        assert!((1.0..1.05).contains(&excess), "{steps}, {memory} in memory, {disk:?}: {excess}");
    }
}

/// Entries that stand for many steps, and the largest number of steps: a write every best length, if there
/// are enough slots.
#[test]
fn numbers_as_large_as_they_come() {
    let disk = Disk { slots: 1 << 40, write: MAX_COST, read: MAX_COST };
    let steps = 1_000_000_000_000;
    let mut schedule = TwoLevel::new(plan(steps, 20), disk);
    assert!(schedule.levels().stride > 1);
    let period = schedule.levels().period;
    for _ in 0..1000 {
        let Action::Takeshot { slot, .. } = schedule.next_action() else { panic!() };
        assert!(slot >= 20);
        let Action::Advance { from, to } = schedule.next_action() else { panic!() };
        assert_eq!(to - from, period);
    }
    for (memory, slots) in [(1, 1), (1 << 47, 3), (3, binomial::MAX_STEPS)] {
        let disk = Disk { slots, write: 0, read: 1 };
        let mut schedule = TwoLevel::new(plan(binomial::MAX_STEPS, memory), disk);
        (0..100).for_each(|_| assert_ne!(schedule.next_action(), Action::Terminate));
    }
}

/// What is on disk after a crash is used, what was in memory is not.
#[test]
fn a_crash_leaves_what_is_on_disk() {
    let disk = Disk { slots: 6, write: 2000, read: 2000 };
    for crash in 1..400 {
        let mut schedule = TwoLevel::new(plan(200, 3), disk);
        (0..crash).for_each(|_| {
            schedule.next_action();
        });
        let (left, fine) = (schedule.on_disk().to_vec(), schedule.fine());
        if left.is_empty() {
            continue;
        }
        let mut schedule = TwoLevel::resumed(plan(200, 3), disk, &left, fine);
        let top = *left.last().unwrap();
        let Action::Restore { state, slot, .. } = schedule.next_action() else { panic!() };
        assert_eq!((state, slot), (top.state, top.slot));
        let mut turned = 0;
        while let Some(action) = Iterator::next(&mut schedule) {
            turned += u64::from(matches!(action, Action::Firsturn { .. } | Action::Youturn { .. }));
            if let Action::Takeshot { slot, .. } = action {
                assert!(slot < 9);
            }
        }
        assert_eq!(turned, fine);
    }
}
