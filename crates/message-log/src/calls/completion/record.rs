//! A first run logs what the completed requests have received.

use std::ffi::c_int;

use message_log_core::counting::Counted;
use message_log_core::log::{CallOutcome, CallShape, Item, Items, Payload};
use message_log_core::memory::{self, NoMemory};
use message_log_core::requests::{MpiRequest, RequestLife};
use message_log_core::resend::streams::MessageLink;
use message_log_core::status::SUCCESS;
use message_log_core::target::CallTarget;

use super::handles::{self, RequestHandles, Statuses};
use super::{Completion, CompletionKind, SAME_HANDLE};
use crate::calls::refuse_on;
use crate::pmpi::Ptr;
use crate::state::LogState;
use crate::status::{MpiStatus as _, StatusBytes};

/// Whether a call that returned `code` may have completed requests.
fn has_completed(state: &LogState, call: &Completion, code: c_int) -> bool {
    let is_one = matches!(call.kind, CompletionKind::One | CompletionKind::Any);
    code == SUCCESS || is_one || code == state.mpi.numbers.err_in_status
}

/// Whether a request with this status has failed, in a call that returned `code`.
fn has_failed(state: &LogState, code: c_int, status: &StatusBytes) -> bool {
    match code == state.mpi.numbers.err_in_status {
        true => status.error(&state.mpi) != SUCCESS,
        false => code != SUCCESS,
    }
}

/// # Safety
/// As for [`complete`](super::complete).
pub(super) unsafe fn record(
    state: &mut LogState,
    shape: CallShape,
    call: &Completion,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    let mut own = Statuses::default();
    // SAFETY: by the caller's promise.
    let read = unsafe { RequestHandles::read(state, call) };
    let (Ok(before), Ok(statuses)) = (read, own.place(state, call)) else {
        return handles::refuse(state, call);
    };
    if let Some(of) = before.as_slice().iter().find_map(|&handle| state.tracked.foreign(handle)) {
        return refuse_on(state, call.call, of);
    }
    // SAFETY: by the caller's promise.
    unsafe { call.clear_outputs(state.mpi.numbers.undefined) };
    let code = real(statuses);
    let mut outcome = CallOutcome::of(code);
    // SAFETY: the call has returned.
    (outcome.number, outcome.index) = unsafe { call.flag_and_number() };
    if has_completed(state, call, code) {
        // SAFETY: as above.
        let completed = unsafe { call.completed(state.mpi.numbers.undefined) };
        let item = |n: usize| {
            let index = completed.get(n);
            // SAFETY: MPI has written a status for each that it has completed.
            let status =
                unsafe { StatusBytes::read(&state.mpi, state.mpi.nth_status(statuses, n)) };
            let failed = has_failed(state, code, &status);
            // SAFETY: as above.
            unsafe { ended(state, call, &before, index, status, failed) }
        };
        outcome.items = match completed.len() {
            0 => Items::None,
            1 => Items::One({ item }(0)),
            len => match memory::room(len) {
                Ok(mut items) => {
                    items.extend((0..len).map(item));
                    Items::Many(items.into_boxed_slice())
                }
                Err(NoMemory) => {
                    (0..len).map(item).for_each(drop);
                    state
                        .recording
                        .out_of_memory(0, &format!("to log {len} results of {}", call.call.0));
                    Items::None
                }
            },
        };
        // SAFETY: MPI has completed the requests of these handles.
        unsafe { add_same_handle(state, &before, &mut outcome.items) };
    }
    state.recording.record(shape, outcome);
    code
}

/// A request that MPI has completed.
struct CompletedRequest {
    /// Whether it is persistent.
    stays: bool,
    /// What the table knew about the request.
    request: Option<MpiRequest>,
    /// Whether it has received nothing that could be logged.
    is_void: bool,
    /// The message that it has received, if it can be sent again.
    link: Option<MessageLink>,
}

