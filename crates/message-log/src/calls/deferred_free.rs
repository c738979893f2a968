//! Types and communicators that the application frees inside an MPI call, for instance in attribute
//! callbacks. These frees are deferred to the end of the call, because active requests and replays may
//! use the objects, whose handles may be reused afterwards.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use mpi_abi::{Abi, Library};

use super::SUCCESS;
use crate::memory;
use crate::pmpi::{self, Ptr};
use crate::state::State;

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
pub(crate) unsafe fn free(way: FreeCall, place: Ptr, real: impl FnOnce() -> c_int) -> c_int {
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

impl State {
    /// Runs all deferred frees at the end of the call. Freeing a communicator may defer others.
    #[cold]
    pub(crate) fn run_deferred_frees(&mut self) {
        while PENDING.swap(false, Ordering::Relaxed) {
            let freed = std::mem::take(&mut *FREED.lock().unwrap_or_else(PoisonError::into_inner));
            for (way, handle) in freed {
                let mut place = 0usize;
                let at = (&raw mut place).cast();
                // SAFETY: a buffer as wide as any handle; the application has freed the object, and MPI has
                // not.
                unsafe {
                    self.mpi.write_handle(at, handle);
                    match way {
                        FreeCall::Type => self.freeing_type(at, || pmpi::type_free(at)),
                        FreeCall::Comm => self.freeing_comm(at, || pmpi::comm_free(at)).0,
                        FreeCall::Disconnect => {
                            self.freeing_comm(at, || pmpi::comm_disconnect(at)).0
                        }
                    };
                }
            }
        }
    }
}
