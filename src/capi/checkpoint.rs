//! Taking checkpoints.

use std::ffi::{c_char, c_int, CStr, CString};

use super::boundary::{guarded, selection, status, string, with_client};
use super::cxx::checkpoint_ended;
use super::{VELOC_FAILURE, VELOC_MAX_NAME, VELOC_SUCCESS};
use client::{Selection, Verdict};
use errors::Error;

/// Takes a checkpoint of all protected regions.
///
/// Returns when the application may change its memory again. It waits for room in the first level
/// and for its own copy, but not for the checkpoint before. With `mode = sync` it waits until the
/// files are complete.
///
/// With `stream_ordered = true` and a stream (VELOC_Set_stream) it does not wait for its copies of
/// device memory: they run in that stream's order. Work that this stream gets after the call may
/// change the memory. Work in another stream may do so once that stream has waited for an event of
/// this one. A region has to live until its copy has run: free it after the stream was
/// synchronized, or by cuMemFreeAsync in the stream.
///
/// @param name     names the sequence of checkpoints: `[a-zA-Z0-9_.]+`, at most 127 bytes
/// @param version  0 or more; an existing version is replaced
/// @return VELOC_SUCCESS; VELOC_FAILURE if nothing is protected, there is no room and none can
///         come, a copy failed, or an earlier checkpoint failed in the background (reported once;
///         then this one is not taken)
///
/// Source: VELOC_Checkpoint of VELOC 1.8 (which first waits for the checkpoint before).
///
/// # Safety
/// `name` is NULL or a string that ends with NUL; protected memory is valid.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Checkpoint(name: *const c_char, version: c_int) -> c_int {
    let taken = status("VELOC_Checkpoint", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        with_client(|client| client.checkpoint(name, version))
    });
    if taken == VELOC_SUCCESS {
        // SAFETY: the caller's promise; it is not NULL, as the checkpoint has it.
        checkpoint_ended(unsafe { CStr::from_ptr(name) }, version);
    }
    taken
}

/// Opens a checkpoint, to be filled by VELOC_Checkpoint_mem, _selective or a routed file. If a
/// restart is open, it ends, as by VELOC_Restart_end(0).
///
/// @param name     as VELOC_Checkpoint
/// @param version  as VELOC_Checkpoint
/// @return VELOC_SUCCESS; VELOC_FAILURE if a checkpoint is open, the name is one of an adjoint
///         computation under way (VELOC_Adjoint_run), or an earlier checkpoint failed in the
///         background (reported once)
///
/// Source: VELOC_Checkpoint_begin of VELOC 1.8.
///
/// # Safety
/// `name` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Checkpoint_begin(name: *const c_char, version: c_int) -> c_int {
    status("VELOC_Checkpoint_begin", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        with_client(|client| client.checkpoint_begin(name, version))
    })
}

/// Captures all protected regions into the open checkpoint. When the call returns, the application
/// may change its memory.
///
/// @return VELOC_SUCCESS; VELOC_FAILURE without an open checkpoint, or as VELOC_Checkpoint; the
///         checkpoint stays open
///
/// Source: VELOC_Checkpoint_mem of VELOC 1.8.
#[no_mangle]
pub extern "C" fn VELOC_Checkpoint_mem() -> c_int {
    status("VELOC_Checkpoint_mem", || with_client(|client| client.checkpoint_mem(&Selection::All)))
}

/// Captures some of the protected regions into the open checkpoint. Several calls add up; a region
/// can be captured once.
///
/// @param mode  VELOC_CKPT_ALL, VELOC_CKPT_SOME (those listed) or VELOC_CKPT_REST (those not
///              listed)
/// @param ids   the list
/// @param n     its length
/// @return VELOC_SUCCESS; VELOC_FAILURE if a listed id is not protected (SOME), nothing is
///         selected, or as VELOC_Checkpoint_mem
///
/// Source: VELOC_Checkpoint_selective of VELOC 1.8.
///
/// # Safety
/// `ids` is NULL or points to `n` ids.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Checkpoint_selective(
    mode: c_int,
    ids: *mut c_int,
    n: c_int,
) -> c_int {
    status("VELOC_Checkpoint_selective", || {
        // SAFETY: the caller's promise.
        let selection = unsafe { selection(mode, ids, n) }?;
        with_client(|client| client.checkpoint_mem(&selection))
    })
}

