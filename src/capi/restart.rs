//! Restoring checkpoints.

use std::ffi::{c_char, c_int};

use super::boundary::{guarded, keep, selection, status, string, with_client, with_name};
use super::regions::{called, entries, memories, VELOC_Region};
use super::VELOC_FAILURE;
use client::{Client, Selection};
use errors::{Error, Result};

/// Finds the newest version that can be restored. Collective under MPI: it finds the newest that
/// every process can restore. With erasure coding (`ec_interval`) a process that lacks the version
/// first rebuilds it, if the others have enough of it.
///
/// @param name     as VELOC_Checkpoint
/// @param version  the newest version to consider; 0: the newest of all
/// @return the version; VELOC_FAILURE if there is none (this is not printed; VELOC_Last_error says
///         what was sought and where), or if the arguments are wrong
///
/// Source: VELOC_Restart_test of VELOC 1.8 (which returns -2 when there is none).
///
/// # Safety
/// `name` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Restart_test(name: *const c_char, version: c_int) -> c_int {
    newest("VELOC_Restart_test", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) };
        with_name(name, |client, name| search(client, name, version, None))
    })
}

/// The newest version, or what was not found.
pub(super) fn search(
    client: &mut Client,
    name: &str,
    version: c_int,
    of: Option<u32>,
) -> Result<std::result::Result<c_int, String>> {
    let found = client.search().restart_test(name, version, of)?;
    Ok(found.ok_or_else(|| client.search().nothing_found(name, version, of)))
}

/// Runs the body of a call that searches for the newest version.
pub(super) fn newest(
    call: &str,
    body: impl FnOnce() -> Result<std::result::Result<c_int, String>>,
) -> c_int {
    match guarded(call, body) {
        Ok(Ok(version)) => version,
        // An answer rather than an error: it is kept, but not said.
        Ok(Err(nothing)) => {
            keep(&format!("{call}: {nothing}"));
            VELOC_FAILURE
        }
        Err(_) => VELOC_FAILURE,
    }
}

/// Restores a checkpoint into the protected regions, from the nearest copy. Collective under MPI.
///
/// With `stream_ordered = true` and a stream (VELOC_Set_stream) it does not wait for copies within
/// the device's memory: they run in that stream's order. Work that this stream gets after the call
/// finds the bytes. Another stream finds them after an event of this one, the host once this stream
/// was synchronized. A region has to live until its copy has run, as in VELOC_Checkpoint.
///
/// @param name     as VELOC_Checkpoint
/// @param version  the version
/// @return VELOC_SUCCESS; VELOC_FAILURE if there is no such checkpoint, or one of its regions has
///         no protected memory, too little, or read-only memory: then no byte was changed.
///         VELOC_FAILURE also if a copy failed, or if no file turned out to have its checksum: then
///         the content of the regions is undefined. VELOC_Restart_test finds wrong checksums before
///         that. Over MPI the call fails also if it fails on another process, which the reason
///         names; then no byte was changed on any process, unless a copy failed
///
/// Source: VELOC_Restart of VELOC 1.8.
///
/// # Safety
/// `name` is NULL or a string that ends with NUL; protected memory is valid.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Restart(name: *const c_char, version: c_int) -> c_int {
    status("VELOC_Restart", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) };
        with_name(name, |client, name| client.restart(name, version, None))
    })
}

/// Restores regions of a checkpoint into the memory of a list. Collective under MPI. The call does
/// not use protected regions, and a checkpoint or restart that is open stays open. So several
/// threads of a process can each restore their own regions.
///
/// @param name      as VELOC_Checkpoint
/// @param version   the version
/// @param list      the regions, each with an id of its own; the checkpoint may have more. The list
///                  is not used after the call
/// @param n         their number; 0: nothing is restored, and the return value says whether the
///                  checkpoint could be restored
/// @param consumed  as the argument of VELOC_Restart_end: not 0 if the version will not be read
///                  again
/// @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Restart and VELOC_Mem_protect_list, or if the
///         checkpoint lacks a region of the list
///
/// Source: an addition of this library.
///
/// # Safety
/// `name` is NULL or a string that ends with NUL; `list` is NULL or points to `n` regions, whose
/// memory is valid.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Restart_list(
    name: *const c_char,
    version: c_int,
    list: *const VELOC_Region,
    n: usize,
    consumed: c_int,
) -> c_int {
    status("VELOC_Restart_list", || {
        // SAFETY: the caller's promise.
        let (name, list) = unsafe { (string("name", name), entries(list, n)) };
        let list = list.and_then(memories);
        with_name(name, |client, name| {
            client.restart_list((name, version), list, called, consumed != 0)
        })
    })
}

