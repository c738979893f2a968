//! What the processes of a run tell each other, so that they stop at the same step, fail together, and
//! keep the adjoint that all have.
//!
//! All go through the same schedule, each at its own pace, and meet after the same steps. A meeting is
//! one reduction: it is begun with what this process has to say, and its result is taken at the next
//! one, which nobody has come to before all have begun this one. So nobody waits but for who is a whole
//! meeting behind.
//!
//! The last meeting of a run is waited for. One that fails before does not wait: it begins the meeting
//! that is next, whatever the others come to it for (a look at the time, their end, or to part because
//! of somebody else's failure), and so is heard wherever they are. When a failure is known, all meet once
//! more to part: then nothing is under way, and the communicator can be freed.
//!
//! Who fails in the application's part may be waited for in there, by processes that come to no meeting.
//! So waiting for them after a failure has a bound: the application gets its error, and can end the job.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::adjoints::{Versions, KINDS};
use crate::error::{Error, Kind, Result};
use crate::mpi::{Comm, Pending};

/// What stands for no version.
const NONE: i64 = -1;
/// Numbers in front of the text of a failure: whether to go on, the steps to the next meeting, the
/// versions of adjoints, and what was agreed on.
const HEAD: usize = 2 + 2 * KINDS + 2;
/// Numbers of the text: each has the process and 4 bytes, so that the least at each place are those of
/// one process.
const TEXT: usize = 96;
const BYTES: usize = 4;
/// At the places of the text: there is no failure.
const NO_FAILURE: i64 = i64::MAX;

/// The least time for which processes are waited for after a failure.
const PATIENCE: Duration = Duration::from_secs(10);
/// Or so many times the longest from meeting to meeting.
const MEETINGS: u32 = 4;
/// Between two looks whether they have come.
const PAUSE: Duration = Duration::from_millis(1);

/// What is told in a meeting, by one process or, the least of it, by all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Somebody has to stop.
    pub stop: bool,
    /// After how many steps to meet again.
    pub interval: u64,
    /// The newest adjoints.
    pub newest: Versions,
    /// Those of the candidates that are there.
    pub has: Versions,
    /// How many rounds and gatherings were begun of what the processes agree on beside the run; by all, the
    /// most. It is told when the run ends.
    pub rounds: [u64; 2],
    /// Which process has failed, and why.
    pub failure: Option<(u32, String)>,
}

impl Word {
    /// With this process's failure; of a long reason, its beginning.
    fn failing(self, rank: u32, why: &str) -> Word {
        let mut end = why.len().min(TEXT * BYTES);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        Word { failure: Some((rank, why[..end].to_owned())), ..self }
    }

    fn encode(&self) -> [i64; HEAD + TEXT] {
        let mut numbers = [NO_FAILURE; HEAD + TEXT];
        numbers[0] = i64::from(!self.stop);
        numbers[1] = i64::try_from(self.interval.max(1)).unwrap_or(i64::MAX);
        let versions = self.newest.into_iter().chain(self.has);
        let versions = versions.map(|version| version.map_or(NONE, i64::from));
        // The most is the least of what is negated.
        let rounds = self.rounds.map(|rounds| -i64::try_from(rounds).unwrap_or(i64::MAX));
        for (number, value) in numbers[2..HEAD].iter_mut().zip(versions.chain(rounds)) {
            *number = value;
        }
        if let Some((rank, why)) = &self.failure {
            let mut bytes = why.bytes();
            for number in &mut numbers[HEAD..] {
                let mut next = || u32::from(bytes.next().unwrap_or(0));
                let four = (0..BYTES).fold(0, |word, _| word << 8 | next());
                *number = i64::from(*rank) << 32 | i64::from(four);
            }
        }
        numbers
    }

