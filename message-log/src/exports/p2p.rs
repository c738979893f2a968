//! Sending and receiving, blocking and non-blocking.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use crate::inside::p2p::{self, Message};
use crate::pmpi::{Handle, Ptr};

/// Sends that are done when they return.
macro_rules! sends {
    ($($name:ident)*) => {
        exports! { $(
            fn $name(buf: Ptr, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle)
                inside |call, real| p2p::send(
                    call,
                    &Message { buf, count, datatype, peer: dest, tag, comm },
                    real,
                );
        )* }
    };
}

sends! { MPI_Send MPI_Bsend MPI_Ssend MPI_Rsend }

exports! {
    fn MPI_Recv(
        buf: Ptr,
        count: c_int,
        datatype: Handle,
        source: c_int,
        tag: c_int,
        comm: Handle,
        status: Ptr,
    ) inside |call, _real, function| p2p::recv(
        call,
        &Message { buf, count, datatype, peer: source, tag, comm },
        status,
        // SAFETY: the application's own call, with a status of ours.
        |status| unsafe { function(buf, count, datatype, source, tag, comm, status) },
    );
}
