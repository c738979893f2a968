//! Whether states that are computed again are what they were the first time.

use crate::error::{Error, Kind, Result};

/// The most hashes that are kept, for 8 MiB.
const MOST: u64 = 1 << 20;

/// The hashes of the states that were met.
#[derive(Debug)]
pub struct Replay {
    /// Of how many states one is looked at.
    stride: u64,
    /// By state; 0: not met yet.
    hashes: Vec<u64>,
}

impl Replay {
    /// For so many steps.
    pub fn new(steps: u64) -> Replay {
        let stride = steps.div_ceil(MOST).max(1);
        Replay { stride, hashes: vec![0; (steps / stride) as usize + 1] }
    }

    /// The next state behind `state` that is looked at.
    pub fn next_after(&self, state: u64) -> u64 {
        (state / self.stride + 1) * self.stride
    }

    /// The application has this state, with this hash.
    ///
    /// # Errors
    /// It had another one before.
    pub fn meet(&mut self, state: u64, hash: u64) -> Result<()> {
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
            Kind::Corrupt,
            format!(
                "state {state} is not what it was the first time: its hash is {hash:#018x}, and was \
                 {first:#018x}{since}; forward steps must give the same state each time"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_state_that_differs_is_named() {
        let mut replay = Replay::new(100);
        for state in 0..=100 {
            assert_eq!(replay.next_after(state), state + 1);
            replay.meet(state, state + 7).unwrap();
        }
        replay.meet(44, 51).unwrap();
        let error = replay.meet(45, 51).unwrap_err().to_string();
        assert!(error.contains("state 45 ") && error.contains("34;"), "{error}");
    }

    /// Catches memory that grows with the steps, and states that are compared with others.
    #[test]
    fn of_many_states_some_are_looked_at() {
        let steps = 10 * MOST + 3;
        let mut replay = Replay::new(steps);
        assert!(replay.hashes.len() as u64 <= MOST + 1);
        let mut state = 0;
        while state <= steps {
            replay.meet(state, state + 1).unwrap();
            replay.meet(state + 1, 99).unwrap();
            state = replay.next_after(state);
        }
        let last = steps / replay.stride * replay.stride;
        assert!(replay.meet(last, 1).is_err() && replay.meet(last, last + 1).is_ok());
    }
}