/// Counts the message of a completed request, and forgets the request unless it is persistent.
///
/// # Safety
/// As for [`complete`](super::complete).
unsafe fn request_done(
    state: &mut LogState,
    call: &Completion,
    before: &RequestHandles,
    index: c_int,
    status: &StatusBytes,
    failed: bool,
) -> Option<CompletedRequest> {
    let n = usize::try_from(index).ok()?;
    let handle = before.get(n)?;
    let place = state.mpi.nth_handle(call.requests, n);
    // SAFETY: by the caller's promise.
    let after = unsafe { state.mpi.read_handle(place) };
    let stays = after != state.mpi.request_null;
    let known = match stays {
        true => state.tracked.requests.get(handle).cloned(),
        false => state.tracked.forget_request(handle, place),
    };
    if known.is_none()
        && handle != state.mpi.request_null
        && state.tracked.requests.has_overlooked()
    {
        state.recording.out_of_memory(0, &format!("for a request that {} completes", call.call.0));
    }
    let Some(known) = known.filter(|request| request.life == RequestLife::Real) else {
        return Some(CompletedRequest { stays, request: None, is_void: true, link: None });
    };
    let is_cancelled = known.cancelled && status.is_cancelled();
    let mut link = None;
    if call.kind == CompletionKind::GetStatus {
        // Another call completes the request.
    } else if is_cancelled {
        state.counting.is_cancelled(&known.counted);
    } else {
        link = state.is_done(&known.counted, Some(status), failed);
    }
    if stays && call.kind != CompletionKind::GetStatus {
        if let Some(request) = state.tracked.requests.get_mut(handle) {
            request.counted = Counted::Nothing;
            request.active = false;
        }
    }
    let is_void = failed || is_cancelled;
    Some(CompletedRequest { stays, request: Some(known), is_void, link })
}

/// Adds the data of other requests with the same handle. They have completed too, and nothing tells which of
/// them the call was meant for.
///
/// # Safety
/// As for [`complete`](super::complete).
unsafe fn add_same_handle(state: &mut LogState, before: &RequestHandles, items: &mut Items) {
    let mut alike = Vec::new();
    let mut all = Ok(());
    for item in items.as_slice() {
        let handle = usize::try_from(item.index).ok().and_then(|n| before.get(n));
        let Some(handle) = handle.filter(|_| !item.persistent) else { continue };
        while let Some((began, target)) = state.tracked.requests.take_same_handle(handle) {
            // SAFETY: by the caller's promise.
            let mut other = unsafe { state.received(&target, None) };
            (other.began, other.index) = (began, SAME_HANDLE);
            all = all.and(memory::push(&mut alike, other));
        }
    }
    if !alike.is_empty() {
        let own = items.as_slice().len();
        all = all.and_then(|()| memory::room(own + alike.len())).map(|mut list| {
            match std::mem::replace(items, Items::None) {
                Items::None => {}
                Items::One(item) => list.push(item),
                Items::Many(items) => list.extend(items),
            }
            list.extend(alike);
            *items = Items::Many(list.into_boxed_slice());
        });
    }
    if all.is_err() {
        state.recording.out_of_memory(0, "to log what requests with one handle have received");
    }
}

/// Makes the log item of one completed request.
///
/// # Safety
/// As for [`complete`](super::complete).
unsafe fn ended(
    state: &mut LogState,
    call: &Completion,
    before: &RequestHandles,
    index: c_int,
    status: StatusBytes,
    failed: bool,
) -> Item {
    let nothing = |stays| {
        let mut item = Item::new(status, CallTarget::Nothing, Payload::default());
        (item.index, item.persistent) = (index, stays);
        item
    };
    // SAFETY: by the caller's promise.
    let done = unsafe { request_done(state, call, before, index, &status, failed) };
    let Some(CompletedRequest { stays, request: known, is_void, link }) = done else {
        return nothing(true);
    };
    let Some(known) = known else {
        return nothing(stays);
    };
    let target = if is_void { CallTarget::Nothing } else { known.target };
    let message = known.is_message.then_some(&status);
    // SAFETY: MPI has completed the request.
    let mut item = unsafe { state.received(&target, message) };
    state.recording.lost_on(known.shape.comm);
    item.status = status;
    item.index = index;
    item.began = known.began;
    item.persistent = stays;
    item.link = link;
    item
}
