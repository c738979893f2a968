//! Binomial checkpointing: the least number of steps that are computed again.
//!
//! `β(c, r) = (c + r)! / (c! r!)` is the largest number of steps whose adjoint can be computed with
//! `c` slots such that no step is computed more than `r` times without being recorded.
//!
//! Source: Griewank, Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000), Proposition 1.

/// The largest number of steps and of slots. Numbers of advances, which grow with the square of the
/// steps if there is one slot, stay far below the range of `u128`.
pub const MAX_STEPS: u64 = 1 << 48;

/// `β(c, r)`; `u128::MAX` stands for whatever is larger.
pub(crate) fn beta(c: u64, r: u64) -> u128 {
    let (few, many) = (c.min(r), u128::from(c.max(r)));
    let mut product: u128 = 1;
    for i in 1..=u128::from(few) {
        // Exact: the product of the first i factors is β(i, many).
        let Some(next) = product.checked_mul(many + i) else { return u128::MAX };
        product = next / i;
    }
    product
}

/// The repetition number: the least `r` with `l <= β(c, r)`, and that `β(c, r)`.
///
/// `l` is 1 to [`MAX_STEPS`], `c` at least 1.
pub fn repetitions(l: u64, c: u64) -> (u64, u128) {
    /// Up to here, trying one repetition after the other is cheaper than a search.
    const FEW: u64 = 48;
    let l = u128::from(l);
    let (mut r, mut range) = (0, 1_u128);
    while range < l && r < FEW {
        r += 1;
        range = range.saturating_mul(u128::from(c + r)) / u128::from(r);
    }
    if range >= l {
        return (r, range);
    }
    // Only few slots need so many, and then β has few factors. Their geometric mean is about that of the
    // first and the last.
    let factorial = (1..=c).fold(1.0, |product, i| product * i as f64);
    let mean = (l as f64 * factorial).powf(1.0 / c as f64);
    let mut r = r.max((mean - (c + 1) as f64 / 2.0) as u64);
    let mut range = beta(c, r);
    while range < l {
        r += 1;
        range = beta(c, r);
    }
    loop {
        let fewer = beta(c, r - 1);
        if fewer < l {
            return (r, range);
        }
        (r, range) = (r - 1, fewer);
    }
}

/// The least number of advances (forward steps that are not recorded) in which the adjoint of `l`
/// steps can be computed with `c` slots, one of which has the first state.
///
/// `l` is 0 to [`MAX_STEPS`], `c` at least 1. Each further step costs as many advances as its
/// repetition number: the function is convex in `l`.
pub fn advances(l: u64, c: u64) -> u128 {
    if l < 2 {
        return 0;
    }
    let (r, _) = repetitions(l, c);
    u128::from(r) * u128::from(l) - beta(c + 1, r - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brute_force::AdvanceTable;

    #[test]
    fn the_closed_form_is_what_dynamic_programming_finds() {
        let table = AdvanceTable::new(200, 12, u64::MAX);
        for c in 1..=12 {
            for l in 0..=200 {
                assert_eq!(advances(l, c), table.advances(l, c), "{l} steps, {c} slots");
            }
        }
    }

    #[test]
    fn numbers_that_were_printed() {
        // Table 1 of the paper; of its c = 78 for 1,750,000 steps it says r = 4, which needs 79.
        for (l, c, r) in [
            (350_000, 52, 4),
            (350_000, 127, 3),
            (350_000, 836, 2),
            (700_000, 62, 4),
            (700_000, 160, 3),
            (700_000, 1182, 2),
            (1_750_000, 78, 5),
            (1_750_000, 79, 4),
            (1_750_000, 217, 3),
            (1_750_000, 1870, 2),
        ] {
            assert_eq!(repetitions(l, c).0, r, "{l} steps, {c} slots");
            // The least number of slots for that, but listed in the wrong row.
            assert!(c == 78 || repetitions(l, c - 1).0 > r, "{l} steps, {} slots", c - 1);
        }
    }

    #[test]
    fn large_numbers() {
        let l = 1_000_000_000_000;
        assert_eq!(repetitions(l, 1).0, l - 1);
        assert_eq!(advances(l, 1), u128::from(l) * u128::from(l - 1) / 2);
        for c in [2, 3, 10, 100, 10_000, 1_000_000, l] {
            let (r, range) = repetitions(l, c);
            assert_eq!(range, beta(c, r));
            assert!(range >= u128::from(l) && beta(c, r - 1) < u128::from(l));
        }
        assert_eq!(advances(l, l), u128::from(l) - 1);
        assert_eq!(beta(1 << 40, 1 << 40), u128::MAX);
    }
}
