//! The requests that a replay gives out: completed generalized requests, so that they are real
//! handles for every function of the library. Waiting for one ends nothing: it is used again.

use std::ffi::{c_int, c_void};

use crate::memory;
use crate::mpi::Mpi;
use crate::pmpi::{self, Ptr};

/// Requests that no replayed call has under way.
#[derive(Debug, Default)]
pub struct Pool {
    idle: Vec<usize>,
}

unsafe extern "C" fn query(_extra: *mut c_void, _status: Ptr) -> c_int {
    0
}

unsafe extern "C" fn free(_extra: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn cancel(_extra: *mut c_void, _complete: c_int) -> c_int {
    0
}

impl Pool {
    /// A request.
    pub fn take(&mut self, mpi: &Mpi) -> usize {
        self.idle.pop().unwrap_or_else(|| {
            let mut handle = 0usize;
            let place = (&raw mut handle).cast();
            // SAFETY: functions as MPI declares them, which stay loaded, and room for the widest
            // handle.
            unsafe {
                pmpi::grequest_start(
                    query as Ptr,
                    free as Ptr,
                    cancel as Ptr,
                    std::ptr::null_mut(),
                    place,
                );
                let handle = mpi.read_handle(place);
                pmpi::grequest_complete(handle);
                handle
            }
        })
    }

    /// Gives a request back. Without memory to note it, it stays what it is, and is not used again.
    pub fn give(&mut self, handle: usize) {
        // What is lost is a request of MPI's.
        let _ = memory::push(&mut self.idle, handle);
    }

    /// MPI has freed this request: the application passed it to a call that was real.
    pub fn lose(&mut self, handle: usize) {
        self.idle.retain(|idle| *idle != handle);
    }

    /// Frees all.
    pub fn clear(&mut self, mpi: &Mpi) {
        for idle in self.idle.drain(..) {
            let mut handle = 0usize;
            let place = (&raw mut handle).cast();
            // SAFETY: a request that this pool has started, and room for the widest handle.
            unsafe {
                mpi.write_handle(place, idle);
                pmpi::request_free(place);
            }
        }
    }
}
