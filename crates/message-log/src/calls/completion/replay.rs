//! A replay completes the requests that the first run completed.

use std::ffi::c_int;

use message_log_core::log::{CallShape, Item, Position};
use message_log_core::memory;
use message_log_core::status::SUCCESS;
use message_log_core::target::CallTarget;

use super::{Completion, CompletionKind, SAME_HANDLE};
use crate::calls::resending;
use crate::divergence;
use crate::state::LogState;
use crate::status::{MpiStatus as _, StatusBytes};
use crate::target;

/// # Safety
/// As for [`complete`](super::complete).
pub(super) unsafe fn replay(state: &mut LogState, shape: CallShape, call: &Completion) -> c_int {
    let at = match state.recording.parts.next(&shape) {
        Ok(at) => at,
        Err(divergence) => return divergence::stop(state, &shape, &divergence),
    };
    let first = state.recording.parts.replayed_since();
    // SAFETY: by the caller's promise.
    let code = unsafe { wait_for_resent(state, call, at, first) };
    if code != SUCCESS {
        return code;
    }
    let Some(event) = state.recording.parts.log().get(at) else { return SUCCESS };
    let outcome = &event.outcome;
    let write = |to: *mut c_int, value| {
        if !to.is_null() {
            // SAFETY: the application's, by the caller's promise.
            unsafe { to.write(value) };
        }
    };
    write(call.flag, outcome.number);
    write(call.number, outcome.index);
    let code = outcome.code;
    let count = outcome.items.as_slice().len();
    let (Ok(mut done), Ok(mut rest)) = (memory::room(count), memory::room(count)) else {
        return no_memory(state, &shape);
    };
    let (mut wrong, mut tested) = (None, None);
    for (n, item) in outcome.items.as_slice().iter().enumerate() {
        if item.index == SAME_HANDLE {
            let target = state
                .tracked
                .requests
                .target_same_handle(item.began)
                .filter(|_| item.began > first);
            // SAFETY: the application's memory, by the caller's promise.
            if let Err(text) = unsafe { target::give(&state.mpi, item, target) } {
                wrong = Some(format!("{}: {text}", shape.call.0));
                break;
            }
            continue;
        }
        let index = usize::try_from(item.index).ok();
        if let (CompletionKind::Some, Some(_)) = (call.kind, index) {
            // SAFETY: the application has room for as many indices as requests.
            unsafe { call.indices.add(n).write(item.index) };
        }
        // SAFETY: by the caller's promise.
        unsafe { give_status(state, call, n, &item.status) };
        let Some(place) = index.map(|index| state.mpi.nth_handle(call.requests, index)) else {
            continue;
        };
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(place) };
        // Only a request that began in this replay is the logged one. The handle of an older request is
        // stale, and may have been reused.
        let own = state.tracked.requests.get(handle).filter(|_| item.began > first);
        let is_other = own.is_none_or(|own| own.began != item.began);
        let alike = match item.began > first && is_other {
            true => state.tracked.requests.target_same_handle(item.began),
            false => None,
        };
        if item.began > first && is_other && alike.is_none() && !item.payload.is_empty() {
            wrong = Some(format!(
                "request {} of {} is not the one that was completed in the first run",
                item.index, shape.call.0
            ));
            break;
        }
        // The targets of requests begun in a replay are resolved already.
        let target = own.filter(|_| !is_other).map(|own| &own.target).or(alike);
        // SAFETY: the application's memory, by the caller's promise.
        if let Err(text) = unsafe { target::give(&state.mpi, item, target) } {
            wrong = Some(format!("request {} of {}: {text}", item.index, shape.call.0));
            break;
        }
        let is_general = !is_other && own.is_some_and(|own| own.general.is_some());
        if is_general && call.kind == CompletionKind::GetStatus {
            tested = Some(handle);
        }
        if !item.persistent {
            done.push((place, own.is_some().then_some(handle), is_general));
        } else if own.is_some() && call.kind != CompletionKind::GetStatus {
            rest.push(handle);
        }
    }
    if let Some(handle) = tested {
        state.tracked.replays_general(&state.mpi, handle, true);
    }
    for handle in rest {
        if let Some(request) = state.tracked.requests.get_mut(handle) {
            request.active = false;
        }
    }
    for (place, handle, is_general) in done {
        match handle {
            Some(handle) if is_general => state.tracked.replays_general(&state.mpi, handle, false),
            Some(handle) => state.tracked.release_replayed(handle),
            None => {}
        }
        // SAFETY: the application's request, by the caller's promise.
        unsafe { state.mpi.write_handle(place, state.mpi.request_null) };
    }
    match wrong {
        Some(text) => divergence::broken(state, &shape, &text),
        None => code,
    }
}

/// Waits for the messages that the requests completed here send or receive again.
///
/// # Safety
/// As for [`complete`](super::complete).
unsafe fn wait_for_resent(
    state: &mut LogState,
    call: &Completion,
    at: Position,
    first: u64,
) -> c_int {
    let Some(event) = state.recording.parts.log().get(at) else { return SUCCESS };
    let items = event.outcome.items.as_slice();
    let is_coming = |item: &Item| item.began > first;
    let count = items.iter().filter(|item| is_coming(item)).count();
    let Ok(mut coming) = memory::room(count) else {
        let shape = event.shape;
        return no_memory(state, &shape);
    };
    for (n, item) in items.iter().enumerate().filter(|(_, item)| is_coming(item)) {
        let Ok(index) = usize::try_from(item.index) else { continue };
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(state.mpi.nth_handle(call.requests, index)) };
        let own = state.tracked.requests.get(handle);
        let Some(own) = own.filter(|own| own.began == item.began) else {
            continue;
        };
        if let Some(again) = own.again {
            coming.push((n, handle, again, own.target.clone()));
        }
    }
    for (n, handle, again, target) in coming {
        let code = resending::wait_again(state, again, matches!(target, CallTarget::Nothing));
        if code != SUCCESS {
            return code;
        }
        if let Some(request) = state.tracked.requests.get_mut(handle) {
            request.again = None;
        }
        // SAFETY: MPI has completed the request.
        unsafe { state.recording.keep_again(&state.mpi, at, n, &target) };
    }
    SUCCESS
}

/// Ends the replay: there is no memory for the requests that the call completes.
#[cold]
fn no_memory(state: &mut LogState, shape: &CallShape) -> c_int {
    let text = format!("{}: there is no memory for what it completes", shape.call.0);
    divergence::broken(state, shape, &text)
}

/// Writes the status of the `n`th completed request where the application wants it.
///
/// # Safety
/// As for [`complete`](super::complete).
unsafe fn give_status(state: &LogState, call: &Completion, n: usize, status: &StatusBytes) {
    let mpi = &state.mpi;
    // SAFETY: by the caller's promise.
    unsafe {
        if !call.has_many() {
            status.write(mpi, call.statuses);
        } else if call.statuses as usize != mpi.numbers.statuses_ignore {
            status.write_all(mpi, mpi.nth_status(call.statuses, n));
        }
    }
}
