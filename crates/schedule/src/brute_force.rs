//! Independent answers for small cases: dynamic programming, and a search over all sequences of actions.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use super::schedule::{Action, Done, Schedule, Stored};

/// Least numbers of advances by dynamic programming, straight from the definition.
pub(crate) struct AdvanceTable {
    /// `[c][l]` without a bound.
    free: Vec<Vec<u128>>,
    /// `[c][l]` with the bound in the first sweep; `None`: not possible.
    bounded: Vec<Vec<Option<u128>>>,
    d: u64,
}

impl AdvanceTable {
    pub(crate) fn new(steps: u64, slots: u64, d: u64) -> AdvanceTable {
        let (steps, slots) = (steps as usize, slots as usize);
        let mut free = vec![vec![0; steps + 1]; slots + 1];
        let mut bounded = vec![vec![None; steps + 1]; slots + 1];
        for c in 1..=slots {
            for l in 0..=steps {
                let whole = (l * l.saturating_sub(1) / 2) as u128;
                free[c][l] = (1..l)
                    .filter(|_| c > 1)
                    .map(|m| m as u128 + free[c][m] + free[c - 1][l - m])
                    .fold(whole, u128::min);
                bounded[c][l] = if l as u64 <= d {
                    Some(free[c][l])
                } else {
                    (1..l)
                        .filter(|&m| c > 1 && m as u64 <= d)
                        .filter_map(|m| Some(m as u128 + free[c][m] + bounded[c - 1][l - m]?))
                        .min()
                };
            }
        }
        AdvanceTable { free, bounded, d }
    }

    pub(crate) fn advances(&self, l: u64, c: u64) -> u128 {
        self.bounded[c as usize][l as usize].unwrap()
    }

    /// All lengths of a first piece that lead to the least number.
    pub(crate) fn first_pieces(&self, l: u64, c: u64) -> Vec<u64> {
        let least = self.advances(l, c);
        (1..l.min(self.d + 1))
            .filter(|&m| {
                let rest = self.bounded[c as usize - 1][(l - m) as usize];
                rest.is_some_and(|rest| {
                    u128::from(m) + self.free[c as usize][m as usize] + rest == least
                })
            })
            .collect()
    }
}

/// The state of a computation: the stored states, the state that it works on, and that of the adjoint.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Situation {
    stored: BTreeSet<u64>,
    /// Those stored by the rest of the first sweep, which stay until the adjoint has passed them.
    of_sweep: BTreeSet<u64>,
    at: Option<u64>,
    fine: u64,
}

impl Situation {
    /// How far `state` is from the stored state below it.
    fn distance(&self, state: u64) -> u64 {
        self.stored.range(..=state).next_back().map_or(u64::MAX, |stored| state - stored)
    }
}

/// The least number of advances from stored states to the adjoint of state 0, over all sequences of actions:
/// any state may be stored in place of any other at any time.
///
/// `distance` is the resilience distance if the adjoint has not begun, so that the rest of the first sweep
/// keeps it: no state computed then, nor the end, is farther from the stored state below it, and what is
/// stored then stays until the adjoint has passed it. (One slot that is written again and again would keep
/// any distance: that is another strategy, single recovery.)
pub(crate) fn least_advances(
    stored: &[u64],
    fine: u64,
    slots: usize,
    distance: Option<u64>,
) -> Option<u64> {
    let steps = distance.map(|_| fine);
    let is_first = |situation: &Situation| Some(situation.fine) == steps;
    let distance = distance.unwrap_or(u64::MAX);
    let stored = stored.iter().copied().collect();
    let start = Situation { stored, of_sweep: BTreeSet::new(), at: None, fine };
    let mut best = HashMap::from([(start.clone(), 0)]);
    let mut queue = BinaryHeap::from([Reverse((0, start))]);
    while let Some(Reverse((cost, now))) = queue.pop() {
        if now.fine == 0 {
            return Some(cost);
        }
        if best[&now] < cost {
            continue;
        }
        let mut next = Vec::new();
        for &state in &now.stored {
            next.push((cost, Situation { at: Some(state), ..now.clone() }));
        }
        if let Some(at) = now.at {
            let is_allowed = !is_first(&now) || now.distance(at + 1) <= distance;
            if at + 1 < now.fine && is_allowed {
                next.push((cost + 1, Situation { at: Some(at + 1), ..now.clone() }));
            } else if at + 1 == now.fine && is_allowed {
                let mut turned = Situation { at: None, fine: at, ..now.clone() };
                turned.of_sweep.retain(|state| *state < at);
                next.push((cost, turned));
            }
            if !now.stored.contains(&at) {
                let mut with_it = now.clone();
                with_it.stored.insert(at);
                if is_first(&now) {
                    with_it.of_sweep.insert(at);
                }
                if now.stored.len() < slots {
                    next.push((cost, with_it.clone()));
                }
                for state in now.stored.difference(&now.of_sweep) {
                    let mut in_place = with_it.clone();
                    in_place.stored.remove(state);
                    next.push((cost, in_place));
                }
            }
        }
        for (cost, situation) in next {
            if best.get(&situation).is_none_or(|&known| cost < known) {
                best.insert(situation.clone(), cost);
                queue.push(Reverse((cost, situation)));
            }
        }
    }
    None
}

