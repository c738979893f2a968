//! Sends and receives, blocking and non-blocking.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use crate::calls::message::MessageArguments;
use crate::calls::p2p;
use crate::calls::{fast_path, nonblocking};
use crate::pmpi::{HandleWord, Ptr};

/// Defines the calls with counts of one width.
macro_rules! messages {
    (
        $count:ty:
        send $($send:ident)*;
        isend $($isend:ident)*;
        recv $recv:ident $irecv:ident;
        sendrecv $sendrecv:ident $isendrecv:ident;
        replace $replace:ident $ireplace:ident;
    ) => {
        exports! {
            $(
                fn $send(
                    buf: Ptr, count: $count, datatype: HandleWord, dest: c_int, tag: c_int, comm: HandleWord,
                ) quick |at, call, real| {
                    let message = MessageArguments::new(buf, count, datatype, dest, tag, comm);
                    fast_path::send(at, call, &message, real)
                }; {
                    let message = MessageArguments::new(buf, count, datatype, dest, tag, comm);
                    p2p::send(at, call, &message, real)
                };
            )*
            $(
                fn $isend(
                    buf: Ptr, count: $count, datatype: HandleWord, dest: c_int, tag: c_int, comm: HandleWord,
                    request: Ptr,
                ) quick |at, call, real| {
                    let message = MessageArguments::new(buf, count, datatype, dest, tag, comm);
                    fast_path::isend(at, call, &message, request, real)
                }; {
                    let message = MessageArguments::new(buf, count, datatype, dest, tag, comm);
                    nonblocking::send(at, call, &message, request, real)
                };
            )*

            fn $recv(
                buf: Ptr, count: $count, datatype: HandleWord, source: c_int, tag: c_int, comm: HandleWord,
                status: Ptr,
            ) quick |at, call, real(status)| {
                let message = MessageArguments::new(buf, count, datatype, source, tag, comm);
                fast_path::recv(at, call, &message, status, real)
            }; {
                let message = MessageArguments::new(buf, count, datatype, source, tag, comm);
                p2p::recv(at, call, &message, status, real)
            };
            fn $irecv(
                buf: Ptr, count: $count, datatype: HandleWord, source: c_int, tag: c_int, comm: HandleWord,
                request: Ptr,
            ) quick |at, call, real| {
                let message = MessageArguments::new(buf, count, datatype, source, tag, comm);
                fast_path::irecv(at, call, &message, request, real)
            }; {
                let message = MessageArguments::new(buf, count, datatype, source, tag, comm);
                nonblocking::recv(at, call, &message, request, real)
            };

            fn $sendrecv(
                sendbuf: Ptr, sendcount: $count, sendtype: HandleWord, dest: c_int, sendtag: c_int,
                recvbuf: Ptr, recvcount: $count, recvtype: HandleWord, source: c_int, recvtag: c_int,
                comm: HandleWord, status: Ptr,
            ) |at, call, real(status)| {
                let sent = MessageArguments::new(sendbuf, sendcount, sendtype, dest, sendtag, comm);
                let received = MessageArguments::new(recvbuf, recvcount, recvtype, source, recvtag, comm);
                p2p::sendrecv(at, call, &sent, &received, status, real)
            };
            fn $isendrecv(
                sendbuf: Ptr, sendcount: $count, sendtype: HandleWord, dest: c_int, sendtag: c_int,
                recvbuf: Ptr, recvcount: $count, recvtype: HandleWord, source: c_int, recvtag: c_int,
                comm: HandleWord, request: Ptr,
            ) |at, call, real| {
                let sent = MessageArguments::new(sendbuf, sendcount, sendtype, dest, sendtag, comm);
                let received = MessageArguments::new(recvbuf, recvcount, recvtype, source, recvtag, comm);
                nonblocking::sendrecv(at, call, &sent, &received, request, real)
            };

            fn $replace(
                buf: Ptr, count: $count, datatype: HandleWord, dest: c_int, sendtag: c_int,
                source: c_int, recvtag: c_int, comm: HandleWord, status: Ptr,
            ) |at, call, real(status)| {
                let sent = MessageArguments::new(buf, count, datatype, dest, sendtag, comm);
                let received = MessageArguments { peer: source, tag: recvtag, ..sent };
                p2p::sendrecv(at, call, &sent, &received, status, real)
            };
            fn $ireplace(
                buf: Ptr, count: $count, datatype: HandleWord, dest: c_int, sendtag: c_int,
                source: c_int, recvtag: c_int, comm: HandleWord, request: Ptr,
            ) |at, call, real| {
                let sent = MessageArguments::new(buf, count, datatype, dest, sendtag, comm);
                let received = MessageArguments { peer: source, tag: recvtag, ..sent };
                nonblocking::sendrecv(at, call, &sent, &received, request, real)
            };
        }
    };
}

messages! {
    c_int:
    send MPI_Send MPI_Bsend MPI_Ssend MPI_Rsend;
    isend MPI_Isend MPI_Ibsend MPI_Issend MPI_Irsend;
    recv MPI_Recv MPI_Irecv;
    sendrecv MPI_Sendrecv MPI_Isendrecv;
    replace MPI_Sendrecv_replace MPI_Isendrecv_replace;
}

messages! {
    i64:
    send MPI_Send_c MPI_Bsend_c MPI_Ssend_c MPI_Rsend_c;
    isend MPI_Isend_c MPI_Ibsend_c MPI_Issend_c MPI_Irsend_c;
    recv MPI_Recv_c MPI_Irecv_c;
    sendrecv MPI_Sendrecv_c MPI_Isendrecv_c;
    replace MPI_Sendrecv_replace_c MPI_Isendrecv_replace_c;
}
