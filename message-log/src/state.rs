//! All of this library's state in the process, and who may touch it when.
//!
//! MPI at any level but `MPI_THREAD_MULTIPLE` gets calls from one thread at a time, and what one did
//! is seen by the next: the application sees to that. So the state needs no lock. While a call of
//! the application's has it, calls that come from inside MPI (of reduction functions, callbacks of
//! attributes, error handlers) see [`BUSY`] and are passed on.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::deferred::Deferred;
use crate::log::Arena;
use crate::mpi::Mpi;
use crate::parts::Parts;
use crate::pool::Pool;
use crate::requests::Requests;
use crate::resend::Resend;
use crate::store::Store;
use crate::types::Types;

/// Nothing is known yet: MPI may not be initialised.
pub const UNKNOWN: u8 = 0;
/// No part is open.
pub const OUTSIDE: u8 = 1;
/// A part is open.
pub const INSIDE: u8 = 2;
/// A call of the application's is being worked on.
pub const BUSY: u8 = 3;
/// All calls are passed on for good: several threads may call at a time, or MPI has ended.
pub const ALIEN: u8 = 4;

static PHASE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// How calls are to be taken now.
#[inline(always)]
pub fn phase() -> u8 {
    PHASE.load(Ordering::Relaxed)
}

/// Whether no part can be open or logged: MPI has not begun or has ended, or several threads use it.
pub fn has_no_parts() -> bool {
    matches!(phase(), UNKNOWN | ALIEN)
}

/// Everything.
#[derive(Debug)]
pub struct State {
    /// The MPI library.
    pub mpi: Mpi,
    /// The parts and their log.
    pub parts: Parts,
    /// The memory of the log.
    pub arena: Arena,
    /// What the application has under way.
    pub requests: Requests,
    /// The types it uses.
    pub types: Types,
    /// The requests that replays give out.
    pub pool: Pool,
    /// What it has freed and replays still use.
    pub deferred: Deferred,
    /// What it takes to send messages again, if that can be done.
    pub resend: Option<Resend>,
    /// It was said that it cannot.
    pub is_resend_missed: bool,
    /// What it takes to go on in another process.
    pub store: Store,
}

impl State {
    fn new(mpi: Mpi) -> State {
        State {
            mpi,
            parts: Parts::default(),
            arena: Arena::default(),
            requests: Requests::default(),
            types: Types::default(),
            pool: Pool::default(),
            deferred: Deferred::default(),
            resend: None,
            is_resend_missed: false,
            store: Store::default(),
        }
    }
}

struct Cell(UnsafeCell<Option<State>>);

// SAFETY: only `with` below reaches the content, from one thread at a time: MPI calls come from one
// thread at a time by the thread level that `Mpi::find` has checked, and so do calls of
// `VELOC_Part_*`, which belong between them.
unsafe impl Sync for Cell {}

static STATE: Cell = Cell(UnsafeCell::new(None));

/// Runs `body` on the state. `None` in the phases [`BUSY`] and [`ALIEN`], and where MPI cannot be
/// used, with the reason.
///
/// # Errors
/// MPI is not there, not running, or used by several threads at a time.
pub fn with<T>(body: impl FnOnce(&mut State) -> T) -> Result<T, String> {
    let phase = phase();
    if phase == BUSY {
        return Err("it is called from within a call of MPI's".into());
    }
    if phase == UNKNOWN || phase == ALIEN {
        // Says why, or finds that MPI has begun.
        let mpi = Mpi::find()?;
        // SAFETY: as below. No state is in use: the phase would be another.
        unsafe { *STATE.0.get() = Some(State::new(mpi)) };
    }
    PHASE.store(BUSY, Ordering::Relaxed);
    // SAFETY: one thread at a time is here (see `Cell`), and none is further up on its stack: the
    // phase was not BUSY.
    let state = unsafe { &mut *STATE.0.get() };
    let Some(state) = state else {
        PHASE.store(UNKNOWN, Ordering::Relaxed);
        return Err("there is no state".into());
    };
    let result = body(state);
    let after = if state.parts.is_any_open() { INSIDE } else { OUTSIDE };
    PHASE.store(after, Ordering::Relaxed);
    Ok(result)
}

/// Finds out how calls are to be taken, when that is not known yet: once MPI is initialised.
#[cold]
pub fn look() -> u8 {
    let (mut initialized, is_there) = (0, crate::pmpi::exists(c"PMPI_Initialized"));
    if is_there {
        // SAFETY: an integer of ours; the function may be called at any time.
        unsafe { crate::pmpi::initialized(&mut initialized) };
    }
    if initialized != 0 && with(|_| ()).is_err() {
        PHASE.store(ALIEN, Ordering::Relaxed);
    }
    phase()
}

/// MPI is about to end: frees what is MPI's, and passes all calls on from now.
pub fn close() {
    let phase = phase();
    if phase == INSIDE || phase == OUTSIDE {
        // What cannot be closed is not there.
        let _ = with(|state| {
            if state.parts.is_any_open() {
                let part = state.parts.innermost().unwrap_or_default();
                crate::refuse::say(&state.mpi, &format!("MPI_Finalize while part {part} is open"));
            }
            if let Some(mut resend) = state.resend.take() {
                resend.finish(&state.mpi);
            }
            state.parts.clear();
            state.requests.clear();
            state.types.clear();
            state.pool.clear(&state.mpi);
            state.deferred.free(&state.mpi, None);
        });
    }
    PHASE.store(ALIEN, Ordering::Relaxed);
}
