//! The streams that copies are made in: one for each context, made when it is first needed and kept.

use std::sync::{Mutex, PoisonError};

use ::driver::cuda::Failure;

use super::driver::{Context, Driver, Stream};

/// `CU_STREAM_NON_BLOCKING`: no waiting for the application's queues.
const NON_BLOCKING: u32 = 1;

/// A stream, under the number of its context. A handle would not do: contexts end, take their streams
/// with them, and leave their handles to others.
struct ContextStream {
    context: u64,
    stream: Stream,
}

// SAFETY: the driver allows a stream's use from any thread.
unsafe impl Send for ContextStream {}

static KEPT: Mutex<Vec<ContextStream>> = Mutex::new(Vec::new());

/// Runs `body` with a stream of the context, which is alive and current. Threads that copy at the same
/// time share it.
pub(super) fn with_stream(
    driver: &Driver,
    context: Context,
    body: impl FnOnce(Stream) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // SAFETY: the context is alive.
    match unsafe { driver.context_id(context) } {
        Some(number) => body(kept(driver, number)?),
        None => with_new(driver, body),
    }
}

/// The stream of the current context, which has this number.
fn kept(driver: &Driver, context: u64) -> Result<Stream, Failure> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = kept.iter().find(|kept| kept.context == context) {
        return Ok(found.stream);
    }
    let stream = new(driver)?;
    kept.push(ContextStream { context, stream });
    Ok(stream)
}

/// Before CUDA 12.0 contexts have no numbers: a stream for this one use.
fn with_new(
    driver: &Driver,
    body: impl FnOnce(Stream) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let stream = new(driver)?;
    let done = body(stream);
    // SAFETY: made above, and used by nobody else.
    done.and(unsafe { driver.cuStreamDestroy_v2(stream) })
}

fn new(driver: &Driver) -> Result<Stream, Failure> {
    let mut stream = std::ptr::null_mut();
    // SAFETY: the pointer is to a local, and a context is current.
    unsafe { driver.cuStreamCreate(&mut stream, NON_BLOCKING) }?;
    Ok(stream)
}
