//! The way into every driver function, and out of it.
//!
//! It counts the call, injects a failure or a delay if one is set, checks that the driver is initialised and
//! a sound context is current where needed, and turns the outcome into a number. No panic gets past it.

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use crate::context::{Context, OperationTerms};
use crate::inject::{self, CallFate};
use crate::misuse;
use crate::notice::notice;
use crate::queue::{DriverStream, OperationTicket, OperationWork};
use crate::registry::{self, driver, InitialisedDriver};
use crate::status::{DriverResult, ErrorCode};
use crate::{abi, capture, checkpoint, config, thread, transfer};

/// The conditions for a function to do anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallNeeds {
    /// Nothing.
    Nothing,
    /// The driver to be initialised.
    Driver,
    /// The driver to be initialised, and the current context, if there is one, to be sound.
    NoBrokenContext,
    /// A sound current context.
    Context,
}

/// A call of a driver function in progress.
pub(super) struct DriverCall {
    name: &'static str,
    driver: Option<&'static InitialisedDriver>,
    context: Option<Arc<Context>>,
    fails_later: Cell<Option<ErrorCode>>,
    _inside: Option<checkpoint::Inside>,
}

impl DriverCall {
    /// The driver.
    pub(super) fn driver(&self) -> DriverResult<&'static InitialisedDriver> {
        self.driver.ok_or(ErrorCode::NOT_INITIALIZED)
    }

    /// The current context.
    pub(super) fn context(&self) -> DriverResult<&Arc<Context>> {
        self.context.as_ref().ok_or(ErrorCode::INVALID_CONTEXT)
    }

    /// Waits as long as a call of this function is set to take.
    pub(super) fn stall(&self) {
        let delay = config::delay(self.name);
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
    }

    /// Queues a staged copy, and waits for it; meanwhile nobody else can queue work, if configured.
    pub(super) fn submit_and_wait(
        &self,
        stream: &Arc<DriverStream>,
        work: OperationWork,
    ) -> DriverResult {
        let context = self.context()?;
        let _held = context.hold_queueing();
        transfer::STAGED.fetch_add(1, Ordering::Relaxed);
        let terms = OperationTerms { after: None, fails_with: self.fails_later.take() };
        self.wait(&[context.submit(stream, terms, work)?])
    }

    /// Queues work in a stream of the current context.
    pub(super) fn submit(
        &self,
        stream: &Arc<DriverStream>,
        work: OperationWork,
    ) -> DriverResult<Arc<OperationTicket>> {
        self.submit_after(None, stream, work)
    }

    /// Queues work that waits for another operation as well.
    pub(super) fn submit_after(
        &self,
        after: Option<Arc<OperationTicket>>,
        stream: &Arc<DriverStream>,
        work: OperationWork,
    ) -> DriverResult<Arc<OperationTicket>> {
        let terms = OperationTerms { after, fails_with: self.fails_later.take() };
        let context = self.context()?;
        drop(context.hold_queueing());
        context.submit(stream, terms, work)
    }

    /// The stream of this handle, which must be one of the current context.
    pub(super) fn own_stream(&self, handle: abi::CUstream) -> DriverResult<Arc<DriverStream>> {
        let context = self.context()?;
        let (owner, stream) = self.driver()?.stream(handle, context)?;
        if owner.handle == context.handle {
            Ok(stream)
        } else {
            Err(ErrorCode::INVALID_HANDLE)
        }
    }

    /// Waits for all of `tickets`, then says whether the context is sound.
    pub(super) fn wait(&self, tickets: &[Arc<OperationTicket>]) -> DriverResult {
        for ticket in tickets {
            ticket.want();
        }
        for ticket in tickets {
            ticket.spin();
        }
        self.context()?.health.check()
    }

    fn prepare(name: &'static str, needs: CallNeeds) -> DriverResult<Self> {
        config::load();
        let fails_later = match inject::called(name) {
            CallFate::Proceed => None,
            CallFate::Fail(status) => return Err(status),
            CallFate::FailLater(status) => Some(status),
        };
        let mut call = Self {
            name,
            driver: None,
            context: None,
            fails_later: Cell::new(fails_later),
            _inside: None,
        };
        if needs == CallNeeds::Nothing {
            return Ok(call);
        }
        if thread::is_in_callback() {
            misuse::report(format!("{name}: called from within a stream's own work"));
            return Err(ErrorCode::NOT_PERMITTED);
        }
        call._inside = Some(checkpoint::pass());
        let driver = driver().inspect_err(|status| {
            if *status == ErrorCode::DEINITIALIZED {
                notice(&format!("{name}: called after the driver's end"));
            }
        })?;
        call.driver = Some(driver);
        if let Some(handle) = thread::current() {
            match driver.context(handle) {
                Ok(context) => call.context = Some(context),
                Err(status) if needs == CallNeeds::Context => return Err(status),
                Err(_) => {}
            }
        }
        if matches!(needs, CallNeeds::Context | CallNeeds::NoBrokenContext) {
            if let Some(context) = &call.context {
                context.health.check()?;
            }
        }
        if needs == CallNeeds::Context {
            call.context()?;
        }
        capture::check_call(name)?;
        Ok(call)
    }

    /// An injected later failure of a call that queued nothing shows from the
    /// next call on.
    fn finish(&self) {
        if let (Some(status), Some(context)) = (self.fails_later.take(), &self.context) {
            context.health.fail(status);
        }
    }
}

