//! Blocking sends and receives.

use std::ffi::c_int;

use message_log_core::counting::{is_buffered, ImmediateReceive};
use message_log_core::log::{Call, CallOutcome, CallShape};
use message_log_core::parts::Source;
use message_log_core::resend::streams::MessageLink;
use message_log_core::status::SUCCESS;

use super::message::MessageArguments;
use super::resending;
use super::with;
use crate::entry::At;
use crate::pmpi::Ptr;
use crate::state::LogState;
use crate::status::{MpiStatus as _, StatusBytes};
use crate::target;

/// A blocking send.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn send(
    at: At,
    call: Call,
    message: &MessageArguments,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        if at == At::Inside && state.recording.source() == Source::Log {
            // SAFETY: by the caller's promise.
            return unsafe {
                let shape = message.sent_shape(call, state);
                send_replayed(state, shape, message)
            };
        }
        // SAFETY: by the caller's promise.
        unsafe { sending(state, at, call, message, real) }
    })
}

/// A send outside parts, or inside parts that are recorded.
///
/// # Safety
/// As for [`send`].
pub(super) unsafe fn sending(
    state: &mut LogState,
    at: At,
    call: Call,
    message: &MessageArguments,
    real: impl FnOnce() -> c_int,
) -> c_int {
    if at == At::Outside {
        return sent(state, call, message, real).0;
    }
    // SAFETY: by the caller's promise.
    let shape = unsafe { message.sent_shape(call, state) };
    let (code, link) = sent(state, call, message, real);
    let link = state.counting.linked(link);
    state.recording.record(shape, CallOutcome { links: link.into(), ..CallOutcome::of(code) });
    code
}

/// A send that is passed to MPI and counted.
fn sent(
    state: &mut LogState,
    call: Call,
    message: &MessageArguments,
    real: impl FnOnce() -> c_int,
) -> (c_int, Option<MessageLink>) {
    let is_buffered = is_buffered(call.0);
    let link = state.counting.sends(&message.envelope(), !is_buffered);
    let code = real();
    state.counting.has_sent(link, is_buffered, code);
    (code, link)
}

/// # Safety
/// As for [`send`].
unsafe fn send_replayed(
    state: &mut LogState,
    shape: CallShape,
    message: &MessageArguments,
) -> c_int {
    let route = state.recording.sends_again(&shape);
    let code = super::plain(state, shape, || SUCCESS);
    match route.filter(|_| code == SUCCESS) {
        // SAFETY: by the caller's promise.
        Some(route) => unsafe { resending::send_again(state, message, route) },
        None => code,
    }
}

/// A blocking receive. `real` is called with a pointer for the status.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn recv(
    at: At,
    call: Call,
    message: &MessageArguments,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    // SAFETY: by the caller's promise.
    with(|state| unsafe { receiving(state, at, call, message, status, real) })
}

/// [`recv`], with the state.
///
/// # Safety
/// As for [`recv`].
pub(super) unsafe fn receiving(
    state: &mut LogState,
    at: At,
    call: Call,
    message: &MessageArguments,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    if at == At::Outside {
        // SAFETY: by the caller's promise.
        return unsafe { received_outside(state, message, status, real) };
    }
    let shape = message.shape(call, state);
    // SAFETY: by the caller's promise.
    unsafe {
        received(state, shape, message, ImmediateReceive::Message(message.envelope()), status, real)
    }
}

/// A blocking receive inside parts.
///
/// # Safety
/// As for [`recv`].
pub(super) unsafe fn received(
    state: &mut LogState,
    shape: CallShape,
    message: &MessageArguments,
    arrival: ImmediateReceive,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    let target = message.target(state);
    let Some(route) = state.recording.receives_again(&shape) else {
        // SAFETY: by the caller's promise.
        return unsafe { super::receiving(state, shape, &target, arrival, Some(status), real) };
    };
    // The call is the next event, as its route was found there.
    let Ok(at) = state.recording.parts.next(&shape) else { return SUCCESS };
    // SAFETY: by the caller's promise; MPI has received the message before `keep_again`.
    unsafe {
        let code = resending::recv_again(state, message, route);
        if code != SUCCESS {
            return code;
        }
        let target = target::resolved(&target, &mut state.objects.types);
        state.recording.keep_again(&state.mpi, at, 0, &target);
        let event = state.recording.parts.log().get(at);
        if let Some(item) = event.and_then(|event| event.outcome.items.as_slice().first()) {
            item.status.write(&state.mpi, status);
        }
    }
    SUCCESS
}

/// Counts a receive outside parts.
///
/// # Safety
/// As for [`recv`].
unsafe fn received_outside(
    state: &mut LogState,
    message: &MessageArguments,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    if state.resend.is_none() {
        return real(status);
    }
    let mut own = StatusBytes::default();
    let is_any = state.counting.is_any(&message.envelope());
    let place = match is_any && status as usize == state.mpi.numbers.status_ignore {
        true => own.as_mut_ptr(),
        false => status,
    };
    let code = real(place);
    if code != SUCCESS {
        state.counting.miscounts();
    } else if is_any {
        // SAFETY: MPI has written it.
        let read = unsafe { StatusBytes::read(&state.mpi, place) };
        state.counting.arrives_at_once(&message.envelope(), Some(read.sender(&state.mpi)));
    } else {
        state.counting.arrives_at_once(&message.envelope(), None);
    }
    code
}

/// A combined send and receive: two events, one for the shape of each. `real` is called with a pointer for
/// the status.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn sendrecv(
    at: At,
    call: Call,
    sent: &MessageArguments,
    received: &MessageArguments,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    with(|state| {
        if at == At::Outside {
            let link = state.counting.sends(&sent.envelope(), false);
            // SAFETY: by the caller's promise.
            let code = unsafe { received_outside(state, received, status, real) };
            state.counting.has_sent(link, false, code);
            return code;
        }
        // SAFETY: by the caller's promise.
        let shape = unsafe { sent.sent_shape(call, state) };
        let route = state.recording.sends_again(&shape);
        let mut link = None;
        if state.recording.source() == Source::Mpi {
            // A message whose buffer the receive overwrites cannot be sent again.
            link = state.counting.sends(&sent.envelope(), sent.buf != received.buf);
            let links = state.counting.linked(link).into();
            state.recording.record(shape, CallOutcome { links, ..CallOutcome::of(SUCCESS) });
        } else {
            let code = super::plain(state, shape, || SUCCESS);
            if code != SUCCESS {
                return code;
            }
        }
        // SAFETY: by the caller's promise.
        let again = route.map(|route| unsafe { resending::begin_again(state, sent, route, true) });
        let shape = received.shape(call, state);
        let arrival = ImmediateReceive::Message(received.envelope());
        // SAFETY: as above.
        let code = unsafe { self::received(state, shape, received, arrival, status, real) };
        state.counting.has_sent(link, false, code);
        match again.map(|request| resending::wait_again(state, request, true)) {
            Some(failed) if failed != SUCCESS => failed,
            _ => code,
        }
    })
}
