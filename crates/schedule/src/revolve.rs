//! The interface of the original revolve, whose caller keeps `check`, `capo` and `fine`, so that loops
//! written for it can be used.
//!
//! Source: Griewank, Walther, "Algorithm 799: revolve", ACM TOMS 26 (2000), section 4.

use super::binomial::{advances, beta, MAX_STEPS};
use super::rule::Rule;

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Compute forward to `capo`.
    Advance,
    /// Store state `capo` in slot `check`.
    Takeshot,
    /// Read state `capo` from slot `check`.
    Restore,
    /// The first step that is reversed: the one behind `capo`.
    Firsturn,
    /// The same for any other.
    Youturn,
    /// All steps are reversed.
    Terminate,
}

/// Why there is no next step. The numbers are those of `info` in the original, where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// `check`, `capo`, `fine` or `snaps` is out of range.
    Arguments,
    /// `check` is beyond the slots (the original's 11).
    TooManyStored,
    /// `check` does not match what was stored before: this is another computation.
    Unknown,
}

/// The numbers that the caller keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevolveState {
    /// The slot that was written last of those in use; -1: none.
    pub check: i64,
    /// The state that the caller has.
    pub capo: i64,
    /// The state that the adjoint has come to.
    pub fine: i64,
}

/// What the original keeps in its own variables.
#[derive(Clone, Debug, Default)]
pub struct Revolve {
    /// The states that are stored, by slot.
    stored: Vec<i64>,
    turned: bool,
}

impl Revolve {
    /// Returns the next step of a caller at `place` with `snaps` slots, and updates the place.
    pub fn step(&mut self, place: &mut RevolveState, snaps: i64) -> Result<Step, Wrong> {
        let RevolveState { check, capo, fine } = *place;
        let most = MAX_STEPS as i64;
        if check < -1 || capo < 0 || fine < capo || fine > most || !(1..=most).contains(&snaps) {
            return Err(Wrong::Arguments);
        }
        if check + 1 > snaps {
            return Err(Wrong::TooManyStored);
        }
        if check == -1 && fine > capo {
            // Another computation begins.
            *self = Revolve::default();
        }
        let Some(stored) = self.stored.get(..(check + 1) as usize) else {
            return Err(Wrong::Unknown);
        };
        let last = stored.last().copied();
        if last.is_some_and(|last| last > capo && fine > capo) {
            return Err(Wrong::Unknown);
        }
        match (fine - capo, last) {
            (0, None) => Ok(Step::Terminate),
            (0, Some(first)) if check == 0 && first == capo => {
                place.check = -1;
                Ok(Step::Terminate)
            }
            (0, Some(last)) => {
                place.capo = last;
                Ok(Step::Restore)
            }
            (1, _) => {
                place.fine -= 1;
                place.check -= i64::from(last == Some(capo));
                Ok(match std::mem::replace(&mut self.turned, true) {
                    false => Step::Firsturn,
                    true => Step::Youturn,
                })
            }
            (_, Some(last)) if last == capo => {
                let slots = (snaps - check) as u64;
                place.capo = match slots {
                    1 => fine - 1,
                    // At most the distance, which fits.
                    _ => {
                        capo + Rule::Resilient.first_piece((fine - capo) as u64, slots, u64::MAX)
                            as i64
                    }
                };
                Ok(Step::Advance)
            }
            // All slots are in use: on to the last step.
            (_, _) if check + 1 == snaps => {
                place.capo = fine - 1;
                Ok(Step::Advance)
            }
            (_, _) => {
                self.stored.truncate((check + 1) as usize);
                self.stored.push(capo);
                place.check += 1;
                Ok(Step::Takeshot)
            }
        }
    }
}

/// The largest number of steps that can be reversed with `snaps` slots and `repetitions` repetitions; `None`:
/// the number is too large.
pub fn maxrange(snaps: u64, repetitions: u64) -> Option<i64> {
    i64::try_from(beta(snaps, repetitions)).ok()
}

