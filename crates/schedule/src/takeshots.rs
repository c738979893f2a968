//! How many states are stored to reverse a stretch of steps, by each rule, without going through it.
//!
//! Let `G(l, c)` be that number, including the first state. With a first piece of `p` steps, `G(l, c) = G(p,
//! c) + G(l - p, c - 1)`, or `G(p, c)` alone where `l - p = 1`: a single step is turned from at once. Every
//! rule cuts the most steps that `c` slots can have with `r` repetitions into `β(c, r - 1)` and `β(c - 1,
//! r)`, so `G(β(c, r), c) = β(c - 1, r)`. From other lengths each rule cuts off such a part, and goes on with
//! the rest, which has fewer slots or repetitions. Consecutive cuts that leave something unchanged are
//! computed together, so there are no more of these than slots, or repetitions.

use super::binomial::{beta, repetitions};
use super::rule::Rule;

/// How many states are stored to reverse `l` steps with `slots` slots, including the first, by a rule without
/// a resilience distance. If the steps are the last ones of all, a single one has no state stored.
///
/// Takes time in proportion to the slots or the repetitions, whichever are fewer, and their logarithm.
pub(crate) fn takeshots(rule: Rule, l: u64, slots: u64, is_last: bool) -> u128 {
    match rule {
        _ if l == 1 => u128::from(!is_last),
        Rule::Optimal | Rule::Resilient => by_revolve(l, slots),
        Rule::Monotone => by_longest(l, slots),
        Rule::Shortest => by_shortest(l, slots),
    }
}

/// Source: Griewank, Walther, ACM TOMS 26 (2000), Proposition 2.
fn by_revolve(l: u64, c: u64) -> u128 {
    let (r, _) = repetitions(l, c);
    let rest = u128::from(l).saturating_sub(beta(c, r - 1));
    rest.max(if c == 1 { 1 } else { beta(c - 1, r - 1) })
}

/// Of `l = β(c, r - 1) + e` steps, `e <= β(c - 1, r)`, the longest first piece leaves `β(c - 1, r - 1)` to the
/// others, which leaves `e` as it is and `r` one less; or, once `e` is more than that, it has `β(c, r - 1)`.
/// The former all together with the latter store `β(c - 1, r - 1)` states, whatever `r` they end with. So
/// `G(l, c) = β(c - 1, r - 1) + G(e, c - 1)`.
fn by_longest(l: u64, c: u64) -> u128 {
    let (mut e, mut c, mut sum) = (l, c, 0);
    loop {
        let (r, range) = repetitions(e, c);
        if c == 1 || r < 2 || u128::from(e) == range {
            return sum + full(e, c, r);
        }
        // As long as r is the same, e grows less by β(c, r - 1), and c by one: after k times there are
        // β(c - k, r) - gap left, which is more than β(c - k, r - 1) as long as β(c - k - 1, r) is more than
        // the gap.
        let gap = range - u128::from(e);
        let times = last(c - 1, |k| beta(c - k, r) > gap);
        sum += beta(c - 1, r) - beta(c - 1 - times, r);
        c -= times;
        // At most e.
        e = (beta(c, r) - gap) as u64;
        if e == 1 {
            return sum;
        }
    }
}

/// Of `l = β(c, r) - g` steps, the shortest first piece leaves `β(c - 1, r)` to the others, which leaves `g` as
/// it is and `r` one less; or, once `g` is at least `β(c - 1, r - 1)`, it has `β(c, r - 2)`, and the others have
/// `β(c - 1, r) - (g - β(c - 1, r - 1))`.
fn by_shortest(l: u64, c: u64) -> u128 {
    let (mut r, range) = repetitions(l, c);
    let (mut c, mut gap, mut sum) = (c, range - u128::from(l), 0);
    loop {
        if c == 1 || r < 2 || gap == 0 {
            return sum + full((beta(c, r) - gap) as u64, c, r);
        }
        let fewer = r - last(r - 1, |k| beta(c - 1, r - k) > gap);
        sum += beta(c - 1, r) - beta(c - 1, fewer);
        r = fewer;
        if r < 2 {
            continue;
        }
        // The other pieces again and again, as long as the gap, of which they take β(c - 1, r - 1) each time,
        // is large enough.
        let missing = beta(c - 1, r) - gap;
        let times = last(c - 1, |k| beta(c - 1 - k, r) >= missing);
        sum += beta(c - 1, r - 1) - beta(c - 1 - times, r - 1);
        gap = beta(c - 1 - times, r) - missing;
        c -= times;
    }
}

/// With one slot, at most one repetition, or the most steps that the slots can have.
fn full(l: u64, c: u64, r: u64) -> u128 {
    match (c, r) {
        (1, _) => 1,
        (_, 0 | 1) => u128::from(l.max(2) - 1),
        _ => beta(c - 1, r),
    }
}

/// The largest number up to `most` such that `holds` is true from 1 up to it; 0 if it is true for none.
fn last(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, most + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        *(if holds(middle) { &mut low } else { &mut high }) = middle;
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Straight from the definition. 0 for a single step.
    fn counted(rule: Rule, l: u64, c: u64, known: &mut HashMap<(u64, u64), u128>) -> u128 {
        if l == 1 || c == 1 {
            return u128::from(l > 1);
        }
        if let Some(known) = known.get(&(l, c)) {
            return *known;
        }
        let piece = rule.first_piece(l, c, u64::MAX);
        // A single step that comes first has its state stored already.
        let first = if piece == 1 { 1 } else { counted(rule, piece, c, known) };
        let sum = first + counted(rule, l - piece, c - 1, known);
        known.insert((l, c), sum);
        sum
    }

    /// Catches cuts computed together beyond where they end, and single steps that are counted.
    #[test]
    fn what_is_stored_piece_by_piece() {
        for (rule, _) in Rule::ALL {
            let mut known = HashMap::new();
            for c in 1..=14 {
                for l in 2..=700 {
                    let found = takeshots(rule, l, c, false);
                    assert_eq!(
                        found,
                        counted(rule, l, c, &mut known),
                        "{rule:?}, {l} steps, {c} slots"
                    );
                }
            }
            for c in [1, 2, 3, 5, 20, 100, 3000, 10_000] {
                for l in [10_000, 32_768, 123_457, 1_000_000, 123_456_789] {
                    // The definition recurses as deep as there are repetitions.
                    if repetitions(l, c).0 < 3000 {
                        let found = takeshots(rule, l, c, false);
                        let counted = counted(rule, l, c, &mut known);
                        assert_eq!(found, counted, "{rule:?}, {l} steps, {c} slots");
                    }
                }
            }
        }
    }

    /// Catches a loop over the slots or the repetitions.
    #[test]
    fn the_longest() {
        let most = crate::binomial::MAX_STEPS;
        for (rule, _) in Rule::ALL {
            for c in [1, 2, 3, 10, 1_000_000, most - 1, most] {
                for l in [most, most - 1, most / 2 + 1] {
                    let found = takeshots(rule, l, c, false);
                    assert!(
                        found >= u128::from(c.min(l - 1)) && found < u128::from(l),
                        "{rule:?}, {l}, {c}"
                    );
                }
            }
        }
    }
}
