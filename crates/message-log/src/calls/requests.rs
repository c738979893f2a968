//! Calls on requests other than those that complete them. A persistent request that the application frees is
//! kept until no replay can start it any more.

use std::ffi::c_int;

use super::counted::Counted;
use super::{with, At, SUCCESS};
use crate::deferred::Kind;
use crate::log::{Call, Outcome, Shape};
use crate::parts::Source;
use crate::pmpi::{self, Ptr};
use crate::refuse;
use crate::requests::Life;
use crate::state::State;
use crate::status::Status;
use crate::target::Target;

/// Cancels a request.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn cancel(
    at: At,
    call: Call,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if request.is_null() {
        // MPI refuses this, in a first run and in a replay.
        return real();
    }
    with(|state| {
        if at == At::Outside || state.source() == Source::Mpi {
            // SAFETY: by the caller's promise.
            unsafe { state.cancelling(request) };
        }
        if at == At::Outside {
            return real();
        }
        if state.source() == Source::Mpi {
            return state.plain(Shape::new(call), real);
        }
        let code = state.plain(Shape::new(call), || SUCCESS);
        // SAFETY: by the caller's promise.
        match code == SUCCESS && state.is_general(unsafe { state.mpi.read_handle(request) }) {
            true => real(),
            false => code,
        }
    })
}

/// Frees a request.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn free(at: At, call: Call, request: Ptr, real: impl FnOnce() -> c_int) -> c_int {
    if request.is_null() {
        // As above.
        return real();
    }
    with(|state| {
        if at == At::Outside {
            // SAFETY: by the caller's promise.
            return unsafe { state.freeing(request, real) };
        }
        let shape = Shape::new(call);
        if state.source() == Source::Mpi {
            // SAFETY: by the caller's promise.
            let handle = unsafe { state.mpi.read_handle(request) };
            let code = match state.is_receiving(handle) {
                Some(of) => super::refuse_on(state, call, of),
                // SAFETY: as above.
                None => unsafe { state.freeing(request, real) },
            };
            state.record(shape, Outcome::of(code));
            return code;
        }
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(request) };
        let first = state.parts.replayed_since();
        let code = state.plain(shape, || SUCCESS);
        if code != SUCCESS {
            return code;
        }
        match state.requests.get(handle) {
            // Made in this replay, as in the first run. Those made before the part were freed by the first
            // run.
            Some(known) if known.persistent && known.made > first => {
                // SAFETY: as above.
                return unsafe { state.freeing(request, real) };
            }
            Some(known) if matches!(known.life, Life::Replayed(_)) => {
                state.release_replayed(handle)
            }
            // SAFETY: as above.
            _ if state.is_general(handle) => return unsafe { state.freeing(request, real) },
            _ => {}
        }
        // SAFETY: as above.
        unsafe { state.mpi.write_handle(request, state.mpi.request_null) };
        code
    })
}

impl State {
    /// Marks a request that may be cancelled; its status will tell.
    ///
    /// # Safety
    /// `request` points to a handle.
    unsafe fn cancelling(&mut self, request: Ptr) {
        // SAFETY: by the caller's promise.
        let handle = unsafe { self.mpi.read_handle(request) };
        if let Some(request) = self.requests.get_mut(handle) {
            request.cancelled = true;
        } else if self.requests.has_overlooked() {
            // There is no memory to mark the request, so its message cannot be counted.
            self.miscounts();
        }
    }

    /// The call that began this request, if the request is still receiving. Freed inside a part, it would
    /// write at an unknown time, which no replay could repeat. A request that was cancelled may be freed.
    fn is_receiving(&self, handle: usize) -> Option<Call> {
        let request = self.requests.get(handle)?;
        if matches!(request.target, Target::Nothing) || request.cancelled {
            return None;
        }
        if request.persistent {
            let (mut flag, mut status) = (0, Status::default());
            // SAFETY: a request that the application has made and not freed, and places of ours.
            unsafe { pmpi::request_get_status(handle, &mut flag, status.as_mut_ptr()) };
            let numbers = self.mpi.numbers;
            let source = status.source(&self.mpi);
            // The status of an inactive request is empty.
            if flag != 0 && (source == numbers.any_source || source == numbers.proc_null) {
                return None;
            }
        }
        Some(request.shape.call)
    }

    /// The application frees a request.
    ///
    /// # Safety
    /// `request` points to a handle.
    unsafe fn freeing(&mut self, request: Ptr, real: impl FnOnce() -> c_int) -> c_int {
        // SAFETY: by the caller's promise.
        let handle = unsafe { self.mpi.read_handle(request) };
        let persistent = self.requests.get(handle).filter(|known| known.persistent);
        // Parts that began since then have it in their snapshot; earlier ones make it in their replay.
        if persistent.is_some_and(|known| self.parts.has_since(known.since)) {
            if self.deferred.add(Kind::Request, handle, self.parts.now()).is_err() {
                return refuse::no_memory(&self.mpi, 0, "MPI_Request_free");
            }
            if let Some(known) = self.requests.get_mut(handle) {
                let (counted, cancelled) = (std::mem::take(&mut known.counted), known.cancelled);
                self.counts_given_up(&counted, cancelled);
            }
            // SAFETY: as above.
            unsafe { self.mpi.write_handle(request, self.mpi.request_null) };
            return SUCCESS;
        }
        if self.frees_general(handle) {
            return real();
        }
        if let Some(known) = self.forget_request(handle, request) {
            self.counts_given_up(&known.counted, known.cancelled);
        }
        real()
    }

    /// Counts the message of a request that the application frees: its completion is never seen.
    fn counts_given_up(&mut self, counted: &Counted, cancelled: bool) {
        match (counted, &mut self.resend) {
            (Counted::Nothing, _) | (_, None) => {}
            (Counted::Send { link, .. }, Some(resend)) if !cancelled => {
                resend.streams.send_given_up(*link);
            }
            // It is unknown which message the request received, or whether it was cancelled.
            (_, Some(resend)) => resend.streams.miscounted(),
        }
    }
}
