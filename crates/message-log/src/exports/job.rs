//! The beginning and the end of MPI.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use message_log_core::status::SUCCESS;

use crate::entry;
use crate::fortran;
use crate::pmpi::Ptr;
use crate::resend::Resend;

exports! { @one MPI_Init(argc: Ptr, argv: Ptr) |call, real| { begun(real()) } }

exports! { @one MPI_Init_thread(argc: Ptr, argv: Ptr, required: c_int, provided: Ptr) |call, real| {
    begun(real())
} }

/// After `MPI_Init`: redirects Fortran interfaces that were loaded since this library, and prepares to send
/// messages again, which is collective.
fn begun(code: c_int) -> c_int {
    fortran::redirect();
    if code == SUCCESS {
        // Errors are reported when a part begins.
        let _ = entry::with(|state| state.resend = Resend::start(&state.mpi, &mut state.counting));
    }
    code
}

exports! {
    fn MPI_Finalize() |_at, _call, real| {
        entry::close();
        real()
    };
}
