//! Generalized requests: those that the application completes itself, with functions of its own that MPI
//! calls.
//!
//! They are local: a replay begins, completes and frees requests of its own, so that the application's
//! functions are called where the first run had them called. What completes them gives what it gave
//! then.

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

/// A call inside parts that begins one.
///
/// # Safety
/// `request` is the call's.
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

/// `MPI_Grequest_complete` inside parts. In a replay it does nothing to a request of before the part.
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
    /// The application has said that a request is done, and MPI has returned this.
    fn completes_general(&mut self, handle: usize, code: c_int) {
        let Some(known) = self.requests.get_mut(handle).filter(|_| code == SUCCESS) else { return };
        match &mut known.general {
            Some(General::Freed) => drop(self.requests.remove(handle, 0)),
            Some(general) => *general = General::Complete,
            None => {}
        }
    }

    /// The application gives a request up. Whether it is a generalized one that is not done: then it is
    /// known until it is.
    pub(super) fn frees_general(&mut self, handle: usize) -> bool {
        // Nothing is noted of a plain one here, which would want memory.
        let is_begun = |known: &Request| known.general == Some(General::Begun);
        if !self.requests.get(handle).is_some_and(is_begun) {
            return false;
        }
        if let Some(known) = self.requests.get_mut(handle) {
            known.general = Some(General::Freed);
        }
        true
    }

    /// Whether this is a generalized request that the replay has begun.
    pub(super) fn is_general(&self, handle: usize) -> bool {
        let first = self.parts.replayed_since();
        let is_own = |known: &Request| known.general.is_some() && known.began > first;
        self.requests.get(handle).is_some_and(is_own)
    }

    /// A replayed call has completed a generalized request of the replay, or has looked at it: the
    /// application's functions are called.
    pub(super) fn replays_general(&mut self, handle: usize, is_look: bool) {
        let (mut place, mut flag, mut status) = (0usize, 0, Status::default());
        let at = (&raw mut place).cast();
        // SAFETY: a request that is there; room for the widest handle, and places of ours. It is done, or
        // another thread is about to say so, as in the first run.
        unsafe {
            if is_look {
                pmpi::request_get_status(handle, &mut flag, status.as_mut_ptr());
                return;
            }
            self.mpi.write_handle(at, handle);
            pmpi::wait(at, status.as_mut_ptr());
        }
        self.gone(handle, at);
    }
}
