//! Events: marks in streams.

use std::ffi::c_uint;

use super::entry::{enter, give, not_null, CallNeeds};
use crate::abi::{CUevent, CUstream, ResultCode};
use crate::status::ErrorCode;
use crate::sync::lock;

/// `CU_EVENT_BLOCKING_SYNC`.
const BLOCKING_SYNC: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: c_uint = 2;
/// `CU_EVENT_INTERPROCESS`.
const INTERPROCESS: c_uint = 4;

/// Makes an event.
///
/// # Safety
/// `event` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> ResultCode {
    enter("cuEventCreate", CallNeeds::Context, |call| {
        not_null(event)?;
        if flags > 7 || flags & (INTERPROCESS | DISABLE_TIMING) == INTERPROCESS {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let (timed, sleeps) = (flags & DISABLE_TIMING == 0, flags & BLOCKING_SYNC != 0);
        let created = call.driver()?.create_event(call.context()?, timed, sleeps);
        // SAFETY: the caller vouches for `event`.
        unsafe { give(event, created) }
    })
}

/// Marks the end of what is queued in a stream now.
#[no_mangle]
pub extern "C" fn cuEventRecord(event: CUevent, stream: CUstream) -> ResultCode {
    enter("cuEventRecord", CallNeeds::Context, |call| {
        let event = call.driver()?.event(event)?;
        let stream = call.own_stream(stream)?;
        if event.context != call.context()?.handle {
            return Err(ErrorCode::INVALID_HANDLE);
        }
        let ticket = call.submit(&stream, Box::new(|| Ok(())))?;
        *lock(&event.mark) = Some(ticket);
        Ok(())
    })
}

/// Whether the work before the mark is done; one never recorded is. A late device goes on with it.
#[no_mangle]
pub extern "C" fn cuEventQuery(event: CUevent) -> ResultCode {
    enter("cuEventQuery", CallNeeds::Context, |call| {
        let event = call.driver()?.event(event)?;
        let unfinished = lock(&event.mark).clone().filter(|mark| !mark.is_done());
        event.health.check()?;
        match unfinished {
            None => Ok(()),
            Some(mark) => {
                mark.want();
                Err(ErrorCode::NOT_READY)
            }
        }
    })
}

/// Waits for the work before the mark.
#[no_mangle]
pub extern "C" fn cuEventSynchronize(event: CUevent) -> ResultCode {
    enter("cuEventSynchronize", CallNeeds::Context, |call| {
        let event = call.driver()?.event(event)?;
        let mark = lock(&event.mark).clone();
        match mark {
            Some(mark) if event.sleeps => mark.sleep(),
            Some(mark) => mark.spin(),
            None => {}
        }
        event.health.check()
    })
}

/// Milliseconds between two marks.
///
/// # Safety
/// `milliseconds` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuEventElapsedTime(
    milliseconds: *mut f32,
    start: CUevent,
    end: CUevent,
) -> ResultCode {
    enter("cuEventElapsedTime", CallNeeds::Context, |call| {
        let driver = call.driver()?;
        let mut times = Vec::with_capacity(2);
        for event in [driver.event(start)?, driver.event(end)?] {
            if !event.timed {
                return Err(ErrorCode::INVALID_HANDLE);
            }
            let mark = lock(&event.mark).clone().ok_or(ErrorCode::INVALID_HANDLE)?;
            times.push(mark.finished_at());
            mark.want();
        }
        let [Some(start), Some(end)] = times[..] else {
            return Err(ErrorCode::NOT_READY);
        };
        let elapsed = match end.checked_duration_since(start) {
            Some(forward) => forward.as_secs_f32(),
            None => -start.duration_since(end).as_secs_f32(),
        };
        // SAFETY: the caller vouches for `milliseconds`.
        unsafe { give(milliseconds, elapsed * 1e3) }
    })
}

/// Destroys an event; operations that wait for it go on waiting.
#[no_mangle]
pub extern "C" fn cuEventDestroy_v2(event: CUevent) -> ResultCode {
    enter("cuEventDestroy_v2", CallNeeds::Context, |call| call.driver()?.destroy_event(event))
}
