//! Graph capture: a stream's work is recorded instead of carried out.
//!
//! The rules are those of the driver's manual (`cuStreamBeginCapture`, `cuStreamIsCapturing`,
//! `cuThreadExchangeStreamCaptureMode`) and of the chapter on graphs in the programming guide. In any mode,
//! waiting for a captured stream, or asking whether its work is done, breaks the capture, and so does waiting
//! for a context that has such a stream; the legacy stream cannot be used while a blocking stream is
//! captured; potentially unsafe calls break captures unless the thread's mode permits them. Work is only
//! counted: no graph can be launched, and events carry no capture to other streams.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use crate::handles::fresh_handle;
use crate::queue::{DriverStream, StreamKind};
use crate::status::{DriverResult, ErrorCode};
use crate::sync::lock;

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`.
const GLOBAL: u32 = 0;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: u32 = 2;

/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`.
const ACTIVE: u32 = 1;
/// `CU_STREAM_CAPTURE_STATUS_INVALIDATED`.
const INVALIDATED: u32 = 2;

/// Calls that a capture cannot record; so they must not be made during one.
const UNSAFE: [&str; 13] = [
    "cuMemAlloc_v2",
    "cuMemAllocManaged",
    "cuMemAllocHost_v2",
    "cuMemHostAlloc",
    "cuMemFree_v2",
    "cuMemFreeHost",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemCreate",
    "cuMemMap",
    "cuMemUnmap",
    "cuEventQuery",
    "cuEventSynchronize",
];

/// A capture under way.
pub(crate) struct StreamCapture {
    context: u64,
    stream: u64,
    kind: StreamKind,
    mode: u32,
    thread: ThreadId,
    nodes: AtomicU64,
    broken: AtomicBool,
}

static UNDER_WAY: Mutex<Vec<Arc<StreamCapture>>> = Mutex::new(Vec::new());
static GRAPHS: Mutex<Option<HashMap<u64, u64>>> = Mutex::new(None);