/// Carries out a schedule, and panics if an action is impossible.
#[derive(Clone, Debug)]
pub(crate) struct Player {
    pub slots: HashMap<u64, u64>,
    pub at: Option<u64>,
    pub fine: u64,
    /// The state that the last stored adjoint belongs to.
    pub adjoint: Option<u64>,
    pub done: Done,
}

impl Player {
    pub(crate) fn new(steps: u64) -> Player {
        Player::with(&[], steps, Some(0))
    }

    pub(crate) fn with(stored: &[Stored], fine: u64, at: Option<u64>) -> Player {
        let slots = stored.iter().map(|stored| (stored.slot, stored.state)).collect();
        Player { slots, at, fine, adjoint: None, done: Done::default() }
    }

    pub(crate) fn act(&mut self, schedule: &Schedule, action: Action) {
        let plan = schedule.plan();
        match action {
            Action::Advance { from, to } => {
                assert_eq!(self.at, Some(from));
                assert!(from < to && to < self.fine, "{action:?}, adjoint {}", self.fine);
                self.at = Some(to);
                self.done.advances += u128::from(to - from);
            }
            Action::Takeshot { state, slot, .. } => {
                assert_eq!(self.at, Some(state));
                assert!(slot < plan.slots, "{action:?}");
                self.slots.insert(slot, state);
                self.done.takeshots += 1;
            }
            Action::Restore { state, slot, .. } => {
                assert_eq!(self.slots.get(&slot), Some(&state), "{action:?}");
                self.at = Some(state);
            }
            Action::Firsturn { step, check } | Action::Youturn { step, check } => {
                assert_eq!((self.at, self.fine), (Some(step - 1), step));
                assert_eq!(matches!(action, Action::Firsturn { .. }), step == plan.steps);
                self.fine -= 1;
                self.at = None;
                self.done.turns += 1;
                if check {
                    assert!(self.adjoint.is_none_or(|stored| stored >= self.fine));
                    self.adjoint = Some(self.fine);
                    self.done.adjoints += 1;
                }
            }
            // Those of mixed schedules have a player of their own.
            Action::Record { .. } | Action::Reverse { .. } => panic!("{action:?}"),
            Action::Terminate => assert_eq!(self.fine, 0),
        }
    }

    /// Carries out the rest of the schedule; returns what was done.
    pub(crate) fn play(&mut self, schedule: &mut Schedule) -> Done {
        while let Some(action) = Iterator::next(schedule) {
            self.act(schedule, action);
        }
        assert_eq!(self.fine, 0, "the schedule ended early");
        assert_eq!(self.done, schedule.done());
        self.done
    }

    /// The states and the adjoint that a crash would leave.
    pub(crate) fn survivors(&self) -> Vec<Stored> {
        self.slots.iter().map(|(&slot, &state)| Stored { state, slot }).collect()
    }
}
