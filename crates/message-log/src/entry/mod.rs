//! How a call gets at the library's state, and which thread may use it.
//!
//! Below `MPI_THREAD_MULTIPLE`, calls come from one thread at a time, and the application makes one's
//! effects visible to the next. So the state needs no lock. While an application call uses it, calls
//! from inside MPI (reduction functions, attribute callbacks, error handlers) see [`BUSY`] and are
//! passed through. If such a function leaves its call by a jump, the phase stays [`BUSY`]: MPI
//! continues, and no part begins, ends or is replayed.

mod passthrough;

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU8, Ordering};

use ::mpi::Library;
use message_log_core::log::Call;
use message_log_core::parts::Source;

use crate::freeing;
use crate::guard;
use crate::mpi::MpiProperties;
use crate::refuse;
use crate::state::LogState;

pub(crate) use passthrough::{pass_through, with_state};

/// Where a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Outside parts. What the call begins or ends is tracked, as parts may need it.
    Outside,
    /// Inside a part.
    Inside,
}

/// Unknown: MPI may not be initialised.
pub(crate) const UNKNOWN: u8 = 0;
/// No part is open.
pub(crate) const OUTSIDE: u8 = 1;
/// A part is open.
pub(crate) const INSIDE: u8 = 2;
/// A call of the application is being handled.
pub(crate) const BUSY: u8 = 3;
/// All calls are passed through from now on: several threads may call at a time, or MPI has ended.
pub(crate) const DISABLED: u8 = 4;
/// A call has panicked, and an open replay cannot continue: all calls fail.
const FAILED: u8 = 5;
/// All calls are passed through from now on, because a call has panicked after parts had begun: their log is
/// lost.
const LOST: u8 = 6;

static PHASE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The error of a call on parts during an MPI call.
const WITHIN: &str =
    "an MPI call is active: this function is called from inside it, or an error handler \
    or another callback has jumped out of it instead of returning";

/// Begins to handle a call.
#[inline(always)]
fn begin_busy() {
    PHASE.store(BUSY, Ordering::Relaxed);
}

/// The current phase.
#[inline(always)]
fn phase() -> u8 {
    PHASE.load(Ordering::Relaxed)
}

/// Where the current call is made. `None`: it must be passed through.
#[inline(always)]
pub(crate) fn at() -> Option<At> {
    match phase() {
        OUTSIDE => Some(At::Outside),
        INSIDE | FAILED => Some(At::Inside),
        UNKNOWN => detect_phase(),
        _ => None,
    }
}

/// Whether no part is open, and the current call is not nested in another.
#[inline(always)]
pub(crate) fn is_outside() -> bool {
    phase() == OUTSIDE
}

/// Whether a part is open, the state is usable, and the current call is not nested in another.
#[inline(always)]
pub(crate) fn is_in_part() -> bool {
    phase() == INSIDE
}

/// Whether the current call is inside a part; faster than [`at`].
#[inline(always)]
pub(crate) fn is_inside() -> bool {
    matches!(phase(), INSIDE | FAILED)
}

/// Whether a call of the application is being handled, so that the current call comes from inside MPI.
pub(crate) fn is_busy() -> bool {
    phase() == BUSY
}

/// Whether no part can be open or logged: MPI is not initialised or has ended, several threads use it,
/// or a call has panicked before the first part.
pub(crate) fn has_no_parts() -> bool {
    matches!(phase(), UNKNOWN | DISABLED)
}

/// The state, and why it is not used any more.
struct KeptState {
    state: LogState,
    /// The message of a call that has panicked: the state may be inconsistent.
    failed: Option<String>,
}

struct StateCell(UnsafeCell<Option<KeptState>>);

// SAFETY: only `with` below uses the content, from one thread at a time: `MpiProperties::find` has checked that the
// thread level excludes simultaneous MPI calls, and `VELOC_Part_*` may only be called like those.
unsafe impl Sync for StateCell {}

static STATE: StateCell = StateCell(UnsafeCell::new(None));

