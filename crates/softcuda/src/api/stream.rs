//! Streams.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use super::entry::{enter, give, not_null, CallNeeds, DriverCall};
use crate::abi::{CUcontext, CUevent, CUstream, HostFunction, ResultCode};
use crate::capture;
use crate::context::Context;
use crate::handles::as_pointer;
use crate::queue::{DriverStream, StreamKind};
use crate::status::{DriverResult, ErrorCode};
use crate::sync::lock;
use crate::thread;

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;
/// The lowest priority of a stream.
pub(super) const LEAST_PRIORITY: c_int = 0;
/// The highest priority of a stream.
pub(super) const GREATEST_PRIORITY: c_int = -5;

/// Makes a stream.
///
/// # Safety
/// `stream` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> ResultCode {
    // SAFETY: the caller vouches for `stream`.
    enter("cuStreamCreate", CallNeeds::Context, |call| unsafe { create(call, stream, flags) })
}

/// Makes a stream; the priority makes no difference.
///
/// # Safety
/// `stream` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuStreamCreateWithPriority(
    stream: *mut CUstream,
    flags: c_uint,
    _priority: c_int,
) -> ResultCode {
    // SAFETY: the caller vouches for `stream`.
    enter("cuStreamCreateWithPriority", CallNeeds::Context, |call| unsafe {
        create(call, stream, flags)
    })
}

/// # Safety
/// `stream` must be null or writable.
unsafe fn create(call: &DriverCall, stream: *mut CUstream, flags: c_uint) -> DriverResult {
    not_null(stream)?;
    let created = call.driver()?.create_stream(call.context()?, kind(flags)?, flags)?;
    // SAFETY: the caller vouches for `stream`.
    unsafe { give(stream, created) }
}

/// The kind of stream that these flags ask for.
pub(super) fn kind(flags: c_uint) -> DriverResult<StreamKind> {
    match flags {
        0 => Ok(StreamKind::Blocking),
        NON_BLOCKING => Ok(StreamKind::NonBlocking),
        _ => Err(ErrorCode::INVALID_VALUE),
    }
}

/// Destroys a stream; what is queued in it is still carried out.
#[no_mangle]
pub extern "C" fn cuStreamDestroy_v2(stream: CUstream) -> ResultCode {
    enter("cuStreamDestroy_v2", CallNeeds::Context, |call| call.driver()?.destroy_stream(stream))
}

fn find(call: &DriverCall, stream: CUstream) -> DriverResult<(Arc<Context>, Arc<DriverStream>)> {
    call.driver()?.stream(stream, call.context()?)
}

/// Waits for the work of a stream; for the legacy default stream, also for
/// that of all blocking streams.
#[no_mangle]
pub extern "C" fn cuStreamSynchronize(stream: CUstream) -> ResultCode {
    enter("cuStreamSynchronize", CallNeeds::Context, |call| {
        let (context, stream) = find(call, stream)?;
        capture::check_wait(context.handle, &stream)?;
        call.wait(&context.pending_in(&stream))?;
        context.health.check()
    })
}

/// Whether the work of a stream is done. A late device goes on with it.
#[no_mangle]
pub extern "C" fn cuStreamQuery(stream: CUstream) -> ResultCode {
    enter("cuStreamQuery", CallNeeds::Context, |call| {
        let (context, stream) = find(call, stream)?;
        capture::check_wait(context.handle, &stream)?;
        let pending = context.pending_in(&stream);
        context.health.check()?;
        if pending.is_empty() {
            return Ok(());
        }
        for ticket in pending {
            ticket.want();
        }
        Err(ErrorCode::NOT_READY)
    })
}

/// Makes later work of a stream wait for an event as it was last recorded.
#[no_mangle]
pub extern "C" fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) -> ResultCode {
    enter("cuStreamWaitEvent", CallNeeds::Context, |call| {
        if flags > 1 {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let stream = call.own_stream(stream)?;
        let event = call.driver()?.event(event)?;
        let mark = lock(&event.mark).clone();
        match mark {
            None => Ok(()),
            mark => call.submit_after(mark, &stream, Box::new(|| Ok(()))).map(|_| ()),
        }
    })
}

/// The context of a stream; for one of a green context, the context that stands for that.
///
/// # Safety
/// `context` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext) -> ResultCode {
    enter("cuStreamGetCtx", CallNeeds::Context, |call| {
        let (owner, stream) = find(call, stream)?;
        // Seen on driver 580: an error for the legacy stream while a blocking one is captured.
        capture::status(owner.handle, &stream)?;
        let green = call.driver()?.green_of(&stream).map(|(_, green)| green.context);
        // SAFETY: the caller vouches for `context`.
        unsafe { give(context, as_pointer(green.unwrap_or(owner.handle))) }
    })
}

/// The flags a stream was made with.
///
/// # Safety
/// `flags` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuStreamGetFlags(stream: CUstream, flags: *mut c_uint) -> ResultCode {
    enter("cuStreamGetFlags", CallNeeds::Context, |call| {
        let (_, stream) = find(call, stream)?;
        // SAFETY: the caller vouches for `flags`.
        unsafe { give(flags, stream.flags) }
    })
}

/// Calls a function of the program's when the work before it is done. The
/// function must not call the driver.
///
/// # Safety
/// `function` must be callable with `user_data` from another thread, until
/// the stream has come to it.
#[no_mangle]
pub unsafe extern "C" fn cuLaunchHostFunc(
    stream: CUstream,
    function: HostFunction,
    user_data: *mut c_void,
) -> ResultCode {
    enter("cuLaunchHostFunc", CallNeeds::Context, |call| {
        let function = function.ok_or(ErrorCode::INVALID_VALUE)?;
        let stream = call.own_stream(stream)?;
        let data = user_data.expose_provenance();
        let work = move || {
            let data = std::ptr::with_exposed_provenance_mut(data);
            // SAFETY: the caller vouches for the function and its data.
            thread::in_callback(|| unsafe { function(data) });
            Ok(())
        };
        call.submit(&stream, Box::new(work)).map(|_| ())
    })
}
