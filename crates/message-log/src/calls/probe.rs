//! Probes. `matched` receives the messages that they return.

use std::ffi::c_int;

use message_log_core::counting::Sender;
use message_log_core::log::{Call, CallOutcome, CallShape, Items};
use message_log_core::parts::Source;
use message_log_core::status::SUCCESS;
use message_log_core::target::CallTarget;

use super::with;
use crate::divergence;
use crate::entry::At;
use crate::messages::Probed;
use crate::pmpi::{HandleWord, Ptr};
use crate::refuse;
use crate::state::LogState;
use crate::status::{MpiStatus as _, StatusBytes};

/// The arguments of a probe; null for those that it does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeArguments {
    /// The source.
    pub source: c_int,
    /// The tag.
    pub tag: c_int,
    /// The communicator.
    pub comm: HandleWord,
    /// Whether there is a message.
    pub flag: *mut c_int,
    /// The message.
    pub message: Ptr,
    /// The status, which may be ignored.
    pub status: Ptr,
}

/// Probes for a message. `real` is called with a pointer for the status. Outside parts only matched probes
/// are tracked.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn probe(
    at: At,
    call: Call,
    probe: &ProbeArguments,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    with(|state| {
        if at == At::Outside {
            // SAFETY: by the caller's promise.
            return unsafe { probed_outside(state, probe, real) };
        }
        let shape = CallShape {
            comm: state.mpi.abi.truncate(probe.comm),
            peer: Some(probe.source),
            tag: Some(probe.tag),
            ..CallShape::new(call)
        };
        match state.recording.source() {
            // SAFETY: by the caller's promise.
            Source::Mpi => unsafe { record(state, shape, probe, real) },
            // SAFETY: as above.
            Source::Log => unsafe { replay(state, shape, probe) },
        }
    })
}

/// # Safety
/// As for [`probe`].
unsafe fn probed_outside(
    state: &mut LogState,
    probe: &ProbeArguments,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    let mut own = StatusBytes::default();
    let code = real(own.as_mut_ptr());
    // SAFETY: the application's, by the caller's promise; MPI has written them.
    unsafe {
        if code == SUCCESS && (probe.flag.is_null() || probe.flag.read() != 0) {
            own.write(&state.mpi, probe.status);
            state.counting.matches(
                probe.comm,
                own.sender(&state.mpi),
                state.mpi.read_handle(probe.message),
            );
        }
    }
    code
}

/// # Safety
/// As for [`probe`].
unsafe fn record(
    state: &mut LogState,
    shape: CallShape,
    probe: &ProbeArguments,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    // Reserved before the call, as no other call can receive a message that it has matched.
    if let Err(code) = state.reserve(shape.call, shape.comm, 1) {
        return code;
    }
    if !probe.message.is_null() && state.tracked.messages.reserve().is_err() {
        return refuse::no_room(&state.mpi, shape.call, shape.comm);
    }
    let mut own = StatusBytes::default();
    let code = real(own.as_mut_ptr());
    let mut outcome = CallOutcome::of(code);
    // SAFETY: the application's, by the caller's promise.
    let flag = if probe.flag.is_null() { 1 } else { unsafe { probe.flag.read() } };
    outcome.number = flag;
    if code == SUCCESS && flag != 0 {
        // SAFETY: nothing is received yet.
        outcome.items = Items::One(unsafe { state.received(&CallTarget::Nothing, Some(&own)) });
        if !probe.message.is_null() {
            // SAFETY: as above.
            let message = unsafe { state.mpi.read_handle(probe.message) };
            state.counting.matches(probe.comm, own.sender(&state.mpi), message);
            if message == state.mpi.message_no_proc {
                // The only handle that a replay has to recognise.
                outcome.handle = message;
            } else {
                outcome.began = state.recording.parts.begin_number();
                state.tracked.messages.probed(message, probed(state, outcome.began, &own, None));
            }
        }
        // SAFETY: as above.
        unsafe { own.write(&state.mpi, probe.status) };
    }
    state.recording.record(shape, outcome);
    code
}

/// # Safety
/// As for [`probe`].
unsafe fn replay(state: &mut LogState, shape: CallShape, probe: &ProbeArguments) -> c_int {
    let at = match state.recording.parts.next(&shape) {
        Ok(at) => at,
        Err(divergence) => return divergence::stop(state, &shape, &divergence),
    };
    let Some(event) = state.recording.parts.log().get(at) else { return SUCCESS };
    let CallOutcome { code, number, handle: no_proc, began, ref items, .. } = event.outcome;
    let status = items.as_slice().first().map(|item| item.status);
    // SAFETY: the application's, by the caller's promise.
    unsafe {
        if !probe.flag.is_null() {
            probe.flag.write(number);
        }
        let Some(status) = status else { return code };
        status.write(&state.mpi, probe.status);
        if probe.message.is_null() {
            return code;
        }
        let mut message = no_proc;
        if no_proc == 0 {
            let given = probed(state, began, &status, state.recording.parts.open().replayed());
            let Ok(handle) = state.tracked.messages.add_replayed(&state.mpi, given) else {
                let text = format!("{}: there is no memory for its message", shape.call.0);
                return divergence::broken(state, &shape, &text);
            };
            message = handle;
        }
        state.mpi.write_handle(probe.message, message);
    }
    code
}

/// A message that a matched probe returned, with this status.
fn probed(state: &LogState, began: u64, status: &StatusBytes, replayed: Option<u64>) -> Probed {
    let Sender { rank: source, tag } = status.sender(&state.mpi);
    Probed { began, source, tag, replayed }
}
