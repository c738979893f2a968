//! The periodic exchange between a run's processes: they stop at the same step, end together after a
//! failure, and keep the adjoint that all have.
//!
//! All processes follow the same schedule and make an exchange after the same steps: a reduction of a
//! few numbers ([`message`](super::message)), for which each process waits. A process whose callback has
//! failed goes to the next exchange at once, so that the others learn of it wherever they are.
//!
//! The others may wait for that process inside their own callbacks and never come. So it waits for a
//! limited time; then the application gets its error and can abort the job.

use std::time::{Duration, Instant};

use super::message::RunMessage;
use errors::Result;
use mpi::Comm;

/// The least time for which a failed process waits for the others.
const SHORTEST_WAIT: Duration = Duration::from_secs(10);
/// A failed process also waits this many times the longest time between two exchanges.
const TIMES_LONGEST: u32 = 4;
/// How often to poll.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The exchanges of a run.
#[derive(Debug)]
pub(crate) struct ProgressExchange {
    comm: Comm,
    rank: u32,
    last: Instant,
    /// The longest time between two exchanges.
    longest: Duration,
}

impl ProgressExchange {
    /// Exchanges over a communicator that is used for nothing else.
    ///
    /// # Errors
    /// MPI's.
    pub(crate) fn over(comm: Comm) -> Result<ProgressExchange> {
        let rank = comm.rank()?;
        Ok(ProgressExchange { comm, rank, last: Instant::now(), longest: Duration::ZERO })
    }

    /// This process's rank.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// Exchanges messages with all processes, and waits for them. Returns the minimum.
    ///
    /// # Errors
    /// MPI's.
    pub(crate) fn exchange(&mut self, message: &RunMessage) -> Result<RunMessage> {
        self.longest = self.longest.max(self.last.elapsed());
        let mut pending = self.comm.start_allreduce_min(&message.encode())?;
        let waited = pending.wait();
        if waited.is_err() {
            // A pending request would keep the communicator from being freed.
            drop(pending.wait());
        }
        self.last = Instant::now();
        RunMessage::decode(&waited?.unwrap_or_default())
    }

    /// Exchanges messages, but waits at most this long. `None`: not all processes have come.
    ///
    /// # Errors
    /// MPI's.
    pub(crate) fn exchange_within(
        &self,
        message: &RunMessage,
        wait_time: Duration,
    ) -> Result<Option<RunMessage>> {
        let until = Instant::now() + wait_time;
        let mut pending = self.comm.start_allreduce_min(&message.encode())?;
        loop {
            if let Some(least) = pending.poll()? {
                return RunMessage::decode(&least).map(Some);
            }
            if Instant::now() > until {
                return Ok(None);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// How long a failed process waits for the others.
    pub(crate) fn wait_time(&self) -> Duration {
        wait_time(self.longest, self.last.elapsed())
    }

    /// Frees the communicator. No exchange may be pending.
    pub(crate) fn end(self) {
        if let Err(error) = self.comm.free() {
            log::warn!("the communicator of an adjoint computation cannot be freed: {error}");
        }
    }
}

/// How long to wait for the others after a failure, from the longest time between two exchanges and the
/// time since the last one. The others may be in the same slow call, for instance to a file system, in
/// which this process has failed.
fn wait_time(longest: Duration, since_last: Duration) -> Duration {
    SHORTEST_WAIT.max(longest.max(since_last) * TIMES_LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a process that gives up while the others do what took it longer than anything before.
    #[test]
    fn who_has_taken_long_waits_for_long() {
        let seconds = Duration::from_secs;
        for (longest, since_last, wanted) in [(0, 0, 10), (2, 1, 10), (30, 1, 120), (1, 30, 120)] {
            assert_eq!(wait_time(seconds(longest), seconds(since_last)), seconds(wanted));
        }
    }
}
