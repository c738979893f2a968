//! The search for the newest iteration in which all invariants hold, as a pure function.

pub use format::pmem::IterationMark;

/// What an invariant says of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvariantAnswer {
    /// It holds.
    Holds,
    /// It does not.
    Fails,
    /// What it needs is not there.
    Unknown,
}

/// An iteration that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The iteration.
    pub iteration: u64,
    /// The first invariant that does not hold, and what it says; `None`: all hold.
    pub against: Option<(usize, InvariantAnswer)>,
}

/// The marks to try, the newest first: no more than there are slots, as older iterations were written over.
pub fn candidates(mut marks: Vec<IterationMark>, slots: u64) -> Vec<IterationMark> {
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.iteration));
    marks.dedup_by_key(|mark| mark.iteration);
    let oldest = marks.first().map_or(0, |newest| (newest.iteration + 1).saturating_sub(slots));
    marks.retain(|mark| mark.iteration >= oldest);
    marks
}

/// Tries iterations until all of `invariants` hold in one. Returns what was tried; the last one is the iteration that is
/// consistent, if all hold in it.
pub fn search(
    candidates: &[IterationMark],
    invariants: usize,
    mut judge: impl FnMut(&IterationMark, usize) -> InvariantAnswer,
) -> Vec<Tried> {
    let mut tried = Vec::new();
    for mark in candidates {
        let against = (0..invariants)
            .map(|invariant| (invariant, judge(mark, invariant)))
            .find(|(_, answer)| *answer != InvariantAnswer::Holds);
        let is_consistent = against.is_none();
        tried.push(Tried { iteration: mark.iteration, against });
        if is_consistent {
            break;
        }
    }
    tried
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marks(iterations: &[u64]) -> Vec<IterationMark> {
        iterations
            .iter()
            .map(|&iteration| IterationMark { iteration, scalars: Vec::new() })
            .collect()
    }

    /// Catches an order that is not by age, and an iteration whose slot has another one's data.
    #[test]
    fn candidates_have_their_slots() {
        let found = |iterations: &[u64], slots| {
            let found = candidates(marks(iterations), slots);
            found.into_iter().map(|mark| mark.iteration).collect::<Vec<_>>()
        };
        assert_eq!(found(&[3, 5, 4, 1], 3), [5, 4, 3]);
        assert_eq!(found(&[3, 9, 8], 2), [9, 8]);
        assert_eq!(found(&[0, 1], 1), [1]);
        assert_eq!(found(&[0], 64), [0]);
        assert_eq!(found(&[], 3), [0; 0]);
        assert_eq!(found(&[u64::MAX - 1, 7], 3), [u64::MAX - 1]);
    }

    proptest! {
        /// Catches a newest iteration that is passed over, and one that counts though an invariant fails.
        #[test]
        fn the_newest_in_which_all_hold(
            answers in prop::collection::vec(prop::collection::vec(0..3_u8, 3), 0..6),
        ) {
            let iterations: Vec<u64> = (0..answers.len() as u64).rev().collect();
            let answer = |nth: usize, invariant: usize| {
                let all = [InvariantAnswer::Holds, InvariantAnswer::Fails, InvariantAnswer::Unknown];
                all[answers[nth][invariant] as usize]
            };
            let all = marks(&iterations);
            let place = |mark: &IterationMark| answers.len() - 1 - mark.iteration as usize;
            let tried = search(&all, 3, |mark, invariant| answer(place(mark), invariant));
            let holds = |nth: usize| (0..3).all(|invariant| answer(nth, invariant) == InvariantAnswer::Holds);
            let expected = (0..answers.len()).find(|nth| holds(*nth));
            prop_assert_eq!(tried.len(), expected.map_or(answers.len(), |nth| nth + 1));
            for (nth, tried) in tried.iter().enumerate() {
                prop_assert_eq!(tried.against.is_none(), Some(nth) == expected);
                if let Some((invariant, said)) = tried.against {
                    prop_assert!(said != InvariantAnswer::Holds && said == answer(nth, invariant));
                    prop_assert!((0..invariant).all(|before| answer(nth, before) == InvariantAnswer::Holds));
                }
            }
        }
    }
}
