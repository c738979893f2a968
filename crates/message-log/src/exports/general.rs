//! Generalized requests, including MPICH's extension for progress.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use crate::calls::general;
use crate::pmpi::{HandleWord, Ptr};

exports! {
    fn MPI_Grequest_start(query: Ptr, free: Ptr, cancel: Ptr, extra: Ptr, request: Ptr)
        inside |call, real| general::start(call, request, real);
    fn MPIX_Grequest_start(
        query: Ptr, free: Ptr, cancel: Ptr, poll: Ptr, wait: Ptr, extra: Ptr, request: Ptr,
    ) inside |call, real| general::start(call, request, real);
    fn MPIX_Grequest_class_allocate(class: c_int, extra: Ptr, request: Ptr)
        inside |call, real| general::start(call, request, real);
    fn MPI_Grequest_complete(request: HandleWord)
        inside |call, real| general::complete(call, request, real);
}
