//! The beginning and the end of MPI.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use crate::fortran;
use crate::inside::SUCCESS;
use crate::pmpi::Ptr;
use crate::resend::Resend;
use crate::state;

exports! { @one MPI_Init (argc: Ptr, argv: Ptr) (_call, real, _function) {
    let code = real();
    begun(code);
    code
} }

exports! { @one MPI_Init_thread (argc: Ptr, argv: Ptr, required: c_int, provided: Ptr)
(_call, real, _function) {
    let code = real();
    begun(code);
    code
} }

/// MPI has begun: interfaces for Fortran may have come since this library was loaded. The processes get ready to send messages again, while they are together.
fn begun(code: c_int) {
    fortran::take();
    if code == SUCCESS {
        // What cannot be had is said when it is asked for.
        let _ = state::with(|state| state.resend = Resend::start(&state.mpi));
    }
}

exports! {
    fn MPI_Finalize() outside |_call, real| {
        crate::state::close();
        real()
    }, inside |_call, real| {
        crate::state::close();
        real()
    };
}
