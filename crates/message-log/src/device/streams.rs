//! The streams for copies: one per context, created at its first use and kept.

use std::sync::{Mutex, PoisonError};

use ::driver::cuda::Failure;

use super::driver::{Context, MemoryDriver, Stream};

/// `CU_STREAM_NON_BLOCKING`: it does not wait for the application's streams.
const NON_BLOCKING: u32 = 1;

/// A stream, with the id of its context. A context's handle is not unique: when a context is destroyed, its
/// streams are too, and its handle may be reused.
struct ContextStream {
    context: u64,
    stream: Stream,
}

// SAFETY: the driver allows a stream's use from any thread.
unsafe impl Send for ContextStream {}

static KEPT: Mutex<Vec<ContextStream>> = Mutex::new(Vec::new());

/// Runs `body` with a stream of the context, which is alive and current. Threads that copy at the same time
/// share the stream.
pub(super) fn with_stream(
    driver: &MemoryDriver,
    context: Context,
    body: impl FnOnce(Stream) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // SAFETY: the context is alive.
    match unsafe { driver.context_id(context) } {
        Some(number) => body(kept(driver, number)?),
        None => with_new(driver, body),
    }
}

/// The stream of the current context, which has this id.
fn kept(driver: &MemoryDriver, context: u64) -> Result<Stream, Failure> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = kept.iter().find(|kept| kept.context == context) {
        return Ok(found.stream);
    }
    let stream = new(driver)?;
    kept.push(ContextStream { context, stream });
    Ok(stream)
}

/// Before CUDA 12.0 contexts have no ids: creates a stream for one use.
fn with_new(
    driver: &MemoryDriver,
    body: impl FnOnce(Stream) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let stream = new(driver)?;
    let done = body(stream);
    // SAFETY: made above, and used by nobody else.
    done.and(unsafe { driver.cuStreamDestroy_v2(stream) })
}

fn new(driver: &MemoryDriver) -> Result<Stream, Failure> {
    let mut stream = std::ptr::null_mut();
    // SAFETY: the pointer is to a local, and a context is current.
    unsafe { driver.cuStreamCreate(&mut stream, NON_BLOCKING) }?;
    Ok(stream)
}
