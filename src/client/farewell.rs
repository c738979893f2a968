//! What the processes of an MPI job tell each other when it ends. Every process takes part in each
//! meeting, whatever has become of its agreement, so that nobody is waited for in vain.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Kind, Result};
use crate::mpi::{Comm, Pending};

/// The most values that are told.
const MOST: usize = 16;
/// In front of them: the number of the meeting, and the same negated.
const HEAD: usize = 2;

/// A process that had an error of MPI in a meeting may be one meeting ahead of the others. From then on
/// it waits for them so long at the most.
const LONGEST_DOUBT: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// The meetings of one process.
#[derive(Debug)]
pub(super) struct Farewell<'a> {
    comm: &'a Comm,
    /// Meetings so far.
    number: i64,
    /// When MPI failed in one: since then, which meeting of the others comes next is not certain.
    doubtful: Option<Instant>,
}

impl<'a> Farewell<'a> {
    /// Over a communicator on which nothing else is under way.
    pub(super) fn over(comm: &'a Comm) -> Farewell<'a> {
        Farewell { comm, number: 0, doubtful: None }
    }

    /// The least of what all processes tell, at each place. Collective.
    ///
    /// # Errors
    /// MPI's; and if the processes have not met in the same meeting. The next meeting is to be held all
    /// the same.
    pub(super) fn least<const N: usize>(&mut self, mine: [i64; N]) -> Result<[i64; N]> {
        const { assert!(N + HEAD <= MOST) };
        self.number += 1;
        let mut told = [0; MOST];
        told[..HEAD].copy_from_slice(&[self.number, -self.number]);
        told[HEAD..HEAD + N].copy_from_slice(&mine);
        let begun = self.comm.begin_least(&told).or_else(|_| {
            // It may have been begun all the same. Then this one takes the place of the next, and
            // everybody sees by its number that it does not belong there.
            self.doubt();
            self.comm.begin_least(&told)
        });
        let least = begun.and_then(|pending| self.result(pending));
        let least = least.inspect_err(|_| self.doubt())?;
        let mut found = [0; N];
        found.copy_from_slice(&least[HEAD..HEAD + N]);
        if least[..HEAD] == told[..HEAD] {
            return Ok(found);
        }
        Err(Error::new(Kind::System, "MPI has failed on one of the processes"))
    }

    fn result(&self, mut pending: Pending) -> Result<Box<[i64]>> {
        let lost = |what: &str| Error::new(Kind::System, what.to_owned());
        let Some(since) = self.doubtful else {
            return pending.wait()?.ok_or_else(|| lost("a reduction without a result"));
        };
        loop {
            if let Some(least) = pending.poll()? {
                return Ok(least);
            }
            if since.elapsed() > LONGEST_DOUBT {
                return Err(lost("the other processes have not been met after an error of MPI"));
            }
            thread::sleep(PAUSE);
        }
    }

    fn doubt(&mut self) {
        self.doubtful.get_or_insert_with(Instant::now);
    }

    /// Whether nothing is under way on the communicator any more.
    pub(super) fn is_certain(&self) -> bool {
        self.doubtful.is_none()
    }
}
