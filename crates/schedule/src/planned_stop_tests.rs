//! Planned stops, and the restarts after them.

use super::*;
use crate::rule::Rule;
use crate::schedule::Action;

fn plan(steps: u64, slots: u64) -> Plan {
    Plan { steps, slots, resilience: u64::MAX, adjoint: None, rule: Rule::Optimal }
}

/// A job: the contents of the places in the store, which all jobs share, and its position.
struct Job {
    schedule: Schedule,
    places: Vec<Option<u64>>,
    at: Option<u64>,
    fine: u64,
}

impl Job {
    fn resumed(plan: Plan, places: Vec<Option<u64>>, fine: u64) -> Job {
        let there = places.iter().zip(0..).map(|(state, slot)| (*state, slot));
        let states = there.filter_map(|(state, slot)| Some(Stored { state: state?, slot }));
        let adjoint = (fine < plan.steps).then_some(fine);
        let survivors = Survivors { states: states.collect(), adjoint, at_start: true };
        let schedule = resume(plan, &survivors).unwrap();
        let at = schedule.stored().is_empty().then_some(0);
        Job { schedule, places, at, fine }
    }

    /// Computes `most` steps, or to the end; returns how many.
    fn compute(&mut self, most: u64) -> u64 {
        let mut computed = 0;
        while computed < most {
            match self.schedule.next_action() {
                Action::Advance { from, to } => {
                    assert_eq!(self.at, Some(from));
                    assert!(from < to && to < self.fine);
                    let passed = (to - from).min(most - computed);
                    self.at = Some(from + passed);
                    computed += passed;
                }
                Action::Takeshot { state, slot, .. } => {
                    assert_eq!(self.at, Some(state));
                    let others = self.schedule.stored().iter().filter(|s| s.slot == slot);
                    assert_eq!(others.count(), 1, "one state for each slot");
                    self.places[slot as usize] = Some(state);
                }
                Action::Restore { state, slot, .. } => {
                    assert_eq!(self.places[slot as usize], Some(state));
                    self.at = Some(state);
                }
                Action::Firsturn { step, .. } | Action::Youturn { step, .. } => {
                    assert_eq!((self.at, self.fine), (Some(step - 1), step));
                    (self.fine, self.at) = (step - 1, None);
                    computed += 1;
                }
                Action::Record { .. } | Action::Reverse { .. } => {
                    panic!("in a plan that is not mixed")
                }
                Action::Terminate => {
                    assert_eq!(self.fine, 0);
                    break;
                }
            }
        }
        computed
    }

    /// Stores the present state in a place that the schedule does not need.
    fn stop(mut self) -> (Vec<Option<u64>>, u64) {
        if let Some(at) = self.at {
            let needed = self.schedule.stored();
            let is_free = |place: &usize| needed.iter().all(|stored| stored.slot != *place as u64);
            let place = (0..self.places.len()).find(is_free).unwrap();
            self.places[place] = Some(at);
        }
        (self.places, self.fine)
    }
}

fn least(plan: Plan) -> u64 {
    let mut job = Job::resumed(plan, vec![None; plan.slots as usize + 1], plan.steps);
    job.compute(u64::MAX)
}

/// Stopped after a fixed number of steps each time, with as few slots as possible: all jobs together take not
/// one step more. Catches a stop that drops its state while all slots are full, which never comes to an end,
/// and a state that is kept at the cost of a more valuable one.
#[test]
fn stops_cost_no_steps() {
    for (steps, slots) in [(1_u64, 1_u64), (20, 1), (40, 2), (60, 3), (61, 5), (30, 30), (500, 6)] {
        for d in [u64::MAX, steps.div_ceil(slots) + 2] {
            let plan = Plan { resilience: d, ..plan(steps, slots) };
            let whole = least(plan);
            for every in [1, 2, 3, 7, 50] {
                let (mut places, mut fine) = (vec![None; slots as usize + 1], steps);
                let (mut computed, mut jobs) = (0, 0);
                while fine > 0 {
                    let mut job = Job::resumed(plan, places, fine);
                    computed += job.compute(every);
                    jobs += 1;
                    (places, fine) = job.stop();
                }
                let name = format!("{plan:?}, stops after {every}");
                // A state that was carried along may be of use once more.
                assert!(computed <= whole, "{name}: {computed}, and {whole} do");
                assert_eq!(jobs, computed.div_ceil(every), "{name}");
            }
        }
    }
}

/// With one state more than slots, for any states: at most as many steps as without any one of them.
#[test]
fn no_other_state_is_better_left_out() {
    for (steps, slots) in [(9_u64, 1), (9, 2), (10, 3), (9, 4)] {
        for set in (0..1_u64 << steps).filter(|set| set & 1 == 1) {
            let states: Vec<u64> = (0..steps).filter(|state| set >> state & 1 == 1).collect();
            if states.len() as u64 != slots + 1 {
                continue;
            }
            let plan = plan(steps, slots);
            let remaining = |states: &[Option<u64>], fine: u64| {
                Job::resumed(plan, states.to_vec(), fine).compute(u64::MAX)
            };
            let all: Vec<Option<u64>> = states.iter().copied().map(Some).collect();
            for fine in states[states.len() - 1] + 1..=steps {
                for turned in 0..all.len() {
                    let mut all = all.clone();
                    all.rotate_left(turned);
                    let found = remaining(&all, fine);
                    for left_out in (0..all.len()).filter(|place| all[*place] != Some(0)) {
                        let mut fewer = all.clone();
                        fewer[left_out] = None;
                        assert!(found <= remaining(&fewer, fine), "{all:?}, adjoint {fine}");
                    }
                    let highest = states[states.len() - 1];
                    let fewer = all.iter().map(|state| state.filter(|state| *state != highest));
                    let carried = remaining(&fewer.collect::<Vec<_>>(), fine - 1);
                    assert!(found <= fine - 1 - highest + 1 + carried, "{all:?}, adjoint {fine}");
                }
            }
        }
    }
}
