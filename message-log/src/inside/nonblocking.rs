//! Calls that begin something and give a request.

use std::ffi::c_int;

use super::again::{is_buffered, Counted};
use super::p2p::Message;
use super::{with, SUCCESS};
use crate::divergence;
use crate::log::{Call, Event, Items, Outcome, Shape};
use crate::parts::Source;
use crate::pmpi::{self, Ptr};
use crate::requests::{Life, Plain, Request};
use crate::resend::closed::Route;
use crate::state::State;
use crate::status::Status;
use crate::target::Target;

/// A non-blocking send.
///
/// # Safety
/// `request` is the call's.
pub unsafe fn send(
    call: Call,
    message: &Message,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let shape = message.shape(call, state);
        let route = state.sends_again(&shape);
        let counted = match state.source() {
            Source::Mpi => state.sends(message, true),
            Source::Log => None,
        };
        let counted = counted.map_or(Counted::Nothing, |link| Counted::Send {
            link,
            is_buffered: is_buffered(call.0),
        });
        // SAFETY: by the caller's promise.
        unsafe {
            let code = state.starting(shape, Target::Nothing, false, counted, request, real);
            state.goes_again(code, message, route, true, request);
            code
        }
    })
}

/// A non-blocking receive.
///
/// # Safety
/// `request` is the call's.
pub unsafe fn recv(
    call: Call,
    message: &Message,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let shape = message.shape(call, state);
        let (target, is_message) = message.received_into(state);
        let route = state.posts_again(&shape);
        let counted = match state.source() {
            Source::Mpi => state.posts(message, true),
            Source::Log => None,
        };
        let counted = counted.map_or(Counted::Nothing, Counted::Receive);
        // SAFETY: by the caller's promise.
        unsafe {
            let code = state.starting(shape, target, is_message, counted, request, real);
            state.goes_again(code, message, route, false, request);
            code
        }
    })
}

/// A non-blocking send outside parts: it is counted when it is done, wherever that is.
///
/// # Safety
/// `request` is the call's.
pub unsafe fn send_outside(
    call: Call,
    message: &Message,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let link = state.sends(message, true);
        let code = real();
        let Some(link) = link else { return code };
        if code == SUCCESS {
            let counted = Counted::Send { link, is_buffered: is_buffered(call.0) };
            // SAFETY: by the caller's promise, MPI has written a handle there.
            unsafe { state.begun_outside(call, message, counted, request) };
        } else {
            state.miscounts();
        }
        code
    })
}

/// A non-blocking receive that sends, too.
///
/// # Safety
/// `request` is the call's.
pub unsafe fn sendrecv(
    call: Call,
    sent: &Message,
    received: &Message,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let shape = sent.shape(call, state);
        let code = state.plain(shape, || SUCCESS);
        if code != SUCCESS {
            return code;
        }
        let shape = received.shape(call, state);
        let (target, _) = received.received_into(state);
        // MPICH 4.0 does not say in the status how much was received, so all of the target is kept.
        // SAFETY: by the caller's promise.
        unsafe {
            let code = state.starting(shape, target, false, Counted::Nothing, request, real);
            // MPICH 4.0 does not say what was received.
            state.miscounts();
            code
        }
    })
}

/// The same outside parts: it may be waited for inside one.
///
/// # Safety
/// `request` is the call's.
pub unsafe fn sendrecv_outside(
    call: Call,
    received: &Message,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let shape = received.shape(call, state);
        let (target, _) = received.received_into(state);
        let code = real();
        if code == SUCCESS {
            // SAFETY: by the caller's promise, MPI has written a handle there.
            unsafe { state.begun(shape, target, false, Counted::Nothing, 0, request) };
            state.miscounts();
        }
        code
    })
}

/// What begins outside parts and is not logged.
///
/// # Safety
/// `request` is the call's.
pub unsafe fn unlogged_outside(call: Call, request: Ptr, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let code = real();
        if code == SUCCESS {
            // SAFETY: by the caller's promise, MPI has written a handle there.
            let handle = unsafe { state.mpi.read_handle(request) };
            state.begun_unlogged(call, handle, false);
        }
        code
    })
}

/// A non-blocking receive outside parts: it may be waited for inside one.
///
/// # Safety
/// `request` is the call's.
pub unsafe fn recv_outside(
    call: Call,
    message: &Message,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let counted = state.posts(message, true);
        let code = real();
        if code == SUCCESS && message.peer != state.mpi.numbers.proc_null {
            let counted = counted.map_or(Counted::Nothing, Counted::Receive);
            // SAFETY: by the caller's promise, MPI has written a handle there.
            unsafe { state.begun_outside(call, message, counted, request) };
        } else if code != SUCCESS {
            state.miscounts();
        }
        code
    })
}

impl State {
    /// A real call has begun a request outside parts.
    ///
    /// # Safety
    /// A handle is at `request`.
    unsafe fn begun_outside(
        &mut self,
        call: Call,
        message: &Message,
        counted: Counted,
        request: Ptr,
    ) {
        // SAFETY: by the caller's promise.
        let handle = unsafe { self.mpi.read_handle(request) };
        let plain = Plain {
            call,
            comm: self.mpi.abi.truncate(message.comm),
            buf: message.buf as usize,
            count: message.count,
            datatype: self.mpi.abi.truncate(message.datatype),
            counted,
        };
        if let Some(before) = self.requests.insert_plain(handle, plain) {
            // Its send was done when it began: only such requests share a handle.
            if matches!(before.counted, Counted::Send { .. }) {
                self.is_done(&before.counted, &Status::default(), false);
            }
        }
    }

