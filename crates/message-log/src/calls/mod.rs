//! What each kind of call does inside and outside parts.
//!
//! Inside parts a call has two branches, selected by the [source](Source) of its result: with [`Source::Mpi`]
//! the call is real, and its event is recorded; with [`Source::Log`] the next event has the outcome of the
//! first run.

pub(crate) mod collective;
pub(crate) mod completion;
pub(crate) mod fast_path;
pub(crate) mod general;
pub(crate) mod matched;
pub(crate) mod message;
pub(crate) mod nonblocking;
pub(crate) mod objects;
pub(crate) mod p2p;
pub(crate) mod persistent;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod requests;
pub(crate) mod resending;
pub(crate) mod starting;

use std::ffi::c_int;

use message_log_core::counting::ImmediateReceive;
use message_log_core::log::{Call, CallOutcome, CallShape, Item, Items, Payload};
use message_log_core::parts::Source;
use message_log_core::status::SUCCESS;
use message_log_core::target::CallTarget;

use crate::divergence;
use crate::entry;
use crate::pmpi::Ptr;
use crate::refuse;
use crate::state::LogState;
use crate::status::{MpiStatus as _, StatusBytes};
use crate::target;

/// Runs a call's body with the state. The call fails if its data cannot be logged.
pub(crate) fn with(body: impl FnOnce(&mut LogState) -> c_int) -> c_int {
    entry::call(|state| {
        if state.resend.as_ref().is_some_and(|resend| resend.judge.is_resumed) {
            report_restart(state);
        }
        let code = body(state);
        entry::finish_call(state, code)
    })
}

/// The first call inside a part after a restart. It announces the restart to the other processes, and waits
/// for them if it depends on messages that are sent again.
#[cold]
fn report_restart(state: &mut LogState) {
    let parts = &state.recording.parts;
    let Some(resend) = state.resend.as_mut().filter(|_| parts.open().is_any()) else {
        return;
    };
    resend.judge.is_resumed = false;
    resend.report_origin(&state.mpi);
    let waits = resend.judge.verdicts.is_open() && parts.replays_closed();
    state.take_verdicts(waits);
}

/// A call that returns only its code.
pub(crate) fn plain(state: &mut LogState, shape: CallShape, real: impl FnOnce() -> c_int) -> c_int {
    match state.recording.source() {
        Source::Mpi => {
            let code = real();
            state.recording.record(shape, CallOutcome::of(code));
            code
        }
        Source::Log => match state.recording.parts.next(&shape) {
            Ok(at) => {
                state.recording.parts.log().get(at).map_or(SUCCESS, |event| event.outcome.code)
            }
            Err(divergence) => divergence::stop(state, &shape, &divergence),
        },
    }
}

/// A call that receives one message or the result of a collective call, with or without a status. `real`
/// is called with a pointer for the status.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn receiving(
    state: &mut LogState,
    shape: CallShape,
    target: &CallTarget,
    arrival: ImmediateReceive,
    status: Option<Ptr>,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    match state.recording.source() {
        Source::Mpi => {
            let mut own = StatusBytes::default();
            let ignored = state.mpi.numbers.status_ignore;
            let place = status.filter(|status| *status as usize != ignored);
            let code = real(place.unwrap_or(own.as_mut_ptr()));
            if let Some(place) = place {
                // SAFETY: the application's status, by the caller's promise.
                own = unsafe { StatusBytes::read(&state.mpi, place) };
            }
            let mut outcome = CallOutcome::of(code);
            if code == SUCCESS {
                // SAFETY: the call has returned.
                let mut item = unsafe { state.received(target, status.map(|_| &own)) };
                state.recording.lost_on(shape.comm);
                item.link = state.counting.arrives_by(arrival, own.sender(&state.mpi));
                outcome.items = Items::One(item);
            } else {
                if status.is_some() {
                    // The source is known even if the buffer was too small.
                    outcome.items =
                        Items::One(Item::new(own, CallTarget::Nothing, Payload::default()));
                }
                if !matches!(arrival, ImmediateReceive::Nothing) {
                    state.counting.miscounts();
                }
            }
            state.recording.record(shape, outcome);
            code
        }
        Source::Log => {
            let at = match state.recording.parts.next(&shape) {
                Ok(at) => at,
                Err(divergence) => return divergence::stop(state, &shape, &divergence),
            };
            let target = target::resolved(target, &mut state.objects.types);
            let Some(event) = state.recording.parts.log().get(at) else { return SUCCESS };
            let code = event.outcome.code;
            for item in event.outcome.items.as_slice() {
                // SAFETY: the application's memory, by the caller's promise.
                if let Err(text) = unsafe { target::give(&state.mpi, item, Some(&target)) } {
                    let text = divergence::describe(state, &shape) + ": " + &text;
                    return divergence::broken(state, &shape, &text);
                }
                if let Some(status) = status {
                    // SAFETY: as above.
                    unsafe { item.status.write(&state.mpi, status) };
                }
            }
            code
        }
    }
}

/// A call on a request that `of` returned fails; both are named.
pub(crate) fn refuse_on(state: &mut LogState, call: Call, of: Call) -> c_int {
    let part = state.recording.parts.innermost().unwrap_or_default();
    let text = format!(
        "{} cannot be called inside part {part} on a request of {}: it cannot be replayed",
        call.0, of.0
    );
    refuse::fail(&state.mpi, 0, &text)
}

/// A call that cannot be replayed fails with its name.
pub(crate) fn refuse(call: Call, comm: usize) -> c_int {
    with(|state| {
        let part = state.recording.parts.innermost().unwrap_or_default();
        let text = format!("{} cannot be called inside part {part}: it cannot be replayed", call.0);
        let comm = state.mpi.abi.truncate(comm);
        refuse::fail(&state.mpi, comm, &text)
    })
}
