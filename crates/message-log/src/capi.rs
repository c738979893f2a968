//! `VELOC_Part_*`: the C interface of parts.

#![allow(non_snake_case)] // C's names.

use std::ffi::{c_char, c_int};

use message_log_core::memory::NoMemory;
use message_log_core::parts::{self, Fault, Instance, Source};

use crate::calls::resending;
use crate::deferred::HandleKind;
use crate::device;
use crate::divergence;
use crate::entry;
use crate::interposition;
use crate::refuse;
use crate::resend::part_order::PartEvent;
use crate::state::LogState;

/// The call succeeded; as in `veloc/defs.h`.
const VELOC_SUCCESS: c_int = 0;

/// The call failed, and changed nothing; as in `veloc/defs.h`.
const VELOC_FAILURE: c_int = -1;

/// Messages of the part may be sent again instead of logged: those that one process sends and another
/// receives inside it, if the part turns out to be right-tight, which means that nothing in it waits for what
/// comes after it. All processes of `MPI_COMM_WORLD` must begin, end and replay such parts in the same order.
/// The first run decides which messages are sent again: a part that is first begun in the replay of another
/// is logged. The environment variable `VELOC_MPI_STREAMS` is the number of streams of messages (by
/// communicator, other process and tag) that each process can report to the others; a part with more is
/// logged. 64 by default, 2047 at most, 0: no messages are sent again.
pub const VELOC_PART_RESEND: c_int = 1;

/// The log is kept after a replay, for further ones, until `VELOC_Part_free`.
pub const VELOC_PART_KEEP: c_int = 2;

const _: () = assert!(VELOC_PART_RESEND == parts::RESEND && VELOC_PART_KEEP == parts::KEEP);

/// Begins to log a part of the program: what its MPI calls receive is kept, so that the part can be replayed.
/// Parts may be nested to any depth.
///
/// Error handlers and other callbacks that MPI calls must return, or end the job. If one leaves its call by
/// `longjmp` or an exception, all later MPI calls are passed through, nothing is logged or replayed any more,
/// and the functions for parts fail.
///
/// With the environment variable `VELOC_MPI_COMPARE` = 1, a hash of what each call sends is logged, and a replay that
/// sends other bytes fails, because other processes have answered what was sent in the first run. The hash leaves out
/// what `MPI_Reduce_scatter_block`, `MPI_Neighbor_alltoall` and calls with counts for each process send, and what
/// `MPI_IN_PLACE` stands for outside of reductions.
///
/// @param id the part's number; the same part may be logged many times, and is then replayed in reverse order
/// @param flags `VELOC_PART_RESEND` and `VELOC_PART_KEEP`, or 0
/// @return `VELOC_SUCCESS` or `VELOC_FAILURE`: MPI is not running, or was initialised with
/// `MPI_THREAD_MULTIPLE`; the program's calls do not reach this library, which is linked after MPI, or a
/// Fortran interface of MPI was loaded after `MPI_Init`; unknown flags; the environment variable
/// `VELOC_MPI_LOG_MEMORY`, the limit of the log's memory, is not a number of bytes
#[no_mangle]
pub extern "C" fn VELOC_Part_begin(id: c_int, flags: c_int) -> c_int {
    on_parts("VELOC_Part_begin", |state| {
        interposition::check().map_err(Fault::Text)?;
        device::get_or_find().map_err(Fault::Text)?;
        state.recording.check_limit().map_err(Fault::Text)?;
        let is_first = state.recording.parts.open().source() != Some(Source::Log);
        state.recording.parts.begin(id, flags)?;
        if flags & VELOC_PART_RESEND != 0 && is_first {
            resending::no_resend(state);
            if let Some(streams) = state.counting.streams() {
                state.recording.parts.mark(streams.begin());
            }
            state.take_verdicts(false);
        }
        Ok(())
    })
}

/// Ends the logging of a part.
///
/// @param id the innermost open part, which `VELOC_Part_begin` began
/// @return `VELOC_SUCCESS` or `VELOC_FAILURE`: it is not the innermost open part
#[no_mangle]
pub extern "C" fn VELOC_Part_end(id: c_int) -> c_int {
    on_parts("VELOC_Part_end", |state| {
        let marked = state.recording.parts.marked();
        state.recording.parts.end(id)?;
        if let Some(marked) = marked {
            // The report contains what is known by now.
            state.take_verdicts(false);
            if let Some(resend) = &mut state.resend {
                resend.ended(&state.mpi, &mut state.counting, marked, id);
            }
        }
        Ok(())
    })
}

