//! A replay that differs from the first run: the error message, and how the replay ends.

use std::ffi::c_int;

use message_log_core::log::CallShape;
use message_log_core::parts::{Divergence, Replaying};

use crate::refuse;
use crate::state::LogState;

/// Reports both calls, abandons the replay, and calls the error handler. Returns the call's result.
pub(crate) fn stop(state: &mut LogState, called: &CallShape, divergence: &Divergence) -> c_int {
    if let Some(earlier) = &divergence.earlier {
        return refuse::fail_again(&state.mpi, called.comm, earlier);
    }
    let logged = match &divergence.logged {
        None => "the part had ended".to_owned(),
        Some(logged) if CallShape { sum: called.sum, ..*logged } == *called => {
            "which has sent other bytes then (VELOC_MPI_COMPARE)".to_owned()
        }
        Some(logged) => format!("it was {}", half_or_all(state, logged)),
    };
    let text = format!(
        "the replay of part {} does not do what its first run did: call {} is {}, {logged}",
        divergence.part,
        divergence.place + 1,
        half_or_all(state, called),
    );
    broken(state, called, &text)
}

/// Abandons the replay for this difference, and calls the error handler. Returns the call's result.
pub(crate) fn broken(state: &mut LogState, called: &CallShape, text: &str) -> c_int {
    state.recording.parts.break_off(text);
    refuse::fail(&state.mpi, called.comm, text)
}

/// A call that uses another object than in the first run, identified by the operations that made them;
/// 0: unknown.
#[cold]
pub(crate) fn other(
    state: &LogState,
    shape: &CallShape,
    what: &str,
    now: u64,
    then: u64,
) -> String {
    let replaying = state.recording.parts.replaying();
    let (part, place) = replaying.map(|replaying| replaying.place()).unwrap_or_default();
    let giver = |began| match replaying.and_then(|replaying| replaying.beginner(began)) {
        Some((place, shape)) => format!("call {}, {}", place + 1, describe(state, &shape)),
        None => "a call before the part".to_owned(),
    };
    format!(
        "the replay of part {part} does not do what its first run did: call {} is {} of {what} that {} \
         has given, it was of that of {}",
        place + 1,
        describe(state, shape),
        giver(now),
        giver(then)
    )
}

/// Describes the next call of the replay, and which half of a combined send and receive it is: those
/// count as two calls in a row.
fn half_or_all(state: &LogState, shape: &CallShape) -> String {
    let has_halves = |shape: &CallShape| {
        shape.call.0.starts_with("MPI_Sendrecv") || shape.call.0.starts_with("MPI_Isendrecv")
    };
    let all = describe(state, shape);
    let before = |replaying: Replaying<'_>| replaying.run_before(has_halves);
    let before = || state.recording.parts.replaying().map_or(0, before);
    match has_halves(shape).then(|| before() % 2) {
        None => all,
        Some(0) => format!("the send of {all}"),
        Some(_) => format!("the receive of {all}"),
    }
}

/// Describes a call: its name, and the communicator, peer, tag and count that it has.
pub(crate) fn describe(state: &LogState, shape: &CallShape) -> String {
    let numbers = &state.mpi.numbers;
    let mut parts = Vec::new();
    if shape.comm != 0 {
        parts.push(state.objects.names.describe(&state.mpi, shape.comm));
    }
    match shape.peer {
        None => {}
        Some(peer) if peer == numbers.any_source => parts.push("peer MPI_ANY_SOURCE".into()),
        Some(peer) if peer == numbers.proc_null => parts.push("peer MPI_PROC_NULL".into()),
        Some(peer) => parts.push(format!("peer {peer}")),
    }
    match shape.tag {
        None => {}
        Some(tag) if tag == numbers.any_tag => parts.push("tag MPI_ANY_TAG".into()),
        Some(tag) => parts.push(format!("tag {tag}")),
    }
    if shape.size != 0 || shape.count != 0 {
        parts.push(match shape.size {
            0 => {
                format!("{} {}", shape.count, if shape.count == 1 { "request" } else { "requests" })
            }
            size => {
                let elements = if shape.count == 1 { "element" } else { "elements" };
                format!("{} {elements} of {size} bytes", shape.count)
            }
        });
    }
    match parts.is_empty() {
        true => shape.call.0.to_owned(),
        false => format!("{}({})", shape.call.0, parts.join(", ")),
    }
}
