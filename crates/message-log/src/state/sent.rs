//! Hashes of what calls send, which a replay compares if `VELOC_MPI_COMPARE` says so.

use message_log_core::digest::digest;
use message_log_core::memory;
use message_log_core::target::{CallTarget, ElementBlock};

use crate::device;
use crate::mpi::MpiProperties;
use crate::refuse;
use crate::target;
use crate::types::RecentTypes;

/// Whether replays compare what they send, as the environment says.
pub(super) fn compares(mpi: &MpiProperties) -> bool {
    let wanted = os::environment::var("VELOC_MPI_COMPARE").unwrap_or_default();
    if !matches!(&*wanted, "" | "0" | "1") {
        let text = format!("VELOC_MPI_COMPARE is \"{wanted}\": it must be 0 or 1; 0 is taken");
        refuse::warn(mpi, &text);
    }
    wanted == "1"
}

/// The hash of memory that the application passed to be sent; 0: it cannot be read, or packed.
///
/// # Safety
/// `sent` is nothing, or that memory.
pub(super) unsafe fn sum(mpi: &MpiProperties, types: &mut RecentTypes, sent: &CallTarget) -> u64 {
    let sent = target::resolved(sent, types);
    if let CallTarget::Nothing = sent {
        return 0;
    }
    // SAFETY: by the caller's promise.
    unsafe { digest_of(mpi, &sent) }.map_or(0, |sum| sum.max(1))
}

/// The hash of memory. `None`: it cannot be read, or packed.
///
/// # Safety
/// The target is resolved, and the application's memory.
unsafe fn digest_of(mpi: &MpiProperties, sent: &CallTarget) -> Option<u64> {
    let len = usize::try_from(sent.wanted(None)).ok()?;
    if let CallTarget::One(ElementBlock { buf, datatype, .. }) = sent {
        let from = (*buf as i64 + datatype.lb) as *const u8;
        if len > 0 && datatype.is_dense && device::buffer(from.cast(), len).ok()?.is_none() {
            // SAFETY: by the caller's promise: elements without gaps, which the host can read.
            return Some(digest(unsafe { std::slice::from_raw_parts(from, len) }));
        }
    }
    let mut bytes = memory::room(len).ok()?;
    bytes.resize(len, 0);
    // SAFETY: by the caller's promise.
    unsafe { target::pack_into(sent, mpi, &mut bytes) }.ok()?;
    Some(digest(&bytes))
}
