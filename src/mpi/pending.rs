//! Collective calls that are begun, and end when all processes have begun them: nobody waits.

use super::comm::Comm;
use crate::error::Result;

/// A collective call under way over 64-bit integers.
///
/// MPI may write to the buffers until it is done. If it never is, they are never given back.
#[derive(Debug)]
pub struct Pending {
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
    pub fn begin_least(&self, mine: &[i64]) -> Result<Pending> {
        let mut buffers = Buffers { mine: mine.into(), all: vec![0; mine.len()].into() };
        let request = self.start_reduce(&buffers.mine, &mut buffers.all)?;
        Ok(Pending { comm: self.clone(), request, buffers: Some(buffers) })
    }

    /// Begins to give every process what each of them passes, in the order of their numbers. All of
    /// them pass as many values.
    ///
    /// # Errors
    /// `MPI_Iallgather` or `MPI_Comm_size` failed, or MPI is not running.
    pub fn begin_gather(&self, mine: &[i64]) -> Result<Pending> {
        let all = vec![0; self.size()? as usize * mine.len()];
        let mut buffers = Buffers { mine: mine.into(), all: all.into() };
        let request = self.start_gather(&buffers.mine, &mut buffers.all)?;
        Ok(Pending { comm: self.clone(), request, buffers: Some(buffers) })
    }
}

impl Pending {
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

impl Drop for Pending {
    fn drop(&mut self) {
        // MPI may still write to them.
        std::mem::forget(self.buffers.take());
    }
}
