//! Convex piecewise linear functions of a state's number, as costs.

use std::ops::Add;

use super::binomial::{self, beta, repetitions};
use super::bound;

/// Up to this repetition number, each number has its own piece.
const EACH: u64 = 1024;

/// Above [`EACH`], repetition numbers within one part in this many of each other share a piece.
const TOGETHER: u64 = 128;

/// The cost of reversing steps, compared in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    /// Steps by which the first sweep exceeds the resilience distance.
    pub excess: u64,
    /// Advances.
    pub advances: u128,
}

impl Cost {
    /// The cost of this many advances.
    pub(crate) fn of_advances(advances: u64) -> Cost {
        Cost { excess: 0, advances: u128::from(advances) }
    }

    /// The least cost of reversing `l` steps with `slots` slots, in a sweep that keeps the resilience
    /// distance `d` if it can.
    pub(crate) fn of_sweep(l: u64, slots: u64, d: u64) -> Cost {
        if bound::feasible(l, slots, d) {
            return Cost { excess: 0, advances: bound::advances(l, slots, d) };
        }
        // The product is less than l, as the distance is not feasible.
        Cost { excess: l - slots * d, advances: bound::advances(l, slots, u64::MAX) }
    }

    /// The cost of reversing the `l` steps from one stored state to the next with `slots` slots.
    pub(crate) fn of_piece(l: u64, slots: u64) -> Cost {
        Cost { excess: 0, advances: binomial::advances(l, slots) }
    }

    /// A lower bound on the cost of reversing `l >= 1` steps with `slots` slots and any `states >= 1` stored
    /// states: the cost with the best such states, without the advances to them. They cut the steps into
    /// pieces with `slots` slots and fewer, one after the other; in all, `β(slots, r + 1) - β(slots - states,
    /// r + 1)` of the steps cost at most `r` advances each.
    pub(crate) fn without_ways(l: u64, slots: u64, states: u64) -> Cost {
        let others = slots.saturating_sub(states);
        let least = repetitions(l + 1, slots).0 - 1;
        // One more is always enough: the first piece alone then has that many steps.
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
pub(crate) struct Convex {
    from: u64,
    value: Cost,
    /// The cost of each further state, and for how many states it holds; ascending.
    pieces: Vec<(Cost, u64)>,
}

impl Convex {
    /// The cost of reversing 0 to `most` steps behind a stored state with `slots` slots, including its own.
    ///
    /// With few slots and many steps there are millions of repetition numbers. Those above 1024 share a piece
    /// with others that are at most a 128th larger, at their mean. The error is at most 1 in 25,000 of the
    /// cost; 3 slots come to that with 180 million steps, 2 with 500,000.
    pub(crate) fn reversal(most: u64, slots: u64) -> Convex {
        let mut pieces = Vec::new();
        let (mut reached, mut r) = (0, 0);
        while reached < most {
            r += if r > EACH { r / TOGETHER - 1 } else { 0 };
            let end = u64::try_from(beta(slots, r)).unwrap_or(u64::MAX).min(most);
            let (mut least, mut dearer) = (r, 0);
            if r > EACH {
                let all = binomial::advances(end, slots) - binomial::advances(reached, slots);
                let count = u128::from(end - reached);
                // Both are less than 2^64: a step has at most as many advances as there are steps.
                (least, dearer) = ((all / count) as u64, (all % count) as u64);
            }
            for (cost, length) in [(least, end - reached - dearer), (least + 1, dearer)] {
                pieces.push((Cost::of_advances(cost), length));
                reached += length;
            }
            r += 1;
        }
        pieces.retain(|(_, length)| *length > 0);
        Convex { from: 0, value: Cost::default(), pieces }
    }

    /// The value at `state`, where the function must be defined.
    pub(crate) fn at(&self, state: u64) -> Cost {
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

    /// The function from `start` on, plus one advance for each state behind that.
    pub(crate) fn moved_from(&self, start: u64) -> Convex {
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

    /// The minimum over a middle state of `self` there plus `other` for the steps from there to a last state,
    /// as a function of the last state.
    pub(crate) fn followed_by(&self, other: &Convex, end: u64) -> Convex {
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

    /// Whether this is nowhere less than `other` from `start` on, where both are defined. They end together.
    pub(crate) fn is_nowhere_less(&self, other: &Convex, start: u64) -> bool {
        let corners = self.corners().chain(other.corners()).filter(|state| *state > start);
        let mut corners: Vec<u64> = [start].into_iter().chain(corners).collect();
        // Both are sorted.
        corners.sort();
        let (mut mine, mut its) = (self.one_by_one(), other.one_by_one());
        corners.into_iter().all(|state| mine(state) >= its(state))
    }

    /// The value at a state; the states must ascend from call to call.
    fn one_by_one(&self) -> impl FnMut(u64) -> Cost + '_ {
        let (mut pieces, mut begin, mut value) =
            (self.pieces.iter().peekable(), self.from, self.value);
        move |state| {
            while let Some((slope, length)) = pieces.next_if(|(_, length)| begin + length <= state)
            {
                (begin, value) = (begin + length, value + slope.times(*length));
            }
            match pieces.peek() {
                Some((slope, _)) => value + slope.times(state - begin),
                None => value,
            }
        }
    }

    /// The states at which pieces end.
    fn corners(&self) -> impl Iterator<Item = u64> + '_ {
        self.pieces.iter().scan(self.from, |end, (_, length)| {
            *end += length;
            Some(*end)
        })
    }

    /// The state from the beginning of this function to `last` at which the sum of it and `rest`, another
    /// convex function, is least.
    pub(crate) fn least_with(&self, last: u64, rest: impl Fn(u64) -> Cost) -> (u64, Cost) {
        self.least_from(self.from, last, rest)
    }

    /// The same from `first` on, where the function must be defined.
    pub(crate) fn least_from(
        &self,
        first: u64,
        last: u64,
        rest: impl Fn(u64) -> Cost,
    ) -> (u64, Cost) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a piece for each of millions of repetition numbers, and one that is off by more than is said.
    #[test]
    fn a_long_reversal_has_few_pieces() {
        for (most, slots) in [(1_u64 << 48, 1), (1 << 48, 2), (1 << 48, 3), (1 << 48, 4), (9000, 2)]
        {
            let function = Convex::reversal(most, slots);
            assert!(function.pieces.len() < 8000, "{most}, {slots}: {}", function.pieces.len());
            assert!(function.pieces.is_sorted_by_key(|(slope, _)| *slope));
            for l in (0..48).map(|shift| most >> shift).chain([most - 1, most / 3, most / 7]) {
                let (found, exact) = (function.at(l).advances, binomial::advances(l, slots));
                let off = found.abs_diff(exact);
                assert!(off <= exact / 25_000, "{l} of {most}, {slots}: {found}, {exact}");
            }
        }
    }

    /// Catches a merge of two functions that passes a corner of either.
    #[test]
    fn one_that_is_nowhere_less() {
        for (slots, more) in [(2, 0), (3, 0), (3, 4), (2, 30), (5, 7)] {
            let one = Convex::reversal(200, slots).moved_from(11);
            for fewer in 1..=6 {
                let other = Convex::reversal(200, fewer).moved_from(11);
                let other = Convex { value: other.value + Cost::of_advances(more), ..other };
                for start in [11, 12, 50, 199] {
                    let is = (start..=200).all(|state| one.at(state) >= other.at(state));
                    assert_eq!(one.is_nowhere_less(&other, start), is, "{slots}, {fewer}, {start}");
                }
            }
        }
    }
}