    /// `None`: it is no word.
    fn decode(numbers: &[i64]) -> Option<Word> {
        let (head, text) = numbers.split_at_checked(HEAD).filter(|(_, text)| text.len() == TEXT)?;
        let interval = u64::try_from(head[1]).ok().filter(|interval| *interval > 0)?;
        let failure = (text[0] != NO_FAILURE).then(|| {
            let bytes = text.iter().flat_map(|number| (*number as u32).to_be_bytes());
            let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
            ((text[0] >> 32) as u32, String::from_utf8_lossy(&bytes).into_owned())
        });
        let version = |at: usize| i32::try_from(head[2 + at]).ok().filter(|v| *v >= 0);
        let newest = std::array::from_fn(version);
        let has = std::array::from_fn(|kind| version(KINDS + kind));
        let rounds = std::array::from_fn(|at| head[2 + 2 * KINDS + at].unsigned_abs());
        Some(Word { stop: head[0] == 0, interval, newest, has, rounds, failure })
    }

    /// The error of a process that hears of a failure.
    fn heard(self) -> Result<Word> {
        match self.failure {
            None => Ok(self),
            Some((rank, why)) => Err(Error::new(Kind::Internal, format!("process {rank}: {why}"))),
        }
    }
}

/// The meetings of a run.
#[derive(Debug)]
pub struct Meetings {
    comm: Comm,
    rank: u32,
    /// Begun, and the result was not taken; at most two.
    begun: VecDeque<Pending>,
    /// This process has told that it has failed.
    told: bool,
    /// All know of a failure: they meet once more, to part.
    failed: bool,
    last: Instant,
    /// From meeting to meeting.
    longest: Duration,
}

impl Meetings {
    /// Over a communicator that nothing else uses.
    ///
    /// # Errors
    /// MPI's.
    pub fn over(comm: Comm) -> Result<Meetings> {
        let rank = comm.rank()?;
        Ok(Meetings {
            comm,
            rank,
            begun: VecDeque::new(),
            told: false,
            failed: false,
            last: Instant::now(),
            longest: Duration::ZERO,
        })
    }

    /// Comes to the next meeting, with `word` and, if there is one, this process's own failure. What the
    /// one before has decided, if there was one; after a stop the run comes to no other but the last.
    ///
    /// # Errors
    /// MPI's, or a process has failed: then all know.
    pub fn next(&mut self, word: Word, own: Option<&Error>) -> Result<Option<Word>> {
        let now = Instant::now();
        self.longest = self.longest.max(now.duration_since(self.last));
        self.last = now;
        let before = self.decided()?;
        if !before.as_ref().is_some_and(|before| before.stop) {
            self.begin(word, own)?;
        }
        Ok(before)
    }

    /// Comes to a last meeting, and waits for all. `rounds` are those that this process has begun.
    ///
    /// # Errors
    /// MPI's, or a process has failed: then all know.
    pub fn last(&mut self, rounds: [u64; 2]) -> Result<()> {
        self.decided()?;
        self.begin(Word { rounds, ..Word::default() }, None)?;
        self.decided().map(drop)
    }

    /// The result of the meeting that is under way. If MPI fails, it still is.
    fn decided(&mut self) -> Result<Option<Word>> {
        let Some(pending) = self.begun.front_mut() else { return Ok(None) };
        let least = pending.wait()?;
        self.begun.pop_front();
        let heard = least.as_deref().and_then(Word::decode).ok_or_else(lost)?.heard();
        self.failed |= heard.is_err();
        heard.map(Some)
    }

    fn begin(&mut self, word: Word, own: Option<&Error>) -> Result<()> {
        let word = match own {
            None => word,
            Some(error) => word.failing(self.rank, &error.to_string()),
        };
        self.begun.push_back(self.comm.begin_least(&word.encode())?);
        self.told |= word.failure.is_some();
        Ok(())
    }

