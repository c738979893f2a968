//! Hashes of what calls send, which a replay compares if `VELOC_MPI_COMPARE` says so.

use std::ffi::c_int;

use crate::device;
use crate::digest::digest;
use crate::memory;
use crate::mpi::Mpi;
use crate::refuse;
use crate::state::State;
use crate::target::{Block, Target};

/// Whether replays compare what they send, as the environment says.
pub(crate) fn compares(mpi: &Mpi) -> bool {
    let wanted = os::environment::var("VELOC_MPI_COMPARE").unwrap_or_default();
    if !matches!(&*wanted, "" | "0" | "1") {
        let text = format!("VELOC_MPI_COMPARE is \"{wanted}\": it must be 0 or 1; 0 is taken");
        refuse::warn(mpi, &text);
    }
    wanted == "1"
}

impl State {
    /// The hash of what a call inside a part sends to a process; 0: it is not compared.
    ///
    /// # Safety
    /// `sent` is nothing, or the memory that the application passed to be sent.
    pub(crate) unsafe fn sum_of_sent(&mut self, peer: Option<c_int>, sent: &Target) -> u64 {
        let is_nobody = peer == Some(self.mpi.numbers.proc_null);
        if !self.compares_sent || is_nobody || self.parts.source().is_none() {
            return 0;
        }
        let sent = sent.resolved(&mut self.types);
        if let Target::Nothing = sent {
            return 0;
        }
        // SAFETY: by the caller's promise.
        unsafe { sum(&self.mpi, &sent) }.map_or(0, |sum| sum.max(1))
    }
}

/// The hash of memory. `None`: it cannot be read, or packed.
///
/// # Safety
/// The target is resolved, and the application's memory.
unsafe fn sum(mpi: &Mpi, sent: &Target) -> Option<u64> {
    let len = usize::try_from(sent.wanted(None)).ok()?;
    if let Target::One(Block { buf, datatype, .. }) = sent {
        let from = (*buf as i64 + datatype.lb) as *const u8;
        if len > 0 && datatype.is_dense && device::buffer(from.cast(), len).ok()?.is_none() {
            // SAFETY: by the caller's promise: elements without gaps, which the host can read.
            return Some(digest(unsafe { std::slice::from_raw_parts(from, len) }));
        }
    }
    let mut bytes = memory::room(len).ok()?;
    bytes.resize(len, 0);
    // SAFETY: by the caller's promise.
    unsafe { sent.pack_into(mpi, &mut bytes) }.ok()?;
    Some(digest(&bytes))
}
