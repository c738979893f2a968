//! Persistent requests.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use crate::calls::message::MessageArguments;
use crate::calls::persistent::{self, PersistentDirection};
use crate::pmpi::{HandleWord, Ptr};

/// Calls that make a persistent request.
macro_rules! inits {
    ($($way:ident $count:ty: $($name:ident)*;)*) => {
        exports! { $($(
            fn $name(
                buf: Ptr, count: $count, datatype: HandleWord, peer: c_int, tag: c_int, comm: HandleWord,
                request: Ptr,
            ) |_at, call, real| {
                let message = MessageArguments::new(buf, count, datatype, peer, tag, comm);
                persistent::make(call, PersistentDirection::$way, &message, request, real)
            };
        )*)* }
    };
}

inits! {
    Send c_int: MPI_Send_init MPI_Bsend_init MPI_Ssend_init MPI_Rsend_init;
    Send i64: MPI_Send_init_c MPI_Bsend_init_c MPI_Ssend_init_c MPI_Rsend_init_c;
    Receive c_int: MPI_Recv_init;
    Receive i64: MPI_Recv_init_c;
}

exports! {
    fn MPI_Start(request: Ptr)
    |at, call, real| persistent::start(at, call, request, 1, real);
    fn MPI_Startall(count: c_int, requests: Ptr)
    |at, call, real| {
        persistent::start(at, call, requests, count, real)
    };
}
