//! Waiting, testing, cancelling and freeing.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use crate::calls::completion::{complete, Completion, CompletionKind};
use crate::calls::{fast_path, requests};
use crate::entry::At;
use crate::pmpi::{HandleWord, Ptr};

/// `flag`, `outcount`, `index` or `indices`.
type Ints = *mut c_int;

exports! {
    fn MPI_Wait(request: Ptr, status: Ptr)
    quick |at, call, real(status)| {
        fast_path::wait(at, call, request, std::ptr::null_mut(), status, real)
    };
    complete(at, &Completion::new(call, CompletionKind::One, request, 1, status), real);
    fn MPI_Test(request: Ptr, flag: Ints, status: Ptr)
    quick |at, call, real(status)| fast_path::wait(at, call, request, flag, status, real);
    {
        let of = Completion::new(call, CompletionKind::One, request, 1, status);
        complete(at, &Completion { flag, ..of }, real)
    };

    fn MPI_Waitany(count: c_int, requests: Ptr, index: Ints, status: Ptr) |at, call, real(status)| {
        let of = Completion::new(call, CompletionKind::Any, requests, count, status);
        complete(at, &Completion { number: index, ..of }, real)
    };
    fn MPI_Testany(count: c_int, requests: Ptr, index: Ints, flag: Ints, status: Ptr)
    |at, call, real(status)| {
        let of = Completion::new(call, CompletionKind::Any, requests, count, status);
        complete(at, &Completion { number: index, flag, ..of }, real)
    };

    fn MPI_Waitall(count: c_int, requests: Ptr, statuses: Ptr)
    |at, call, real(statuses)| {
        complete(at, &Completion::new(call, CompletionKind::All, requests, count, statuses), real)
    };
    fn MPI_Testall(count: c_int, requests: Ptr, flag: Ints, statuses: Ptr)
    |at, call, real(statuses)| {
        let of = Completion::new(call, CompletionKind::All, requests, count, statuses);
        complete(at, &Completion { flag, ..of }, real)
    };

    fn MPI_Waitsome(count: c_int, requests: Ptr, outcount: Ints, indices: Ints, statuses: Ptr)
    |at, call, real(statuses)| {
        let of = Completion::new(call, CompletionKind::Some, requests, count, statuses);
        complete(at, &Completion { number: outcount, indices, ..of }, real)
    };
    fn MPI_Testsome(count: c_int, requests: Ptr, outcount: Ints, indices: Ints, statuses: Ptr)
    |at, call, real(statuses)| {
        let of = Completion::new(call, CompletionKind::Some, requests, count, statuses);
        complete(at, &Completion { number: outcount, indices, ..of }, real)
    };

    fn MPI_Request_get_status(request: HandleWord, flag: Ints, status: Ptr)
    inside |call, real(status)| {
        // The argument is a handle by value. Code for arrays reads handles from memory: a narrow one is in
        // the first bytes.
        let mut handle = request;
        let of = Completion::new(call, CompletionKind::GetStatus, (&raw mut handle).cast(), 1, status);
        complete(At::Inside, &Completion { flag, ..of }, real)
    };

    fn MPI_Cancel(request: Ptr) |at, call, real| requests::cancel(at, call, request, real);
    fn MPI_Request_free(request: Ptr) |at, call, real| requests::free(at, call, request, real);
}
