//! The message of an exchange ([`progress_exchange`](super::progress_exchange)): numbers whose minimum
//! over all processes is computed.

use super::adjoints::{VersionsByKind, KINDS};
use errors::{Error, ErrorKind, Result};

/// Stands for no version.
const NO_VERSION: i64 = -1;
/// Stands for no failure.
const NO_FAILURE: i64 = i64::MAX;
/// Stop, interval, versions of adjoints, rounds, failure.
const NUMBERS: usize = 2 + 2 * KINDS + 2 + 1;
/// Bits of a rank. Larger ranks and step counts are sent as the largest possible ones.
const RANK_BITS: u32 = 24;
const MOST_RANK: u32 = (1 << RANK_BITS) - 1;
const MOST_STEPS: u64 = (1 << (62 - RANK_BITS)) - 1;

/// One process's message, or the minimum of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunMessage {
    /// A process has to stop.
    pub stop: bool,
    /// Steps until the next exchange.
    pub interval: u64,
    /// The newest adjoints.
    pub newest: VersionsByKind,
    /// The candidates that this process has.
    pub has: VersionsByKind,
    /// How many rounds and gatherings of the background agreement were begun; of all processes, the
    /// most.
    pub rounds: [u64; 2],
    /// A failure; of all, the first one.
    pub failure: Option<ProcessFailure>,
}

/// The failure of a process, which alone knows the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessFailure {
    /// After how many steps of the run, which all processes count alike.
    pub steps: u64,
    /// The rank.
    pub rank: u32,
}

impl ProcessFailure {
    /// The error for the other processes.
    pub(crate) fn error(self) -> Error {
        let ProcessFailure { steps, rank } = self;
        let text = format!(
            "process {rank} failed after {steps} steps of this call; its own message says why"
        );
        Error::new(ErrorKind::Internal, text).told_by_another()
    }
}

impl RunMessage {
    /// A message with only the number of rounds.
    pub(crate) fn empty(rounds: [u64; 2]) -> RunMessage {
        let none = [None; KINDS];
        RunMessage {
            stop: false,
            interval: i64::MAX as u64,
            newest: none,
            has: none,
            rounds,
            failure: None,
        }
    }

    pub(super) fn encode(&self) -> [i64; NUMBERS] {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let version = |version: Option<i32>| version.map_or(NO_VERSION, i64::from);
        let failure = self.failure.map_or(NO_FAILURE, |ProcessFailure { steps, rank }| {
            (steps.min(MOST_STEPS) << RANK_BITS | u64::from(rank.min(MOST_RANK))) as i64
        });
        let mut numbers = [0; NUMBERS];
        let values = [i64::from(!self.stop), number(self.interval.max(1))]
            .into_iter()
            .chain(self.newest.map(version))
            .chain(self.has.map(version))
            // Negated, so that the minimum gives the maximum.
            .chain(self.rounds.map(|rounds| -number(rounds)))
            .chain([failure]);
        numbers.iter_mut().zip(values).for_each(|(place, value)| *place = value);
        numbers
    }

    /// # Errors
    /// The numbers are no message.
    pub(super) fn decode(numbers: &[i64]) -> Result<RunMessage> {
        let lost = || Error::new(ErrorKind::System, "a reduction of MPI has no result");
        let numbers: [i64; NUMBERS] = numbers.try_into().map_err(|_| lost())?;
        let interval = u64::try_from(numbers[1]).ok().filter(|interval| *interval > 0);
        let version = |at: usize| i32::try_from(numbers[2 + at]).ok().filter(|v| *v >= 0);
        let failure = numbers[NUMBERS - 1];
        Ok(RunMessage {
            stop: numbers[0] == 0,
            interval: interval.ok_or_else(lost)?,
            newest: std::array::from_fn(version),
            has: std::array::from_fn(|kind| version(KINDS + kind)),
            rounds: std::array::from_fn(|at| numbers[2 + 2 * KINDS + at].unsigned_abs()),
            failure: (failure != NO_FAILURE).then_some(ProcessFailure {
                steps: failure as u64 >> RANK_BITS,
                rank: failure as u32 & MOST_RANK,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The minimum reduction of messages.
    fn least(messages: &[RunMessage]) -> RunMessage {
        let all: Vec<_> = messages.iter().map(RunMessage::encode).collect();
        let least: Vec<i64> =
            (0..NUMBERS).map(|at| all.iter().map(|one| one[at]).min().unwrap()).collect();
        RunMessage::decode(&least).unwrap()
    }

    fn message(
        stop: bool,
        interval: u64,
        newest: VersionsByKind,
        has: VersionsByKind,
    ) -> RunMessage {
        RunMessage { stop, interval, newest, has, ..RunMessage::empty([0; 2]) }
    }

    /// Catches a number that is decoded from another position, a stop that needs all processes, and the
    /// minimum of the rounds.
    #[test]
    fn one_is_enough_to_stop_and_the_least_counts() {
        let all = [
            message(false, 7, [Some(3), None, Some(4)], [Some(1), Some(0), None]),
            message(true, 9, [Some(2), Some(5), Some(4)], [Some(1), None, Some(2)]),
        ];
        assert_eq!(least(&all), message(true, 7, [Some(2), None, Some(4)], [Some(1), None, None]));
        assert_eq!(least(&all[..1]), all[0]);
        assert_eq!(least(&[[7, 0], [5, 9]].map(RunMessage::empty)).rounds, [7, 9]);
        // A buffer that MPI has not written.
        assert!(RunMessage::decode(&[0; NUMBERS]).is_err());
    }

    proptest! {
        /// Catches a failure that wins by its rank although another came first, and a failure out of
        /// nothing.
        #[test]
        fn of_several_failures_the_first_is_heard(
            failures in prop::collection::vec((0..=MOST_STEPS, 0..=MOST_RANK), 0..5),
        ) {
            let failures: Vec<ProcessFailure> =
                failures.into_iter().map(|(steps, rank)| ProcessFailure { steps, rank }).collect();
            let failing =
                |failure: &ProcessFailure| RunMessage { failure: Some(*failure), ..RunMessage::empty([0; 2]) };
            let mut all: Vec<RunMessage> = failures.iter().map(failing).collect();
            all.push(message(true, 4, [None; KINDS], [None; KINDS]));
            prop_assert_eq!(least(&all).failure, failures.iter().min().copied());
        }
    }
}
