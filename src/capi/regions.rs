//! Protected regions.

use std::ffi::{c_int, c_void};

use super::boundary::{status, with_client};

/// Protects a region of memory: it is part of checkpoints from here on.
///
/// Device memory, managed memory and host memory are told apart by the driver; a checkpoint may
/// have regions of every kind. An id that is protected already gets the new region.
///
/// @param id         names the region in checkpoints
/// @param ptr        its first byte, on the host or the device
/// @param count      number of elements
/// @param base_size  bytes of an element
/// @return VELOC_SUCCESS; VELOC_FAILURE if the range is none, NULL with a size, reaches past the
///         end of its device allocation, or belongs to another device or context
///
/// Source: VELOC_Mem_protect of VELOC 1.8 (which returns -1 when an id is protected again).
#[no_mangle]
pub extern "C" fn VELOC_Mem_protect(
    id: c_int,
    ptr: *mut c_void,
    count: usize,
    base_size: usize,
) -> c_int {
    status("VELOC_Mem_protect", || {
        with_client(|client| client.protect(id, ptr as u64, count, base_size))
    })
}

/// Ends the protection of a region. Checkpoints that have it keep it.
///
/// @param id  the region
/// @return VELOC_SUCCESS; VELOC_FAILURE if it is not protected
///
/// Source: VELOC_Mem_unprotect of VELOC 1.8.
#[no_mangle]
pub extern "C" fn VELOC_Mem_unprotect(id: c_int) -> c_int {
    status("VELOC_Mem_unprotect", || with_client(|client| client.unprotect(id)))
}

/// Ends the protection of all regions.
///
/// @return VELOC_SUCCESS; VELOC_FAILURE outside a job
///
/// Source: VELOC_Mem_clear of VELOC 1.8.
#[no_mangle]
pub extern "C" fn VELOC_Mem_clear() -> c_int {
    status("VELOC_Mem_clear", || {
        with_client(|client| {
            client.unprotect_all();
            Ok(())
        })
    })
}
