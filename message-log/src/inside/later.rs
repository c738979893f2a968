//! Types that the application frees from within a call of MPI's, as in the functions that go with
//! attributes: that is passed on as all such calls are, but when the call has ended. Requests under way
//! and replays may use the type, and its handle may be another's afterwards.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use mpi_abi::{Abi, Library};

use super::SUCCESS;
use crate::memory;
use crate::pmpi::{self, Ptr};
use crate::state::State;

/// Their handles.
static FREED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// Whether there are any.
static IS_ANY: AtomicBool = AtomicBool::new(false);

/// Whether there are any.
#[inline(always)]
pub fn is_any() -> bool {
    IS_ANY.load(Ordering::Relaxed)
}

/// `MPI_Type_free` from within a call of MPI's.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn free_type(datatype: Ptr, real: impl FnOnce() -> c_int) -> c_int {
    let Some(library) = Library::find() else { return real() };
    let Some(null) = library.constant(library.abi().handles().datatype_null) else { return real() };
    let is_narrow = library.abi() == Abi::Mpich;
    // SAFETY: by the caller's promise, a handle as wide as handles are.
    let handle = unsafe {
        match is_narrow {
            true => datatype.cast::<u32>().read() as usize,
            false => datatype.cast::<usize>().read(),
        }
    };
    if handle == null {
        return real();
    }
    // What there is no memory to note stays a type of MPI's.
    let _ = memory::push(&mut FREED.lock().unwrap_or_else(PoisonError::into_inner), handle);
    IS_ANY.store(true, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe {
        match is_narrow {
            true => datatype.cast::<u32>().write(null as u32),
            false => datatype.cast::<usize>().write(null),
        }
    }
    SUCCESS
}

impl State {
    /// Frees them: the call has ended.
    #[cold]
    pub fn free_later(&mut self) {
        IS_ANY.store(false, Ordering::Relaxed);
        let freed = std::mem::take(&mut *FREED.lock().unwrap_or_else(PoisonError::into_inner));
        for handle in freed {
            let mut place = 0usize;
            let at = (&raw mut place).cast();
            // SAFETY: room for the widest handle, and a type that the application has freed, which was
            // not passed on.
            unsafe {
                self.mpi.write_handle(at, handle);
                self.freeing_type(at, || pmpi::type_free(at));
            }
        }
    }
}
