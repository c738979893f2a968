//! Why there is no schedule, or no figures of one, in words.

use std::fmt::Display;

use super::binomial::MAX_STEPS;
use super::cost::MOST_STATES;
use super::disk::Disk;
use super::error::{Error, Result};
use super::rule::Rule;
use super::schedule::{Plan, Unfit};

/// A number of slots that cannot be.
pub(super) fn wrong_slots(slots: i64) -> Error {
    Error::invalid(format!("slots = {slots}: 1 to {MAX_STEPS} are possible"))
}

/// So many slots on disk, beside which a resilience distance would be of no meaning.
pub(super) fn both(slots: impl Display, distance: impl Display) -> Error {
    Error::invalid(format!(
        "{slots} slots on disk and a resilience distance of {distance} steps exclude each other: how far \
         apart states are stored follows what disk costs"
    ))
}

/// A plan with more states in the first sweep than are looked at.
pub fn too_many(plan: &Plan) -> Error {
    let states = plan.slots.min(plan.steps);
    Error::invalid(format!(
        "up to {states} states are stored in the first sweep; figures are for {MOST_STATES} at the most"
    ))
}

/// Whether states can be stored by a rule beside slots on disk, for which there is the optimal one alone.
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

/// What is wrong with a plan, in words.
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
