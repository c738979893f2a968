//! The fast path of most calls, outside parts and inside recorded parts: sends and receives on recently used
//! streams, and waits for them; inside parts only for types without gaps in host memory. All other calls
//! return `None` here, before MPI is called, and take the general path.
//!
//! Room for the call's log entry is checked before the call. What cannot be known before, such as an error,
//! goes to the general path, which gets the return code instead of calling MPI. Nothing here may panic, nor
//! may the code that stores payloads (`message_log_core::log`): no panic would be caught.
//! Each function is compiled into each call twice, with `at` as a constant.

mod requests;

use std::ffi::c_int;
use std::rc::Rc;

use message_log_core::counting::is_buffered;
use message_log_core::log::{Arena, Call, CallOutcome, CallShape, Item, Items, Payload};
use message_log_core::status::SUCCESS;
use message_log_core::target::CallTarget;
use message_log_core::target::Datatype;

use super::message::MessageArguments;
use super::p2p;
use crate::copy;
use crate::device;
use crate::entry;
use crate::entry::At;
use crate::pmpi::Ptr;
use crate::state::LogState;
use crate::status::{MpiStatus as _, StatusBytes};

pub(crate) use requests::{irecv, isend, wait};

/// A blocking send; `None`: MPI was not called.
///
/// # Safety
/// `at` matches the current phase; the requirements of the MPI call.
#[inline(always)]
pub(crate) unsafe fn send(
    at: At,
    call: Call,
    message: &MessageArguments,
    real: impl FnOnce() -> c_int,
) -> Option<c_int> {
    let prepare = |state: &mut LogState| {
        Some((
            room_to_note(state, at, call, message)?,
            state.counting.outgoing_lately(&message.envelope())?,
        ))
    };
    // SAFETY: by the caller's promise.
    let (noted, stream) = unsafe { entry::with_state(prepare) }?;
    let quick = |state: &mut LogState, code| {
        if code != SUCCESS {
            return false;
        }
        let link = state.counting.sent_on(stream, message.count, is_buffered(call.0));
        let Some(shape) = noted else { return true };
        if link.is_none() && state.recording.parts.record_same(shape) {
            return true;
        }
        let outcome = CallOutcome { links: link.into(), ..CallOutcome::of(SUCCESS) };
        state.recording.parts.record_in_room(shape, outcome)
    };
    let message = *message;
    // SAFETY: by the caller's promise.
    let slow = move |state: &mut LogState, code| unsafe {
        p2p::sending(state, at, call, &message, || code)
    };
    // SAFETY: by the caller's promise.
    Some(unsafe { entry::pass_through(at, real, quick, slow) })
}

/// A blocking receive; `None`: MPI was not called. `real` is called with a pointer for the status.
///
/// # Safety
/// `at` matches the current phase; the requirements of the MPI call.
#[inline(always)]
pub(crate) unsafe fn recv(
    at: At,
    call: Call,
    message: &MessageArguments,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> Option<c_int> {
    let prepare = |state: &mut LogState| {
        let noted = room_to_note(state, at, call, message)?;
        if noted.is_some() {
            (!device::is_there() && known_type(state, message)?.is_dense).then_some(())?;
        }
        Some((
            noted,
            state.counting.incoming_lately(&message.envelope())?,
            state.mpi.numbers.status_ignore,
        ))
    };
    // SAFETY: by the caller's promise.
    let (noted, stream, ignored) = unsafe { entry::with_state(prepare) }?;
    let mut own = StatusBytes::default();
    let is_own = noted.is_some() && status as usize == ignored;
    let place = if is_own { own.as_mut_ptr() } else { status };
    let quick = |state: &mut LogState, code| {
        if code != SUCCESS {
            return false;
        }
        let Some(shape) = noted else {
            state.counting.received_on(stream, message.count);
            return true;
        };
        // SAFETY: MPI has written it.
        let status = unsafe { StatusBytes::read(&state.mpi, place) };
        let bytes = status.received(&state.mpi);
        let LogState { objects, recording, mpi, .. } = state;
        let Some(datatype) = objects.types.recent(mpi.abi.truncate(message.datatype)) else {
            return false;
        };
        let (buf, count) = (message.buf as usize, message.count);
        // SAFETY: the call has returned; the memory was found not to be a device's.
        let packed = unsafe { packed(&mut recording.arena, datatype, buf, count, bytes) };
        let Some(payload) = packed else { return false };
        let link = state.counting.received_on(stream, message.count);
        // A replay receives into the buffer of its own call.
        let mut item = Item::new(status, CallTarget::Nothing, payload);
        item.link = link;
        let outcome = CallOutcome { items: Items::One(item), ..CallOutcome::of(SUCCESS) };
        state.recording.parts.record_in_room(shape, outcome)
    };
    let message = *message;
    let slow = move |state: &mut LogState, code| {
        let mpi = state.mpi;
        let real = |to: Ptr| {
            // Outside parts the general path does not read the status of a failed call.
            if at == At::Inside {
                // SAFETY: MPI has written the status, and `to` has room for one unless it is ignored.
                unsafe { StatusBytes::read(&mpi, place).write_all(&mpi, to) };
            }
            code
        };
        // SAFETY: by the caller's promise.
        unsafe { p2p::receiving(state, at, call, &message, status, real) }
    };
    // SAFETY: by the caller's promise.
    Some(unsafe { entry::pass_through(at, || real(place), quick, slow) })
}

/// Packs the received elements, which have no gaps. `None`: out of memory or range, which the general path
/// reports.
///
/// # Safety
/// MPI has completed writing to the elements, and the host can read them.
#[inline(always)]
unsafe fn packed(
    arena: &mut Arena,
    datatype: &Datatype,
    buf: usize,
    count: i64,
    received: i64,
) -> Option<Payload> {
    let all = count.checked_mul(datatype.size)?;
    let wanted = if received >= all { all } else { all.min(datatype.whole(received)) };
    let len = usize::try_from(wanted).ok()?;
    let from = (buf as i64).checked_add(datatype.lb)? as *const u8;
    // SAFETY: by the caller's promise.
    if let Some(payload) = unsafe { Payload::copied(from, len) } {
        return Some(payload);
    }
    // SAFETY: as above.
    let copied =
        |to: &mut [u8]| unsafe { copy::into_log(to.as_mut_ptr().cast(), from.cast(), to.len()) };
    arena.keep(len, copied).ok()
}

/// The shape to record for a call made now; `Some(None)` outside parts, where nothing is recorded.
/// `None`: the call must take the general path.
#[inline(always)]
fn room_to_note(
    state: &LogState,
    at: At,
    call: Call,
    message: &MessageArguments,
) -> Option<Option<CallShape>> {
    if at == At::Outside {
        return Some(None);
    }
    (state.has_room() && !state.compares_sent).then_some(())?;
    let MessageArguments { count, peer, tag, comm, .. } = *message;
    let (comm, size) = (state.mpi.abi.truncate(comm), known_type(state, message)?.size);
    Some(Some(CallShape { call, comm, peer: Some(peer), tag: Some(tag), count, size, sum: 0 }))
}

/// The type of a message, if it was used recently.
#[inline(always)]
fn known_type<'a>(state: &'a LogState, message: &MessageArguments) -> Option<&'a Rc<Datatype>> {
    state.objects.types.recent(state.mpi.abi.truncate(message.datatype))
}
