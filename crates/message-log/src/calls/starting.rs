//! Requests from their beginning to their completion.

use std::ffi::c_int;

use super::counted::Counted;
use super::p2p::Message;
use super::SUCCESS;
use crate::divergence;
use crate::log::{Call, Outcome, Shape};
use crate::memory::NoMemory;
use crate::parts::Source;
use crate::pmpi::Ptr;
use crate::requests::{Life, Plain, Request};
use crate::resend::closed::Route;
use crate::state::State;
use crate::target::Target;

impl State {
    /// A call outside parts that begins a send or a receive has returned with this code.
    ///
    /// # Safety
    /// `request` points to the call's request handle.
    pub(super) unsafe fn started_outside(
        &mut self,
        code: c_int,
        call: Call,
        message: &Message,
        counted: Counted,
        receives: bool,
        request: Ptr,
    ) {
        if code != SUCCESS {
            return self.miscounts();
        }
        // SAFETY: by the caller's promise, MPI has written a handle there.
        let handle = unsafe { self.mpi.read_handle(request) };
        let mut plain = Plain { counted, ..Plain::default() };
        plain.note(&self.mpi, call, message, receives, request);
        match self.requests.insert_plain(handle, plain) {
            // The earlier send completed when it began: MPI shares handles only among such requests.
            Ok(Some(before @ Counted::Send { .. })) => {
                self.is_done(&before, None, false);
            }
            Ok(_) => {}
            // The message of the request cannot be counted, and a part that completes it cannot be
            // replayed.
            Err(NoMemory) => self.miscounts(),
        }
    }

    /// A non-blocking receive. One from `MPI_PROC_NULL` receives nothing.
    ///
    /// # Safety
    /// `request` points to the call's request handle.
    pub(super) unsafe fn receiving_later(
        &mut self,
        shape: Shape,
        message: &Message,
        is_message: bool,
        counted: Counted,
        request: Ptr,
        real: impl FnOnce() -> c_int,
    ) -> c_int {
        let target = match message.peer == self.mpi.numbers.proc_null {
            true => Target::Nothing,
            false => message.target(self),
        };
        // SAFETY: by the caller's promise.
        unsafe { self.starting(shape, target, is_message, counted, request, real) }
    }

    /// Tracks a request that a real call has begun. Out of memory, it is unknown, and a part that completes
    /// it cannot be replayed.
    ///
    /// # Safety
    /// `request` points to a handle.
    pub(crate) unsafe fn begun(&mut self, begun: Request, request: Ptr) {
        // SAFETY: by the caller's promise.
        let handle = unsafe { self.mpi.read_handle(request) };
        let begun = Request { place: request as usize, ..begun };
        if self.requests.insert(handle, begun).is_err() {
            self.miscounts();
        }
    }

    /// A call that begins a request. A replay returns a completed one.
    ///
    /// # Safety
    /// `request` points to the call's request handle.
    pub(crate) unsafe fn starting(
        &mut self,
        shape: Shape,
        target: Target,
        is_message: bool,
        counted: Counted,
        request: Ptr,
        real: impl FnOnce() -> c_int,
    ) -> c_int {
        match self.source() {
            Source::Mpi => {
                let code = real();
                let mut outcome = Outcome::of(code);
                if let Counted::Send { link, .. } | Counted::Matched(link) = counted {
                    outcome.links = self.linked(Some(link)).into();
                }
                if code == SUCCESS {
                    outcome.began = self.parts.begin_number();
                    let begun = Request::new(shape, target, is_message);
                    let begun = Request { began: outcome.began, counted, ..begun };
                    // SAFETY: by the caller's promise, MPI has written a handle there.
                    unsafe { self.begun(begun, request) };
                } else if !matches!(counted, Counted::Nothing) {
                    self.miscounts();
                }
                self.record(shape, outcome);
                code
            }
            Source::Log => {
                let (code, began) = match self.parts.next(&shape) {
                    Ok(at) => match self.parts.event(at) {
                        Some(event) => (event.outcome.code, event.outcome.began),
                        None => return SUCCESS,
                    },
                    Err(divergence) => return divergence::stop(self, &shape, &divergence),
                };
                if code == SUCCESS {
                    let handle = self.pool.take(&self.mpi);
                    let target = target.resolved(&mut self.types);
                    let life = Life::Replayed(self.parts.replayed().unwrap_or_default());
                    let begun = Request::new(shape, target, is_message);
                    let begun = Request { began, life, ..begun };
                    if self.requests.insert(handle, begun).is_err() {
                        self.pool.put_back(handle);
                        let text = format!("{}: there is no memory for its request", shape.call.0);
                        return divergence::broken(self, &shape, &text);
                    }
                    // SAFETY: by the caller's promise.
                    unsafe { self.mpi.write_handle(request, handle) };
                }
                code
            }
        }
    }

    /// A replayed call has begun a request. Its message is sent or received again, if it has a route.
    ///
    /// # Safety
    /// `message` describes the application's memory, and `request` points to the call's handle.
    pub(super) unsafe fn begin_resent(
        &mut self,
        code: c_int,
        message: &Message,
        route: Option<Route>,
        sends: bool,
        request: Ptr,
    ) {
        let Some(route) = route.filter(|_| code == SUCCESS) else { return };
        // SAFETY: by the caller's promise.
        let (again, handle) =
            unsafe { (self.begin_again(message, route, sends), self.mpi.read_handle(request)) };
        if let Some(request) = self.requests.get_mut(handle) {
            request.again = Some(again);
        }
    }

    /// The call that returned this request, if its result cannot be replayed.
    pub(crate) fn foreign(&self, handle: usize) -> Option<Call> {
        let request = self.requests.get(handle)?;
        (request.life == Life::Foreign).then_some(request.shape.call)
    }

    /// A replayed request has completed; its generalized request can be reused.
    pub(crate) fn release_replayed(&mut self, handle: usize) {
        if let Some(request) = self.requests.get_mut(handle) {
            if matches!(request.life, Life::Replayed(_)) {
                request.life = Life::Idle;
                request.target = Target::Nothing;
                self.pool.put_back(handle);
            }
        }
    }

    /// Forgets the request that MPI has freed, whose handle was at `place`.
    pub(crate) fn forget_request(&mut self, handle: usize, place: Ptr) -> Option<Request> {
        let request = self.requests.remove(handle, place as usize)?;
        if request.life != Life::Real {
            self.pool.remove(handle);
        }
        Some(request)
    }

    /// The replay of the instance with this number has ended. Requests that it began and did not complete are
    /// released: the backward sweep comes next and will not wait for them.
    pub(crate) fn replay_ended(&mut self, number: u64) {
        self.messages.replay_ended(number);
        for (handle, request) in self.requests.iter_mut() {
            if request.life == Life::Replayed(number) {
                request.life = Life::Idle;
                request.target = Target::Nothing;
                self.pool.put_back(handle);
            }
        }
    }
}