/// Carries out one call of the driver function `name`.
pub(super) fn enter(
    name: &'static str,
    needs: CallNeeds,
    body: impl FnOnce(&DriverCall) -> DriverResult,
) -> abi::ResultCode {
    enter_unstalled(name, needs, |call| {
        call.stall();
        body(call)
    })
}

/// Like [`enter`], for a function that handles its delay itself.
pub(super) fn enter_unstalled(
    name: &'static str,
    needs: CallNeeds,
    body: impl FnOnce(&DriverCall) -> DriverResult,
) -> abi::ResultCode {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let call = DriverCall::prepare(name, needs)?;
        body(&call)?;
        call.finish();
        Ok(())
    }));
    match outcome {
        Ok(Ok(())) => 0,
        // This also holds for a call that was under way when the driver ended.
        Ok(Err(ErrorCode::CONTEXT_IS_DESTROYED)) if registry::has_ended() => {
            ErrorCode::DEINITIALIZED.0
        }
        Ok(Err(ErrorCode(code))) => code,
        Err(_) => ErrorCode::UNKNOWN.0,
    }
}

/// Checks a pointer through which a result is handed out.
pub(super) fn not_null<T>(pointer: *mut T) -> DriverResult {
    if pointer.is_null() {
        Err(ErrorCode::INVALID_VALUE)
    } else {
        Ok(())
    }
}

/// Hands `value` out through `pointer`.
///
/// # Safety
/// `pointer` must be null, which is an error, or valid for writing a `T`.
pub(super) unsafe fn give<T>(pointer: *mut T, value: T) -> DriverResult {
    not_null(pointer)?;
    // SAFETY: the caller vouches for a pointer that is not null.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Hands `value` out through `pointer` unless it is null.
///
/// # Safety
/// `pointer` must be null or valid for writing a `T`.
pub(super) unsafe fn give_if_wanted<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: the caller vouches for a pointer that is not null.
        unsafe { pointer.write(value) };
    }
}

/// Copies `text` with a terminator into a buffer, cut to fit.
///
/// # Safety
/// `buffer` must be valid for writing `size` bytes.
pub(super) unsafe fn give_text(
    buffer: *mut std::ffi::c_char,
    size: usize,
    text: &str,
) -> DriverResult {
    not_null(buffer)?;
    let room = size.checked_sub(1).ok_or(ErrorCode::INVALID_VALUE)?;
    let length = text.len().min(room);
    // SAFETY: `length` bytes and the terminator fit, and the caller vouches
    // for the buffer.
    unsafe {
        buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), length);
        buffer.add(length).write(0);
    }
    Ok(())
}
