//! The rules of graph capture.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use std::ptr::{null_mut, without_provenance_mut};

use common::*;
use softcuda::abi::CUstream;
use softcuda::api::*;

const GLOBAL: u32 = 0;
const RELAXED: u32 = 2;

const ILLEGAL_STATE: u32 = 401;
const UNSUPPORTED: u32 = 900;
const INVALIDATED: u32 = 901;
const IMPLICIT: u32 = 906;
const WRONG_THREAD: u32 = 908;

/// One piece of work.
fn work(stream: CUstream) -> u32 {
    let event = event();
    cuEventRecord(event, stream)
}

fn status(stream: CUstream) -> Result<u32, u32> {
    let mut status = 9;
    match cu!(cuStreamIsCapturing(stream, &mut status)) {
        0 => Ok(status),
        error => Err(error),
    }
}

/// The number of pieces of work, or the error.
fn end(stream: CUstream) -> Result<usize, u32> {
    let (mut graph, mut nodes) = (null_mut(), 0);
    match cu!(cuStreamEndCapture(stream, &mut graph)) {
        0 => {
            ok(cu!(cuGraphGetNodes(graph, null_mut(), &mut nodes)));
            ok(cuGraphDestroy(graph));
            assert_eq!(cuGraphDestroy(graph), INVALID_VALUE);
            Ok(nodes)
        }
        error => {
            assert!(graph.is_null());
            Err(error)
        }
    }
}

fn begun(flags: u32, mode: u32) -> CUstream {
    let stream = stream(flags);
    ok(cuStreamBeginCapture_v2(stream, mode));
    stream
}

#[test]
fn what_is_captured_is_recorded_and_not_done() {
    let _session = Session::start();
    let stream = begun(0, GLOBAL);
    let memory = [7u8; 4];
    let device: CUstream = stream;
    assert_eq!(status(device), Ok(1));
    assert_eq!(cuStreamBeginCapture_v2(stream, GLOBAL), ILLEGAL_STATE);
    ok(work(stream));
    ok(work(stream));
    let other = common::stream(NON_BLOCKING);
    ok(work(other));
    ok(cuStreamSynchronize(other));
    assert_eq!(end(stream), Ok(2));
    assert_eq!((status(stream), end(stream)), (Ok(0), Err(ILLEGAL_STATE)));
    let to = allocate(4);
    upload(to, &memory);
    ok(cuStreamBeginCapture_v2(other, GLOBAL));
    let source = [1u8, 2, 3, 4];
    ok(cu!(cuMemcpyHtoDAsync_v2(to, source.as_ptr().cast(), 4, other)));
    assert_eq!(end(other), Ok(1));
    assert_eq!(download(to, 4), memory);
}

#[test]
fn the_legacy_stream_cannot_be_captured_nor_used_beside_a_blocking_one() {
    let _session = Session::start();
    for legacy in [null_mut(), without_provenance_mut(1)] {
        assert_eq!(cuStreamBeginCapture_v2(legacy, GLOBAL), UNSUPPORTED);
        let blocking = begun(0, RELAXED);
        assert_eq!(status(legacy), Err(IMPLICIT));
        assert_eq!(status(blocking), Ok(1), "to ask breaks nothing");
        assert_eq!(work(legacy), IMPLICIT);
        assert_eq!((status(blocking), work(blocking)), (Ok(2), INVALIDATED));
        assert_eq!(end(blocking), Err(INVALIDATED));
        let apart = begun(NON_BLOCKING, RELAXED);
        assert_eq!(status(legacy), Ok(0));
        ok(work(legacy));
        ok(cuStreamSynchronize(legacy));
        assert_eq!(end(apart), Ok(0));
    }
}

#[test]
fn a_wait_breaks_a_capture_in_any_mode() {
    let _session = Session::start();
    for mode in [GLOBAL, 1, RELAXED] {
        let waits: [fn(CUstream) -> u32; 3] = [
            |stream| cuStreamSynchronize(stream),
            |stream| cuStreamQuery(stream),
            |_| cuCtxSynchronize(),
        ];
        for wait in waits {
            let stream = begun(NON_BLOCKING, mode);
            let mut relaxed = RELAXED;
            ok(cu!(cuThreadExchangeStreamCaptureMode(&mut relaxed)));
            assert_eq!(wait(stream), UNSUPPORTED);
            ok(cu!(cuThreadExchangeStreamCaptureMode(&mut relaxed)));
            assert_eq!(relaxed, RELAXED);
            assert_eq!((status(stream), end(stream)), (Ok(2), Err(INVALIDATED)));
            ok(cuCtxSynchronize());
        }
    }
}

#[test]
fn unsafe_calls_break_captures_unless_the_threads_mode_lets_them_be() {
    let session = Session::start();
    let context = session.context as usize;
    let register = move |mode: u32| {
        let there = move || {
            ok(cuCtxSetCurrent(without_provenance_mut(context)));
            let mut mode = mode;
            ok(cu!(cuThreadExchangeStreamCaptureMode(&mut mode)));
            let mut pointer = 0;
            cu!(cuMemAlloc_v2(&mut pointer, 512))
        };
        std::thread::spawn(there).join().unwrap()
    };
    let stream = begun(0, GLOBAL);
    assert_eq!((register(RELAXED), register(1)), (0, 0));
    assert_eq!(register(GLOBAL), UNSUPPORTED);
    assert_eq!(end(stream), Err(INVALIDATED));
    let stream = begun(0, 1);
    assert_eq!(register(GLOBAL), 0);
    let mut pointer = 0;
    assert_eq!(cu!(cuMemAlloc_v2(&mut pointer, 512)), UNSUPPORTED);
    assert_eq!(end(stream), Err(INVALIDATED));
}

#[test]
fn who_began_ends() {
    let session = Session::start();
    let context = session.context as usize;
    for (mode, expected) in [(GLOBAL, Err(WRONG_THREAD)), (RELAXED, Ok(0))] {
        let stream = begun(0, mode);
        let handle = stream as usize;
        let ended = std::thread::spawn(move || {
            ok(cuCtxSetCurrent(without_provenance_mut(context)));
            end(without_provenance_mut(handle))
        });
        assert_eq!(ended.join().unwrap(), expected);
        if mode == GLOBAL {
            assert_eq!(end(stream), Ok(0));
        }
    }
}
