//! Leaps in a pass whose end is not known, to the next state that may be stored.
//!
//! When all slots are in use, a state is not stored as long as giving up any other would cost more advances
//! than going on without it. Let the state be `x` steps behind the last stored one, and that one `a` steps
//! behind the one before. Then, where `A` is [`advances`],
//!
//! - going on without the state costs `x` advances more,
//! - giving up the last stored state costs `A(a + x, 2) - A(a, 2) - A(x, 1)` more,
//! - giving up the best of all others costs `K + A(x, 2) - A(x, 1)` more, with a constant `K`.
//!
//! Once `x` is no less than such a cost, it stays so, as the repetition number of a step, by which `A(., 2)`
//! grows, grows by at most one.

use super::binomial::advances;
use super::online::Online;
use super::schedule::Action;

impl Online {
    /// The next action; all steps before the next state that may be stored, and before `end`, become one
    /// action.
    pub fn leap(&mut self, end: u64) -> Action {
        let action = self.next_action();
        let Action::Advance { from, to } = action else { return action };
        let to = self.next_decision(to).min(end).max(to);
        self.at = Some(to);
        Action::Advance { from, to }
    }

    /// The first state from `state` on at which it must be decided whether to store it.
    fn next_decision(&mut self, state: u64) -> u64 {
        let count = self.stored.len();
        if (count as u64) < self.slots {
            return state;
        }
        let [.., second, last] = self.stored[..] else {
            // The only slot has state 0.
            return u64::MAX;
        };
        let (from, length) = (last.state, last.state - second.state);
        // Beyond it the last piece would be too long.
        let mut most = self.repetition;
        if let Some(fixed) = self.next_fixed().filter(|fixed| *fixed >= u128::from(state)) {
            most = most.min((fixed - u128::from(from)).min(u128::from(most)) as u64);
        }
        let least = state - from;
        let in_two =
            |x: u64| advances(length + x, 2) < advances(length, 2) + advances(x, 1) + u128::from(x);
        let x = first(least, most, in_two);
        let two = u128::from(self.repetition) * u128::from(self.repetition + 1) / 2;
        if !self.is_fixed(from) && u128::from(length + x) <= two {
            most = x;
        }
        if let Some(other) = self.cheapest_other() {
            let is_cheaper = |x: u64| {
                other + (advances(x, 2) as i128) < (advances(x, 1) + u128::from(x)) as i128
            };
            most = first(least, most, is_cheaper);
        }
        from.saturating_add(most.max(least))
    }
}

/// The first number from `least` to `most` for which `holds` is true, as it then is for all larger ones;
/// `most` if it is true for none below.
fn first(least: u64, most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    if most <= least || !holds(most - 1) {
        // This is the usual case.
        return most;
    }
    let (mut low, mut high) = (least, most - 1);
    while low < high {
        let middle = low + (high - low) / 2;
        match holds(middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Stored;

    /// Goes on to `end` both ways; compares which states are stored when, and what is there at the end.
    fn compare(one: &Online, end: u64, case: &str) {
        let (mut one, mut other) = (one.clone(), one.clone());
        let mut shots = Vec::new();
        while one.at() != Some(end) {
            shots.extend(Some(one.next_action()).filter(|action| !is_advance(action)));
        }
        let (mut leaps, mut actions) = (Vec::new(), 0);
        while other.at() != Some(end) {
            leaps.extend(Some(other.leap(end)).filter(|action| !is_advance(action)));
            actions += 1;
        }
        assert_eq!(shots, leaps, "{case}, to {end}");
        assert_eq!(one.stored(), other.stored(), "{case}, to {end}");
        // At most every second decision stores nothing.
        assert!(
            actions <= 4 * leaps.len() as u64 + 4,
            "{case}, to {end}: {actions}, {}",
            leaps.len()
        );
    }

    fn is_advance(action: &Action) -> bool {
        matches!(action, Action::Advance { .. })
    }

    /// Catches a state that is leapt over although it is stored.
    #[test]
    fn a_leap_stores_what_steps_store() {
        for slots in (1..=12).chain([20, 33, 64, 65, 66, 67, 100]) {
            for end in [1, 2, 3, 10, 99, 300, 2000] {
                compare(&Online::new(slots), end, &format!("{slots} slots"));
            }
        }
    }

    /// With lost states, so that the others are not where a pass would have them.
    #[test]
    fn after_a_crash_as_well() {
        for slots in [2, 3, 4, 7, 70] {
            for end in [5, 40, 400] {
                let mut online = Online::new(slots);
                while online.at() != Some(end) {
                    online.next_action();
                }
                let states = online.stored().to_vec();
                for lost in 1..states.len() {
                    let left: Vec<Stored> = states
                        .iter()
                        .enumerate()
                        .filter(|(i, _)| i % lost != 1)
                        .map(|(_, s)| *s)
                        .collect();
                    if let Some(again) = Online::resumed(slots, &left) {
                        compare(&again, end + 300, &format!("{slots} slots, {left:?}"));
                    }
                    compare(
                        &Online::resumed_at_start(slots, &left[1..]),
                        end + 300,
                        "without state 0",
                    );
                }
            }
        }
    }
}
