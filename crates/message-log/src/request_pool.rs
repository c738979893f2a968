//! The requests that a replay returns: completed generalized requests, which are valid in every MPI
//! function. Waiting does not free them: they are reused.

use std::ffi::{c_int, c_void};

use message_log_core::memory;

use crate::mpi::MpiProperties;
use crate::pmpi::{self, Ptr};

/// Requests that are not in use.
#[derive(Debug, Default)]
pub(crate) struct IdleRequests {
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

impl IdleRequests {
    /// A completed request.
    pub(crate) fn take(&mut self, mpi: &MpiProperties) -> usize {
        self.idle.pop().unwrap_or_else(|| {
            let mut handle = 0usize;
            let place = (&raw mut handle).cast();
            // SAFETY: callbacks as MPI declares them, which stay loaded, and a buffer as wide as any handle.
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

    /// Returns a request to the pool.
    pub(crate) fn put_back(&mut self, handle: usize) {
        // Out of memory, the request is leaked.
        let _ = memory::push(&mut self.idle, handle);
    }

    /// Removes a request that MPI has freed, because the application passed it to a real call.
    pub(crate) fn remove(&mut self, handle: usize) {
        self.idle.retain(|idle| *idle != handle);
    }

    /// Frees all requests of the pool.
    pub(crate) fn clear(&mut self, mpi: &MpiProperties) {
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
