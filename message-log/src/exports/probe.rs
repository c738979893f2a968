//! Probing, and receiving what was probed for.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;
use std::ptr::null_mut;

use crate::inside::p2p::Message;
use crate::inside::probe::{self, Probe};
use crate::pmpi::{Handle, Ptr};

/// What a message that was probed for is received into: it brings its origin along.
fn into(buf: Ptr, count: i64, datatype: Handle) -> Message {
    Message { buf, count, datatype, peer: 0, tag: 0, comm: 0 }
}

exports! {
    fn MPI_Probe(source: c_int, tag: c_int, comm: Handle, status: Ptr)
        inside |call, _real, function| {
            let (flag, message) = (null_mut(), null_mut());
            let probed = Probe { source, tag, comm, flag, message, status };
            // SAFETY: the application's own call, with a status of ours; so are those below.
            probe::probe(call, &probed, |status| unsafe { function(source, tag, comm, status) })
        };

    fn MPI_Iprobe(source: c_int, tag: c_int, comm: Handle, flag: *mut c_int, status: Ptr)
        inside |call, _real, function| {
            let probed = Probe { source, tag, comm, flag, message: null_mut(), status };
            // SAFETY: as above.
            probe::probe(call, &probed, |status| unsafe {
                function(source, tag, comm, flag, status)
            })
        };

    fn MPI_Mprobe(source: c_int, tag: c_int, comm: Handle, message: Ptr, status: Ptr)
        inside |call, _real, function| {
            let probed = Probe { source, tag, comm, flag: null_mut(), message, status };
            // SAFETY: as above.
            probe::probe(call, &probed, |status| unsafe {
                function(source, tag, comm, message, status)
            })
        };

    fn MPI_Improbe(
        source: c_int,
        tag: c_int,
        comm: Handle,
        flag: *mut c_int,
        message: Ptr,
        status: Ptr,
    ) inside |call, _real, function| {
        let probed = Probe { source, tag, comm, flag, message, status };
        // SAFETY: as above.
        probe::probe(call, &probed, |status| unsafe {
            function(source, tag, comm, flag, message, status)
        })
    };
}

/// The calls that receive, with counts of either width.
macro_rules! matched {
    ($($count:ident: $recv:ident $irecv:ident)*) => {
        exports! { $(
            fn $recv(buf: Ptr, count: $count, datatype: Handle, message: Ptr, status: Ptr)
                inside |call, _real, function| probe::recv(
                    call,
                    &into(buf, i64::from(count), datatype),
                    message,
                    status,
                    // SAFETY: the application's own call, with a status of ours.
                    |status| unsafe { function(buf, count, datatype, message, status) },
                );

            fn $irecv(buf: Ptr, count: $count, datatype: Handle, message: Ptr, request: Ptr)
                outside |call, real| {
                    let received = into(buf, i64::from(count), datatype);
                    probe::irecv_outside(call, &received, request, real)
                },
                inside |call, real| {
                    let received = into(buf, i64::from(count), datatype);
                    probe::irecv(call, &received, message, request, real)
                };
        )* }
    };
}

matched! {
    c_int: MPI_Mrecv MPI_Imrecv
    i64: MPI_Mrecv_c MPI_Imrecv_c
}
