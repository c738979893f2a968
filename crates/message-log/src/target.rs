//! The bytes of what a call sends or receives in the application's memory.

use message_log_core::log::{Arena, Item, Payload};
use message_log_core::target::{CallTarget, ElementBlock};

use crate::mpi::MpiProperties;
use crate::types::{self, RecentTypes};

/// The target with looked-up types, which must still exist.
pub(crate) fn resolved(target: &CallTarget, types: &mut RecentTypes) -> CallTarget {
    match target {
        CallTarget::Plain { buf, count, datatype } => CallTarget::One(ElementBlock {
            buf: *buf,
            count: *count,
            datatype: types.get(*datatype),
        }),
        other => other.clone(),
    }
}

/// Packs the bytes of a target into the log; for a message, only the received ones.
///
/// # Errors
/// Out of memory, or the memory cannot be read.
///
/// # Safety
/// The target is resolved, and was passed by the application to a call that MPI has completed.
pub(crate) unsafe fn pack(
    target: &CallTarget,
    mpi: &MpiProperties,
    arena: &mut Arena,
    received: Option<i64>,
) -> Result<Payload, String> {
    let wanted = target.wanted(received);
    let len = usize::try_from(wanted)
        .map_err(|_| format!("there is no memory to log {wanted} bytes that were received"))?;
    // SAFETY: by the caller's promise.
    arena.keep(len, |to| unsafe { pack_into(target, mpi, to) })
}

/// Packs as many bytes of a target as there is room for.
///
/// # Errors
/// The memory cannot be read.
///
/// # Safety
/// The target is resolved, and the application's memory.
pub(crate) unsafe fn pack_into(
    target: &CallTarget,
    mpi: &MpiProperties,
    mut rest: &mut [u8],
) -> Result<(), String> {
    for block in target.blocks() {
        let len = rest.len().min(block.bytes() as usize);
        let (bytes, behind) = rest.split_at_mut(len);
        // SAFETY: by the caller's promise.
        unsafe { types::pack(&block.datatype, mpi, block.buf, bytes) }?;
        rest = behind;
    }
    Ok(())
}

/// Writes the bytes of a logged item to `target`, or to the first run's buffer.
///
/// # Errors
/// There is less room now, and nothing is written; or the memory cannot be written.
///
/// # Safety
/// `target` is resolved, and names the memory that the application passed.
pub(crate) unsafe fn give(
    mpi: &MpiProperties,
    item: &Item,
    target: Option<&CallTarget>,
) -> Result<(), String> {
    let target = target.unwrap_or(&item.target);
    // SAFETY: by the caller's promise, or where MPI wrote in the first run; a replay has the same memory.
    unsafe { unpack(target, mpi, item.payload.bytes()) }
}

/// Unpacks logged bytes.
///
/// # Errors
/// The bytes exceed the target, and nothing is written; or it cannot be written.
///
/// # Safety
/// The target is resolved, and was passed by the application to a call whose result MPI would write
/// there.
unsafe fn unpack(target: &CallTarget, mpi: &MpiProperties, payload: &[u8]) -> Result<(), String> {
    if payload.len() as i64 > target.wanted(None) {
        let len = payload.len();
        return Err(match target {
            CallTarget::Lost => format!(
                "{len} bytes were received by a request that was begun before the part; their memory was not \
                 protected in the checkpoint from which this process goes on"
            ),
            _ => format!("{len} bytes were received, and there is room for less"),
        });
    }
    let mut rest = payload;
    for block in target.blocks() {
        let (bytes, behind) = rest.split_at(rest.len().min(block.bytes() as usize));
        // SAFETY: by the caller's promise.
        unsafe { types::unpack(&block.datatype, mpi, bytes, block.buf) }?;
        rest = behind;
    }
    Ok(())
}
