//! Opening files. It is refused inside parts like all other file operations (`refused`), but has a handle to
//! set.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use ::mpi::Library;
use message_log_core::log::Call;

use crate::calls::refuse;
use crate::pmpi::{HandleWord, Ptr};

exports! {
    fn MPI_File_open(comm: HandleWord, filename: Ptr, amode: c_int, info: HandleWord, file: Ptr)
        inside |call, _real| refuse_open(call, comm, file);
}

/// Refuses the call and sets the null file: MPICH's Fortran interface translates the handle even if the call
/// has failed.
///
/// # Safety
/// `file` points to the call's file handle.
unsafe fn refuse_open(call: Call, comm: HandleWord, file: Ptr) -> c_int {
    let library = Library::find();
    let null = library.and_then(|library| library.constant(library.abi().handles().file_null));
    if let Some(null) = null {
        // SAFETY: by the caller's promise; handles of files are as wide as a pointer everywhere.
        unsafe { file.cast::<usize>().write(null) };
    }
    refuse(call, comm)
}
