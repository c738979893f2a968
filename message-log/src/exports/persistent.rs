//! Persistent requests.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use crate::inside::p2p::Message;
use crate::inside::requests::{self, Way};
use crate::pmpi::{Handle, Ptr};

/// Calls that make one.
macro_rules! inits {
    ($($count:ident: $name:ident $way:ident)*) => {
        exports! { $(
            fn $name(
                buf: Ptr,
                count: $count,
                datatype: Handle,
                peer: c_int,
                tag: c_int,
                comm: Handle,
                request: Ptr,
            ) outside |call, real| {
                let count = i64::from(count);
                let message = Message { buf, count, datatype, peer, tag, comm };
                requests::make(call, Way::$way, &message, request, real)
            }, inside |call, real| {
                let count = i64::from(count);
                let message = Message { buf, count, datatype, peer, tag, comm };
                requests::make(call, Way::$way, &message, request, real)
            };
        )* }
    };
}

inits! {
    c_int: MPI_Send_init Send
    i64: MPI_Send_init_c Send
    c_int: MPI_Bsend_init Send
    i64: MPI_Bsend_init_c Send
    c_int: MPI_Ssend_init Send
    i64: MPI_Ssend_init_c Send
    c_int: MPI_Rsend_init Send
    i64: MPI_Rsend_init_c Send
    c_int: MPI_Recv_init Receive
    i64: MPI_Recv_init_c Receive
}

exports! {
    fn MPI_Start(request: Ptr)
        outside |_call, real| requests::start_outside(request, 1, real),
        inside |call, real| requests::start(call, request, 1, real);

    fn MPI_Startall(count: c_int, requests: Ptr)
        outside |_call, real| requests::start_outside(requests, count, real),
        inside |call, real| requests::start(call, requests, count, real);
}
