//! `VELOC_Part_*`: the C interface of parts.

#![allow(non_snake_case)] // C's names.

use std::ffi::{c_char, c_int};

use crate::deferred::Kind;
use crate::device;
use crate::divergence;
use crate::interposition;
use crate::memory::NoMemory;
use crate::parts::{self, Fault, Source};
use crate::refuse;
use crate::resend::part_order::PartEvent;
use crate::state::{self, State};

/// The call did what it says; as in `veloc/defs.h`.
const VELOC_SUCCESS: c_int = 0;

/// The call failed, and changed nothing; as in `veloc/defs.h`.
const VELOC_FAILURE: c_int = -1;

/// Messages of the part may be sent again instead of kept: those that one process sends and another
/// receives inside it, if the part turns out to be right-tight, which means that nothing in it waits
/// for what is behind it. All processes of `MPI_COMM_WORLD` must begin, end and replay such parts in
/// the same order. Which messages, is decided by the first run: a part that is first begun in the
/// replay of another is logged. The environment variable `VELOC_MPI_STREAMS` says of how many streams
/// of messages (by communicator, other process and tag) each process can tell the others; a part with
/// more is logged. 64 by default, 2047 at the most, 0: nothing is sent again.
pub const VELOC_PART_RESEND: c_int = 1;

/// The log stays after a replay, for further ones, until `VELOC_Part_free`.
pub const VELOC_PART_KEEP: c_int = 2;

const _: () = assert!(VELOC_PART_RESEND == parts::RESEND && VELOC_PART_KEEP == parts::KEEP);