/// Runs `body` on the state.
///
/// # Errors
/// MPI is missing, not running, or used by several threads at a time; the call comes from inside an MPI
/// call; `body` panics, or a call has panicked before.
pub(crate) fn with<T>(body: impl FnOnce(&mut LogState) -> T) -> Result<T, String> {
    run(|state| Ok(body(state)), Err)
}

/// Runs an MPI call on the state, and returns its result. If that is impossible, the call fails.
#[inline]
pub(crate) fn call(body: impl FnOnce(&mut LogState) -> c_int) -> c_int {
    run(body, |text| fail(&text))
}

#[inline(always)]
fn run<T>(body: impl FnOnce(&mut LogState) -> T, failed: impl FnOnce(String) -> T) -> T {
    if !matches!(phase(), OUTSIDE | INSIDE) {
        if let Err(text) = prepare() {
            return failed(text);
        }
    }
    // SAFETY: one thread at a time is here (see `StateCell`), and not recursively: the phase was not BUSY.
    let Some(kept) = (unsafe { &mut *STATE.0.get() }) else {
        return failed("there is no state".into());
    };
    begin_busy();
    match guard::caught(|| completely(&mut kept.state, body)) {
        Ok(result) => {
            let is_inside = kept.state.recording.parts.open().is_any();
            let after = if is_inside { INSIDE } else { OUTSIDE };
            PHASE.store(after, Ordering::Relaxed);
            result
        }
        Err(panic) => {
            let text = panic.text();
            give_up(kept, &text);
            failed(text)
        }
    }
}

/// Runs `body`, and then the frees that were deferred meanwhile.
#[inline(always)]
fn completely<T>(state: &mut LogState, body: impl FnOnce(&mut LogState) -> T) -> T {
    let result = body(state);
    if freeing::is_pending() {
        freeing::run_pending(state);
    }
    result
}

/// Ends a call that returned `code`. The call fails if its data could not be logged.
#[inline(always)]
pub(crate) fn finish_call(state: &mut LogState, code: c_int) -> c_int {
    if state.recording.has_lost() {
        return has_lost(state).unwrap_or(code);
    }
    if state.recording.arena.has_notice() {
        print_notice(state);
    }
    code
}

#[cold]
fn has_lost(state: &mut LogState) -> Option<c_int> {
    let (comm, text) = state.recording.take_lost()?;
    Some(refuse::fail(&state.mpi, comm, &text))
}

/// Prints the notice that the log has reached its memory limit.
#[cold]
fn print_notice(state: &mut LogState) {
    if let Some(text) = state.recording.arena.notice() {
        refuse::warn(&state.mpi, &text);
    }
}

/// Fails a call to a function that the MPI library lacks. Without this library the program would have failed
/// to link or to start.
#[cold]
pub(crate) fn lacking(call: Call) -> c_int {
    let why = match Library::find() {
        Some(_) => "the MPI library has no such function",
        // A linker may drop the MPI library as unneeded, because this library defines all its functions.
        None => "there is no MPI library in this process (linked with --as-needed?)",
    };
    let text = format!("{} cannot be called: {why}", call.0);
    let failed = with(|state| refuse::fail(&state.mpi, 0, &text));
    failed.unwrap_or_else(|_| refuse::fail_without_state(&text))
}

/// Creates the state, if MPI is initialised and nothing prevents it.
#[cold]
fn prepare() -> Result<(), String> {
    if phase() == BUSY {
        return Err(WITHIN.into());
    }
    // SAFETY: see `StateCell`; nothing uses the state now, or the phase would be BUSY.
    let kept = unsafe { &mut *STATE.0.get() };
    if let Some(KeptState { failed: Some(text), .. }) = kept {
        return Err(text.clone());
    }
    // Prints the reason.
    let mpi = guard::caught(MpiProperties::find).map_err(|panic| panic.text())??;
    *kept = Some(KeptState { state: LogState::new(mpi), failed: None });
    Ok(())
}