    /// A real call has begun a request.
    ///
    /// # Safety
    /// A handle is at `request`.
    pub unsafe fn begun(
        &mut self,
        shape: Shape,
        target: Target,
        is_message: bool,
        counted: Counted,
        began: u64,
        request: Ptr,
    ) {
        // SAFETY: by the caller's promise.
        let handle = unsafe { self.mpi.read_handle(request) };
        let request = Request {
            shape,
            target,
            is_message,
            began,
            made: 0,
            persistent: false,
            life: Life::Real,
            cancelled: false,
            counted,
            again: None,
        };
        self.requests.insert(handle, request);
    }

    /// A request is under way that must not end inside a part.
    pub fn begun_unlogged(&mut self, call: Call, handle: usize, persistent: bool) {
        self.has_unlogged = true;
        let request = Request {
            shape: Shape::new(call),
            target: Target::Nothing,
            is_message: false,
            began: 0,
            made: 0,
            persistent,
            life: Life::Unlogged,
            cancelled: false,
            counted: Counted::Nothing,
            again: None,
        };
        self.requests.insert(handle, request);
    }

    /// Brings an operation to its end if nobody else can hold it up: a collective one of this process
    /// alone. Libraries give several of these the same request, so when one is waited for it cannot
    /// be told which. Whether it did.
    ///
    /// # Safety
    /// A handle is at `request`, of what writes to `target`.
    pub unsafe fn ends_alone(&self, target: &Target, shape: Shape, request: Ptr) -> bool {
        let (mut is_inter, mut processes, mut is_done) = (0, 0, 0);
        if shape.tag.is_some() || matches!(target, Target::Nothing) {
            return false;
        }
        let mut status = Status::default();
        // SAFETY: the communicator is the call's; a status and integers of ours.
        unsafe {
            pmpi::comm_test_inter(shape.comm, &mut is_inter);
            pmpi::comm_size(shape.comm, &mut processes);
            if is_inter != 0 || processes != 1 {
                return false;
            }
            let handle = self.mpi.read_handle(request);
            while is_done == 0 {
                let code = pmpi::request_get_status(handle, &mut is_done, status.as_mut_ptr());
                if code != SUCCESS {
                    return false;
                }
            }
        }
        true
    }

    /// A call that begins a request; a replay gives one that is done.
    ///
    /// # Safety
    /// `request` is the call's.
    pub unsafe fn starting(
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
                if let Counted::Send { link, .. } = counted {
                    outcome.link = self.linked(Some(link));
                }
                if code == SUCCESS {
                    outcome.began = self.parts.begin_number();
                    let began = outcome.began;
                    // SAFETY: by the caller's promise, MPI has written a handle there.
                    let is_ended =
                        !is_message && unsafe { self.ends_alone(&target, shape, request) };
                    let target = if is_ended {
                        // SAFETY: it is done.
                        outcome.items = Items::One(unsafe { self.received(&target, None) });
                        Target::Nothing
                    } else {
                        target
                    };
                    // SAFETY: as above.
                    unsafe { self.begun(shape, target, is_message, counted, began, request) };
                } else if !matches!(counted, Counted::Nothing) {
                    self.miscounts();
                }
                self.parts.record(shape, outcome);
                code
            }
            Source::Log => {
                let target = target.resolved(&mut self.types);
                let (code, began, given) = match self.parts.next(&shape) {
                    Ok(at) => match self.parts.event(at) {
                        Some(Event { outcome, .. }) => {
                            let ended = outcome.items.as_slice().first();
                            // SAFETY: the application's memory, by the caller's promise.
                            let given = ended.map(|item| unsafe { self.give(item, Some(&target)) });
                            (outcome.code, outcome.began, given.unwrap_or(Ok(())))
                        }
                        None => return SUCCESS,
                    },
                    Err(divergence) => return divergence::stop(self, &shape, &divergence),
                };
                if let Err(text) = given {
                    return divergence::broken(self, &shape, &text);
                }
                if code == SUCCESS {
                    let handle = self.pool.take(&self.mpi);
                    let life = Life::Replayed(self.parts.replayed().unwrap_or_default());
                    let begun = Request {
                        shape,
                        target,
                        is_message,
                        began,
                        made: 0,
                        persistent: false,
                        life,
                        cancelled: false,
                        counted: Counted::Nothing,
                        again: None,
                    };
                    self.requests.insert(handle, begun);
                    // SAFETY: by the caller's promise.
                    unsafe { self.mpi.write_handle(request, handle) };
                }
                code
            }
        }
    }

    /// A replayed call has begun a request: its message travels again, if it has a route.
    ///
    /// # Safety
    /// The message and `request` are the call's.
    unsafe fn goes_again(
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

    /// A replayed request is done: the generalized one is used again.
    pub fn give_back(&mut self, handle: usize) {
        if let Some(request) = self.requests.get_mut(handle) {
            if matches!(request.life, Life::Replayed(_)) {
                request.life = Life::Idle;
                request.target = Target::Nothing;
                self.pool.give(handle);
            }
        }
    }

    /// MPI has freed the request with this handle.
    pub fn gone(&mut self, handle: usize) -> Option<Request> {
        let request = self.requests.remove(handle)?;
        if matches!(request.life, Life::Replayed(_) | Life::Idle) {
            self.pool.lose(handle);
        }
        Some(request)
    }

    /// The replay of the instance with this number has ended. What it has begun and nobody waited
    /// for is done, and nobody will: the backward sweep comes next.
    pub fn replay_ended(&mut self, number: u64) {
        for (handle, request) in self.requests.iter_mut() {
            if request.life == Life::Replayed(number) {
                request.life = Life::Idle;
                request.target = Target::Nothing;
                self.pool.give(handle);
            }
        }
    }
}
