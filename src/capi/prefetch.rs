//! Hints about what will be read next.

use std::ffi::{c_char, c_int};

use super::boundary::{guarded, status, string, with_client};

/// Hints that a checkpoint will be read, after those hinted before. It may still be to come: the
/// hint keeps its place in the order, and is the checkpoint's when that is taken, or taken anew. It
/// ends with the restore of that version, with VELOC_Cleanup of the name, or with the job; one that
/// is to be read twice is hinted twice.
///
/// @param name     as VELOC_Checkpoint
/// @param version  the version
/// @return VELOC_SUCCESS; VELOC_FAILURE if the name or the version is none, or outside a job
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

/// Lets fetching ahead begin. A first restore does so, too.
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

/// Whether a region of a checkpoint is wholly in the device cache.
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
