//! Sends and receives counted messages again in a replay.

use std::ffi::c_int;
use std::time::Instant;

use message_log_core::resend::closed::Route;
use message_log_core::status::SUCCESS;
use message_log_core::target::ElementBlock;

use super::message::MessageArguments;
use crate::pmpi::{self, HandleWord, Ptr};
use crate::refuse;
use crate::resend::exchange::PATIENCE;
use crate::resend::Resend;
use crate::state::LogState;

/// Counts the bytes of a message that is sent again.
fn count_again(state: &mut LogState, message: &MessageArguments) {
    let datatype = state.mpi.abi.truncate(message.datatype);
    let bytes = message.count * state.objects.types.get(datatype).size;
    if let Some(resend) = &mut state.resend {
        resend.judge.resent += bytes as u64;
    }
}

/// Starts to send or receive a message again; returns the request.
///
/// # Safety
/// The message describes the application's memory.
pub(crate) unsafe fn begin_again(
    state: &mut LogState,
    message: &MessageArguments,
    route: Route,
    sends: bool,
) -> HandleWord {
    if sends {
        count_again(state, message);
    }
    // SAFETY: by the caller's promise.
    unsafe { start_resent(state, message, route, sends) }
}

/// Starts to send or receive again the message of a persistent request at this index.
///
/// # Safety
/// The application has started such a request.
pub(crate) unsafe fn begin_block_again(
    state: &mut LogState,
    block: &ElementBlock,
    route: Route,
    sends: bool,
) -> HandleWord {
    if let Some(resend) = state.resend.as_mut().filter(|_| sends) {
        resend.judge.resent += block.bytes() as u64;
    }
    let (buf, datatype) = (block.buf as Ptr, block.datatype.handle());
    // SAFETY: by the caller's promise.
    unsafe {
        start_resent(
            state,
            &MessageArguments::new(buf, block.count, datatype, 0, 0, 0),
            route,
            sends,
        )
    }
}

/// # Safety
/// As for [`begin_again`].
unsafe fn start_resent(
    state: &mut LogState,
    message: &MessageArguments,
    route: Route,
    sends: bool,
) -> HandleWord {
    let comm = state.resend.as_ref().map_or(state.mpi.comm_null, Resend::comm);
    let MessageArguments { buf, count, datatype, .. } = *message;
    let (count, Route { peer, tag }) = (count as c_int, route);
    let mut request = 0usize;
    let at = (&raw mut request).cast();
    // SAFETY: by the caller's promise; the buffer is as wide as any handle.
    unsafe {
        match sends {
            true => pmpi::isend(buf, count, datatype, peer, tag, comm, at),
            false => pmpi::irecv(buf, count, datatype, peer, tag, comm, at),
        };
        state.mpi.read_handle(at)
    }
}

/// Sends a message again.
///
/// # Safety
/// The message describes the application's memory.
pub(crate) unsafe fn send_again(
    state: &mut LogState,
    message: &MessageArguments,
    route: Route,
) -> c_int {
    // SAFETY: by the caller's promise.
    let request = unsafe { begin_again(state, message, route, true) };
    wait_again(state, request, true)
}

/// Receives a message again.
///
/// # Safety
/// The message describes the application's memory.
pub(crate) unsafe fn recv_again(
    state: &mut LogState,
    message: &MessageArguments,
    route: Route,
) -> c_int {
    // SAFETY: by the caller's promise.
    let request = unsafe { begin_again(state, message, route, false) };
    wait_again(state, request, false)
}

/// Waits until a message was sent or received again. If the other processes do not replay the part,
/// that may never happen: then the replay is abandoned.
pub(crate) fn wait_again(state: &mut LogState, request: HandleWord, sends: bool) -> c_int {
    let (mut handle, mut flag) = (0usize, 0);
    let at = (&raw mut handle).cast();
    // SAFETY: the buffer is as wide as any handle.
    unsafe { state.mpi.write_handle(at, request) };
    let since = Instant::now();
    loop {
        // SAFETY: a request of `begin_again`, or the null request.
        let code = unsafe { pmpi::test(at, &mut flag, state.mpi.numbers.status_ignore as Ptr) };
        if flag != 0 || code != SUCCESS {
            return code;
        }
        let Some(resend) = &mut state.resend else { return SUCCESS };
        if let Some(text) = resend.part_order.difference(&state.mpi) {
            let text = text.to_owned();
            // SAFETY: as above; nobody waits for it any more.
            unsafe {
                if !sends {
                    pmpi::cancel(at);
                }
                pmpi::request_free(at);
            }
            state.recording.parts.break_off(&text);
            return refuse::fail(&state.mpi, 0, &text);
        }
        if !resend.part_order.wait_reported && since.elapsed() > PATIENCE {
            resend.part_order.wait_reported = true;
            let part = state.recording.parts.replaying().map_or(0, |replaying| replaying.place().0);
            let why = match resend.part_order.is_ahead() {
                true => "not all processes have begun it",
                false => "all processes have begun it",
            };
            let does = if sends { "send" } else { "receive" };
            let text = format!("the replay of part {part} waits to {does} a message again: {why}");
            refuse::warn(&state.mpi, &format!("{text} (VELOC_PART_RESEND)"));
        }
        std::thread::yield_now();
    }
}

/// Reports once that a part's messages cannot be sent again.
pub(crate) fn no_resend(state: &mut LogState) {
    let mut processes = 1;
    // SAFETY: an integer of ours, and a communicator that always exists.
    unsafe { pmpi::comm_size(state.mpi.comm_world, &mut processes) };
    if state.resend.is_none() && !state.is_resend_missed && processes > 1 {
        state.is_resend_missed = true;
        let text = "no message is sent again (VELOC_PART_RESEND), all are logged: ";
        let why = "VELOC_MPI_STREAMS is 0, or MPI_Init was called before this library was loaded";
        refuse::warn(&state.mpi, &format!("{text}{why}"));
    }
}
