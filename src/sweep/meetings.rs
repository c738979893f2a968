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
/// Numbers of the text: each has the moment, the process and 2 bytes, so that the least at each place are
/// those of one process, of the first to fail the lowest one.
const TEXT: usize = 192;
const BYTES: usize = 2;
const RANK_BITS: u32 = 27;
/// Processes and moments beyond these are taken for them.
const MOST_RANK: u32 = (1 << RANK_BITS) - 1;
const MOST_MOMENT: u64 = (1 << 20) - 1;
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
    /// Who has failed; by all, the first one.
    pub failure: Option<Failure>,
}

/// That a process has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When, counted in what all do alike since the meeting before: of several, that of the first one is
    /// heard, and of the lowest process among equals.
    moment: u64,
    rank: u32,
    why: String,
}

/// A process's own failure, and when it was, counted as a failure's moment is.
pub type Own<'a> = Option<(&'a Error, u64)>;

/// What is known when all have met for the last time.
#[derive(Debug, Default)]
pub struct Ended {
    /// After a failure, if all have come to know: the most rounds that one of them has begun.
    pub rounds: Option<[u64; 2]>,
    /// The failure that all have heard of, if it is another process's.
    pub heard: Option<Error>,
}

impl Failure {
    fn error(&self) -> Error {
        Error::new(Kind::Internal, format!("process {}: {}", self.rank, self.why))
    }
}

impl Word {
    /// With this process's failure; of a long reason, its beginning.
    fn failing(self, moment: u64, rank: u32, why: &str) -> Word {
        let mut end = why.len().min(TEXT * BYTES);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        let (moment, rank) = (moment.min(MOST_MOMENT), rank.min(MOST_RANK));
        Word { failure: Some(Failure { moment, rank, why: why[..end].to_owned() }), ..self }
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
        if let Some(Failure { moment, rank, why }) = &self.failure {
            let who = (*moment << RANK_BITS | u64::from(*rank)) as i64;
            let mut bytes = why.bytes();
            for number in &mut numbers[HEAD..] {
                let mut next = || i64::from(bytes.next().unwrap_or(0));
                *number = (0..BYTES).fold(who, |word, _| word << 8 | next());
            }
        }
        numbers
    }

    /// `None`: it is no word.
    fn decode(numbers: &[i64]) -> Option<Word> {
        let (head, text) = numbers.split_at_checked(HEAD).filter(|(_, text)| text.len() == TEXT)?;
        let interval = u64::try_from(head[1]).ok().filter(|interval| *interval > 0)?;
        let failure = (text[0] != NO_FAILURE).then(|| {
            let bytes = text.iter().flat_map(|number| (*number as u16).to_be_bytes());
            let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
            let who = text[0] as u64 >> (8 * BYTES);
            let (moment, rank) = (who >> RANK_BITS, who as u32 & MOST_RANK);
            Failure { moment, rank, why: String::from_utf8_lossy(&bytes).into_owned() }
        });
        let version = |at: usize| i32::try_from(head[2 + at]).ok().filter(|v| *v >= 0);
        let newest = std::array::from_fn(version);
        let has = std::array::from_fn(|kind| version(KINDS + kind));
        let rounds = std::array::from_fn(|at| head[2 + 2 * KINDS + at].unsigned_abs());
        Some(Word { stop: head[0] == 0, interval, newest, has, rounds, failure })
    }

    /// The error of a process that hears of a failure.
    fn heard(self) -> Result<Word> {
        self.failure.as_ref().map_or(Ok(()), |failure| Err(failure.error())).map(|()| self)
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
    /// All know of a failure, this one: they meet once more, to part.
    failed: Option<Failure>,
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
            failed: None,
            last: Instant::now(),
            longest: Duration::ZERO,
        })
    }

    /// Comes to the next meeting, with `word` and, if there is one, this process's own failure. What the
    /// one before has decided, if there was one; after a stop the run comes to no other but the last.
    ///
    /// # Errors
    /// MPI's, or a process has failed: then all know.
    pub fn next(&mut self, word: Word, own: Own<'_>) -> Result<Option<Word>> {
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
        let word = least.as_deref().and_then(Word::decode).ok_or_else(lost)?;
        self.failed = self.failed.take().or_else(|| word.failure.clone());
        word.heard().map(Some)
    }

    fn begin(&mut self, word: Word, own: Own<'_>) -> Result<()> {
        let word = match own {
            None => word,
            Some((error, moment)) => word.failing(moment, self.rank, &error.to_string()),
        };
        self.begun.push_back(self.comm.begin_least(&word.encode())?);
        self.told |= word.failure.is_some();
        Ok(())
    }

    /// Ends them; `own` is this process's failure, if it has failed or heard of one, and `rounds` are those
    /// that it has begun.
    pub fn end(mut self, own: Own<'_>, rounds: [u64; 2]) -> Ended {
        let parted = own.map(|(error, moment)| self.part(error, moment, rounds));
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
        Ended {
            rounds: parted.and_then(|parted| parted.ok()?).map(|word| word.rounds),
            heard: self.failed.filter(|failed| failed.rank != self.rank).map(|f| f.error()),
        }
    }

    /// Tells the others of a failure, unless they know. What all say when they part: then nothing is under
    /// way any more, and none of them begins a round for this run.
    fn part(&mut self, error: &Error, moment: u64, rounds: [u64; 2]) -> Result<Option<Word>> {
        let until = Instant::now() + PATIENCE.max(self.longest * MEETINGS);
        let word = Word { rounds, ..Word::default() };
        if self.failed.is_none() && !self.told {
            self.begin(word.clone(), Some((error, moment)))?;
        }
        while self.failed.is_none() {
            let Some(decided) = self.decided_by(until)? else { return Ok(None) };
            self.failed = decided.failure;
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
        /// Catches texts of two processes that get mixed up, one that is cut within a letter, and one that
        /// is heard because its process is lower, or its text is, although another has failed before.
        #[test]
        fn of_several_failures_the_first_is_heard(
            whys in prop::collection::btree_map(
                0..=MOST_RANK,
                (prop_oneof![0..4_u64, 0..=MOST_MOMENT, any::<u64>()], "[a-zäß→ ]{1,300}"),
                1..5,
            ),
        ) {
            let failing =
                |(rank, (at, why)): (&u32, &(u64, String))| Word::default().failing(*at, *rank, why);
            let words: Vec<Word> = whys.iter().map(failing).collect();
            let mut all = words.clone();
            all.push(word(true, 4, [None; KINDS], [None; KINDS]));
            let found = least(&all).failure.unwrap();
            let first = words.iter().filter_map(|word| word.failure.clone());
            let first = first.min_by_key(|failure| (failure.moment, failure.rank)).unwrap();
            prop_assert_eq!(&found, &first);
            prop_assert!(whys[&found.rank].1.starts_with(&found.why) && !found.why.is_empty());
            let error = least(&all).heard().unwrap_err().to_string();
            prop_assert_eq!(error, format!("process {}: {}", found.rank, found.why));
        }
    }
}
