//! Checks that recomputed states are the same as the first time.

use errors::{Error, ErrorKind, Result};

/// The most hashes that are kept: 8 MiB.
const MOST_HASHES: u64 = 1 << 20;

/// The hashes of the computed states.
#[derive(Clone, Debug)]
pub(crate) struct ReplayCheck {
    /// Every `stride`th state is checked.
    stride: u64,
    /// The hashes by state; 0: not computed yet.
    hashes: Vec<u64>,
    /// The index of the first hash that is not in the store.
    unstored: usize,
}

impl ReplayCheck {
    /// A check for a run of `steps` steps.
    pub(crate) fn new(steps: u64) -> ReplayCheck {
        let stride = steps.div_ceil(MOST_HASHES).max(1);
        ReplayCheck { stride, hashes: vec![0; (steps / stride) as usize + 1], unstored: 0 }
    }

    /// Adds hashes that an earlier job has stored, of the states from `first` on. Hashes of computed
    /// states are kept.
    pub(crate) fn add_stored(&mut self, first: u64, hashes: &[u64]) {
        let first = usize::try_from(first / self.stride).unwrap_or(usize::MAX);
        for (place, hash) in self.hashes.iter_mut().skip(first).zip(hashes) {
            if *place == 0 {
                *place = *hash;
            }
        }
    }

    /// All hashes up to `state` are stored.
    pub(crate) fn mark_stored_to(&mut self, state: u64) {
        self.unstored = self.end_index(state);
    }

    /// The hashes up to `state` that are not stored yet, with their first state. All processes that have
    /// come as far have the same states here.
    pub(crate) fn unstored_to(&self, state: u64) -> Option<(u64, &[u64])> {
        let hashes = self.hashes.get(self.unstored..self.end_index(state))?;
        (!hashes.is_empty()).then_some((self.unstored as u64 * self.stride, hashes))
    }

    /// The index after the last checked state up to `state`.
    fn end_index(&self, state: u64) -> usize {
        ((state / self.stride) as usize + 1).min(self.hashes.len())
    }

    /// The next checked state after `state`.
    pub(crate) fn next_checked_after(&self, state: u64) -> u64 {
        (state / self.stride + 1) * self.stride
    }

    /// The next checked state after `state`, and at most `to`, whose hash is not known, if there is one.
    pub(crate) fn next_unknown(&self, state: u64, to: u64) -> Option<u64> {
        let next = (self.next_checked_after(state) / self.stride) as usize;
        let unknown =
            self.hashes.get(next..self.end_index(to))?.iter().position(|hash| *hash == 0)?;
        Some((next + unknown) as u64 * self.stride)
    }

    /// The hash of a state, if known.
    pub(crate) fn known(&self, state: u64) -> Option<u64> {
        let is_checked = state.is_multiple_of(self.stride);
        let hash = self.hashes.get((state / self.stride) as usize).filter(|_| is_checked)?;
        Some(*hash).filter(|hash| *hash != 0)
    }

    /// Checks the application's current state, which has this hash.
    ///
    /// # Errors
    /// The state had another hash before.
    pub(crate) fn check_state(&mut self, state: u64, hash: u64) -> Result<()> {
        if !state.is_multiple_of(self.stride) {
            return Ok(());
        }
        let Some(first) = self.hashes.get_mut((state / self.stride) as usize) else {
            return Ok(());
        };
        if *first == 0 {
            *first = hash;
        }
        if *first == hash {
            return Ok(());
        }
        let since = match self.stride {
            1 => String::new(),
            stride => format!(" (every {stride}th state is looked at)"),
        };
        Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "state {state} is not what it was the first time: its hash is {hash:#018x}, and was \
                 {first:#018x}{since}; forward steps must give the same state each time, however many a call computes"
            ),
        ))
    }
}

/// The error for a state that has two hashes in a row, by the application's callback or by the library.
pub(crate) fn unstable_hash(state: u64, one: u64, other: u64, is_callback: bool) -> Error {
    let (kind, why) = match is_callback {
        true => (ErrorKind::Invalid, "the callback `hash` must give the same for the same bytes"),
        false => (
            ErrorKind::Corrupt,
            "its memory has changed although no step was under way (does another thread write to it?)",
        ),
    };
    Error::new(
        kind,
        format!(
            "state {state}: hashed twice in a row it gave {one:#018x} and {other:#018x}: {why}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a text that blames the steps, or a callback where there is none.
    #[test]
    fn a_hash_that_is_none_is_told_by_who_has_made_it() {
        let text = unstable_hash(7, 1, 0x2f, true).to_string();
        let words = "state 7: hashed twice in a row it gave 0x0000000000000001 and 0x000000000000002f: the \
                     callback `hash` must give the same";
        assert!(text.starts_with(words) && !text.contains("step"), "{text}");
        let text = unstable_hash(7, 1, 2, false).to_string();
        assert!(text.contains("memory has changed") && !text.contains("callback"), "{text}");
    }

    #[test]
    fn the_first_state_that_differs_is_named() {
        let mut replay = ReplayCheck::new(100);
        for state in 0..=100 {
            assert_eq!(
                replay.next_unknown(state, 100),
                Some(state + 1).filter(|next| *next <= 100)
            );
            replay.check_state(state, state + 7).unwrap();
        }
        assert_eq!((replay.known(44), ReplayCheck::new(9).known(4)), (Some(51), None));
        assert_eq!(replay.next_unknown(30, 90), None, "they are computed again in one call");
        replay.check_state(44, 51).unwrap();
        let error = replay.check_state(45, 51).unwrap_err().to_string();
        assert!(error.contains("state 45 ") && error.contains("34;"), "{error}");
    }

    /// Catches memory that grows with the steps, and states that are compared with others.
    #[test]
    fn of_many_states_some_are_looked_at() {
        let steps = 10 * MOST_HASHES + 3;
        let mut replay = ReplayCheck::new(steps);
        assert!(replay.hashes.len() as u64 <= MOST_HASHES + 1);
        let mut state = 0;
        while state <= steps {
            replay.check_state(state, state + 1).unwrap();
            replay.check_state(state + 1, 99).unwrap();
            state += replay.stride;
        }
        let last = steps / replay.stride * replay.stride;
        assert!(replay.check_state(last, 1).is_err() && replay.check_state(last, last + 1).is_ok());
    }

    /// Catches hashes that are stored for the wrong states, twice, or not at all.
    #[test]
    fn what_one_job_has_met_the_next_one_knows() {
        for steps in [100, 3 * MOST_HASHES + 5] {
            let mut first = ReplayCheck::new(steps);
            let mut second = ReplayCheck::new(steps);
            let mut state = 0;
            let stops = [0, steps / 3, steps / 3, steps / 2 + 1, steps - 1];
            for stop in stops {
                while state <= stop {
                    first.check_state(state, state + 1).unwrap();
                    state += first.stride;
                }
                if let Some((from, hashes)) = first.unstored_to(stop) {
                    assert!(hashes.iter().all(|hash| *hash > 0));
                    second.add_stored(from, hashes);
                }
                first.mark_stored_to(stop);
                assert_eq!(first.unstored_to(stop), None);
            }
            state = 0;
            while state < steps {
                let error = second.clone().check_state(state, 1 << 60).unwrap_err().to_string();
                assert!(error.contains(&format!("state {state} ")), "{error}");
                second.check_state(state, state + 1).unwrap();
                state += first.stride * (1 + steps / 1000);
            }
        }
    }
}
