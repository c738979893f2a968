//! Convex piecewise linear functions of a state's number, as costs.

use std::ops::Add;

use super::binomial::{beta, repetitions};
use super::bound;

/// What it costs to reverse steps. Compared in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Steps by which pieces exceed the resilience distance.
    pub excess: u64,
    /// Advances.
    pub advances: u128,
}

impl Cost {
    /// So many advances.
    pub fn of_advances(advances: u64) -> Cost {
        Cost { excess: 0, advances: u128::from(advances) }
    }

    /// What it costs at least to reverse `l` steps with `slots` slots, in a sweep that keeps the
    /// resilience distance `d` if it can.
    pub fn of_sweep(l: u64, slots: u64, d: u64) -> Cost {
        if bound::feasible(l, slots, d) {
            return Cost { excess: 0, advances: bound::advances(l, slots, d) };
        }
        // Not feasible, so that the product is less than l.
        Cost { excess: l - slots * d, advances: bound::advances(l, slots, u64::MAX) }
    }

    /// What it would cost to reverse `l >= 1` steps with `slots` slots, `states >= 1` of which had the best
    /// states for that, without the way there: no less than it costs with any so many states. The pieces
    /// that these cut have `slots` slots and fewer, one after the other; in all, `β(slots, r + 1) -
    /// β(slots - states, r + 1)` of their steps cost at most `r` advances each.
    pub fn without_ways(l: u64, slots: u64, states: u64) -> Cost {
        let others = slots.saturating_sub(states);
        let least = repetitions(l + 1, slots).0 - 1;
        // One more is always enough: the first piece alone has so many steps then.
        let is_enough = |r: u64| beta(slots, r + 1) - beta(others, r + 1) >= u128::from(l);
        let r = if is_enough(least) { least } else { least + 1 };
        let all = u128::from(r) * u128::from(l) + beta(others + 1, r);
        Cost { excess: 0, advances: all - beta(slots + 1, r) }
    }

    fn times(self, steps: u64) -> Cost {
        Cost {
            excess: self.excess.saturating_mul(steps),
            advances: self.advances * u128::from(steps),
        }
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            excess: self.excess.saturating_add(other.excess),
            advances: self.advances + other.advances,
        }
    }
}

/// A convex function on the states from `from` on, up to the end of its last piece.
#[derive(Clone, Debug)]
pub struct Convex {
    from: u64,
    value: Cost,
    /// What each further state costs, and for how many; ascending.
    pieces: Vec<(Cost, u64)>,
}

impl Convex {
    /// What it costs to reverse 0 to `most` steps behind a stored state, with `slots` slots, its own
    /// among them. What lies beyond the resilience distance `d` is excess.
    pub fn reversal(most: u64, slots: u64, d: u64) -> Convex {
        let mut pieces = Vec::new();
        let (mut reached, mut r) = (0, 0);
        while reached < most {
            let end = u64::try_from(beta(slots, r)).unwrap_or(u64::MAX).min(most);
            let cost = Cost::of_advances(r);
            let within = end.min(d).max(reached);
            if within > reached {
                pieces.push((cost, within - reached));
            }
            if end > within {
                pieces.push((Cost { excess: 1, ..cost }, end - within));
            }
            (reached, r) = (end, r + 1);
        }
        pieces.sort_by_key(|(slope, _)| *slope);
        Convex { from: 0, value: Cost::default(), pieces }
    }

    /// The value at `state`, which is where the function is defined.
    pub fn at(&self, state: u64) -> Cost {
        let (mut value, mut left) = (self.value, state - self.from);
        for (slope, length) in &self.pieces {
            if left == 0 {
                break;
            }
            value = value + slope.times(left.min(*length));
            left -= left.min(*length);
        }
        value
    }

    /// The function from `start` on, and an advance more for each state behind that.
    pub fn moved_from(&self, start: u64) -> Convex {
        let value = self.at(start);
        let mut before = start - self.from;
        let mut pieces = Vec::new();
        for (slope, length) in &self.pieces {
            let cut = before.min(*length);
            before -= cut;
            if *length > cut {
                pieces.push((*slope + Cost::of_advances(1), length - cut));
            }
        }
        Convex { from: start, value, pieces }
    }

    /// The least of `self` at one state and `other` for the steps from there to another, as a
    /// function of the latter.
    pub fn followed_by(&self, other: &Convex, end: u64) -> Convex {
        let mut pieces: Vec<_> = self.pieces.iter().chain(&other.pieces).copied().collect();
        pieces.sort_by_key(|(slope, _)| *slope);
        pieces.dedup_by(|next, piece| {
            let same = next.0 == piece.0;
            piece.1 += if same { next.1 } else { 0 };
            same
        });
        let mut left = end - self.from;
        pieces.retain_mut(|(_, length)| {
            *length = left.min(*length);
            left -= *length;
            *length > 0
        });
        Convex { from: self.from, value: self.value + other.value, pieces }
    }

    /// Whether this is nowhere less than `other`, from `start` on, where both are defined. They end
    /// together.
    pub fn is_nowhere_less(&self, other: &Convex, start: u64) -> bool {
        let corners = self.corners().chain(other.corners()).filter(|state| *state > start);
        corners.chain([start]).all(|state| self.at(state) >= other.at(state))
    }

    /// Where pieces end.
    fn corners(&self) -> impl Iterator<Item = u64> + '_ {
        self.pieces.iter().scan(self.from, |end, (_, length)| {
            *end += length;
            Some(*end)
        })
    }

    /// The state at which this and `rest`, a convex function of the same, are least together, from
    /// where it begins to `last`.
    pub fn least_with(&self, last: u64, rest: impl Fn(u64) -> Cost) -> (u64, Cost) {
        self.least_from(self.from, last, rest)
    }

    /// The same from `first` on, which is where the function is defined.
    pub fn least_from(&self, first: u64, last: u64, rest: impl Fn(u64) -> Cost) -> (u64, Cost) {
        let whole = |state: u64| self.at(state) + rest(state);
        let (mut low, mut high) = (first, last);
        while low < high {
            let middle = low + (high - low) / 2;
            if whole(middle + 1) < whole(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low, whole(low))
    }
}
