//! Probes, and receives of matched messages.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;
use std::ptr::null_mut;

use crate::calls::matched;
use crate::calls::message::MessageArguments;
use crate::calls::probe::{self, ProbeArguments};
use crate::entry::At;
use crate::pmpi::{HandleWord, Ptr};

/// `flag`.
type Flag = *mut c_int;

exports! {
    fn MPI_Probe(source: c_int, tag: c_int, comm: HandleWord, status: Ptr) inside |call, real(status)| {
        let probed = ProbeArguments { source, tag, comm, flag: null_mut(), message: null_mut(), status };
        probe::probe(At::Inside, call, &probed, real)
    };
    fn MPI_Iprobe(source: c_int, tag: c_int, comm: HandleWord, flag: Flag, status: Ptr)
    inside |call, real(status)| {
        let probed = ProbeArguments { source, tag, comm, flag, message: null_mut(), status };
        probe::probe(At::Inside, call, &probed, real)
    };

    fn MPI_Mprobe(source: c_int, tag: c_int, comm: HandleWord, message: Ptr, status: Ptr)
    |at, call, real(status)| {
        let probed = ProbeArguments { source, tag, comm, flag: null_mut(), message, status };
        probe::probe(at, call, &probed, real)
    };
    fn MPI_Improbe(source: c_int, tag: c_int, comm: HandleWord, flag: Flag, message: Ptr, status: Ptr)
    |at, call, real(status)| {
        let probed = ProbeArguments { source, tag, comm, flag, message, status };
        probe::probe(at, call, &probed, real)
    };
}

/// The calls that receive a matched message, with counts of either width. The message tells its source and
/// tag.
macro_rules! matched {
    ($($count:ty: $recv:ident $irecv:ident;)*) => {
        exports! { $(
            fn $recv(buf: Ptr, count: $count, datatype: HandleWord, message: Ptr, status: Ptr)
            |at, call, real(status)| {
                let received = MessageArguments::new(buf, count, datatype, 0, 0, 0);
                matched::recv(at, call, &received, message, status, real)
            };
            fn $irecv(buf: Ptr, count: $count, datatype: HandleWord, message: Ptr, request: Ptr)
            |at, call, real| {
                let received = MessageArguments::new(buf, count, datatype, 0, 0, 0);
                matched::irecv(at, call, &received, message, request, real)
            };
        )* }
    };
}

matched! {
    c_int: MPI_Mrecv MPI_Imrecv;
    i64: MPI_Mrecv_c MPI_Imrecv_c;
}
