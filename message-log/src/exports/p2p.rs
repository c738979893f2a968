//! Sending and receiving, blocking and non-blocking.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use crate::inside::nonblocking;
use crate::inside::p2p::{self, Message};
use crate::pmpi::{Handle, Ptr};

/// Sends that are done when they return.
macro_rules! sends {
    ($($count:ident: $($name:ident)*;)*) => {
        exports! { $($(
            fn $name(buf: Ptr, count: $count, datatype: Handle, dest: c_int, tag: c_int, comm: Handle)
                outside |call, real| p2p::send_outside(
                    call,
                    &Message { buf, count: i64::from(count), datatype, peer: dest, tag, comm },
                    real,
                ),
                inside |call, real| p2p::send(
                    call,
                    &Message { buf, count: i64::from(count), datatype, peer: dest, tag, comm },
                    real,
                );
        )*)* }
    };
}

sends! {
    c_int: MPI_Send MPI_Bsend MPI_Ssend MPI_Rsend;
    i64: MPI_Send_c MPI_Bsend_c MPI_Ssend_c MPI_Rsend_c;
}

/// Sends that give a request.
macro_rules! isends {
    ($($count:ident: $($name:ident)*;)*) => {
        exports! { $($(
            fn $name(
                buf: Ptr,
                count: $count,
                datatype: Handle,
                dest: c_int,
                tag: c_int,
                comm: Handle,
                request: Ptr,
            ) outside |call, real| nonblocking::send_outside(
                call,
                &Message { buf, count: i64::from(count), datatype, peer: dest, tag, comm },
                request,
                real,
            ), inside |call, real| nonblocking::send(
                call,
                &Message { buf, count: i64::from(count), datatype, peer: dest, tag, comm },
                request,
                real,
            );
        )*)* }
    };
}

isends! {
    c_int: MPI_Isend MPI_Ibsend MPI_Issend MPI_Irsend;
    i64: MPI_Isend_c MPI_Ibsend_c MPI_Issend_c MPI_Irsend_c;
}

