//! Types and communicators that the application frees, and that active requests or replays may still use.
//!
//! Those that it frees inside an MPI call, for instance in attribute callbacks, are freed at the end of the
//! call: their handles may be reused afterwards.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ::mpi::{Abi, Library};
use message_log_core::memory;
use message_log_core::parts::NeededBy;
use message_log_core::status::SUCCESS;

use crate::deferred::HandleKind;
use crate::pmpi::{self, Ptr};
use crate::refuse;
use crate::state::LogState;

/// The call that frees an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeCall {
    /// `MPI_Type_free`.
    Type,
    /// `MPI_Comm_free`.
    Comm,
    /// `MPI_Comm_disconnect`.
    Disconnect,
}

/// The deferred frees, in order.
static FREED: Mutex<Vec<(FreeCall, usize)>> = Mutex::new(Vec::new());
/// Whether frees are deferred.
static PENDING: AtomicBool = AtomicBool::new(false);

/// Whether frees are deferred.
#[inline(always)]
pub(crate) fn is_pending() -> bool {
    PENDING.load(Ordering::Relaxed)
}

/// Defers the freeing of the handle at `place`, inside an MPI call.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn defer(way: FreeCall, place: Ptr, real: impl FnOnce() -> c_int) -> c_int {
    let Some(library) = Library::find() else { return real() };
    let handles = library.abi().handles();
    let null = if way == FreeCall::Type { handles.datatype_null } else { handles.comm_null };
    let Some(null) = library.constant(null) else { return real() };
    let is_narrow = library.abi() == Abi::Mpich;
    // SAFETY: by the caller's promise, a handle as wide as handles are.
    let handle = unsafe {
        match is_narrow {
            true => place.cast::<u32>().read() as usize,
            false => place.cast::<usize>().read(),
        }
    };
    if handle == null {
        return real();
    }
    // Without memory to note it, the object is leaked.
    let _ = memory::push(&mut FREED.lock().unwrap_or_else(PoisonError::into_inner), (way, handle));
    PENDING.store(true, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe {
        match is_narrow {
            true => place.cast::<u32>().write(null as u32),
            false => place.cast::<usize>().write(null),
        }
    }
    SUCCESS
}

/// Runs all deferred frees at the end of the call. Freeing a communicator may defer others.
#[cold]
pub(crate) fn run_pending(state: &mut LogState) {
    while PENDING.swap(false, Ordering::Relaxed) {
        let freed = std::mem::take(&mut *FREED.lock().unwrap_or_else(PoisonError::into_inner));
        for (way, handle) in freed {
            let mut place = 0usize;
            let at = (&raw mut place).cast();
            // SAFETY: a buffer as wide as any handle; the application has freed the object, and MPI has
            // not.
            unsafe {
                state.mpi.write_handle(at, handle);
                match way {
                    FreeCall::Type => free_type(state, at, || pmpi::type_free(at)),
                    FreeCall::Comm => free_comm(state, at, || pmpi::comm_free(at)).0,
                    FreeCall::Disconnect => free_comm(state, at, || pmpi::comm_disconnect(at)).0,
                };
            }
        }
    }
}

/// Frees a communicator, or keeps it if a replay may use it; fails if there is no memory to do that.
/// Returns the result and the handle for the log.
///
/// # Safety
/// `comm` points to a handle.
pub(crate) unsafe fn free_comm(
    state: &mut LogState,
    comm: Ptr,
    real: impl FnOnce() -> c_int,
) -> (c_int, usize) {
    // SAFETY: by the caller's promise.
    let handle = unsafe { state.mpi.read_handle(comm) };
    let origin = state.objects.stand_ins.freed(handle);
    let logged = match (state.recording.parts.instances().needing(&origin), origin.made) {
        (NeededBy::Nobody, _) => {
            state.forget_comm(handle);
            return (real(), handle);
        }
        (NeededBy::Replays, Some(made)) if !state.tracked.has_persistent_on(handle) => {
            let (end, at) =
                (state.recording.parts.next_event() + 1, state.recording.parts.instances().now());
            state.objects.stand_ins.stand_in(&state.mpi, handle, made, end, at)
        }
        _ => state
            .objects
            .deferred
            .add(HandleKind::Comm, handle, state.recording.parts.instances().now())
            .map(|()| handle),
    };
    let Ok(logged) = logged else {
        state.objects.stand_ins.made(handle, Some(origin));
        return (refuse::no_memory(&state.mpi, handle, "MPI_Comm_free"), handle);
    };
    if logged == handle {
        state.objects.comms.freed(handle);
        // SAFETY: as above.
        unsafe { state.mpi.write_handle(comm, state.mpi.comm_null) };
        return (SUCCESS, handle);
    }
    if let Some((_, made)) = origin.made {
        state.recording.parts.log_mut().rename(made, handle, logged);
        state.objects.names.shared(logged);
    }
    state.tracked.rename_comm(handle, logged);
    state.forget_comm(handle);
    (real(), logged)
}

/// Frees a type, or keeps it if a replay may use it. Returns the call's result.
///
/// # Safety
/// `datatype` points to a handle.
pub(crate) unsafe fn free_type(
    state: &mut LogState,
    datatype: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: by the caller's promise.
    let handle = unsafe { state.mpi.read_handle(datatype) };
    if handle == state.mpi.datatype_null {
        // MPI reports what is wrong.
        return real();
    }
    // The handle comes from the application's snapshot, and the first run has freed it already.
    let is_freed = state.objects.deferred.has(HandleKind::Type, handle);
    if !is_freed {
        if state.tracked.keep_type(&state.mpi, handle).is_err() {
            return refuse::no_memory(&state.mpi, 0, "MPI_Type_free");
        }
        let made = state.objects.types.freed(handle);
        if !state.recording.parts.instances().has_since(made) {
            state.objects.types.forget(handle);
            return real();
        }
        if state
            .objects
            .deferred
            .add(HandleKind::Type, handle, state.recording.parts.instances().now())
            .is_err()
        {
            state.objects.types.made(handle, made);
            return refuse::no_memory(&state.mpi, 0, "MPI_Type_free");
        }
    }
    // SAFETY: as above.
    unsafe { state.mpi.write_handle(datatype, state.mpi.datatype_null) };
    SUCCESS
}
