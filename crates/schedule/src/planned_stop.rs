//! Continuing after a planned stop, from the state that the application had then. It is stored in a place
//! beside the slots of the schedule, so there may be one state more than slots.
//!
//! One of the states must be left out: the one without which the fewest advances remain. If that is the
//! highest, it need not be stored again to be of use: it is restored first and advanced to the adjoint, as in
//! a schedule whose slots are all full. So a run takes no more advances, however often it is stopped.

use super::convex::{Convex, Cost};
use super::resume::{best_chain, resume as resume_within, sort, Lost, Survivors};
use super::schedule::{Plan, Schedule, Stored};

/// Continues what is left of a computation with `plan`, whose states are in its slots and in one place more.
pub(crate) fn resume(plan: Plan, survivors: &Survivors) -> Result<Schedule, Lost> {
    let extra = plan.slots;
    let mut survivors = survivors.clone();
    survivors.states.retain(|stored| stored.slot <= extra);
    if survivors.states.iter().all(|stored| stored.slot != extra) {
        return resume_within(plan, &survivors);
    }
    let fine = survivors.adjoint.unwrap_or(plan.steps).min(plan.steps);
    let (useful, _, used) = sort(&survivors, &Plan { slots: extra + 1, ..plan }, fine);
    let all_are_useful = useful.len() as u64 == used;
    let (left_out, carried) = match useful.last() {
        Some(highest) if all_are_useful && useful[0].state == 0 => {
            let (rest, end) = (&useful[..useful.len() - 1], fine - 1);
            let (kept, _) = best_chain(&plan, &useful, fine);
            let without = cost_of(&plan, &useful, &kept, fine);
            // Nothing is stored on the way from the highest state.
            let excess = (fine - highest.state).saturating_sub(plan.distance_at(fine));
            let way = Cost { excess, ..Cost::of_advances(end - highest.state) };
            let carrying = cost_of(&plan, rest, &best_chain(&plan, rest, end).0, end) + way;
            match carrying < without {
                true => (highest.slot, Some(*highest)),
                // There is one more than slots: not all are kept.
                false => (unkept(&useful, &kept).map_or(extra, |stored| stored.slot), None),
            }
        }
        // Leaves out a state of no use, or an empty slot.
        _ => {
            let is_of_use = |slot: &u64| useful.iter().any(|stored| stored.slot == *slot);
            ((0..=extra).find(|slot| !is_of_use(slot)).unwrap_or(extra), None)
        }
    };
    // The state in the additional place takes over the number of the slot that is left out.
    survivors.states.retain(|stored| stored.slot != left_out);
    for stored in &mut survivors.states {
        stored.slot = if stored.slot == extra { left_out } else { stored.slot };
    }
    if carried.is_some() {
        survivors.adjoint = Some(fine - 1);
    }
    let mut schedule = resume_within(plan, &survivors)?;
    for stored in schedule.stored.iter_mut().chain(&mut schedule.free) {
        stored.slot = if stored.slot == left_out { extra } else { stored.slot };
    }
    if let Some(carried) = carried {
        schedule.fine = fine;
        schedule.stored.push(carried);
        schedule.moves.push((carried.state, fine - 1));
    }
    Ok(schedule)
}

/// The first state that is not among those kept.
fn unkept<'a>(states: &'a [Stored], kept: &[(usize, u64)]) -> Option<&'a Stored> {
    let is_kept = |place: usize| kept.iter().any(|(kept, _)| *kept == place);
    states.iter().enumerate().find(|(place, _)| !is_kept(*place)).map(|(_, stored)| stored)
}

/// The cost of continuing with some of these states, kept as [`best_chain`] says.
fn cost_of(plan: &Plan, states: &[Stored], kept: &[(usize, u64)], fine: u64) -> Cost {
    let ends = kept.iter().skip(1).map(|(_, to)| *to).chain([fine]);
    let pieces = kept.iter().zip(ends).zip((1..=plan.slots).rev());
    pieces.fold(Cost::default(), |cost, ((&(place, to), end), left)| {
        let way = Cost::of_advances(to - states[place].state);
        let piece = match end == fine {
            true => Cost::of_sweep(end - to, left, plan.distance_at(end)),
            false => Convex::reversal(end - to, left).at(end - to),
        };
        cost + way + piece
    })
}

#[cfg(test)]
#[path = "planned_stop_tests.rs"]
mod tests;
