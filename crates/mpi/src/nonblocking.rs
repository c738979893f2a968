//! Collective calls that are begun, and end when all processes have begun them: nobody waits.

use std::collections::VecDeque;

use super::comm::Comm;
use os::error::Result;

/// A collective call under way over 64-bit integers.
///
/// MPI may write to the buffers until it is done. If it never is, they are never given back.
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
    /// Begins to find the least of what the processes pass at each place. All of them pass as many
    /// values. The n-th such call of every process is one with the n-th of the others.
    ///
    /// # Errors
    /// `MPI_Iallreduce` failed, or MPI is not running.
    pub fn start_allreduce_min(&self, mine: &[i64]) -> Result<PendingCollective> {
        let mut buffers = Buffers { mine: mine.into(), all: vec![0; mine.len()].into() };
        let request = self.iallreduce(&buffers.mine, &mut buffers.all)?;
        Ok(PendingCollective { comm: self.clone(), request, buffers: Some(buffers) })
    }

    /// Begins to give every process what each of them passes, in the order of their numbers. All of
    /// them pass as many values.
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
    /// The result, once it is there.
    ///
    /// # Errors
    /// `MPI_Test` failed, or MPI is not running.
    pub fn poll(&mut self) -> Result<Option<Box<[i64]>>> {
        if self.buffers.is_none() || !self.comm.test(&mut self.request)? {
            return Ok(None);
        }
        Ok(self.buffers.take().map(|buffers| buffers.all))
    }

    /// The result, as soon as the other processes have begun the call. `None` if it was given
    /// before.
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
        // MPI may still write to them.
        std::mem::forget(self.buffers.take());
    }
}

/// Calls under way on a communicator that nothing else uses, the oldest first.
#[derive(Debug)]
pub struct CollectiveQueue {
    comm: Comm,
    pending: VecDeque<PendingCollective>,
    begun: u64,
}

impl CollectiveQueue {
    /// An empty queue over this communicator.
    pub fn over(comm: Comm) -> CollectiveQueue {
        CollectiveQueue { comm, pending: VecDeque::new(), begun: 0 }
    }

    /// Begins a call: [`Comm::start_allreduce_min`] or [`Comm::start_allgather`].
    ///
    /// # Errors
    /// That call's.
    pub fn begin(&mut self, begin: impl FnOnce(&Comm) -> Result<PendingCollective>) -> Result<()> {
        self.pending.push_back(begin(&self.comm)?);
        self.begun += 1;
        Ok(())
    }

    /// The oldest result that was not taken, once it is there.
    ///
    /// # Errors
    /// As [`PendingCollective::poll`].
    pub fn poll(&mut self) -> Result<Option<Box<[i64]>>> {
        self.take(PendingCollective::poll)
    }

    /// The same, which waits for it. `None`: no call is under way.
    ///
    /// # Errors
    /// As [`PendingCollective::wait`].
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

    /// How many calls were begun.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether a call is under way.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Frees the communicator. Collective.
    ///
    /// # Errors
    /// As [`Comm::free`].
    pub fn free(self) -> Result<()> {
        self.comm.free()
    }
}