/// Closes the open checkpoint.
///
/// @param success  1: the checkpoint can be restored from now on. VELOC_FAILURE: the checkpoint is
///                 given up, and an older one of the same name and version stays. 0, which is also
///                 VELOC_SUCCESS: a checkpoint of memory is kept if its regions were captured, and
///                 a checkpoint of a file is given up; a warning says once which of them happened
/// @return VELOC_SUCCESS; VELOC_FAILURE without an open checkpoint, if no region was captured and
///         no file was written to the path of VELOC_Route_file, or, with `mode = sync`, if a file
///         could not be written
///
/// Source: VELOC_Checkpoint_end of VELOC 1.8 (which keeps every checkpoint).
#[no_mangle]
pub extern "C" fn VELOC_Checkpoint_end(success: c_int) -> c_int {
    let verdict = match success {
        0 => Verdict::Zero,
        VELOC_FAILURE => Verdict::Failed,
        _ => Verdict::Taken,
    };
    let ended =
        guarded("VELOC_Checkpoint_end", || with_client(|client| client.checkpoint_end(verdict)));
    let Ok(taken) = ended else {
        return VELOC_FAILURE;
    };
    if let Some((name, version)) = taken {
        // A name that was allowed has no NUL.
        checkpoint_ended(&CString::new(name).unwrap_or_default(), version);
    }
    VELOC_SUCCESS
}

/// Waits until every checkpoint has reached the last level that the configuration asks for.
///
/// @return VELOC_SUCCESS; VELOC_FAILURE while a checkpoint is open, or if a checkpoint could not
///         reach that level although the call has tried again (the reason is that of the first)
///
/// Source: VELOC_Checkpoint_wait of VELOC 1.8.
#[no_mangle]
pub extern "C" fn VELOC_Checkpoint_wait() -> c_int {
    status("VELOC_Checkpoint_wait", || with_client(|client| client.checkpoint_wait()))
}

/// Tells whether every checkpoint has reached the last level that the configuration asks for. It
/// does not wait.
///
/// @return 1: yes; 0: not yet; VELOC_FAILURE: something failed in the background (reported once),
///         or a checkpoint could not reach that level (reported until VELOC_Checkpoint_wait
///         succeeds, that version is taken anew, or VELOC_Cleanup removes it)
///
/// Source: VELOC_Checkpoint_finished of VELOC 1.8.
#[no_mangle]
pub extern "C" fn VELOC_Checkpoint_finished() -> c_int {
    let finished =
        guarded("VELOC_Checkpoint_finished", || with_client(|client| client.checkpoint_finished()));
    finished.map_or(VELOC_FAILURE, c_int::from)
}

/// Gives the path at which the application writes a file that is the open checkpoint, or reads it
/// in a restart.
///
/// The library copies the file to `original` in the background, and makes a link to it in
/// `persistent`. A checkpoint has one file: a second call with the same `original` gives the same
/// path. The path is in scratch. If scratch is full, read-only or broken, and each checkpoint is
/// copied to persistent, the path is beside `original`.
///
/// @param original  the path the application would have written to
/// @param routed    gets the path to use: VELOC_MAX_NAME bytes
/// @return VELOC_SUCCESS; VELOC_FAILURE outside a checkpoint and a restart, without scratch or
///         room, if the checkpoint has memory regions or another file already, or if the path is
///         too long
///
/// Source: VELOC_Route_file of VELOC 1.8.
///
/// # Safety
/// `original` is NULL or a string that ends with NUL; `routed` is NULL or has VELOC_MAX_NAME bytes.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Route_file(original: *const c_char, routed: *mut c_char) -> c_int {
    status("VELOC_Route_file", || {
        // SAFETY: the caller's promise.
        let original = unsafe { string("original", original) }?;
        if routed.is_null() {
            return Err(Error::invalid("routed is NULL"));
        }
        let path = with_client(|client| client.route_file(original))?;
        if path.len() >= VELOC_MAX_NAME {
            return Err(Error::invalid(format!(
                "the routed path has {} bytes; VELOC_MAX_NAME allows {}",
                path.len(),
                VELOC_MAX_NAME - 1
            )));
        }
        // SAFETY: the path and its NUL fit into VELOC_MAX_NAME bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(path.as_ptr(), routed.cast(), path.len());
            routed.add(path.len()).write(0);
        }
        Ok(())
    })
}

/// Removes the checkpoints of a name from memory and scratch. Persistent copies stay; copies that
/// are still to be made are made first. Files that earlier jobs left in scratch, and that should be
/// in persistent, stay until `veloc sync` has copied them.
///
/// @param name  as VELOC_Checkpoint
/// @return VELOC_SUCCESS, also if there were none; VELOC_FAILURE if a file could not be removed
///
/// Source: VELOC_Cleanup of VELOC 1.8.
///
/// # Safety
/// `name` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Cleanup(name: *const c_char) -> c_int {
    status("VELOC_Cleanup", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        with_client(|client| client.cleanup(name))
    })
}