/// Marks the state as unusable after a panic.
#[cold]
fn give_up(kept: &mut KeptState, text: &str) {
    kept.failed = Some(text.into());
    let parts = &kept.state.recording.parts;
    let after = match parts.open().source() {
        // A broken replay must not send anything.
        Some(Source::Log) => FAILED,
        Some(Source::Mpi) => LOST,
        None if parts.instances().now() > 0 => LOST,
        None => DISABLED,
    };
    PHASE.store(after, Ordering::Relaxed);
}

#[cold]
fn fail(text: &str) -> c_int {
    // Calls of the error handler are passed through.
    let before = phase();
    begin_busy();
    let code = refuse::fail_without_state(text);
    PHASE.store(before, Ordering::Relaxed);
    code
}

/// Determines the phase when it is unknown: once MPI is initialised.
#[cold]
fn detect_phase() -> Option<At> {
    let (mut initialized, is_there) = (0, crate::pmpi::exists(c"PMPI_Initialized"));
    if is_there {
        // SAFETY: an integer of ours; the function may be called at any time.
        unsafe { crate::pmpi::initialized(&mut initialized) };
    }
    if initialized != 0 && with(|_| ()).is_err() {
        PHASE.store(DISABLED, Ordering::Relaxed);
    }
    (phase() == OUTSIDE).then_some(At::Outside)
}

/// Before MPI ends: frees its objects, and passes all later calls through.
pub(crate) fn close() {
    let phase = phase();
    if phase == INSIDE || phase == OUTSIDE {
        // An invalid state needs no closing.
        let _ = with(|state| {
            let parts = &mut state.recording.parts;
            if parts.open().is_any() {
                let part = parts.innermost().unwrap_or_default();
                refuse::warn(&state.mpi, &format!("MPI_Finalize while part {part} is open"));
            }
            if let Some(mut resend) = state.resend.take() {
                resend.finish(&state.mpi);
            }
            state.recording.parts.clear();
            state.tracked.close(&state.mpi);
            state.objects.close(&state.mpi);
        });
    }
    PHASE.store(DISABLED, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::tests::mpi;

    fn begin(body: impl FnOnce(&mut LogState)) {
        let mut state = LogState::new(mpi());
        body(&mut state);
        PHASE.store(INSIDE, Ordering::Relaxed);
        // SAFETY: no other test uses the state.
        unsafe { *STATE.0.get() = Some(KeptState { state, failed: None }) };
    }

    /// Catches a panic that reaches C, use of an inconsistent state, messages that are sent in a broken
    /// replay, and a checkpoint that silently lacks the log.
    #[test]
    fn after_a_panic_every_call_fails_or_is_passed_on() {
        begin(|state| {
            state.recording.parts.begin(1, 0).unwrap();
        });
        assert_eq!(call(|_| 7), 7);
        assert_ne!(call(|_| panic!("out of bounds")), 0);
        // The recorded part continues without this library.
        assert_eq!((phase(), at()), (LOST, None));
        assert!(with(|_| ()).is_err_and(|text| text.contains("out of bounds")));
        assert!(crate::store::refusal().is_some_and(|text| text.contains("out of bounds")));

        begin(|state| {
            state.recording.parts.begin(1, 0).unwrap();
            state.recording.parts.end(1).unwrap();
            state.recording.parts.replay_begin(1).unwrap();
        });
        assert_ne!(call(|_| panic!("out of bounds")), 0);
        assert_eq!(at(), Some(At::Inside));
        assert_ne!(call(|_| 0), 0);
        assert!(crate::store::refusal().is_some_and(|text| text.contains("out of bounds")));
        close();
        assert_eq!(phase(), DISABLED);

        begin(|_| ());
        assert_eq!(call(|_| 7), 7);
        assert_eq!(phase(), OUTSIDE);
        assert_ne!(call(|_| panic!("out of bounds")), 0);
        assert_eq!(phase(), DISABLED);
        // Without parts, nothing was lost.
        assert_eq!(crate::store::refusal(), None);
    }
}