/// Begins to replay the last logged run of a part that was not replayed yet, or the last run of all with
/// `VELOC_PART_KEEP`. Until `VELOC_Part_replay_end`, MPI calls send nothing and return what they returned in
/// that run. They have to be the same calls in the same order, with the same communicators, peers, tags and
/// counts. What a request receives belongs to the call that completes it: if that call came after the end of
/// the part, the replay receives nothing, and a wait for the request after the replay succeeds at once.
///
/// @param id the part
/// @return `VELOC_SUCCESS` or `VELOC_FAILURE`: no run of it is logged; there was no memory for what it received; or,
/// with `VELOC_PART_RESEND`, other processes have ended or replay another part instead, have called `MPI_Finalize`,
/// or were restarted from another checkpoint. If the library finds that out later, a call inside the replay that
/// waits for a message of theirs fails. A run that cannot be replayed is kept until `VELOC_Part_free`.
#[no_mangle]
pub extern "C" fn VELOC_Part_replay_begin(id: c_int) -> c_int {
    on_parts("VELOC_Part_replay_begin", |state| {
        device::get_or_find().map_err(Fault::Text)?;
        if let Some(resend) = &state.resend {
            let waits = resend.awaits_parts()
                || resend.judge.verdicts.is_open()
                    && is_closed(state.recording.parts.replayable(id));
            state.take_verdicts(waits);
        }
        // All processes decide the same, as they have received the same reports.
        let run = state.recording.parts.replayable(id);
        let (is_closed, flags) = (is_closed(run), run.map_or(0, |run| run.flags));
        if let Some(resend) = state.resend.as_mut().filter(|_| flags & VELOC_PART_RESEND != 0) {
            // The verdict on its messages may never come, or nobody may send them again.
            if resend.awaits_parts() || is_closed {
                if let Some(text) = resend.part_order.difference(&state.mpi) {
                    return Err(Fault::Text(format!("part {id} cannot be replayed: {text}")));
                }
            }
        }
        state.recording.parts.replay_begin(id)?;
        if let Some(resend) = state.resend.as_mut().filter(|_| is_closed) {
            resend.part_order.announce(&state.mpi, PartEvent::Replay(id));
        }
        Ok(())
    })
}

/// Whether the replay of this run sends messages again.
fn is_closed(run: Option<&Instance>) -> bool {
    run.is_some_and(Instance::is_closed)
}

/// Ends a replay. The log of that run is freed, unless the part has `VELOC_PART_KEEP`. A failed replay stays
/// open: all MPI calls in it fail, so that none gets the data of another, until `VELOC_Part_free` abandons
/// it.
///
/// @param id the innermost open part, which `VELOC_Part_replay_begin` began
/// @return `VELOC_SUCCESS` or `VELOC_FAILURE`: it is not the innermost open part, a call of it
/// differed from the logged one, or calls are missing
#[no_mangle]
pub extern "C" fn VELOC_Part_replay_end(id: c_int) -> c_int {
    on_parts("VELOC_Part_replay_end", |state| state.recording.parts.replay_end(id))
}

/// Frees the log of all runs of a part, and abandons the part if it is the innermost open one.
///
/// @param id the part
/// @return `VELOC_SUCCESS` or `VELOC_FAILURE`: nothing of it is logged, or other parts are open inside it
#[no_mangle]
pub extern "C" fn VELOC_Part_free(id: c_int) -> c_int {
    on_parts("VELOC_Part_free", |state| {
        let marked = state.recording.parts.marked();
        state.recording.parts.free(id)?;
        // The innermost open part was abandoned if its instance is gone.
        if let (Some((instance, _)), Some(streams)) = (marked, state.counting.streams()) {
            if state.recording.parts.marked().is_none_or(|(inner, _)| inner != instance) {
                streams.forget();
            }
        }
        Ok(())
    })
}

/// Why the calling thread's last call on parts, or last MPI call inside one, failed.
///
/// @return a text, valid until the thread's next failure; empty if there was none. Call it in a statement of
/// its own: as an argument beside another call on parts, C may evaluate it first.
#[no_mangle]
pub extern "C" fn VELOC_Part_error() -> *const c_char {
    refuse::last()
}

