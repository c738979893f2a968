//! Where the processes of a run meet: to stop at the same step, to end together when one has failed, and to
//! keep the adjoint that all have.
//!
//! All go through the same schedule and meet after the same steps. A meeting is one reduction of a few numbers
//! ([`message`](super::message)), for which each waits. A process whose callback has failed comes to the next
//! meeting at once, whatever the others come to it for, so that they hear of it wherever they are.
//!
//! The others may wait for that process in their own callbacks, and then they come to no meeting. So it waits
//! for them for a limited time: the application gets its error, and can end the job.

use std::time::{Duration, Instant};

use super::message::Message;
use mpi::Comm;
use os::error::Result;

/// The least time for which a process that has failed waits for the others.
const SHORTEST_WAIT: Duration = Duration::from_secs(10);
/// Or so many times the longest from meeting to meeting.
const TIMES_LONGEST: u32 = 4;
/// Between two looks whether they have come.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The meetings of a run.
#[derive(Debug)]
pub struct ProgressExchange {
    comm: Comm,
    rank: u32,
    last: Instant,
    /// From meeting to meeting.
    longest: Duration,
}

impl ProgressExchange {
    /// Over a communicator that nothing else uses.
    ///
    /// # Errors
    /// MPI's.
    pub fn over(comm: Comm) -> Result<ProgressExchange> {
        let rank = comm.rank()?;
        Ok(ProgressExchange { comm, rank, last: Instant::now(), longest: Duration::ZERO })
    }

    /// This process's number.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Meets the others, and waits for all. What all tell.
    ///
    /// # Errors
    /// MPI's.
    pub fn exchange(&mut self, message: &Message) -> Result<Message> {
        self.longest = self.longest.max(self.last.elapsed());
        let mut pending = self.comm.start_allreduce_min(&message.encode())?;
        let waited = pending.wait();
        if waited.is_err() {
            // What is still under way keeps the communicator from being freed.
            drop(pending.wait());
        }
        self.last = Instant::now();
        Message::decode(&waited?.unwrap_or_default())
    }

    /// The same, but waits for no longer than this. `None`: not all have come.
    ///
    /// # Errors
    /// MPI's.
    pub fn exchange_within(
        &self,
        message: &Message,
        wait_time: Duration,
    ) -> Result<Option<Message>> {
        let until = Instant::now() + wait_time;
        let mut pending = self.comm.start_allreduce_min(&message.encode())?;
        loop {
            if let Some(least) = pending.poll()? {
                return Message::decode(&least).map(Some);
            }
            if Instant::now() > until {
                return Ok(None);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// For how long a process that has failed waits for the others.
    pub fn wait_time(&self) -> Duration {
        wait_time(self.longest, self.last.elapsed())
    }

    /// Ends them. Nobody may still be waited for.
    pub fn end(self) {
        if let Err(error) = self.comm.free() {
            log::warn!("a communicator of an adjoint computation remains: {error}");
        }
    }
}

/// How long the others are waited for after a failure, given the longest from meeting to meeting and the time
/// since the last one. They have been on their way as long as this process, and may be in the same call to a
/// slow file system in which it has failed.
fn wait_time(longest: Duration, since_last: Duration) -> Duration {
    SHORTEST_WAIT.max(longest.max(since_last) * TIMES_LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches one that gives the others up while they do what has taken it longer than anything before.
    #[test]
    fn who_has_taken_long_waits_for_long() {
        let seconds = Duration::from_secs;
        for (longest, since_last, wanted) in [(0, 0, 10), (2, 1, 10), (30, 1, 120), (1, 30, 120)] {
            assert_eq!(wait_time(seconds(longest), seconds(since_last)), seconds(wanted));
        }
    }
}