    /// Ends them; `own` is this process's failure, if it has failed or heard of one, and `rounds` are those
    /// that it has begun. After a failure, if all have come to know, the most that one of them has begun.
    pub fn end(mut self, own: Option<&Error>, rounds: [u64; 2]) -> Option<[u64; 2]> {
        let parted = own.map(|error| self.part(error, rounds));
        match parted {
            None | Some(Ok(Some(_))) => {
                if let Err(error) = self.comm.free() {
                    log::warn!("a communicator of an adjoint computation remains: {error}");
                }
            }
            Some(Ok(None)) => log::warn!(
                "the other processes of the adjoint computation have not come to know that it has \
                 failed: if they wait for this one, end the job (MPI_Abort)"
            ),
            Some(Err(ref error)) => log::warn!("the others may not know of a failure: {error}"),
        }
        parted?.ok()?.map(|word| word.rounds)
    }

    /// Tells the others of a failure, unless they know. What all say when they part: then nothing is under
    /// way any more, and none of them begins a round for this run.
    fn part(&mut self, error: &Error, rounds: [u64; 2]) -> Result<Option<Word>> {
        let until = Instant::now() + PATIENCE.max(self.longest * MEETINGS);
        let word = Word { rounds, ..Word::default() };
        if !self.failed && !self.told {
            self.begin(word.clone(), Some(error))?;
        }
        while !self.failed {
            let Some(decided) = self.decided_by(until)? else { return Ok(None) };
            self.failed = decided.failure.is_some();
        }
        // If it was another's failure, this process's own call, which is begun, is its part in parting.
        if self.begun.is_empty() {
            self.begin(word, None)?;
        }
        self.decided_by(until)
    }

    /// The result of the oldest meeting under way, unless it is not there in time.
    fn decided_by(&mut self, until: Instant) -> Result<Option<Word>> {
        let mut pending = self.begun.pop_front().ok_or_else(lost)?;
        loop {
            if let Some(least) = pending.poll()? {
                return Word::decode(&least).map(Some).ok_or_else(lost);
            }
            if Instant::now() > until {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn lost() -> Error {
    Error::new(Kind::System, "a reduction of MPI has no result")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a reduction to the least makes of it.
    fn least(words: &[Word]) -> Word {
        let all: Vec<_> = words.iter().map(Word::encode).collect();
        let least = |at: usize| all.iter().map(|numbers| numbers[at]).min().unwrap();
        let least: Vec<i64> = (0..HEAD + TEXT).map(least).collect();
        Word::decode(&least).unwrap()
    }

    fn word(stop: bool, interval: u64, newest: Versions, has: Versions) -> Word {
        Word { stop, interval, newest, has, ..Word::default() }
    }

    #[test]
    fn one_is_enough_to_stop_and_the_least_counts() {
        let all = [
            word(false, 7, [Some(3), None, Some(4)], [Some(1), Some(0), None]),
            word(true, 9, [Some(2), Some(5), Some(4)], [Some(1), None, Some(2)]),
        ];
        assert_eq!(least(&all), word(true, 7, [Some(2), None, Some(4)], [Some(1), None, None]));
        assert_eq!(least(&all[..1]), all[0]);
        let begun = [[7, 0], [5, 9]].map(|rounds| Word { rounds, ..all[0].clone() });
        assert_eq!(least(&begun).rounds, [7, 9]);
        // What MPI has not written.
        assert_eq!(Word::decode(&[0; HEAD + TEXT]), None);
    }

    proptest! {
        /// Catches texts of two processes that get mixed up, and one that is cut within a letter.
        #[test]
        fn of_several_failures_one_is_heard(
            whys in prop::collection::btree_map(0..2_u32 << 29, "[a-zäß→ ]{1,300}", 1..5),
        ) {
            let words: Vec<Word> =
                whys.iter().map(|(rank, why)| Word::default().failing(*rank, why)).collect();
            let mut all = words.clone();
            all.push(word(true, 4, [None; KINDS], [None; KINDS]));
            let found = least(&all).failure.unwrap();
            prop_assert_eq!(&Some(found.clone()), &words[0].failure);
            prop_assert!(whys[&found.0].starts_with(&found.1) && !found.1.is_empty());
            let error = least(&all).heard().unwrap_err().to_string();
            prop_assert_eq!(error, format!("process {}: {}", found.0, found.1));
        }
    }
}