/// Opens a checkpoint for recovery. Collective under MPI: on every process or on none. If a restart
/// is open, it ends, as by VELOC_Restart_end(0).
///
/// @param name     as VELOC_Checkpoint
/// @param version  the version
/// @return VELOC_SUCCESS; VELOC_FAILURE if there is no such checkpoint, or a checkpoint is open
///
/// Source: VELOC_Restart_begin of VELOC 1.8.
///
/// # Safety
/// `name` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Restart_begin(name: *const c_char, version: c_int) -> c_int {
    status("VELOC_Restart_begin", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) };
        with_name(name, |client, name| client.restart_begin(name, version, None))
    })
}

/// Recovers every region of the open checkpoint into the protected memory of the same id. Protected
/// regions that the checkpoint lacks keep their content; a warning names them.
///
/// @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Restart, or without an open restart
///
/// Source: VELOC_Recover_mem of VELOC 1.8.
#[no_mangle]
pub extern "C" fn VELOC_Recover_mem() -> c_int {
    status("VELOC_Recover_mem", || with_client(|client| client.recover(&Selection::All)))
}

/// Recovers some of the regions of the open checkpoint.
///
/// @param mode  VELOC_RECOVER_ALL, VELOC_RECOVER_SOME (those listed) or VELOC_RECOVER_REST (those
///              not listed)
/// @param ids   the list
/// @param n     its length
/// @return VELOC_SUCCESS; VELOC_FAILURE if the checkpoint lacks a listed id (SOME), or has none of
///         the regions that are not listed (REST), or as VELOC_Recover_mem
///
/// Source: VELOC_Recover_selective of VELOC 1.8.
///
/// # Safety
/// `ids` is NULL or points to `n` ids.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Recover_selective(mode: c_int, ids: *mut c_int, n: c_int) -> c_int {
    status("VELOC_Recover_selective", || {
        // SAFETY: the caller's promise.
        let selection = unsafe { selection(mode, ids, n) }?;
        with_client(|client| client.recover(&selection))
    })
}

/// The size of a region in the open checkpoint.
///
/// @param id  the region
/// @return bytes; VELOC_FAILURE if the checkpoint has no such region, there is no open restart, or
///         the size is beyond an int (VELOC_Recover_ckpt_size has no such limit)
///
/// Source: VELOC_Recover_size of VELOC 1.8.
#[no_mangle]
pub extern "C" fn VELOC_Recover_size(id: c_int) -> c_int {
    let size = guarded("VELOC_Recover_size", || {
        let size = with_client(|client| client.recover_size(id))?;
        c_int::try_from(size).map_err(|_| {
            Error::invalid(format!(
                "region {id} has {size} bytes, more than an int can hold; use VELOC_Recover_ckpt_size"
            ))
        })
    });
    size.unwrap_or(VELOC_FAILURE)
}

/// The size of a region in any checkpoint. Needs no open restart.
///
/// @param name       as VELOC_Checkpoint
/// @param version    the version
/// @param region_id  the region
/// @return bytes; 0 if there is no such checkpoint or region (VELOC_Last_error says which)
///
/// Source: VELOC_Recover_ckpt_size of VELOC's GPU prototype.
///
/// # Safety
/// `name` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Recover_ckpt_size(
    name: *const c_char,
    version: c_int,
    region_id: c_int,
) -> usize {
    let size = guarded("VELOC_Recover_ckpt_size", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        with_client(|client| client.recover_ckpt_size(name, version, region_id))
    });
    size.map_or(0, |bytes| bytes as usize)
}

/// Closes the checkpoint that is open for recovery.
///
/// @param success  not 0: the checkpoint counts as consumed. Its room goes to others first, and an
///                 ephemeral job without scratch may discard it. 0: it does not count as consumed
/// @return VELOC_SUCCESS; VELOC_FAILURE without an open restart
///
/// Source: VELOC_Restart_end of VELOC 1.8.
#[no_mangle]
pub extern "C" fn VELOC_Restart_end(success: c_int) -> c_int {
    status("VELOC_Restart_end", || with_client(|client| client.restart_end(success != 0)))
}
