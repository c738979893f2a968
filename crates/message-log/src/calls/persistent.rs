//! Persistent requests.
//!
//! Making one is local, so a replay does it too. A replay does not start any.

use std::ffi::c_int;

use super::counted::{is_buffered, Counted};
use super::p2p::Message;
use super::{with, At, SUCCESS};
use crate::divergence;
use crate::log::{Call, Links, Outcome, Position, Shape};
use crate::memory::{self, NoMemory};
use crate::parts::Source;
use crate::pmpi::Ptr;
use crate::requests::Request;
use crate::state::State;
use crate::target::Target;

/// The direction of a persistent request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// It sends.
    Send,
    /// It receives.
    Receive,
}

/// Makes a persistent request, inside or outside parts.
///
/// # Safety
/// `request` points to the call's request handle.
pub(crate) unsafe fn make(
    call: Call,
    way: Direction,
    message: &Message,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let shape = message.shape(call, state);
        if let Err(code) = state.reserve(call, shape.comm, 1) {
            return code;
        }
        let began = match state.parts.source() {
            None => 0,
            Some(Source::Mpi) => state.parts.begin_number(),
            Some(Source::Log) => match state.parts.next(&shape) {
                Ok(at) => state.parts.event(at).map_or(0, |event| event.outcome.began),
                Err(divergence) => return divergence::stop(state, &shape, &divergence),
            },
        };
        let code = real();
        if code == SUCCESS {
            let buffer = message.target(state);
            let (source, target) = match way {
                Direction::Send => (buffer, Target::Nothing),
                Direction::Receive => (Target::Nothing, buffer),
            };
            let made = Request::new(shape, target, way == Direction::Receive);
            let since = state.parts.now();
            let made = Request { source, made: began, since, persistent: true, ..made };
            // SAFETY: by the caller's promise, MPI has written a handle there.
            unsafe { state.begun(made, request) };
        }
        if state.parts.source() == Some(Source::Mpi) {
            state.record(shape, Outcome { began, ..Outcome::of(code) });
        }
        code
    })
}

/// Starts persistent requests.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn start(
    at: At,
    call: Call,
    requests: Ptr,
    count: c_int,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if requests.is_null() && count > 0 {
        // MPI refuses this, in a first run and in a replay.
        return real();
    }
    with(|state| {
        if at == At::Outside {
            let code = real();
            // SAFETY: by the caller's promise.
            unsafe { state.has_started(requests, count, code) };
            return code;
        }
        let mut shape = Shape::of_requests(call, i64::from(count));
        for n in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: by the caller's promise.
            let handle = unsafe { state.mpi.read_handle(state.mpi.nth_handle(requests, n)) };
            if let Some(of) = state.foreign(handle) {
                return super::refuse_on(state, call, of);
            }
        }
        if count == 1 {
            // SAFETY: by the caller's promise.
            let handle = unsafe { state.mpi.read_handle(requests) };
            if let Some(request) = state.requests.get(handle) {
                shape = Shape { call, ..request.shape };
            }
            // SAFETY: by the caller's promise.
            shape.sum = unsafe { state.sum_of_started(handle) };
        }
        match state.source() {
            Source::Mpi => {
                if let Err(code) = state.reserve(call, shape.comm, 1 + each_of_several(count).len())
                {
                    return code;
                }
                let Ok(links) = state.room_for_links(count) else {
                    return state.has_no_room(call, shape.comm);
                };
                let code = real();
                let mut outcome = Outcome::of(code);
                if code == SUCCESS {
                    outcome.began = state.parts.begin_numbers(count as u64);
                    // SAFETY: by the caller's promise.
                    unsafe {
                        state.started(requests, count, outcome.began);
                        outcome.links = state.count_started(requests, count, links);
                    }
                } else {
                    // SAFETY: by the caller's promise.
                    unsafe { state.not_started(requests, count) };
                }
                state.record(shape, outcome);
                for n in each_of_several(count) {
                    // SAFETY: by the caller's promise.
                    let each = unsafe { state.started_as(call, requests, n) };
                    state.record(each, Outcome::of(code));
                }
                code
            }
            Source::Log => match state.parts.next(&shape) {
                Ok(at) => {
                    for n in each_of_several(count) {
                        // SAFETY: by the caller's promise.
                        let each = unsafe { state.started_as(call, requests, n) };
                        if let Err(divergence) = state.parts.next(&each) {
                            return divergence::stop(state, &each, &divergence);
                        }
                    }
                    let Some(event) = state.parts.event(at) else { return SUCCESS };
                    let (code, began) = (event.outcome.code, event.outcome.began);
                    // SAFETY: by the caller's promise.
                    unsafe {
                        state.started(requests, count, began);
                        if code == SUCCESS {
                            state.start_again(requests, count, at);
                        }
                    }
                    code
                }
                Err(divergence) => divergence::stop(state, &shape, &divergence),
            },
        }
    })
}

