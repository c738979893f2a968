//! Non-blocking collective calls.

use std::collections::VecDeque;

use super::comm::Comm;
use errors::Result;

/// A non-blocking collective call on 64-bit integers.
///
/// MPI may write to the buffers until the call is complete. If it never completes, they are leaked.
#[derive(Debug)]
pub struct PendingCollective {
    comm: Comm,
    request: usize,
    buffers: Option<Buffers>,
}

#[derive(Debug)]
struct Buffers {
    mine: Box<[i64]>,
    all: Box<[i64]>,
}

impl Comm {
    /// Starts an elementwise minimum reduction. All processes pass equally many values, and make these
    /// calls in the same order.
    ///
    /// # Errors
    /// `MPI_Iallreduce` failed, or MPI is not running.
    /// `MPI_Iallreduce` failed, or MPI is not running.
    pub fn start_allreduce_min(&self, mine: &[i64]) -> Result<PendingCollective> {
        let mut buffers = Buffers { mine: mine.into(), all: vec![0; mine.len()].into() };
        let request = self.iallreduce(&buffers.mine, &mut buffers.all)?;
        Ok(PendingCollective { comm: self.clone(), request, buffers: Some(buffers) })
    }

    /// Starts an allgather: every process gets the values of all, by rank. All processes pass equally
    /// many values.
    ///
    /// # Errors
    /// `MPI_Iallgather` or `MPI_Comm_size` failed, or MPI is not running.
    pub fn start_allgather(&self, mine: &[i64]) -> Result<PendingCollective> {
        let all = vec![0; self.size()? as usize * mine.len()];
        let mut buffers = Buffers { mine: mine.into(), all: all.into() };
        let request = self.iallgather(&buffers.mine, &mut buffers.all)?;
        Ok(PendingCollective { comm: self.clone(), request, buffers: Some(buffers) })
    }
}

impl PendingCollective {
    /// The result, if the call is complete.
    ///
    /// # Errors
    /// `MPI_Test` failed, or MPI is not running.
    pub fn poll(&mut self) -> Result<Option<Box<[i64]>>> {
        if self.buffers.is_none() || !self.comm.test(&mut self.request)? {
            return Ok(None);
        }
        Ok(self.buffers.take().map(|buffers| buffers.all))
    }

    /// Waits for the result. `None` if it was returned before.
    ///
    /// # Errors
    /// `MPI_Wait` failed, or MPI is not running.
    pub fn wait(&mut self) -> Result<Option<Box<[i64]>>> {
        if self.buffers.is_some() {
            self.comm.wait(&mut self.request)?;
        }
        Ok(self.buffers.take().map(|buffers| buffers.all))
    }
}

impl Drop for PendingCollective {
    fn drop(&mut self) {
        // MPI may still write to the buffers.
        std::mem::forget(self.buffers.take());
    }
}

/// Calls in progress on a communicator that is used for nothing else, oldest first.
#[derive(Debug)]
pub struct CollectiveQueue {
    comm: Comm,
    pending: VecDeque<PendingCollective>,
    begun: u64,
}

impl CollectiveQueue {
    /// An empty queue on this communicator.
    pub fn over(comm: Comm) -> CollectiveQueue {
        CollectiveQueue { comm, pending: VecDeque::new(), begun: 0 }
    }

    /// Starts a call: [`Comm::start_allreduce_min`] or [`Comm::start_allgather`].
    ///
    /// # Errors
    /// Those of the call.
    pub fn begin(&mut self, begin: impl FnOnce(&Comm) -> Result<PendingCollective>) -> Result<()> {
        self.pending.push_back(begin(&self.comm)?);
        self.begun += 1;
        Ok(())
    }

    /// The oldest result, if its call is complete.
    ///
    /// # Errors
    /// Those of [`PendingCollective::poll`].
    pub fn poll(&mut self) -> Result<Option<Box<[i64]>>> {
        self.take(PendingCollective::poll)
    }

    /// Waits for the oldest result. `None`: no call is in progress.
    ///
    /// # Errors
    /// Those of [`PendingCollective::wait`].
    pub fn wait(&mut self) -> Result<Option<Box<[i64]>>> {
        self.take(PendingCollective::wait)
    }

    fn take(
        &mut self,
        result: impl FnOnce(&mut PendingCollective) -> Result<Option<Box<[i64]>>>,
    ) -> Result<Option<Box<[i64]>>> {
        let Some(oldest) = self.pending.front_mut() else { return Ok(None) };
        let found = result(oldest)?;
        if found.is_some() {
            self.pending.pop_front();
        }
        Ok(found)
    }

    /// How many calls were started.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether a call is in progress.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Frees the communicator. Collective.
    ///
    /// # Errors
    /// Those of [`Comm::free`].
    pub fn free(self) -> Result<()> {
        self.comm.free()
    }
}
