//! Communicators and datatypes. Objects that a replay may still use are not freed.
//!
//! Communicators are made together with other processes, so a replay returns those of the first run, or
//! stand-ins for them. Types are local: a replay makes and frees its own.

use std::ffi::c_int;

use message_log_core::log::{Call, CallOutcome, CallShape};
use message_log_core::memory::NoMemory;
use message_log_core::parts::{CommOrigin, Source};
use message_log_core::resend::comms::Comms;
use message_log_core::status::SUCCESS;

use super::with;
use crate::divergence;
use crate::entry::At;
use crate::freeing;
use crate::pmpi::{HandleWord, Ptr};
use crate::refuse;
use crate::resend;
use crate::state::LogState;

/// A call that makes a communicator from `comm`. Messages on it are counted, outside parts too.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn make_comm(
    at: At,
    call: Call,
    comm: HandleWord,
    made: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let shape = CallShape { comm: state.mpi.abi.truncate(comm), ..CallShape::new(call) };
        if at == At::Outside || state.recording.source() == Source::Mpi {
            if let Err(code) = reserve_comm(state, call, shape.comm) {
                return code;
            }
        }
        if at == At::Outside {
            let code = real();
            if code == SUCCESS {
                // SAFETY: by the caller's promise, MPI has written a handle there.
                let handle = unsafe { state.mpi.read_handle(made) };
                comm_made(state, call, shape.comm, handle, false);
            }
            return code;
        }
        match state.recording.source() {
            Source::Mpi => {
                let code = real();
                let mut outcome = CallOutcome::of(code);
                if code == SUCCESS {
                    // SAFETY: by the caller's promise, MPI has written a handle there.
                    outcome.handle = unsafe { state.mpi.read_handle(made) };
                    comm_made(state, call, shape.comm, outcome.handle, true);
                }
                state.recording.record(shape, outcome);
                code
            }
            Source::Log => match state.recording.parts.next(&shape) {
                Ok(at) => {
                    let Some(event) = state.recording.parts.log().get(at) else { return SUCCESS };
                    if event.outcome.code == SUCCESS {
                        // SAFETY: by the caller's promise.
                        unsafe { state.mpi.write_handle(made, event.outcome.handle) };
                    }
                    event.outcome.code
                }
                Err(divergence) => divergence::stop(state, &shape, &divergence),
            },
        }
    })
}

/// A collective call that changes a communicator; a replay does not repeat it.
pub(crate) fn set(call: Call, comm: HandleWord, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let comm = state.mpi.abi.truncate(comm);
        super::plain(state, CallShape { comm, ..CallShape::new(call) }, real)
    })
}

/// A call that gives a communicator an attribute; a replay repeats it.
pub(crate) fn set_attribute(
    call: Call,
    comm: HandleWord,
    keyval: c_int,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let comm = state.mpi.abi.truncate(comm);
        if state.objects.stand_ins.reserve_keyval().is_err() {
            return refuse::no_memory(&state.mpi, comm, call.0);
        }
        let code = real();
        if code == SUCCESS {
            state.objects.stand_ins.sets(keyval);
        }
        code
    })
}

/// A call that frees a kind of attributes; a replay repeats it.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn free_keyval(keyval: *mut c_int, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        // SAFETY: by the caller's promise.
        state.objects.stand_ins.frees(unsafe { *keyval });
        real()
    })
}

/// A call that frees a communicator.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn free_comm(
    at: At,
    call: Call,
    comm: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        if at == At::Outside {
            // SAFETY: by the caller's promise.
            return unsafe { freeing::free_comm(state, comm, real) }.0;
        }
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(comm) };
        let mut shape = CallShape { comm: handle, ..CallShape::new(call) };
        if state.recording.source() == Source::Mpi {
            // SAFETY: as above.
            let (code, logged) = unsafe { freeing::free_comm(state, comm, real) };
            shape.comm = logged;
            state.recording.record(shape, CallOutcome::of(code));
            return code;
        }
        let code = super::plain(state, shape, || SUCCESS);
        if code == SUCCESS {
            // The first run has freed it.
            // SAFETY: as above.
            unsafe { state.mpi.write_handle(comm, state.mpi.comm_null) };
        }
        code
    })
}

/// A call that makes a type, inside or outside parts: types are local, so a replay makes its own.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn make_type(made: Ptr, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let code = real();
        if code == SUCCESS {
            // SAFETY: by the caller's promise, MPI has written a handle there.
            let handle = unsafe { state.mpi.read_handle(made) };
            state.objects.types.made(handle, state.recording.parts.instances().now());
        }
        code
    })
}

/// `MPI_Type_free`, inside or outside parts.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn free_type(datatype: Ptr, real: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: by the caller's promise.
    with(|state| unsafe { freeing::free_type(state, datatype, real) })
}

/// Reserves room to track a communicator before the call makes it, as the call must not fail afterwards.
///
/// # Errors
/// Out of memory; the result of the call, which has done nothing.
fn reserve_comm(state: &mut LogState, call: Call, comm: usize) -> Result<(), c_int> {
    state.reserve(call, comm, 1)?;
    let counted = |()| state.counting.comms().map_or(Ok(()), Comms::reserve);
    let room = state.objects.reserve_comm().and_then(counted);
    room.map_err(|NoMemory| refuse::no_room(&state.mpi, call, comm))
}

/// `call` has made the communicator `handle` from `comm`.
fn comm_made(state: &mut LogState, call: Call, comm: usize, handle: usize, is_logged: bool) {
    // The call is recorded as the next event.
    let event = state.recording.parts.next_event();
    let made = is_logged.then_some((call, event));
    let origin = CommOrigin { first: event + u64::from(made.is_some()), made };
    let origin = (state.recording.parts.instances().count() > 0).then_some(origin);
    state.objects.comm_made(&state.mpi, call, comm, handle, origin);
    resend::comm_made(&state.mpi, &mut state.counting, handle);
}
