//! The errors that say why there is no schedule, or why its cost is not computed.

use std::fmt::Display;

use super::binomial::MAX_STEPS;
use super::cost::MOST_STATES;
use super::disk::Disk;
use super::error::{Error, Result};
use super::rule::Rule;
use super::schedule::{Plan, Unfit};

/// An invalid number of slots.
pub(super) fn wrong_slots(slots: i64) -> Error {
    Error::invalid(format!("slots = {slots}: 1 to {MAX_STEPS} are possible"))
}

/// Slots on disk exclude a resilience distance, which has no meaning beside them.
pub(super) fn both(slots: impl Display, distance: impl Display) -> Error {
    Error::invalid(format!(
        "{slots} slots on disk and a resilience distance of {distance} steps exclude each other: how far \
         apart states are stored follows what disk costs"
    ))
}

/// What a mixed schedule excludes: a crash would leave records of single steps, from which nothing can go on.
pub fn mixed_and(what: &str) -> Error {
    Error::invalid(format!("the rule mixed and {what} exclude each other"))
}

/// A plan with too many states in the first sweep to list them.
pub fn too_many(plan: &Plan) -> Error {
    let states = plan.slots.min(plan.steps);
    Error::invalid(format!(
        "up to {states} states are stored in the first sweep; figures are for {MOST_STATES} at the most"
    ))
}

/// Refuses other rules than the optimal one beside slots on disk.
pub fn check_rule(rule: Rule, disk: Option<Disk>) -> Result<()> {
    let name = Rule::ALL.iter().find(|(known, _)| *known == rule).map_or("", |(_, name)| name);
    match disk {
        Some(Disk { slots, .. }) if rule != Rule::Optimal => Err(Error::invalid(format!(
            "the rule {name} and {slots} slots on disk exclude each other: where states are stored in \
             memory and on disk follows what both cost"
        ))),
        _ => Ok(()),
    }
}

/// The error for a plan that [`Plan::check`] refuses.
pub fn refusal(plan: &Plan, unfit: Unfit) -> Error {
    let Plan { steps, slots, resilience, .. } = *plan;
    Error::invalid(match unfit {
        Unfit::Steps(steps) => format!("{steps} steps: 1 to {MAX_STEPS} are possible"),
        Unfit::Slots(slots) => format!("{slots} slots: 1 to {MAX_STEPS} are possible"),
        Unfit::Resilience => "a resilience distance of 0: it is 1 or more".to_string(),
        Unfit::Adjoint => "an adjoint distance of 0: it is 1 or more".to_string(),
        Unfit::TooFewSlots(needed) => format!(
            "a resilience distance of {resilience} steps: {slots} slots hold states for {} of the \
             {steps} steps; {needed} slots would do, or a distance of {}",
            slots.saturating_mul(resilience),
            steps.div_ceil(slots)
        ),
    })
}
