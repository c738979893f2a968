//! Stopping a process for others that write it to files: its calls wait, and it has nothing of a device meanwhile.
//!
//! All of them take the number of the process, which may be this one.

use std::ffi::{c_int, c_uint};

use super::entry::{enter, give, CallNeeds};
use crate::abi::ResultCode;
use crate::checkpoint::{self, Order};
use crate::status::ErrorCode;

/// `CUcheckpointLockArgs`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LockArgs {
    /// How long to wait for calls under way, in milliseconds; 0: for ever.
    pub timeout_ms: c_uint,
    /// Zero.
    pub reserved: [c_uint; 15],
}

/// `CUcheckpointCheckpointArgs` and `CUcheckpointUnlockArgs`, and `CUcheckpointRestoreArgs` without other devices.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ProcessArgs {
    /// Zero.
    pub reserved: [u64; 8],
}

/// Gives an order whose arguments are all reserved.
///
/// # Safety
/// `args` must be null or readable.
unsafe fn order(
    name: &'static str,
    pid: c_int,
    args: *const ProcessArgs,
    order: Order,
) -> ResultCode {
    enter(name, CallNeeds::Nothing, |_| {
        // SAFETY: the caller vouches for `args`.
        match unsafe { args.as_ref() } {
            Some(args) if args.reserved != [0; 8] => Err(ErrorCode::INVALID_VALUE),
            _ => checkpoint::give(pid, order, 0),
        }
    })
}

/// Has the calls of a process wait, once those that it is in are done.
///
/// # Safety
/// `args` must be null or readable.
#[no_mangle]
pub unsafe extern "C" fn cuCheckpointProcessLock(pid: c_int, args: *const LockArgs) -> ResultCode {
    enter("cuCheckpointProcessLock", CallNeeds::Nothing, |_| {
        // SAFETY: the caller vouches for `args`.
        let timeout = match unsafe { args.as_ref() } {
            Some(args) if args.reserved != [0; 15] => return Err(ErrorCode::INVALID_VALUE),
            args => args.map_or(0, |args| args.timeout_ms),
        };
        checkpoint::give(pid, Order::Lock, timeout)
    })
}

/// Waits for the work of a locked process, and leaves it nothing of a device.
///
/// # Safety
/// `args` must be null or readable.
#[no_mangle]
pub unsafe extern "C" fn cuCheckpointProcessCheckpoint(
    pid: c_int,
    args: *const ProcessArgs,
) -> ResultCode {
    // SAFETY: the caller vouches for `args`.
    unsafe { order("cuCheckpointProcessCheckpoint", pid, args, Order::Checkpoint) }
}

/// Gives a checkpointed process its devices back; it stays locked.
///
/// # Safety
/// `args` must be null or readable.
#[no_mangle]
pub unsafe extern "C" fn cuCheckpointProcessRestore(
    pid: c_int,
    args: *const ProcessArgs,
) -> ResultCode {
    // SAFETY: the caller vouches for `args`.
    unsafe { order("cuCheckpointProcessRestore", pid, args, Order::Restore) }
}

/// Lets the calls of a locked process go on.
///
/// # Safety
/// `args` must be null or readable.
#[no_mangle]
pub unsafe extern "C" fn cuCheckpointProcessUnlock(
    pid: c_int,
    args: *const ProcessArgs,
) -> ResultCode {
    // SAFETY: the caller vouches for `args`.
    unsafe { order("cuCheckpointProcessUnlock", pid, args, Order::Unlock) }
}

/// The state of a process: running (0), locked (1) or checkpointed (2).
///
/// # Safety
/// `state` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuCheckpointProcessGetState(pid: c_int, state: *mut c_int) -> ResultCode {
    enter("cuCheckpointProcessGetState", CallNeeds::Nothing, |_| {
        let found = checkpoint::state_of(pid)?;
        // SAFETY: the caller vouches for `state`.
        unsafe { give(state, found as c_int) }
    })
}