/// What the log holds. New fields are added at the end only.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types)]
pub struct VELOC_Part_figures {
    /// Bytes received that are in the log now.
    pub logged: u64,
    /// The most bytes that were in the log at once.
    pub peak: u64,
    /// Bytes that were dropped because their messages are sent again.
    pub dropped: u64,
    /// Bytes of messages that were sent again.
    pub resent: u64,
    /// Calls that are logged now, equal polls counted as one; each of several requests that one MPI_Startall
    /// starts counts as another.
    pub events: u64,
    /// Runs of parts that are logged or being logged.
    pub parts: u64,
    /// Logged bytes in this library's memory (`VELOC_MPI_LOG_MEMORY`).
    pub memory: u64,
    /// The other logged bytes, which are in files in the scratch directory of the job.
    pub stored: u64,
}

/// Reads what the log holds.
///
/// @param figures where they are written
/// @param size `sizeof(VELOC_Part_figures)`, so that the struct can grow
/// @return `VELOC_SUCCESS` or `VELOC_FAILURE`: a null pointer, MPI is not running, or several threads may
/// call it at a time
///
/// # Safety
/// `figures` is null or has room for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Part_get_figures(
    figures: *mut VELOC_Part_figures,
    size: usize,
) -> c_int {
    const CALL: &str = "VELOC_Part_get_figures";
    if figures.is_null() {
        return fail(CALL, "the pointer for the figures is null");
    }
    let read = entry::with(|state| {
        let log = state.recording.parts.log();
        VELOC_Part_figures {
            logged: log.figures().bytes,
            peak: log.figures().peak,
            dropped: state.resend.as_ref().map_or(0, |resend| resend.judge.dropped),
            resent: state.resend.as_ref().map_or(0, |resend| resend.judge.resent),
            events: log.len() as u64,
            parts: state.recording.parts.instances().count() as u64,
            memory: log.figures().bytes.saturating_sub(state.recording.arena.in_files()),
            stored: state.recording.arena.in_files(),
        }
    });
    match read {
        Ok(read) => {
            let len = size.min(size_of::<VELOC_Part_figures>());
            // SAFETY: by the caller's promise, and no longer than what was read.
            unsafe {
                std::ptr::copy_nonoverlapping((&raw const read).cast(), figures.cast::<u8>(), len)
            };
            VELOC_SUCCESS
        }
        Err(text) => fail(CALL, &text),
    }
}

/// Runs a call on the parts.
fn on_parts(call: &str, body: impl FnOnce(&mut LogState) -> Result<(), Fault>) -> c_int {
    let done = entry::with(|state| {
        let known = state.tracked.requests.expand_all();
        known.map_err(|NoMemory| "there is no memory to track the active requests".to_owned())?;
        if let Some(resend) = &mut state.resend {
            resend.report_origin(&state.mpi);
        }
        let replayed = state.recording.parts.open().replayed();
        let done = body(state);
        if let Some(ended) =
            replayed.filter(|number| !state.recording.parts.open().is_replayed(*number))
        {
            state.tracked.replay_ended(ended);
        }
        release(state);
        done.map_err(|fault| match fault {
            Fault::Text(text) => text,
            Fault::Early { part, made, logged } => {
                let text = format!(
                    "the replay of part {part} ends too early: {} was not called again ({made} \
                     calls before it were)",
                    divergence::describe(state, &logged)
                );
                // Later calls do not belong to the part and must not get its logged results.
                state.recording.parts.break_off(&text);
                text
            }
        })
    });
    match done {
        Ok(Ok(())) => VELOC_SUCCESS,
        Ok(Err(text)) => fail(call, &text),
        Err(text) => fail(call, &text),
    }
}

/// Frees the objects that no part needs any more.
fn release(state: &mut LogState) {
    // Finding the oldest instance takes time linear in their number, which may be large. The first one is
    // rarely younger.
    if !state.objects.is_due(state.recording.parts.instances().first()) {
        return;
    }
    for (kind, handle) in state.objects.free(&state.mpi, state.recording.parts.instances().oldest())
    {
        match kind {
            HandleKind::Type => state.objects.types.forget(handle),
            HandleKind::Request => drop(state.tracked.forget_request(handle, std::ptr::null_mut())),
            HandleKind::Comm => state.forget_comm(handle),
        }
    }
}

/// Prints and keeps the reason why a call failed.
pub fn fail(call: &str, why: &str) -> c_int {
    let text = format!("{call}: {why}");
    match entry::with(|state| refuse::print(&state.mpi, &text)) {
        Ok(()) => {}
        Err(_) => refuse::print_without_rank(&text),
    }
    refuse::keep(&text);
    VELOC_FAILURE
}
