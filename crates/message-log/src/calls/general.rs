//! Generalized requests, which the application completes itself, with callbacks that MPI calls.
//!
//! They are local: a replay begins, completes and frees its own, so the application's callbacks run as in the
//! first run. The results of calls that complete them come from the log.

use std::ffi::c_int;

use super::{with, SUCCESS};
use crate::divergence;
use crate::log::{Call, Item, Items, Outcome, Payload, Shape};
use crate::parts::Source;
use crate::pmpi::{self, Handle, Ptr};
use crate::requests::{General, Request};
use crate::state::State;
use crate::status::Status;
use crate::target::Target;

/// A call inside parts that begins a generalized request.
///
/// # Safety
/// `request` points to the call's request handle.
pub(crate) unsafe fn start(call: Call, request: Ptr, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let shape = Shape::new(call);
        if let Err(code) = state.reserve(call, 0, 1) {
            return code;
        }
        let began = match state.source() {
            Source::Mpi => state.parts.begin_number(),
            Source::Log => match state.parts.next(&shape) {
                Ok(at) => match state.parts.event(at).map(|event| &event.outcome) {
                    Some(outcome) if outcome.code == SUCCESS => outcome.began,
                    outcome => return outcome.map_or(SUCCESS, |outcome| outcome.code),
                },
                Err(divergence) => return divergence::stop(state, &shape, &divergence),
            },
        };
        let code = real();
        if code == SUCCESS {
            let begun = Request::new(shape, Target::Nothing, false);
            let begun = Request { began, general: Some(General::Begun), ..begun };
            // SAFETY: by the caller's promise, MPI has written a handle there.
            unsafe { state.begun(begun, request) };
        }
        if state.source() == Source::Mpi {
            state.record(shape, Outcome { began, ..Outcome::of(code) });
        }
        code
    })
}

/// `MPI_Grequest_complete` inside parts. A replay ignores it for requests that were begun before the part.
pub(crate) fn complete(call: Call, request: Handle, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let shape = Shape::new(call);
        let handle = state.mpi.abi.truncate(request);
        let known = state.requests.get(handle).filter(|known| known.general.is_some());
        let own = known.map_or(0, |known| known.began);
        if state.source() == Source::Mpi {
            let code = real();
            let mut outcome = Outcome::of(code);
            if own != 0 {
                let item = Item::new(Status::default(), Target::Nothing, Payload::default());
                outcome.items = Items::One(Item { began: own, ..item });
            }
            state.completes_general(handle, code);
            state.record(shape, outcome);
            return code;
        }
        let first = state.parts.replayed_since();
        let items = state.parts.peek(&shape).map(|event| &event.outcome.items);
        let then = items.and_then(|items| items.as_slice().first()).map_or(0, |item| item.began);
        if then > first && own != then {
            let text = divergence::other(state, &shape, "the request", own, then);
            return divergence::broken(state, &shape, &text);
        }
        let at = match state.parts.next(&shape) {
            Ok(at) => at,
            Err(divergence) => return divergence::stop(state, &shape, &divergence),
        };
        if then <= first {
            return state.parts.event(at).map_or(SUCCESS, |event| event.outcome.code);
        }
        let code = real();
        state.completes_general(handle, code);
        code
    })
}

impl State {
    /// The application has completed a request, and MPI returned `code`.
    fn completes_general(&mut self, handle: usize, code: c_int) {
        let Some(known) = self.requests.get_mut(handle).filter(|_| code == SUCCESS) else { return };
        match &mut known.general {
            Some(General::Freed) => drop(self.requests.remove(handle, 0)),
            Some(general) => *general = General::Complete,
            None => {}
        }
    }

    /// The application frees a request. Returns whether it is a generalized one that has not completed; then
    /// it stays in the table until it has.
    pub(super) fn frees_general(&mut self, handle: usize) -> bool {
        // Checked first without inserting a plain request, which would need memory.
        let is_begun = |known: &Request| known.general == Some(General::Begun);
        if !self.requests.get(handle).is_some_and(is_begun) {
            return false;
        }
        if let Some(known) = self.requests.get_mut(handle) {
            known.general = Some(General::Freed);
        }
        true
    }

    /// Whether this is a generalized request that this replay has begun.
    pub(super) fn is_general(&self, handle: usize) -> bool {
        let first = self.parts.replayed_since();
        let is_own = |known: &Request| known.general.is_some() && known.began > first;
        self.requests.get(handle).is_some_and(is_own)
    }

    /// Completes or tests a generalized request of the replay, as the replayed call did, so that MPI calls
    /// the application's callbacks.
    pub(super) fn replays_general(&mut self, handle: usize, is_get_status: bool) {
        let (mut place, mut flag, mut status) = (0usize, 0, Status::default());
        let at = (&raw mut place).cast();
        // SAFETY: the request exists; `place` is as wide as any handle, the rest are ours. The request has
        // completed, or another thread is about to complete it, as in the first run.
        unsafe {
            if is_get_status {
                pmpi::request_get_status(handle, &mut flag, status.as_mut_ptr());
                return;
            }
            self.mpi.write_handle(at, handle);
            pmpi::wait(at, status.as_mut_ptr());
        }
        self.forget_request(handle, at);
    }
}
