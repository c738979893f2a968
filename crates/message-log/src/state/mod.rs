//! The library's state in a process, and which thread may use it.
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

use crate::calls::{deferred_free, sent, At};
use crate::comm_names::Names;
use crate::deferred::Deferred;
use crate::guard;
use crate::log::{Arena, Limit};
use crate::messages::Messages;
use crate::mpi::Mpi;
use crate::parts::{Parts, Source};
use crate::refuse;
use crate::request_pool::Pool;
use crate::requests::Requests;
use crate::resend::Resend;
use crate::scratch;
use crate::stand_ins::StandIns;
use crate::store::Store;
use crate::types::Types;

pub(crate) use passthrough::{pass_through, with_state};

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

/// The whole state.
#[derive(Debug)]
pub(crate) struct State {
    /// The MPI library.
    pub mpi: Mpi,
    /// The parts and their log.
    pub parts: Parts,
    /// The memory of payloads.
    pub arena: Arena,
    /// The application's requests.
    pub requests: Requests,
    /// Messages of matched probes.
    pub messages: Messages,
    /// The datatypes in use.
    pub types: Types,
    /// The requests that replays return.
    pub pool: Pool,
    /// Objects that are freed and that replays still need.
    pub deferred: Deferred,
    /// Freed communicators that represent others in replays.
    pub stand_ins: StandIns,
    /// Descriptions of communicators for errors.
    pub names: Names,
    /// The state for sending messages again, if possible.
    pub resend: Option<Resend>,
    /// Whether the warning that it is impossible was printed.
    pub is_resend_missed: bool,
    /// Received data that could not be logged: the communicator, and the message.
    pub lost: Option<(usize, String)>,
    /// The message of a call that has panicked: the state may be inconsistent, and is not used any more.
    failed: Option<String>,
    /// The state for continuing in another process.
    pub store: Store,
    /// Why the log's memory limit is invalid.
    pub unlimited: Option<String>,
    /// Whether replays compare what they send.
    pub compares_sent: bool,
}

impl State {
    fn new(mpi: Mpi) -> State {
        let (arena, unlimited) = match Limit::wanted() {
            Ok(limit) => (Arena::within(limit, scratch::make_file), None),
            Err(text) => (Arena::default(), Some(text)),
        };
        State {
            mpi,
            parts: Parts::default(),
            arena,
            requests: Requests::default(),
            messages: Messages::default(),
            types: Types::new(&mpi),
            pool: Pool::default(),
            deferred: Deferred::default(),
            stand_ins: StandIns::default(),
            names: Names::default(),
            resend: None,
            is_resend_missed: false,
            lost: None,
            failed: None,
            store: Store::default(),
            unlimited,
            compares_sent: sent::compares(&mpi),
        }
    }
}

struct Cell(UnsafeCell<Option<State>>);

// SAFETY: only `with` below uses the content, from one thread at a time: `Mpi::find` has checked that the
// thread level excludes simultaneous MPI calls, and `VELOC_Part_*` may only be called like those.
unsafe impl Sync for Cell {}

static STATE: Cell = Cell(UnsafeCell::new(None));

/// Runs `body` on the state.
///
/// # Errors
/// MPI is missing, not running, or used by several threads at a time; the call comes from inside an MPI
/// call; `body` panics, or a call has panicked before.
pub(crate) fn with<T>(body: impl FnOnce(&mut State) -> T) -> Result<T, String> {
    run(|state| Ok(body(state)), Err)
}

/// Runs an MPI call on the state, and returns its result. If that is impossible, the call fails.
#[inline]
pub(crate) fn call(body: impl FnOnce(&mut State) -> c_int) -> c_int {
    run(body, |text| fail(&text))
}

#[inline(always)]
fn run<T>(body: impl FnOnce(&mut State) -> T, failed: impl FnOnce(String) -> T) -> T {
    if !matches!(phase(), OUTSIDE | INSIDE) {
        if let Err(text) = prepare() {
            return failed(text);
        }
    }
    // SAFETY: one thread at a time is here (see `Cell`), and not recursively: the phase was not BUSY.
    let Some(state) = (unsafe { &mut *STATE.0.get() }) else {
        return failed("there is no state".into());
    };
    begin_busy();
    match guard::caught(|| completely(state, body)) {
        Ok(result) => {
            let after = if state.parts.is_any_open() { INSIDE } else { OUTSIDE };
            PHASE.store(after, Ordering::Relaxed);
            result
        }
        Err(panic) => {
            let text = panic.text();
            give_up(state, &text);
            failed(text)
        }
    }
}

