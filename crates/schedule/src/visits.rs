//! An estimate of how many stretches of a plan are visited to find where the adjoint is stored, without
//! visiting them.
//!
//! Those of a plan's stretches ([`super::stretches`]) are entered in which the adjoint is stored. If it is
//! stored after each work `W`, these are the fraction `w / W` of the stretches with work `w < W`, and all
//! with more; each stretch that is entered leads to two visits. The total depends only on the length of a
//! stretch and on its slots, and there are few such pairs.

use std::collections::HashMap;

use super::schedule::Plan;

/// The most pairs that are evaluated: some tenths of a second.
const MOST_PAIRS: usize = 300_000;

/// The number of stretches visited if the adjoint is stored after each `every` of work, where `work` gives
/// the work of steps with slots. `None` if there are more than [`MOST_PAIRS`] pairs.
pub(super) fn visits(plan: &Plan, every: f64, work: impl Fn(u64, u64) -> f64) -> Option<f64> {
    let mut entered = HashMap::<(u64, u64), f64>::new();
    let whole = (plan.steps, plan.slots);
    let mut open = vec![whole];
    while let Some(&(steps, slots)) = open.last() {
        let sum = match (steps, slots) {
            (1, _) => 0.0,
            (_, 1) => halved(steps, work(steps, 1) / every),
            _ => {
                let piece = plan.rule.first_piece(steps, slots, plan.resilience);
                let parts = [(steps - piece, slots - 1), (piece, slots)];
                let missing = parts.into_iter().filter(|part| !entered.contains_key(part));
                let before = open.len();
                open.extend(missing);
                if open.len() > before {
                    if open.len() + entered.len() > MOST_PAIRS {
                        return None;
                    }
                    continue;
                }
                let of_parts = parts.iter().filter_map(|part| entered.get(part)).sum::<f64>();
                of_parts + (work(steps, slots) / every).min(1.0)
            }
        };
        entered.insert((steps, slots), sum);
        open.pop();
    }
    Some(1.0 + 2.0 * entered.get(&whole)?)
}

/// How many are entered of the halves of steps with one slot, their halves, and so on. `times` is how often the
/// adjoint is stored in all of them.
fn halved(steps: u64, times: f64) -> f64 {
    let depth = steps.next_power_of_two().trailing_zeros();
    (0..depth).map(|halved| f64::from(halved).exp2().min(times)).sum()
}
