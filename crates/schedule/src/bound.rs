//! The least number of advances if stored states may be at most a resilience distance `d` apart, and the end
//! at most `d` from the last one.
//!
//! The first sweep cuts `l` steps into at most `c` pieces of at most `d` steps. The adjoint of a piece is
//! computed with the slots that are free by then: the first piece has all `c`, the last has one. The cost of
//! a piece is convex in its length: each further step costs its repetition number, and one advance more for
//! the sweep that passes over it, except in the last piece. So the total is least if no step costs more than
//! one that could be added to another piece instead: for some repetition number `ρ` the piece with `k` slots
//! has between `min(d, β(k, ρ - 2))` and `min(d, β(k, ρ - 1))` steps, and the last between `min(d, ρ)` and
//! `min(d, ρ + 1)`. Without a bound these are the limits of the paper's equation (4).

use std::ops::RangeInclusive;

use super::binomial::{self, beta, repetitions};

/// The most steps that `slots` slots can reverse if no step costs more than `r` advances and no piece is
/// longer than `d`.
fn reach(slots: u64, d: u64, r: u64) -> u128 {
    if r == 0 {
        return 1;
    }
    let d_wide = u128::from(d);
    // The pieces with 2 to `whole` slots are not cut short by the bound: the sum of β(k, r - 1) over them is
    // β(whole, r) without its terms for 0 and 1. As β(k, r - 1) exceeds k (r - 1), at most `short` of them
    // fit.
    let short = d.checked_div(r - 1).unwrap_or(slots);
    let (mut whole, mut cut) = (1, slots.min(short.max(1)) + 1);
    while cut - whole > 1 {
        let middle = whole + (cut - whole) / 2;
        *(if beta(middle, r - 1) <= d_wide { &mut whole } else { &mut cut }) = middle;
    }
    let r_wide = u128::from(r);
    let free = beta(whole, r) - 1 - r_wide;
    free + u128::from(slots - whole) * d_wide + d_wide.min(r_wide + 1)
}

/// The repetition number under the bound: how many advances the most expensive of `l` steps takes.
fn repetitions_within(l: u64, c: u64, d: u64) -> u64 {
    let enough = |r| reach(c, d, r) >= u128::from(l);
    // Never fewer than without the bound. Never as many as d: then every piece has its d steps.
    let (mut low, mut high) = (repetitions(l, c).0, d.max(1));
    if enough(low) {
        return low;
    }
    let mut stride = 1;
    while low + stride < high && !enough(low + stride) {
        (low, stride) = (low + stride, 2 * stride);
    }
    high = high.min(low + stride);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        *(if enough(middle) { &mut high } else { &mut low }) = middle;
    }
    high
}

/// Whether `c` slots suffice for `l` steps if no piece may be longer than `d`.
pub(crate) fn feasible(l: u64, c: u64, d: u64) -> bool {
    u128::from(l) <= u128::from(c) * u128::from(d)
}

/// The least number of advances for `l` steps with `c` slots and no piece longer than `d`, which must
/// be `feasible`.
pub fn advances(l: u64, c: u64, d: u64) -> u128 {
    if l <= d {
        return binomial::advances(l, c);
    }
    let r = repetitions_within(l, c, d);
    // A step that costs more than s advances counts once for each such s. With few pieces, summing over the
    // pieces is faster.
    if r <= c {
        return (0..r).map(|s| u128::from(l) - reach(c, d, s).min(u128::from(l))).sum();
    }
    let (mut left, mut sum) = (l, 0);
    for slots in (1..=c).rev() {
        if slots == 1 || left <= d {
            return sum + binomial::advances(left, slots);
        }
        let piece = *first_pieces(left, slots, d).end();
        sum += u128::from(piece) + binomial::advances(piece, slots);
        left -= piece;
    }
    sum
}

/// The least distance under which `l` steps with `c` slots take no more advances than without one.
pub fn least_free(l: u64, c: u64) -> u64 {
    let free = binomial::advances(l, c);
    // A larger distance never costs more.
    let (mut too_little, mut enough) = (l.div_ceil(c) - 1, l);
    while enough - too_little > 1 {
        let middle = too_little + (enough - too_little) / 2;
        *(if advances(l, c, middle) > free { &mut too_little } else { &mut enough }) = middle;
    }
    enough
}

/// How long the first piece may be in a sweep with the least number of advances, for `l >= 2` steps
/// and `c >= 2` slots.
pub(crate) fn first_pieces(l: u64, c: u64, d: u64) -> RangeInclusive<u64> {
    let r = repetitions_within(l, c, d);
    let (l_wide, d_wide) = (u128::from(l), u128::from(d));
    let most = d_wide.min(beta(c, r - 1)).min(l_wide - reach(c - 1, d, r - 1).min(l_wide - 1));
    let least = if r < 2 { 0 } else { d_wide.min(beta(c, r - 2)) };
    let least = least.max(l_wide.saturating_sub(reach(c - 1, d, r))).max(1);
    // Both fit: they are at most l.
    (least as u64)..=(most.max(least) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brute_force::AdvanceTable;

    #[test]
    fn the_least_under_a_bound_is_what_dynamic_programming_finds() {
        for d in 1..=24 {
            let table = AdvanceTable::new(60, 9, d);
            for c in 1..=9 {
                for l in 1..=60.min(c * d) {
                    assert_eq!(
                        advances(l, c, d),
                        table.advances(l, c),
                        "{l}, {c} slots, bound {d}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_first_pieces_are_those_that_dynamic_programming_finds() {
        for d in 1..=20 {
            let table = AdvanceTable::new(60, 8, d);
            for c in 2..=8 {
                for l in 2..=60.min(c * d) {
                    let found = table.first_pieces(l, c);
                    let range = first_pieces(l, c, d);
                    assert_eq!(
                        (*range.start(), *range.end()),
                        (found[0], found[found.len() - 1]),
                        "{l} steps, {c} slots, bound {d}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_least_distance_that_costs_nothing() {
        for c in 1..=7 {
            for l in 1..=60 {
                let costs = |d: u64| !feasible(l, c, d) || advances(l, c, d) > advances(l, c, l);
                let least = (1..=l).find(|&d| !costs(d)).unwrap();
                assert_eq!(least_free(l, c), least, "{l} steps, {c} slots");
            }
        }
        // Less than what Table 1 of the paper has, where the first piece is as long as it can be.
        for (l, c, d) in [(350_000, 52, 20_020), (700_000, 160, 11_473), (1_750_000, 1870, 1822)] {
            assert_eq!(least_free(l, c), d);
            assert!(u128::from(d) < beta(c, repetitions(l, c).0 - 1));
        }
    }
}