/// The indices of requests that one call starts, if there are several. Each has an event of its own then,
/// after that of the call, so that none gets the data of another.
fn each_of_several(count: c_int) -> std::ops::Range<usize> {
    0..usize::try_from(count).ok().filter(|count| *count > 1).unwrap_or(0)
}

impl State {
    /// A call outside parts that starts requests has returned with this code.
    ///
    /// # Safety
    /// `requests` points to `count` handles.
    unsafe fn has_started(&mut self, requests: Ptr, count: c_int, code: c_int) {
        // SAFETY: by the caller's promise.
        unsafe {
            if code == SUCCESS {
                self.started(requests, count, 0);
                self.count_started(requests, count, Links::None);
            } else {
                self.not_started(requests, count);
            }
        }
    }

    /// The shape of the `n`th of several requests that one call starts.
    ///
    /// # Safety
    /// `requests` points to more than `n` handles.
    unsafe fn started_as(&mut self, call: Call, requests: Ptr, n: usize) -> Shape {
        // SAFETY: by the caller's promise.
        let handle = unsafe { self.mpi.read_handle(self.mpi.nth_handle(requests, n)) };
        let known = self.requests.get(handle).map(|request| request.shape);
        // SAFETY: the application starts it.
        let sum = unsafe { self.sum_of_started(handle) };
        Shape { call, sum, ..known.unwrap_or(Shape::new(call)) }
    }

    /// The hash of what a request sends that is started; 0: it is not compared.
    ///
    /// # Safety
    /// The application starts this request.
    unsafe fn sum_of_started(&mut self, handle: usize) -> u64 {
        let Some(request) = self.requests.get(handle) else { return 0 };
        let (peer, source) = (request.shape.peer, request.source.clone());
        // SAFETY: by the caller's promise.
        unsafe { self.sum_of_sent(peer, &source) }
    }

