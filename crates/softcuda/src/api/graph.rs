//! Graphs: they are captured and counted, and cannot be launched.

use std::ffi::{c_uint, c_void};

use super::entry::{enter, give, not_null, CallNeeds};
use crate::abi::{CUstream, ResultCode};
use crate::capture;
use crate::handles::{as_handle, as_pointer};
use crate::status::ErrorCode;

/// Sets the calling thread's capture mode to the value given, and returns the previous one.
///
/// # Safety
/// `mode` must be null or readable and writable.
#[no_mangle]
pub unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) -> ResultCode {
    enter("cuThreadExchangeStreamCaptureMode", CallNeeds::Nothing, |_| {
        not_null(mode)?;
        // SAFETY: the caller vouches for `mode`, which is not null.
        unsafe { mode.write(capture::exchange_mode(mode.read())?) };
        Ok(())
    })
}

/// Begins to record the work of a stream instead of carrying it out.
#[no_mangle]
pub extern "C" fn cuStreamBeginCapture_v2(stream: CUstream, mode: c_uint) -> ResultCode {
    enter("cuStreamBeginCapture_v2", CallNeeds::Context, |call| {
        let (context, stream) = call.driver()?.stream(stream, call.context()?)?;
        capture::begin(context.handle, &stream, mode)
    })
}

/// Ends the recording and returns the graph.
///
/// # Safety
/// `graph` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuStreamEndCapture(
    stream: CUstream,
    graph: *mut *mut c_void,
) -> ResultCode {
    enter("cuStreamEndCapture", CallNeeds::Context, |call| {
        let (context, stream) = call.driver()?.stream(stream, call.context()?)?;
        not_null(graph)?;
        let ended = capture::end(context.handle, &stream);
        // SAFETY: the caller vouches for `graph`.
        unsafe { give(graph, as_pointer(ended.unwrap_or(0)))? };
        ended.map(|_| ())
    })
}

/// Whether a stream's work is being recorded.
///
/// # Safety
/// `status` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: CUstream, status: *mut c_uint) -> ResultCode {
    enter("cuStreamIsCapturing", CallNeeds::Context, |call| {
        let (context, stream) = call.driver()?.stream(stream, call.context()?)?;
        // SAFETY: the caller vouches for `status`.
        unsafe { give(status, capture::status(context.handle, &stream)?) }
    })
}

/// How many pieces of work a graph has; not which.
///
/// # Safety
/// `count` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuGraphGetNodes(
    graph: *mut c_void,
    nodes: *mut *mut c_void,
    count: *mut usize,
) -> ResultCode {
    enter("cuGraphGetNodes", CallNeeds::Driver, |_| {
        if !nodes.is_null() {
            return Err(ErrorCode::NOT_SUPPORTED);
        }
        // SAFETY: the caller vouches for `count`.
        unsafe { give(count, capture::nodes(as_handle(graph))? as usize) }
    })
}

/// Destroys a graph.
#[no_mangle]
pub extern "C" fn cuGraphDestroy(graph: *mut c_void) -> ResultCode {
    enter("cuGraphDestroy", CallNeeds::Driver, |_| capture::destroy(as_handle(graph)))
}