/// Begins to log a part of the program: what its calls of MPI receive is kept, so that the part can
/// be replayed. Parts may be nested to any depth.
///
/// Error handlers and other functions that MPI calls for the program return, or end the job: if one leaves
/// its call by `longjmp` or an exception, calls of MPI are passed on from then on, nothing is logged or
/// replayed any more, and the functions for parts fail.
///
/// @param id what the part is called; the same part may be logged many times, and is then replayed
/// in reverse order
/// @param flags `VELOC_PART_RESEND` and `VELOC_PART_KEEP`, or 0
/// @return `VELOC_SUCCESS` or `VELOC_FAILURE`: MPI is not running, or initialised with
/// `MPI_THREAD_MULTIPLE`; the program's calls do not come to this library, which is linked behind MPI,
/// or an interface of MPI for Fortran was loaded after `MPI_Init`; unknown flags; the environment
/// variable `VELOC_MPI_LOG_MEMORY`, the memory that the log may have, is no number of bytes
#[no_mangle]
pub extern "C" fn VELOC_Part_begin(id: c_int, flags: c_int) -> c_int {
    on_parts("VELOC_Part_begin", |state| {
        interposition::check().map_err(Fault::Text)?;
        device::get_or_find().map_err(Fault::Text)?;
        if let Some(text) = &state.unlimited {
            return Err(Fault::Text(text.clone()));
        }
        let is_first = state.parts.source() != Some(Source::Log);
        state.parts.begin(id, flags)?;
        if flags & VELOC_PART_RESEND != 0 && is_first {
            state.no_resend();
            if let Some(resend) = &mut state.resend {
                let mark = resend.streams.begin();
                state.parts.mark(mark);
                resend.hear(&state.mpi, &mut state.parts, false);
            }
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
        let marked = state.parts.marked();
        state.parts.end(id)?;
        if let (Some((instance, mark)), Some(resend)) = (marked, &mut state.resend) {
            // What is heard before is what the report says.
            resend.hear(&state.mpi, &mut state.parts, false);
            resend.ended(&state.mpi, instance, id, mark);
        }
        Ok(())
    })
}

/// Begins to replay the last run of a part that is logged, which is one that was not replayed, or the
/// last one of all with `VELOC_PART_KEEP`: until `VELOC_Part_replay_end`, calls of MPI send nothing, and
/// give what they gave then. They have to be the same calls in the same order, with the same
/// communicators, peers, tags and counts. What a request receives belongs to the call that completes it:
/// if that was behind the end of the part, the replay gives the request nothing, and a wait for it
/// behind the replay succeeds at once.
///
/// @param id the part
/// @return `VELOC_SUCCESS` or `VELOC_FAILURE`: no run of it is logged; there was no memory for what it
/// has received; or, with `VELOC_PART_RESEND`, other processes have ended or replay another part instead,
/// have called `MPI_Finalize`, or go on from another checkpoint; where that is known later, a call inside the
/// replay fails that waits for a message of theirs. A run that cannot be replayed stays until `VELOC_Part_free`.
#[no_mangle]
pub extern "C" fn VELOC_Part_replay_begin(id: c_int) -> c_int {
    on_parts("VELOC_Part_replay_begin", |state| {
        device::get_or_find().map_err(Fault::Text)?;
        if let Some(resend) = &mut state.resend {
            let waits =
                resend.awaits_parts() || resend.verdicts.is_open() && state.parts.is_closed(id);
            resend.hear(&state.mpi, &mut state.parts, waits);
        }
        // Alike on all processes, as they have heard the same.
        let is_closed = state.parts.is_closed(id);
        let flags = state.parts.flags_of_replay(id);
        if let Some(resend) = state.resend.as_mut().filter(|_| flags & VELOC_PART_RESEND != 0) {
            // What becomes of its messages may never be known, or they may never come again.
            if resend.awaits_parts() || is_closed {
                if let Some(text) = resend.part_order.difference(&state.mpi) {
                    return Err(Fault::Text(format!("part {id} cannot be replayed: {text}")));
                }
            }
        }
        state.parts.replay_begin(id)?;
        if let Some(resend) = state.resend.as_mut().filter(|_| is_closed) {
            resend.part_order.announce(&state.mpi, PartEvent::Replay(id));
        }
        Ok(())
    })
}

/// Ends a replay. The log of that run goes, unless the part has `VELOC_PART_KEEP`. A replay that has gone
/// wrong stays open: all calls of MPI's fail in it, so that none gets what is not its own, until
/// `VELOC_Part_free` gives it up.
///
/// @param id the innermost open part, which `VELOC_Part_replay_begin` began
/// @return `VELOC_SUCCESS` or `VELOC_FAILURE`: it is not the innermost open part, a call of it
/// differed from the logged one, or calls are missing
#[no_mangle]
pub extern "C" fn VELOC_Part_replay_end(id: c_int) -> c_int {
    on_parts("VELOC_Part_replay_end", |state| state.parts.replay_end(id))
}

/// Drops what is logged of all runs of a part, and gives the part up if it is the innermost open
/// one.
///
/// @param id the part
/// @return `VELOC_SUCCESS` or `VELOC_FAILURE`: nothing of it is logged, or others are open inside it
#[no_mangle]
pub extern "C" fn VELOC_Part_free(id: c_int) -> c_int {
    on_parts("VELOC_Part_free", |state| {
        let marked = state.parts.marked();
        state.parts.free(id)?;
        // The innermost open part was given up, if its instance is gone.
        if let (Some((instance, _)), Some(resend)) = (marked, &mut state.resend) {
            if state.parts.marked().is_none_or(|(inner, _)| inner != instance) {
                resend.streams.forget();
            }
        }
        Ok(())
    })
}

/// Why the calling thread's last call on parts, or last call of MPI's inside one, failed.
///
/// @return a text, valid until the thread's next failure; empty if there was none. Ask in a statement of
/// its own: beside another call on parts in one list of arguments, C may evaluate this one first.
#[no_mangle]
pub extern "C" fn VELOC_Part_error() -> *const c_char {
    refuse::last()
}

/// What the log holds. Grows at its end only.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types)]
pub struct VELOC_Part_figures {
    /// Bytes received that are kept now.
    pub logged: u64,
    /// The most bytes that were kept at once.
    pub peak: u64,
    /// Bytes that were given up because their messages are sent again.
    pub dropped: u64,
    /// Bytes that were sent again.
    pub resent: u64,
    /// Calls that are kept now, equal polls counted as one; each of several requests that
    /// MPI_Startall starts is another.
    pub events: u64,
    /// Runs of parts that are logged or being logged.
    pub parts: u64,
    /// Of the bytes that are kept, those in this library's memory (`VELOC_MPI_LOG_MEMORY`).
    pub memory: u64,
    /// The others, which are in files in the scratch directory of the job.
    pub stored: u64,
}

/// Reads what the log holds.
///
/// @param figures where it is written
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
        return fail(CALL, "no place for the figures");
    }
    let read = state::with(|state| {
        let log = state.parts.log();
        VELOC_Part_figures {
            logged: log.figures().bytes,
            peak: log.figures().peak,
            dropped: state.resend.as_ref().map_or(0, |resend| resend.dropped),
            resent: state.resend.as_ref().map_or(0, |resend| resend.resent),
            events: log.len() as u64,
            parts: state.parts.live() as u64,
            memory: log.figures().bytes.saturating_sub(state.arena.in_files()),
            stored: state.arena.in_files(),
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
fn on_parts(call: &str, body: impl FnOnce(&mut State) -> Result<(), Fault>) -> c_int {
    let done = state::with(|state| {
        let known = state.requests.know_all();
        known.map_err(|NoMemory| "there is no memory to note the requests under way".to_owned())?;
        if let Some(resend) = &mut state.resend {
            resend.tell_origin(&state.mpi);
        }
        let replayed = state.parts.replayed();
        let done = body(state);
        if let Some(ended) = replayed.filter(|number| !state.parts.is_replayed(*number)) {
            state.replay_ended(ended);
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
                // What is called next is not of the part, and must not get what is logged.
                state.parts.break_off(&text);
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

/// Frees what no part needs any more.
fn release(state: &mut State) {
    // To find the oldest takes as long as there are instances, and there may be many. The first one
    // is hardly ever younger.
    let first = state.parts.first();
    if !state.deferred.is_due(first) && !state.stand_ins.is_due(first) {
        return;
    }
    let oldest = state.parts.oldest();
    for handle in state.stand_ins.free(&state.mpi, oldest) {
        state.comm_gone(handle);
    }
    for (kind, handle) in state.deferred.free(&state.mpi, oldest) {
        match kind {
            Kind::Type => state.types.forget(handle),
            Kind::Request => drop(state.gone(handle, std::ptr::null_mut())),
            Kind::Comm => state.comm_gone(handle),
        }
    }
}

/// Says and keeps why a call failed.
pub fn fail(call: &str, why: &str) -> c_int {
    let text = format!("{call}: {why}");
    match state::with(|state| refuse::say(&state.mpi, &text)) {
        Ok(()) => {}
        Err(_) => refuse::say_anonymously(&text),
    }
    refuse::keep(&text);
    VELOC_FAILURE
}
