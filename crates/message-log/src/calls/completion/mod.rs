//! Calls that complete requests. What a request received is logged by the call that completes it.
//!
//! | file | owns |
//! | --- | --- |
//! | `arguments` | the arguments of such a call, and its outputs |
//! | `handles` | its handles before the call, and space for statuses |
//! | `record`, `replay` | what it does inside parts |
//! | `outside` | what it does outside parts |

mod arguments;
mod handles;
mod outside;
mod record;
mod replay;

use std::ffi::c_int;

use message_log_core::log::CallShape;
use message_log_core::parts::Source;

use super::with;
use crate::entry::At;
use crate::pmpi::Ptr;
use crate::state::LogState;

pub(crate) use arguments::{Completion, CompletionKind};

/// The index of an item that belongs to another request with the same handle.
const SAME_HANDLE: c_int = c_int::MIN;

/// A call that completes requests. `real` is called with a pointer for the status or statuses.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn complete(at: At, call: &Completion, real: impl FnOnce(Ptr) -> c_int) -> c_int {
    if call.requests.is_null() && call.count > 0 {
        // MPI refuses this, in a first run and in a replay.
        return real(call.statuses);
    }
    // SAFETY: by the caller's promise.
    with(|state| unsafe { completing(state, at, call, real) })
}

/// [`complete`], with the state.
///
/// # Safety
/// As for [`complete`].
pub(super) unsafe fn completing(
    state: &mut LogState,
    at: At,
    call: &Completion,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    if at == At::Outside {
        // SAFETY: by the caller's promise.
        return unsafe { outside::complete(state, call, real) };
    }
    let shape = CallShape::of_requests(call.call, i64::from(call.count));
    match state.recording.source() {
        // SAFETY: by the caller's promise.
        Source::Mpi => unsafe { record::record(state, shape, call, real) },
        // SAFETY: as above.
        Source::Log => unsafe { replay::replay(state, shape, call) },
    }
}
