//! Hints about what will be read next.

use std::ffi::{c_char, c_int};

use super::boundary::{guarded, status, string, with_client};

/// Hints that a checkpoint will be read, after those hinted before. The checkpoint may be taken
/// later, or taken anew: the hint keeps its place in the order. A hint ends with the restore of
/// that version, with VELOC_Cleanup of the name, or with the job. Hint a version twice if it will
/// be read twice.
///
/// @param name     as VELOC_Checkpoint
/// @param version  the version
/// @return VELOC_SUCCESS; VELOC_FAILURE outside a job, or if the name or the version is not allowed
///
/// Source: VELOC_Prefetch_enqueue of VELOC's GPU prototype.
///
/// # Safety
/// `name` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Prefetch_enqueue(name: *const c_char, version: c_int) -> c_int {
    status("VELOC_Prefetch_enqueue", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        with_client(|client| client.hints().enqueue(name, version))
    })
}

/// Starts prefetching. The first restore does so, too.
///
/// @return VELOC_SUCCESS; VELOC_FAILURE outside a job
///
/// Source: VELOC_Prefetch_start of VELOC's GPU prototype.
#[no_mangle]
pub extern "C" fn VELOC_Prefetch_start() -> c_int {
    status("VELOC_Prefetch_start", || {
        with_client(|client| {
            client.hints().start();
            Ok(())
        })
    })
}

/// Tells whether a region of a checkpoint is wholly in the device cache.
///
/// @param name       as VELOC_Checkpoint
/// @param version    the version
/// @param region_id  the region
/// @return true if it is; false if not, or if there is no such checkpoint or region
///
/// Source: VELOC_Next_prefetched of VELOC's GPU prototype.
///
/// # Safety
/// `name` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Next_prefetched(
    name: *const c_char,
    version: c_int,
    region_id: c_int,
) -> bool {
    let there = guarded("VELOC_Next_prefetched", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        with_client(|client| client.hints().is_prefetched(name, version, region_id))
    });
    there.unwrap_or(false)
}