thread_local! {
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

impl StreamCapture {
    /// Records one piece of work.
    pub(crate) fn record(&self) {
        self.nodes.fetch_add(1, Ordering::Relaxed);
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    fn is_of(&self, context: u64, stream: &DriverStream) -> bool {
        self.context == context && self.stream == stream.handle
    }
}

/// Breaks the captures that are `meant`; returns whether there were any.
fn break_those(meant: impl Fn(&StreamCapture) -> bool) -> bool {
    let under_way = lock(&UNDER_WAY);
    let broken = under_way.iter().filter(|capture| meant(capture));
    broken.inspect(|capture| capture.broken.store(true, Ordering::Relaxed)).count() > 0
}

/// Sets the calling thread's mode, and returns the previous one.
pub(crate) fn exchange_mode(mode: u32) -> DriverResult<u32> {
    if mode > RELAXED {
        return Err(ErrorCode::INVALID_VALUE);
    }
    Ok(MODE.replace(mode))
}

/// Begins to capture a stream.
pub(crate) fn begin(context: u64, stream: &DriverStream, mode: u32) -> DriverResult {
    if mode > RELAXED {
        return Err(ErrorCode::INVALID_VALUE);
    }
    if stream.kind == StreamKind::Legacy {
        return Err(ErrorCode::STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut under_way = lock(&UNDER_WAY);
    if under_way.iter().any(|capture| capture.is_of(context, stream)) {
        return Err(ErrorCode::ILLEGAL_STATE);
    }
    under_way.push(Arc::new(StreamCapture {
        context,
        stream: stream.handle,
        kind: stream.kind,
        mode,
        thread: std::thread::current().id(),
        nodes: AtomicU64::new(0),
        broken: AtomicBool::new(false),
    }));
    Ok(())
}

/// Ends the capture of a stream and returns the graph, unless the capture is broken.
pub(crate) fn end(context: u64, stream: &DriverStream) -> DriverResult<u64> {
    let mut under_way = lock(&UNDER_WAY);
    let place = under_way
        .iter()
        .position(|capture| capture.is_of(context, stream))
        .ok_or(ErrorCode::ILLEGAL_STATE)?;
    let capture = &under_way[place];
    if capture.mode != RELAXED && capture.thread != std::thread::current().id() {
        return Err(ErrorCode::STREAM_CAPTURE_WRONG_THREAD);
    }
    let capture = under_way.remove(place);
    if capture.is_broken() {
        return Err(ErrorCode::STREAM_CAPTURE_INVALIDATED);
    }
    let graph = fresh_handle();
    let nodes = capture.nodes.load(Ordering::Relaxed);
    lock(&GRAPHS).get_or_insert_default().insert(graph, nodes);
    Ok(graph)
}

/// Whether a stream is captured, as a `CUstreamCaptureStatus`. For the legacy stream this is an error while a
/// blocking one is captured, but breaks nothing.
pub(crate) fn status(context: u64, stream: &DriverStream) -> DriverResult<u32> {
    let under_way = lock(&UNDER_WAY);
    if stream.kind == StreamKind::Legacy
        && under_way.iter().any(|capture| concerns(capture, context))
    {
        return Err(ErrorCode::STREAM_CAPTURE_IMPLICIT);
    }
    let own = under_way.iter().find(|capture| capture.is_of(context, stream));
    Ok(own.map_or(0, |own| if own.is_broken() { INVALIDATED } else { ACTIVE }))
}

/// Whether the legacy stream of `context` cannot be used for this capture.
fn concerns(capture: &StreamCapture, context: u64) -> bool {
    capture.context == context && capture.kind == StreamKind::Blocking
}

/// The capture that records work about to be queued in a stream, if any.
pub(crate) fn of_work(
    context: u64,
    stream: &DriverStream,
) -> DriverResult<Option<Arc<StreamCapture>>> {
    if stream.kind == StreamKind::Legacy && break_those(|capture| concerns(capture, context)) {
        return Err(ErrorCode::STREAM_CAPTURE_IMPLICIT);
    }
    let own = lock(&UNDER_WAY).iter().find(|capture| capture.is_of(context, stream)).cloned();
    match own {
        Some(own) if own.is_broken() => Err(ErrorCode::STREAM_CAPTURE_INVALIDATED),
        own => Ok(own),
    }
}

/// Called when a stream is waited for, or asked whether its work is done.
pub(crate) fn check_wait(context: u64, stream: &DriverStream) -> DriverResult {
    if stream.kind == StreamKind::Legacy && break_those(|capture| concerns(capture, context)) {
        return Err(ErrorCode::STREAM_CAPTURE_IMPLICIT);
    }
    match break_those(|capture| capture.is_of(context, stream)) {
        true => Err(ErrorCode::STREAM_CAPTURE_UNSUPPORTED),
        false => Ok(()),
    }
}

/// Called when a whole context is waited for.
pub(crate) fn check_wait_for_all(context: u64) -> DriverResult {
    match break_those(|capture| capture.context == context) {
        true => Err(ErrorCode::STREAM_CAPTURE_UNSUPPORTED),
        false => Ok(()),
    }
}

/// Called at each call of the function `name`.
pub(crate) fn check_call(name: &str) -> DriverResult {
    let mode = MODE.get();
    if mode == RELAXED || !UNSAFE.contains(&name) {
        return Ok(());
    }
    let own = std::thread::current().id();
    let forbids = |capture: &StreamCapture| match capture.mode {
        RELAXED => false,
        _ if capture.thread == own => true,
        theirs => theirs == GLOBAL && mode == GLOBAL,
    };
    match break_those(forbids) {
        true => Err(ErrorCode::STREAM_CAPTURE_UNSUPPORTED),
        false => Ok(()),
    }
}

/// Called when the context ends.
pub(crate) fn forget(context: u64) {
    lock(&UNDER_WAY).retain(|capture| capture.context != context);
}

/// How many pieces of work a graph has.
pub(crate) fn nodes(graph: u64) -> DriverResult<u64> {
    let graphs = lock(&GRAPHS);
    graphs.as_ref().and_then(|graphs| graphs.get(&graph)).copied().ok_or(ErrorCode::INVALID_VALUE)
}

/// Destroys a graph.
pub(crate) fn destroy(graph: u64) -> DriverResult {
    let gone = lock(&GRAPHS).as_mut().and_then(|graphs| graphs.remove(&graph));
    gone.map(|_| ()).ok_or(ErrorCode::INVALID_VALUE)
}