    /// Marks requests as started, numbered from `began` if that is not 0.
    ///
    /// # Safety
    /// `requests` points to `count` handles.
    unsafe fn started(&mut self, requests: Ptr, count: c_int, began: u64) {
        for n in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: by the caller's promise.
            let handle = unsafe { self.mpi.read_handle(self.mpi.nth_handle(requests, n)) };
            let Some(request) = self.requests.get_mut(handle) else { continue };
            request.began = if began == 0 { 0 } else { began + n as u64 };
            request.cancelled = false;
            request.active = true;
            // The type may be freed while the request is active.
            request.target = request.target.resolved(&mut self.types);
        }
    }

    /// MPI failed to start requests. If it refused the arguments, it started none; otherwise it is unknown
    /// how many.
    ///
    /// # Safety
    /// `requests` points to `count` handles.
    unsafe fn not_started(&mut self, requests: Ptr, count: c_int) {
        let is_refused = (0..usize::try_from(count).unwrap_or(0)).any(|n| {
            // SAFETY: by the caller's promise.
            let handle = unsafe { self.mpi.read_handle(self.mpi.nth_handle(requests, n)) };
            self.requests.get(handle).is_none_or(|known| !known.persistent || known.active)
        });
        if !is_refused && count > 0 {
            self.miscounts();
        }
    }

    /// Whether messages may be sent again.
    fn may_resend(&self) -> bool {
        self.resend.as_ref().is_some_and(|resend| resend.streams.is_any_open())
    }

    /// Reserves room for the messages of requests that are about to be started.
    fn room_for_links(&self, count: c_int) -> Result<Links, NoMemory> {
        match self.may_resend() {
            true => Links::of(usize::try_from(count).unwrap_or(0)),
            false => Ok(Links::None),
        }
    }

    /// Counts the messages of started requests. Adds those that they send to `links`; those that they receive
    /// are known when they complete.
    ///
    /// # Safety
    /// `requests` points to `count` handles.
    unsafe fn count_started(&mut self, requests: Ptr, count: c_int, mut links: Links) -> Links {
        let count = usize::try_from(count).unwrap_or(0);
        let is_open = self.may_resend();
        // SAFETY: by the caller's promise.
        let again = is_open && unsafe { self.are_in_order(requests, count) };
        for n in 0..count {
            // SAFETY: by the caller's promise.
            let handle = unsafe { self.mpi.read_handle(self.mpi.nth_handle(requests, n)) };
            let Some(request) = self.requests.get(handle) else { continue };
            let message = Message::of(&request.shape);
            let is_buffered = is_buffered(request.shape.call.0);
            let counted = match request.is_message {
                true => self.posts(&message, again).map(|posted| Counted::Receive(posted.by(n))),
                false => self.sends(&message, again && !is_buffered).map(|link| {
                    if is_open {
                        links.set(n, link);
                    }
                    Counted::Send { link, is_buffered }
                }),
            };
            if let Some(request) = self.requests.get_mut(handle) {
                request.counted = counted.unwrap_or_default();
            }
        }
        links
    }

    /// Whether the messages of requests started by one call can be told apart: MPI may start them in any
    /// order. Without memory to compare them they cannot.
    ///
    /// # Safety
    /// `requests` points to `count` handles.
    unsafe fn are_in_order(&self, requests: Ptr, count: usize) -> bool {
        if count < 2 {
            return true;
        }
        let numbers = self.mpi.numbers;
        let Ok(mut streams) = memory::room(count) else { return false };
        for n in 0..count {
            // SAFETY: by the caller's promise.
            let handle = unsafe { self.mpi.read_handle(self.mpi.nth_handle(requests, n)) };
            let Some(request) = self.requests.get(handle) else { return false };
            let Shape { comm, peer, tag, .. } = request.shape;
            if peer == Some(numbers.any_source) || tag == Some(numbers.any_tag) {
                return false;
            }
            if peer != Some(numbers.proc_null) {
                streams.push((request.is_message, comm, peer, tag));
            }
        }
        streams.sort_unstable();
        streams.windows(2).all(|two| two[0] != two[1])
    }

    /// Sends and receives again the messages of requests that a replay starts.
    ///
    /// # Safety
    /// `requests` points to `count` handles.
    unsafe fn start_again(&mut self, requests: Ptr, count: c_int, at: Position) {
        for n in 0..usize::try_from(count).unwrap_or(0) {
            let Some(closed) = self.parts.closed() else { return };
            // SAFETY: by the caller's promise.
            let handle = unsafe { self.mpi.read_handle(self.mpi.nth_handle(requests, n)) };
            let link = self.parts.event(at).and_then(|event| event.outcome.links.get(n));
            let Some(request) = self.requests.get(handle) else { continue };
            let (route, buffer) = match request.is_message {
                true => (closed.received(link), &request.target),
                false => (closed.sent(link), &request.source),
            };
            let sends = !request.is_message;
            let Some(route) = route else { continue };
            let Target::One(block) = buffer.resolved(&mut self.types) else { continue };
            // SAFETY: by the caller's promise, the application has started it.
            let again = unsafe { self.begin_block_again(&block, route, sends) };
            if let Some(request) = self.requests.get_mut(handle) {
                request.again = Some(again);
            }
        }
    }
}
