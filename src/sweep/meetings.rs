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

use super::word::{Failure, Word};
use crate::error::{Error, Kind, Result};
use crate::mpi::{Comm, Pending};

/// The least time for which processes are waited for after a failure.
const PATIENCE: Duration = Duration::from_secs(10);
/// Or so many times the longest from meeting to meeting.
const MEETINGS: u32 = 4;
/// Between two looks whether they have come.
const PAUSE: Duration = Duration::from_millis(1);

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

    /// Comes to the next meeting, and hears what the one before has decided, if there was one. Then it
    /// tells its own word, unless the run stops: after that it comes to no other meeting but the last.
    ///
    /// # Errors
    /// MPI's, or a process has failed: then all know.
    pub fn hear(&mut self) -> Result<Option<Word>> {
        let now = Instant::now();
        self.longest = self.longest.max(now.duration_since(self.last));
        self.last = now;
        self.decided()
    }

    /// Tells a word at the meeting that it has come to, and, if there is one, this process's own failure.
    ///
    /// # Errors
    /// MPI's.
    pub fn tell(&mut self, word: Word, own: Own<'_>) -> Result<()> {
        self.begin(word, own)
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
        let patience = patience(self.longest, self.last.elapsed());
        let parted = own.map(|(error, moment)| self.part(error, moment, rounds, patience));
        let failure = own.map_or_else(String::new, |(error, _)| error.to_string());
        match parted {
            None | Some(Ok(Some(_))) => {
                if let Err(error) = self.comm.free() {
                    log::warn!("a communicator of an adjoint computation remains: {error}");
                }
            }
            Some(Ok(None)) => log::warn!(
                "the other processes of the adjoint computation have not all come to {} within {:.0} s: if \
                 they wait for process {}, end the job (MPI_Abort); the failure: {failure}",
                if self.failed.is_some() { "their end" } else { "know of a failure" },
                patience.as_secs_f64(),
                self.rank
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
    fn part(
        &mut self,
        error: &Error,
        moment: u64,
        rounds: [u64; 2],
        patience: Duration,
    ) -> Result<Option<Word>> {
        let until = Instant::now() + patience;
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

/// How long the others are waited for after a failure, given the longest from meeting to meeting and the time
/// since the last one. They have been on their way as long as this process, and may be in the same call to a
/// slow file system in which it has failed.
fn patience(longest: Duration, since_last: Duration) -> Duration {
    PATIENCE.max(longest.max(since_last) * MEETINGS)
}

fn lost() -> Error {
    Error::new(Kind::System, "a reduction of MPI has no result")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches one that gives the others up while they do what has taken it longer than anything before.
    #[test]
    fn who_has_taken_long_waits_for_long() {
        let seconds = Duration::from_secs;
        for (longest, since_last, wanted) in [(0, 0, 10), (2, 1, 10), (30, 1, 120), (1, 30, 120)] {
            assert_eq!(patience(seconds(longest), seconds(since_last)), seconds(wanted));
        }
    }
}