/// The least number of forward steps that are not recorded.
pub fn numforw(steps: u64, snaps: u64) -> Option<i64> {
    let fits = (1..=MAX_STEPS).contains(&steps) && (1..=MAX_STEPS).contains(&snaps);
    fits.then(|| i64::try_from(advances(steps, snaps)).ok()).flatten()
}

/// A number of slots for which slots and repetitions are about as many.
pub fn adjust(steps: u64) -> u64 {
    let enough = |snaps, repetitions| beta(snaps, repetitions) >= u128::from(steps);
    let mut both = 1;
    while !enough(both, both) {
        both += 1;
    }
    // Reduces both in turns, as long as that is enough.
    let (mut snaps, mut repetitions) = (both, both);
    loop {
        let fewer =
            if snaps > repetitions { (snaps - 1, repetitions) } else { (snaps, repetitions - 1) };
        if fewer.1 == 0 || fewer.0 == 0 || !enough(fewer.0, fewer.1) {
            return snaps;
        }
        (snaps, repetitions) = fewer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Action, Plan, Schedule};

    /// Compared step by step with a schedule, for all small cases.
    #[test]
    fn it_goes_the_way_of_a_schedule() {
        for snaps in 1..=6 {
            for steps in 1..=60 {
                let plan = Plan {
                    steps,
                    slots: snaps,
                    resilience: u64::MAX,
                    adjoint: None,
                    rule: Rule::Resilient,
                };
                let mut schedule = Schedule::new(plan);
                let mut revolve = Revolve::default();
                let mut place = RevolveState { check: -1, capo: 0, fine: steps as i64 };
                loop {
                    let before = place;
                    let step = revolve.step(&mut place, snaps as i64).unwrap();
                    // A schedule stores state 0 even if it is not restored.
                    let mut action = schedule.next_action();
                    if steps == 1 && matches!(action, Action::Takeshot { .. }) {
                        action = schedule.next_action();
                    }
                    let same = match action {
                        Action::Advance { from, to } => {
                            step == Step::Advance
                                && (before.capo, place.capo) == (from as i64, to as i64)
                        }
                        Action::Takeshot { state, slot, .. } => {
                            step == Step::Takeshot
                                && (place.capo, place.check) == (state as i64, slot as i64)
                        }
                        Action::Restore { state, slot, .. } => {
                            step == Step::Restore
                                && (place.capo, place.check) == (state as i64, slot as i64)
                        }
                        Action::Firsturn { step: turn, .. } => {
                            step == Step::Firsturn && place.fine == turn as i64 - 1
                        }
                        Action::Youturn { step: turn, .. } => {
                            step == Step::Youturn && place.fine == turn as i64 - 1
                        }
                        Action::Record { .. } | Action::Reverse { .. } => false,
                        Action::Terminate => step == Step::Terminate,
                    };
                    assert!(
                        same,
                        "{steps} steps, {snaps} slots: {action:?}, {step:?} at {place:?}"
                    );
                    if step == Step::Terminate {
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn what_the_helpers_say() {
        assert_eq!(maxrange(3, 4), Some(35));
        assert_eq!(maxrange(1 << 40, 1 << 40), None);
        assert_eq!(numforw(100, 5), Some(100 * 4 - 84));
        assert_eq!((numforw(0, 5), numforw(5, 0)), (None, None));
        // β(3, 3) = 20 >= 11 > β(3, 2) = 10, and β(4, 3) = 35 >= 21.
        assert_eq!((adjust(1), adjust(2), adjust(11), adjust(20), adjust(21)), (1, 1, 3, 3, 4));
    }

    #[test]
    fn wrong_places_are_refused() {
        let mut revolve = Revolve::default();
        for (check, capo, fine, snaps, wrong) in [
            (-2, 0, 9, 3, Wrong::Arguments),
            (-1, 5, 4, 3, Wrong::Arguments),
            (-1, 0, 9, 0, Wrong::Arguments),
            (3, 0, 9, 3, Wrong::TooManyStored),
            (1, 0, 9, 3, Wrong::Unknown),
        ] {
            let mut place = RevolveState { check, capo, fine };
            let before = place;
            assert_eq!(revolve.step(&mut place, snaps), Err(wrong));
            assert_eq!(place, before);
        }
    }
}
