//! Collective calls. What this process receives is logged, if the plan says that it receives anything.

use std::ffi::c_int;

use message_log_core::counting::{Counted, ImmediateReceive};
use message_log_core::parts::Source;
use message_log_core::requests::MpiRequest;
use message_log_core::status::SUCCESS;

use super::plan::CollectivePlan;
use super::starting;
use super::with;
use crate::entry::At;
use crate::pmpi::{HandleWord, Ptr};
use crate::state::LogState;

/// A blocking call. Outside parts it is counted.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn run(
    at: At,
    comm: HandleWord,
    plan: impl FnOnce(&mut LogState) -> CollectivePlan,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        if at == At::Outside {
            let group = state.counting.collects(comm);
            let code = real();
            state.counting.has_collected(group);
            return code;
        }
        let CollectivePlan { shape, target } = plan(state);
        let group = match state.recording.source() {
            Source::Mpi => state.counting.collects(shape.comm),
            Source::Log => None,
        };
        // SAFETY: by the caller's promise.
        let code = unsafe {
            super::receiving(state, shape, &target, ImmediateReceive::Nothing, None, |_| real())
        };
        state.counting.has_collected(group);
        code
    })
}

/// A non-blocking collective call. One that is begun outside parts is tracked, as it may complete inside one.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn begin(
    at: At,
    plan: impl FnOnce(&mut LogState) -> CollectivePlan,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let CollectivePlan { shape, target } = plan(state);
        if let Err(code) = state.reserve(shape.call, shape.comm, 1) {
            return code;
        }
        let counts = at == At::Outside || state.recording.source() == Source::Mpi;
        let group = if counts { state.counting.collects(shape.comm) } else { None };
        let counted = group.map_or(Counted::Nothing, Counted::Collective);
        // SAFETY: by the caller's promise; after a real call MPI has written a handle there.
        unsafe {
            if at == At::Inside {
                return starting::starting(state, shape, target, false, counted, request, real);
            }
            let code = real();
            if code == SUCCESS {
                let begun = MpiRequest::new(shape, target, false);
                starting::begun(state, MpiRequest { counted, ..begun }, request);
            }
            code
        }
    })
}
