//! Persistent requests.
//!
//! Making one is local, so a replay does it too. A replay does not start any.

use std::ffi::c_int;

use message_log_core::counting::{is_buffered, Counted, Envelope};
use message_log_core::log::{Call, CallOutcome, CallShape, Links, Position};
use message_log_core::memory::{self, NoMemory};
use message_log_core::parts::Source;
use message_log_core::requests::MpiRequest;
use message_log_core::status::SUCCESS;
use message_log_core::target::CallTarget;

use super::message::MessageArguments;
use super::resending;
use super::starting;
use super::with;
use crate::divergence;
use crate::entry::At;
use crate::pmpi::Ptr;
use crate::refuse;
use crate::state::LogState;
use crate::target;

/// The direction of a persistent request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PersistentDirection {
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
    way: PersistentDirection,
    message: &MessageArguments,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let shape = message.shape(call, state);
        if let Err(code) = state.reserve(call, shape.comm, 1) {
            return code;
        }
        let began = match state.recording.parts.open().source() {
            None => 0,
            Some(Source::Mpi) => state.recording.parts.begin_number(),
            Some(Source::Log) => match state.recording.parts.next(&shape) {
                Ok(at) => {
                    state.recording.parts.log().get(at).map_or(0, |event| event.outcome.began)
                }
                Err(divergence) => return divergence::stop(state, &shape, &divergence),
            },
        };
        let code = real();
        if code == SUCCESS {
            let buffer = message.target(state);
            let (source, target) = match way {
                PersistentDirection::Send => (buffer, CallTarget::Nothing),
                PersistentDirection::Receive => (CallTarget::Nothing, buffer),
            };
            let made = MpiRequest::new(shape, target, way == PersistentDirection::Receive);
            let since = state.recording.parts.instances().now();
            let made = MpiRequest { source, made: began, since, persistent: true, ..made };
            // SAFETY: by the caller's promise, MPI has written a handle there.
            unsafe { starting::begun(state, made, request) };
        }
        if state.recording.parts.open().source() == Some(Source::Mpi) {
            state.recording.record(shape, CallOutcome { began, ..CallOutcome::of(code) });
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
            unsafe { has_started(state, requests, count, code) };
            return code;
        }
        let mut shape = CallShape::of_requests(call, i64::from(count));
        for n in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: by the caller's promise.
            let handle = unsafe { state.mpi.read_handle(state.mpi.nth_handle(requests, n)) };
            if let Some(of) = state.tracked.foreign(handle) {
                return super::refuse_on(state, call, of);
            }
        }
        if count == 1 {
            // SAFETY: by the caller's promise.
            let handle = unsafe { state.mpi.read_handle(requests) };
            if let Some(request) = state.tracked.requests.get(handle) {
                shape = CallShape { call, ..request.shape };
            }
            // SAFETY: by the caller's promise.
            shape.sum = unsafe { sum_of_started(state, handle) };
        }
        match state.recording.source() {
            Source::Mpi => {
                if let Err(code) = state.reserve(call, shape.comm, 1 + each_of_several(count).len())
                {
                    return code;
                }
                let Ok(links) = room_for_links(state, count) else {
                    return refuse::no_room(&state.mpi, call, shape.comm);
                };
                let code = real();
                let mut outcome = CallOutcome::of(code);
                if code == SUCCESS {
                    outcome.began = state.recording.parts.begin_numbers(count as u64);
                    // SAFETY: by the caller's promise.
                    unsafe {
                        started(state, requests, count, outcome.began);
                        outcome.links = count_started(state, requests, count, links);
                    }
                } else {
                    // SAFETY: by the caller's promise.
                    unsafe { not_started(state, requests, count) };
                }
                state.recording.record(shape, outcome);
                for n in each_of_several(count) {
                    // SAFETY: by the caller's promise.
                    let each = unsafe { started_as(state, call, requests, n) };
                    state.recording.record(each, CallOutcome::of(code));
                }
                code
            }
            Source::Log => match state.recording.parts.next(&shape) {
                Ok(at) => {
                    for n in each_of_several(count) {
                        // SAFETY: by the caller's promise.
                        let each = unsafe { started_as(state, call, requests, n) };
                        if let Err(divergence) = state.recording.parts.next(&each) {
                            return divergence::stop(state, &each, &divergence);
                        }
                    }
                    let Some(event) = state.recording.parts.log().get(at) else { return SUCCESS };
                    let (code, began) = (event.outcome.code, event.outcome.began);
                    // SAFETY: by the caller's promise.
                    unsafe {
                        started(state, requests, count, began);
                        if code == SUCCESS {
                            start_again(state, requests, count, at);
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

/// A call outside parts that starts requests has returned with this code.
///
/// # Safety
/// `requests` points to `count` handles.
unsafe fn has_started(state: &mut LogState, requests: Ptr, count: c_int, code: c_int) {
    // SAFETY: by the caller's promise.
    unsafe {
        if code == SUCCESS {
            started(state, requests, count, 0);
            count_started(state, requests, count, Links::None);
        } else {
            not_started(state, requests, count);
        }
    }
}

/// The shape of the `n`th of several requests that one call starts.
///
/// # Safety
/// `requests` points to more than `n` handles.
unsafe fn started_as(state: &mut LogState, call: Call, requests: Ptr, n: usize) -> CallShape {
    // SAFETY: by the caller's promise.
    let handle = unsafe { state.mpi.read_handle(state.mpi.nth_handle(requests, n)) };
    let known = state.tracked.requests.get(handle).map(|request| request.shape);
    // SAFETY: the application starts it.
    let sum = unsafe { sum_of_started(state, handle) };
    CallShape { call, sum, ..known.unwrap_or(CallShape::new(call)) }
}

/// The hash of what a request sends that is started; 0: it is not compared.
///
/// # Safety
/// The application starts this request.
unsafe fn sum_of_started(state: &mut LogState, handle: usize) -> u64 {
    let Some(request) = state.tracked.requests.get(handle) else { return 0 };
    let (peer, source) = (request.shape.peer, request.source.clone());
    // SAFETY: by the caller's promise.
    unsafe { state.sum_of_sent(peer, &source) }
}

/// Marks requests as started, numbered from `began` if that is not 0.
///
/// # Safety
/// `requests` points to `count` handles.
unsafe fn started(state: &mut LogState, requests: Ptr, count: c_int, began: u64) {
    for n in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(state.mpi.nth_handle(requests, n)) };
        let Some(request) = state.tracked.requests.get_mut(handle) else { continue };
        request.began = if began == 0 { 0 } else { began + n as u64 };
        request.cancelled = false;
        request.active = true;
        // The type may be freed while the request is active.
        request.target = target::resolved(&request.target, &mut state.objects.types);
    }
}

/// MPI failed to start requests. If it refused the arguments, it started none; otherwise it is unknown
/// how many.
///
/// # Safety
/// `requests` points to `count` handles.
unsafe fn not_started(state: &mut LogState, requests: Ptr, count: c_int) {
    let is_refused = (0..usize::try_from(count).unwrap_or(0)).any(|n| {
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(state.mpi.nth_handle(requests, n)) };
        state.tracked.requests.get(handle).is_none_or(|known| !known.persistent || known.active)
    });
    if !is_refused && count > 0 {
        state.counting.miscounts();
    }
}

/// Reserves room for the messages of requests that are about to be started.
fn room_for_links(state: &LogState, count: c_int) -> Result<Links, NoMemory> {
    match state.counting.may_resend() {
        true => Links::of(usize::try_from(count).unwrap_or(0)),
        false => Ok(Links::None),
    }
}

/// Counts the messages of started requests. Adds those that they send to `links`; those that they receive
/// are known when they complete.
///
/// # Safety
/// `requests` points to `count` handles.
unsafe fn count_started(
    state: &mut LogState,
    requests: Ptr,
    count: c_int,
    mut links: Links,
) -> Links {
    let count = usize::try_from(count).unwrap_or(0);
    let is_open = state.counting.may_resend();
    // SAFETY: by the caller's promise.
    let again = is_open && unsafe { are_in_order(state, requests, count) };
    for n in 0..count {
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(state.mpi.nth_handle(requests, n)) };
        let Some(request) = state.tracked.requests.get(handle) else { continue };
        let message = Envelope::of(&request.shape);
        let is_buffered = is_buffered(request.shape.call.0);
        let counted = match request.is_message {
            true => state
                .counting
                .posts(&message, again, &state.recording.parts)
                .map(|posted| Counted::Receive(posted.by(n))),
            false => state.counting.sends(&message, again && !is_buffered).map(|link| {
                if is_open {
                    links.set(n, link);
                }
                Counted::Send { link, is_buffered }
            }),
        };
        if let Some(request) = state.tracked.requests.get_mut(handle) {
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
unsafe fn are_in_order(state: &LogState, requests: Ptr, count: usize) -> bool {
    if count < 2 {
        return true;
    }
    let numbers = state.mpi.numbers;
    let Ok(mut streams) = memory::room(count) else { return false };
    for n in 0..count {
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(state.mpi.nth_handle(requests, n)) };
        let Some(request) = state.tracked.requests.get(handle) else { return false };
        let CallShape { comm, peer, tag, .. } = request.shape;
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
unsafe fn start_again(state: &mut LogState, requests: Ptr, count: c_int, at: Position) {
    for n in 0..usize::try_from(count).unwrap_or(0) {
        let Some(closed) = state.recording.parts.closed() else { return };
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(state.mpi.nth_handle(requests, n)) };
        let link = state.recording.parts.log().get(at).and_then(|event| event.outcome.links.get(n));
        let Some(request) = state.tracked.requests.get(handle) else { continue };
        let (route, buffer) = match request.is_message {
            true => (closed.received(link), &request.target),
            false => (closed.sent(link), &request.source),
        };
        let sends = !request.is_message;
        let Some(route) = route else { continue };
        let CallTarget::One(block) = target::resolved(buffer, &mut state.objects.types) else {
            continue;
        };
        // SAFETY: by the caller's promise, the application has started it.
        let again = unsafe { resending::begin_block_again(state, &block, route, sends) };
        if let Some(request) = state.tracked.requests.get_mut(handle) {
            request.again = Some(again);
        }
    }
}
