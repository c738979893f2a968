//! Waiting, testing, cancelling and freeing.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use crate::inside::completion::{self, Completion, Kind};
use crate::inside::completion_outside::complete_outside;
use crate::inside::requests;
use crate::pmpi::Ptr;

/// `flag`, `outcount`, `index` or `indices`.
type Ints = *mut c_int;

exports! {
    fn MPI_Wait(request: Ptr, status: Ptr)
        outside |call, _real, function| {
            let call = Completion::new(call, Kind::One, request, 1, status);
            // SAFETY: the application's own call, with a status of ours; so are those below.
            complete_outside(&call, |status| unsafe { function(request, status) })
        },
        inside |call, _real, function| {
            let call = Completion::new(call, Kind::One, request, 1, status);
            // SAFETY: the application's own call, with a status of ours; so are those below.
            completion::complete(&call, |status| unsafe { function(request, status) })
        };

    fn MPI_Test(request: Ptr, flag: Ints, status: Ptr)
        outside |call, _real, function| {
            let call = Completion::new(call, Kind::One, request, 1, status);
            let call = Completion { flag, ..call };
            // SAFETY: as above.
            complete_outside(&call, |status| unsafe { function(request, flag, status) })
        },
        inside |call, _real, function| {
            let call = Completion::new(call, Kind::One, request, 1, status);
            let call = Completion { flag, ..call };
            // SAFETY: as above.
            completion::complete(&call, |status| unsafe { function(request, flag, status) })
        };

    fn MPI_Waitany(count: c_int, requests: Ptr, index: Ints, status: Ptr)
        outside |call, _real, function| {
            let call = Completion::new(call, Kind::Any, requests, count, status);
            let call = Completion { number: index, ..call };
            // SAFETY: as above.
            complete_outside(&call, |status| unsafe { function(count, requests, index, status) })
        },
        inside |call, _real, function| {
            let call = Completion::new(call, Kind::Any, requests, count, status);
            let call = Completion { number: index, ..call };
            // SAFETY: as above.
            completion::complete(&call, |status| unsafe { function(count, requests, index, status) })
        };

    fn MPI_Testany(count: c_int, requests: Ptr, index: Ints, flag: Ints, status: Ptr)
        outside |call, _real, function| {
            let call = Completion::new(call, Kind::Any, requests, count, status);
            let call = Completion { number: index, flag, ..call };
            // SAFETY: as above.
            complete_outside(&call, |status| unsafe {
                function(count, requests, index, flag, status)
            })
        },
        inside |call, _real, function| {
            let call = Completion::new(call, Kind::Any, requests, count, status);
            let call = Completion { number: index, flag, ..call };
            // SAFETY: as above.
            completion::complete(&call, |status| unsafe {
                function(count, requests, index, flag, status)
            })
        };

    fn MPI_Waitall(count: c_int, requests: Ptr, statuses: Ptr)
        outside |call, _real, function| {
            let call = Completion::new(call, Kind::All, requests, count, statuses);
            // SAFETY: as above.
            complete_outside(&call, |statuses| unsafe { function(count, requests, statuses) })
        },
        inside |call, _real, function| {
            let call = Completion::new(call, Kind::All, requests, count, statuses);
            // SAFETY: as above.
            completion::complete(&call, |statuses| unsafe { function(count, requests, statuses) })
        };

    fn MPI_Testall(count: c_int, requests: Ptr, flag: Ints, statuses: Ptr)
        outside |call, _real, function| {
            let call = Completion::new(call, Kind::All, requests, count, statuses);
            let call = Completion { flag, ..call };
            // SAFETY: as above.
            complete_outside(&call, |statuses| unsafe {
                function(count, requests, flag, statuses)
            })
        },
        inside |call, _real, function| {
            let call = Completion::new(call, Kind::All, requests, count, statuses);
            let call = Completion { flag, ..call };
            // SAFETY: as above.
            completion::complete(&call, |statuses| unsafe {
                function(count, requests, flag, statuses)
            })
        };

    fn MPI_Waitsome(count: c_int, requests: Ptr, outcount: Ints, indices: Ints, statuses: Ptr)
        outside |call, _real, function| {
            let call = Completion::new(call, Kind::Some, requests, count, statuses);
            let call = Completion { number: outcount, indices, ..call };
            // SAFETY: as above.
            complete_outside(&call, |statuses| unsafe {
                function(count, requests, outcount, indices, statuses)
            })
        },
        inside |call, _real, function| {
            let call = Completion::new(call, Kind::Some, requests, count, statuses);
            let call = Completion { number: outcount, indices, ..call };
            // SAFETY: as above.
            completion::complete(&call, |statuses| unsafe {
                function(count, requests, outcount, indices, statuses)
            })
        };

    fn MPI_Testsome(count: c_int, requests: Ptr, outcount: Ints, indices: Ints, statuses: Ptr)
        outside |call, _real, function| {
            let call = Completion::new(call, Kind::Some, requests, count, statuses);
            let call = Completion { number: outcount, indices, ..call };
            // SAFETY: as above.
            complete_outside(&call, |statuses| unsafe {
                function(count, requests, outcount, indices, statuses)
            })
        },
        inside |call, _real, function| {
            let call = Completion::new(call, Kind::Some, requests, count, statuses);
            let call = Completion { number: outcount, indices, ..call };
            // SAFETY: as above.
            completion::complete(&call, |statuses| unsafe {
                function(count, requests, outcount, indices, statuses)
            })
        };

    fn MPI_Request_get_status(request: usize, flag: Ints, status: Ptr)
        inside |call, _real, function| {
            let mut looked_at = request;
            // The handle of the argument, where those of arrays are: as wide as handles are here,
            // it lies in the first bytes.
            let place = (&raw mut looked_at).cast();
            let call = Completion::new(call, Kind::Look, place, 1, status);
            let call = Completion { flag, ..call };
            // SAFETY: as above.
            completion::complete(&call, |status| unsafe { function(request, flag, status) })
        };

    fn MPI_Cancel(request: Ptr)
        outside |_call, real| requests::cancel_outside(request, real),
        inside |call, real| requests::cancel(call, request, real);

    fn MPI_Request_free(request: Ptr)
        outside |call, real| requests::free_outside(call, request, real),
        inside |call, real| requests::free(call, request, real);
}
