//! Non-blocking sends and receives, and waits for them.

use std::ffi::c_int;
use std::rc::Rc;

use message_log_core::counting::{is_buffered, Counted, Counting, Posted};
use message_log_core::log::{Call, CallOutcome, CallShape, Item, Items, Payload};
use message_log_core::requests::{EntryPosition, MpiRequest, PlainRequest, RequestLife};
use message_log_core::resend::shortcuts::NOBODY;
use message_log_core::status::SUCCESS;
use message_log_core::target::{CallTarget, ElementBlock};

use super::{packed, room_to_note};
use crate::calls::completion::{self, Completion, CompletionKind};
use crate::calls::message::MessageArguments;
use crate::calls::nonblocking;
use crate::device;
use crate::entry;
use crate::entry::At;
use crate::pmpi::Ptr;
use crate::state::LogState;
use crate::status::{MpiStatus as _, StatusBytes};
use crate::types::RecentTypes;

/// A non-blocking send; `None`: MPI was not called.
///
/// # Safety
/// `at` matches the current phase; `request` points to the call's request handle; the message describes the
/// application's memory.
#[inline(always)]
pub(crate) unsafe fn isend(
    at: At,
    call: Call,
    message: &MessageArguments,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> Option<c_int> {
    let prepare = |state: &mut LogState| {
        let noted = room_to_note(state, at, call, message)?;
        (noted.is_none() || state.tracked.requests.has_room()).then_some(())?;
        Some((noted, state.counting.outgoing_lately(&message.envelope())?))
    };
    // SAFETY: by the caller's promise.
    let (noted, stream) = unsafe { entry::with_state(prepare) }?;
    let quick = |state: &mut LogState, code| {
        if code != SUCCESS {
            return false;
        }
        let is_buffered = is_buffered(call.0);
        let Some(shape) = noted else {
            // SAFETY: by the caller's promise, MPI has written a handle there.
            let begun = unsafe { begins_outside(state, call, message, false, request) };
            let Some((plain, counting)) = begun else { return false };
            if let Some(streams) = counting.streams().filter(|_| stream != NOBODY) {
                let link = streams.sent_at(stream, false);
                plain.counted = Counted::Send { link, is_buffered };
            }
            return true;
        };
        // SAFETY: as above.
        if unsafe { is_taken(state, request) } {
            return false;
        }
        let link = state.counting.sends_on(stream, message.count, !is_buffered);
        let counted = link.map_or(Counted::Nothing, |link| Counted::Send { link, is_buffered });
        let links = state.counting.linked(link).into();
        // SAFETY: as above.
        let began = unsafe { begins(state, shape, CallTarget::Nothing, false, counted, request) };
        state
            .recording
            .parts
            .record_in_room(shape, CallOutcome { began, links, ..CallOutcome::of(SUCCESS) })
    };
    let message = *message;
    // SAFETY: by the caller's promise.
    let slow = move |state: &mut LogState, code| unsafe {
        nonblocking::sending(state, at, call, &message, request, || code)
    };
    // SAFETY: by the caller's promise.
    Some(unsafe { entry::pass_through(at, real, quick, slow) })
}

/// A non-blocking receive; `None`: MPI was not called.
///
/// # Safety
/// `at` matches the current phase; `request` points to the call's request handle.
#[inline(always)]
pub(crate) unsafe fn irecv(
    at: At,
    call: Call,
    message: &MessageArguments,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> Option<c_int> {
    let prepare = |state: &mut LogState| {
        let noted = room_to_note(state, at, call, message)?;
        (noted.is_none() || state.tracked.requests.has_room()).then_some(())?;
        let stream = state.counting.incoming_lately(&message.envelope())?;
        // Without a stream the peer is MPI_PROC_NULL, or messages are not counted at all.
        let is_nobody = stream == NOBODY && message.peer == state.mpi.numbers.proc_null;
        Some((noted, stream, !is_nobody))
    };
    // SAFETY: by the caller's promise.
    let (noted, stream, is_message) = unsafe { entry::with_state(prepare) }?;
    let quick = |state: &mut LogState, code| {
        if code != SUCCESS {
            return false;
        }
        let Some(shape) = noted else {
            // SAFETY: by the caller's promise, MPI has written a handle there.
            let begun = unsafe { begins_outside(state, call, message, is_message, request) };
            let Some((plain, counting)) = begun else { return false };
            if let Some(streams) = counting.streams().filter(|_| stream != NOBODY) {
                plain.counted = Counted::Receive(Posted::of(streams.posted_at(stream)));
            }
            return true;
        };
        // SAFETY: as above.
        if unsafe { is_taken(state, request) } {
            return false;
        }
        let posted = state.counting.posts_on(stream, message.count, true, &state.recording.parts);
        let counted = posted.map_or(Counted::Nothing, Counted::Receive);
        let target = if is_message { message.target(state) } else { CallTarget::Nothing };
        // SAFETY: as above.
        let began = unsafe { begins(state, shape, target, is_message, counted, request) };
        state
            .recording
            .parts
            .record_in_room(shape, CallOutcome { began, ..CallOutcome::of(SUCCESS) })
    };
    let message = *message;
    // SAFETY: by the caller's promise.
    let slow = move |state: &mut LogState, code| unsafe {
        nonblocking::receiving(state, at, call, &message, request, || code)
    };
    // SAFETY: by the caller's promise.
    Some(unsafe { entry::pass_through(at, real, quick, slow) })
}

/// Adds a request that was begun outside parts to the table, in place, as moving it would cost more than all
/// else. Returns its counter, still `Nothing`, and the parts of the state that fill it. `None`: not added, as
/// its handle is taken or there is no room.
///
/// # Safety
/// `request` points to its handle.
#[inline(always)]
unsafe fn begins_outside<'a>(
    state: &'a mut LogState,
    call: Call,
    message: &MessageArguments,
    receives: bool,
    request: Ptr,
) -> Option<(&'a mut PlainRequest, &'a mut Counting)> {
    // SAFETY: by the caller's promise.
    let handle = unsafe { state.mpi.read_handle(request) };
    let plain = state.tracked.requests.insert_plain_alone(handle)?;
    message.note(&state.mpi, plain, call, receives, request);
    plain.counted = Counted::Nothing;
    Some((plain, &mut state.counting))
}

/// `MPI_Wait`, or `MPI_Test` if there is a flag; `None`: MPI was not called. `real` is called with a pointer
/// for the status.
///
/// # Safety
/// `at` matches the current phase; the requirements of the MPI call.
#[inline(always)]
pub(crate) unsafe fn wait(
    at: At,
    call: Call,
    request: Ptr,
    flag: *mut c_int,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> Option<c_int> {
    (!request.is_null()).then_some(())?;
    // SAFETY: by the caller's promise.
    unsafe {
        match at {
            At::Outside => wait_outside(request, || real(status)),
            At::Inside => wait_inside(call, request, flag, status, real),
        }
    }
}

/// # Safety
/// No part is open; `request` points to the call's request handle.
#[inline(always)]
unsafe fn wait_outside(request: Ptr, real: impl FnOnce() -> c_int) -> Option<c_int> {
    // SAFETY: by the caller's promise, `request` points to a handle before and after the call.
    let handle = move |state: &LogState| unsafe { state.mpi.read_handle(request) };
    // A plain request, or one that is not tracked.
    let prepare = |state: &mut LogState| match state.tracked.requests.plain(handle(state)) {
        Some((place, counted)) => (!counted.needs_status()).then_some(Some(place)),
        None => (!state.tracked.requests.has(handle(state))).then_some(None),
    };
    // SAFETY: by the caller's promise.
    let known = unsafe { entry::with_state(prepare) }?;
    let quick = |state: &mut LogState, code| {
        let Some(place) = known.filter(|_| handle(state) == state.mpi.request_null) else {
            return code == SUCCESS;
        };
        let counted = state.tracked.requests.counted_at(place).copied().unwrap_or_default();
        state.tracked.requests.remove_at(place);
        state.is_done(&counted, None, code != SUCCESS);
        true
    };
    let slow = |state: &mut LogState, code| {
        if !state.tracked.requests.is_empty() {
            // The call failed, and the state of its request is unknown.
            state.counting.miscounts();
        }
        code
    };
    // SAFETY: by the caller's promise.
    Some(unsafe { entry::pass_through(At::Outside, real, quick, slow) })
}

/// # Safety
/// A part is open; the requirements of the MPI call.
#[inline(always)]
unsafe fn wait_inside(
    call: Call,
    request: Ptr,
    flag: *mut c_int,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> Option<c_int> {
    let prepare = |state: &mut LogState| {
        (state.has_room() && !device::is_there()).then_some(())?;
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(request) };
        let (place, known) = state.tracked.requests.alone(handle)?;
        let is_simple = is_simple(known) && is_dense(&state.objects.types, &known.target);
        is_simple.then_some((handle, place, state.mpi.numbers.status_ignore))
    };
    // SAFETY: by the caller's promise.
    let (handle, at, ignored) = unsafe { entry::with_state(prepare) }?;
    let mut own = StatusBytes::default();
    let place = if status as usize == ignored { own.as_mut_ptr() } else { status };
    // SAFETY: the application's flag, if there is one.
    let flag_value = move || if flag.is_null() { 1 } else { unsafe { flag.read() } };
    if !flag.is_null() {
        // MPI may leave the flag unset when it fails.
        // SAFETY: as above.
        unsafe { flag.write(0) };
    }
    let quick = |state: &mut LogState, code| {
        let shape = CallShape::of_requests(call, 1);
        if code != SUCCESS {
            return false;
        }
        if flag_value() == 0 {
            let parts = &mut state.recording.parts;
            return parts.record_same(shape)
                || parts.record_in_room(shape, CallOutcome::of(SUCCESS));
        }
        // SAFETY: by the caller's promise, and MPI has written the status.
        let (after, status) =
            unsafe { (state.mpi.read_handle(request), StatusBytes::read(&state.mpi, place)) };
        // SAFETY: MPI has completed the request.
        after == state.mpi.request_null && unsafe { completes(state, shape, at, status) }
    };
    let slow = move |state: &mut LogState, code| {
        let flag_after = flag_value();
        let call = Completion::new(call, CompletionKind::One, request, 1, status);
        let call = Completion { flag, ..call };
        let mpi = state.mpi;
        // Restores the handle, as if the call were still to be made.
        // SAFETY: the application's request, and the handle that MPI has written.
        let after = unsafe { mpi.read_handle(request) };
        // SAFETY: as above.
        unsafe { mpi.write_handle(request, handle) };
        let real = |to: Ptr| {
            // SAFETY: as above; `status` has room for one unless it is ignored.
            unsafe {
                mpi.write_handle(request, after);
                StatusBytes::read(&mpi, place).write_all(&mpi, to);
                if !flag.is_null() {
                    flag.write(flag_after);
                }
            }
            code
        };
        // SAFETY: by the caller's promise.
        unsafe { completion::completing(state, At::Inside, &call, real) }
    };
    // SAFETY: by the caller's promise.
    Some(unsafe { entry::pass_through(At::Inside, || real(place), quick, slow) })
}

/// Whether a request sends or receives one message, and is MPI's own.
#[inline(always)]
fn is_simple(known: &MpiRequest) -> bool {
    let is_own = known.life == RequestLife::Real && known.general.is_none();
    let is_counted = match &known.counted {
        Counted::Nothing | Counted::Send { .. } => true,
        Counted::Receive(posted) => !posted.ticket().is_any(),
        Counted::Matched(_) | Counted::Collective(_) => false,
    };
    let receives = known.is_message || matches!(known.target, CallTarget::Nothing);
    is_own && is_counted && receives && !known.persistent && !known.cancelled
}

/// Whether a receive writes elements without gaps, or nothing.
#[inline(always)]
fn is_dense(types: &RecentTypes, target: &CallTarget) -> bool {
    match target {
        CallTarget::Nothing => true,
        CallTarget::Plain { datatype, .. } => {
            types.recent(*datatype).is_some_and(|datatype| datatype.is_dense)
        }
        CallTarget::One(block) => block.datatype.is_dense,
        CallTarget::Many(_) | CallTarget::Lost => false,
    }
}

/// Whether the table has another request with the handle at `request`.
///
/// # Safety
/// `request` points to a handle.
#[inline(always)]
unsafe fn is_taken(state: &LogState, request: Ptr) -> bool {
    // SAFETY: by the caller's promise.
    state.tracked.requests.has(unsafe { state.mpi.read_handle(request) })
}

/// Adds a request to the table, which has room for it and no other one with its handle. Returns the
/// number of the call that began it.
///
/// # Safety
/// `request` points to its handle.
#[inline(always)]
unsafe fn begins(
    state: &mut LogState,
    shape: CallShape,
    target: CallTarget,
    is_message: bool,
    counted: Counted,
    request: Ptr,
) -> u64 {
    let began = state.recording.parts.begin_number();
    // SAFETY: by the caller's promise.
    let handle = unsafe { state.mpi.read_handle(request) };
    if let Some(begun) = state.tracked.requests.insert_in_room(handle) {
        begun.shape = shape;
        begun.target = target;
        begun.place = request as usize;
        begun.is_message = is_message;
        begun.began = began;
        begun.counted = counted;
    }
    began
}

/// Records the completion of a [simple](is_simple) request and forgets it. Returns whether that was
/// possible.
///
/// # Safety
/// MPI has completed it.
#[inline(always)]
unsafe fn completes(
    state: &mut LogState,
    shape: CallShape,
    at: EntryPosition,
    status: StatusBytes,
) -> bool {
    let LogState { mpi, recording, tracked, objects, .. } = state;
    let Some(known) = tracked.requests.at_mut(at) else { return false };
    let (began, counted) = (known.began, known.counted);
    let block = match &known.target {
        CallTarget::Plain { buf, count, datatype } => {
            let Some(datatype) = objects.types.recent(*datatype) else { return false };
            Some(ElementBlock { buf: *buf, count: *count, datatype: Rc::clone(datatype) })
        }
        CallTarget::One(block) => Some(block.clone()),
        _ => None,
    };
    let (target, payload) = match block {
        None => (CallTarget::Nothing, Payload::default()),
        Some(block) => {
            let bytes = status.received(mpi);
            // SAFETY: by the caller's promise; the memory was found not to be a device's.
            let packed = unsafe {
                packed(&mut recording.arena, &block.datatype, block.buf, block.count, bytes)
            };
            let Some(payload) = packed else { return false };
            (CallTarget::One(block), payload)
        }
    };
    tracked.requests.retire_at(at);
    let link = state.is_done(&counted, None, false);
    let mut item = Item::new(status, target, payload);
    (item.began, item.link) = (began, link);
    let outcome = CallOutcome { number: 1, items: Items::One(item), ..CallOutcome::of(SUCCESS) };
    state.recording.parts.record_in_room(shape, outcome)
}