/// The calls that receive, with counts of either width.
macro_rules! receives {
    (
        $($count:ident: $recv:ident $irecv:ident $sendrecv:ident $replace:ident $isendrecv:ident
        $ireplace:ident;)*
    ) => {
        exports! { $(
            fn $recv(
                buf: Ptr,
                count: $count,
                datatype: Handle,
                source: c_int,
                tag: c_int,
                comm: Handle,
                status: Ptr,
            ) outside |_call, _real, function| p2p::recv_outside(
                &Message { buf, count: i64::from(count), datatype, peer: source, tag, comm },
                status,
                // SAFETY: the application's own call, with a status of ours; so are those below.
                |status| unsafe { function(buf, count, datatype, source, tag, comm, status) },
            ), inside |call, _real, function| p2p::recv(
                call,
                &Message { buf, count: i64::from(count), datatype, peer: source, tag, comm },
                status,
                // SAFETY: the application's own call, with a status of ours; so are those below.
                |status| unsafe { function(buf, count, datatype, source, tag, comm, status) },
            );

            fn $irecv(
                buf: Ptr,
                count: $count,
                datatype: Handle,
                source: c_int,
                tag: c_int,
                comm: Handle,
                request: Ptr,
            ) outside |call, real| {
                let count = i64::from(count);
                let message = Message { buf, count, datatype, peer: source, tag, comm };
                nonblocking::recv_outside(call, &message, request, real)
            }, inside |call, real| {
                let count = i64::from(count);
                let message = Message { buf, count, datatype, peer: source, tag, comm };
                nonblocking::recv(call, &message, request, real)
            };

            fn $sendrecv(
                sendbuf: Ptr,
                sendcount: $count,
                sendtype: Handle,
                dest: c_int,
                sendtag: c_int,
                recvbuf: Ptr,
                recvcount: $count,
                recvtype: Handle,
                source: c_int,
                recvtag: c_int,
                comm: Handle,
                status: Ptr,
            ) outside |_call, _real, function| {
                let sent = Message {
                    buf: sendbuf,
                    count: i64::from(sendcount),
                    datatype: sendtype,
                    peer: dest,
                    tag: sendtag,
                    comm,
                };
                let received = Message {
                    buf: recvbuf,
                    count: i64::from(recvcount),
                    datatype: recvtype,
                    peer: source,
                    tag: recvtag,
                    comm,
                };
                // SAFETY: as above.
                p2p::sendrecv_outside(&sent, &received, status, |status| unsafe {
                    function(
                        sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                        source, recvtag, comm, status,
                    )
                })
            }, inside |call, _real, function| {
                let sent = Message {
                    buf: sendbuf,
                    count: i64::from(sendcount),
                    datatype: sendtype,
                    peer: dest,
                    tag: sendtag,
                    comm,
                };
                let received = Message {
                    buf: recvbuf,
                    count: i64::from(recvcount),
                    datatype: recvtype,
                    peer: source,
                    tag: recvtag,
                    comm,
                };
                // SAFETY: as above.
                p2p::sendrecv(call, &sent, &received, status, |status| unsafe {
                    function(
                        sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                        source, recvtag, comm, status,
                    )
                })
            };

            fn $replace(
                buf: Ptr,
                count: $count,
                datatype: Handle,
                dest: c_int,
                sendtag: c_int,
                source: c_int,
                recvtag: c_int,
                comm: Handle,
                status: Ptr,
            ) outside |_call, _real, function| {
                let large = i64::from(count);
                let sent = Message { buf, count: large, datatype, peer: dest, tag: sendtag, comm };
                let received = Message { peer: source, tag: recvtag, ..sent };
                // SAFETY: as above.
                p2p::sendrecv_outside(&sent, &received, status, |status| unsafe {
                    function(buf, count, datatype, dest, sendtag, source, recvtag, comm, status)
                })
            }, inside |call, _real, function| {
                let large = i64::from(count);
                let sent = Message { buf, count: large, datatype, peer: dest, tag: sendtag, comm };
                let received = Message { peer: source, tag: recvtag, ..sent };
                // SAFETY: as above.
                p2p::sendrecv(call, &sent, &received, status, |status| unsafe {
                    function(buf, count, datatype, dest, sendtag, source, recvtag, comm, status)
                })
            };

            fn $isendrecv(
                sendbuf: Ptr,
                sendcount: $count,
                sendtype: Handle,
                dest: c_int,
                sendtag: c_int,
                recvbuf: Ptr,
                recvcount: $count,
                recvtype: Handle,
                source: c_int,
                recvtag: c_int,
                comm: Handle,
                request: Ptr,
            ) outside |call, real| {
                let count = i64::from(recvcount);
                let (buf, datatype, peer, tag) = (recvbuf, recvtype, source, recvtag);
                let received = Message { buf, count, datatype, peer, tag, comm };
                nonblocking::sendrecv_outside(call, &received, request, real)
            }, inside |call, real| {
                let count = i64::from(sendcount);
                let (buf, datatype, peer, tag) = (sendbuf, sendtype, dest, sendtag);
                let sent = Message { buf, count, datatype, peer, tag, comm };
                let count = i64::from(recvcount);
                let (buf, datatype, peer, tag) = (recvbuf, recvtype, source, recvtag);
                let received = Message { buf, count, datatype, peer, tag, comm };
                nonblocking::sendrecv(call, &sent, &received, request, real)
            };

            fn $ireplace(
                buf: Ptr,
                count: $count,
                datatype: Handle,
                dest: c_int,
                sendtag: c_int,
                source: c_int,
                recvtag: c_int,
                comm: Handle,
                request: Ptr,
            ) outside |call, real| {
                let count = i64::from(count);
                let received = Message { buf, count, datatype, peer: source, tag: recvtag, comm };
                nonblocking::sendrecv_outside(call, &received, request, real)
            }, inside |call, real| {
                let count = i64::from(count);
                let sent = Message { buf, count, datatype, peer: dest, tag: sendtag, comm };
                let received = Message { peer: source, tag: recvtag, ..sent };
                nonblocking::sendrecv(call, &sent, &received, request, real)
            };
        )* }
    };
}

receives! {
    c_int: MPI_Recv MPI_Irecv MPI_Sendrecv MPI_Sendrecv_replace MPI_Isendrecv MPI_Isendrecv_replace;
    i64: MPI_Recv_c MPI_Irecv_c MPI_Sendrecv_c MPI_Sendrecv_replace_c MPI_Isendrecv_c
        MPI_Isendrecv_replace_c;
}