/// Runs `body`, and then the frees that were deferred meanwhile.
#[inline(always)]
fn completely<T>(state: &mut State, body: impl FnOnce(&mut State) -> T) -> T {
    let result = body(state);
    if deferred_free::is_pending() {
        state.run_deferred_frees();
    }
    result
}

/// Creates the state, if MPI is initialised and nothing prevents it.
#[cold]
fn prepare() -> Result<(), String> {
    if phase() == BUSY {
        return Err(WITHIN.into());
    }
    // SAFETY: see `Cell`; nothing uses the state now, or the phase would be BUSY.
    let state = unsafe { &mut *STATE.0.get() };
    if let Some(State { failed: Some(text), .. }) = state {
        return Err(text.clone());
    }
    // Prints the reason.
    let mpi = guard::caught(Mpi::find).map_err(|panic| panic.text())??;
    *state = Some(State::new(mpi));
    Ok(())
}

/// Marks the state as unusable after a panic.
#[cold]
fn give_up(state: &mut State, text: &str) {
    state.failed = Some(text.into());
    let after = match state.parts.source() {
        // A broken replay must not send anything.
        Some(Source::Log) => FAILED,
        Some(Source::Mpi) => LOST,
        None if state.parts.now() > 0 => LOST,
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
            if state.parts.is_any_open() {
                let part = state.parts.innermost().unwrap_or_default();
                refuse::warn(&state.mpi, &format!("MPI_Finalize while part {part} is open"));
            }
            if let Some(mut resend) = state.resend.take() {
                resend.finish(&state.mpi);
            }
            state.parts.clear();
            state.requests.clear();
            state.types.clear();
            state.pool.clear(&state.mpi);
            state.deferred.free(&state.mpi, None);
            state.stand_ins.free(&state.mpi, None);
        });
    }
    PHASE.store(DISABLED, Ordering::Relaxed);
}

#[cfg(test)]
pub(crate) mod tests {
    use mpi_abi::Abi;

    use super::*;

    /// A fake MPI.
    pub(crate) fn mpi() -> Mpi {
        let abi = Abi::Mpich;
        Mpi {
            abi,
            numbers: abi.numbers(),
            status: abi.status(),
            comm_null: 0,
            comm_world: 1,
            comm_self: 2,
            request_null: 3,
            message_null: 4,
            message_no_proc: 5,
            datatype_null: 6,
            byte: 7,
            int64: 8,
            min: 9,
            rank: 0,
            bytes_at: None,
        }
    }

    fn begin(body: impl FnOnce(&mut State)) {
        let mut state = State::new(mpi());
        body(&mut state);
        PHASE.store(INSIDE, Ordering::Relaxed);
        // SAFETY: no other test uses the state.
        unsafe { *STATE.0.get() = Some(state) };
    }

    /// Catches a panic that reaches C, use of an inconsistent state, messages that are sent in a broken
    /// replay, and a checkpoint that silently lacks the log.
    #[test]
    fn after_a_panic_every_call_fails_or_is_passed_on() {
        begin(|state| {
            state.parts.begin(1, 0).unwrap();
        });
        assert_eq!(call(|_| 7), 7);
        assert_ne!(call(|_| panic!("out of bounds")), 0);
        // The recorded part continues without this library.
        assert_eq!((phase(), at()), (LOST, None));
        assert!(with(|_| ()).is_err_and(|text| text.contains("out of bounds")));
        assert!(crate::store::tests::refusal().is_some_and(|text| text.contains("out of bounds")));

        begin(|state| {
            state.parts.begin(1, 0).unwrap();
            state.parts.end(1).unwrap();
            state.parts.replay_begin(1).unwrap();
        });
        assert_ne!(call(|_| panic!("out of bounds")), 0);
        assert_eq!(at(), Some(At::Inside));
        assert_ne!(call(|_| 0), 0);
        assert!(crate::store::tests::refusal().is_some_and(|text| text.contains("out of bounds")));
        close();
        assert_eq!(phase(), DISABLED);

        begin(|_| ());
        assert_eq!(call(|_| 7), 7);
        assert_eq!(phase(), OUTSIDE);
        assert_ne!(call(|_| panic!("out of bounds")), 0);
        assert_eq!(phase(), DISABLED);
        // Without parts, nothing was lost.
        assert_eq!(crate::store::tests::refusal(), None);
    }
}
