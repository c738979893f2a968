//! Contexts: the streams of one and the order among them.
//!
//! A context promises what the driver promises: the legacy default stream
//! waits for all work queued before in blocking streams and they for it;
//! non-blocking streams stand apart; synchronising the context waits for all.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::abi::{STREAM_LEGACY, STREAM_PER_THREAD};
use crate::capture;
use crate::config;
use crate::handles::fresh_handle;
use crate::queue::{
    ContextHealth, DriverStream, Operation, OperationTicket, OperationWork, StreamKind,
};
use crate::status::{DriverResult, ErrorCode};
use crate::sync::lock;

/// One context on one device.
pub(crate) struct Context {
    /// The value that names it.
    pub(crate) handle: u64,
    /// Distinguishes it from all others, also from an earlier one with the same handle.
    pub(crate) id: u64,
    /// The ordinal of its device.
    pub(crate) device: usize,
    /// Whether it is the device's primary context.
    pub(crate) primary: bool,
    /// Whether it is broken or gone.
    pub(crate) health: Arc<ContextHealth>,
    /// The default streams first, then those the program made.
    lanes: Mutex<Vec<StreamTail>>,
    /// Held by calls that keep others from queueing work, if configured.
    queueing: Mutex<()>,
}

/// A stream and the operation last queued in it.
struct StreamTail {
    stream: Arc<DriverStream>,
    last: Option<Arc<OperationTicket>>,
}

impl StreamTail {
    fn pending(&self) -> Option<Arc<OperationTicket>> {
        self.last.clone().filter(|ticket| !ticket.is_done())
    }
}

/// Conditions of an operation beside being last in its stream.
#[derive(Default)]
pub(crate) struct OperationTerms {
    /// An operation of another stream to wait for.
    pub(crate) after: Option<Arc<OperationTicket>>,
    /// Injected: fail with this when its turn comes.
    pub(crate) fails_with: Option<ErrorCode>,
}

impl Context {
    /// A context with its two default streams.
    pub(crate) fn new(handle: u64, device: usize, primary: bool) -> Arc<Self> {
        let health = Arc::new(ContextHealth::default());
        let lane = |handle: usize, kind| StreamTail {
            stream: DriverStream::new(handle as u64, kind, 0, Arc::clone(&health)),
            last: None,
        };
        let lanes = vec![
            lane(STREAM_LEGACY, StreamKind::Legacy),
            lane(STREAM_PER_THREAD, StreamKind::Blocking),
        ];
        Arc::new(Self {
            handle,
            id: fresh_handle(),
            device,
            primary,
            health,
            lanes: Mutex::new(lanes),
            queueing: Mutex::default(),
        })
    }

    /// Adds a stream, ready to work.
    pub(crate) fn add_stream(
        &self,
        handle: u64,
        kind: StreamKind,
        flags: u32,
    ) -> DriverResult<Arc<DriverStream>> {
        let stream = DriverStream::new(handle, kind, flags, Arc::clone(&self.health));
        stream.start()?;
        lock(&self.lanes).push(StreamTail { stream: Arc::clone(&stream), last: None });
        Ok(stream)
    }

    /// The legacy or the per-thread default stream.
    pub(crate) fn default_stream(&self, handle: usize) -> DriverResult<Arc<DriverStream>> {
        lock(&self.lanes)
            .iter()
            .find(|lane| lane.stream.handle == handle as u64)
            .map(|lane| Arc::clone(&lane.stream))
            .ok_or(ErrorCode::CONTEXT_IS_DESTROYED)
    }

    /// Keeps others from queueing work until the guard is dropped, if configured.
    pub(crate) fn hold_queueing(&self) -> Option<MutexGuard<'_, ()>> {
        config::context_lock().then(|| lock(&self.queueing))
    }

    /// Queues `work` in `stream` in the order the driver promises, or has it
    /// recorded if the stream is captured.
    pub(crate) fn submit(
        &self,
        stream: &Arc<DriverStream>,
        terms: OperationTerms,
        work: OperationWork,
    ) -> DriverResult<Arc<OperationTicket>> {
        if let Some(capture) = capture::of_work(self.handle, stream)? {
            capture.record();
            return Ok(OperationTicket::done());
        }
        let mut lanes = lock(&self.lanes);
        lanes.retain(|lane| !lane.stream.is_closed() || lane.pending().is_some());

        let mut after: Vec<_> = terms.after.into_iter().collect();
        after.extend(
            lanes.iter().filter(|lane| comes_before(lane, stream)).filter_map(StreamTail::pending),
        );
        let ticket = OperationTicket::new();
        stream.push(Operation {
            after,
            ticket: Arc::clone(&ticket),
            fails_with: terms.fails_with,
            work,
        })?;
        if let Some(lane) = lanes.iter_mut().find(|lane| lane.stream.handle == stream.handle) {
            lane.last = Some(Arc::clone(&ticket));
        }
        Ok(ticket)
    }

    /// The operations that synchronising with `stream` waits for.
    pub(crate) fn pending_in(&self, stream: &DriverStream) -> Vec<Arc<OperationTicket>> {
        lock(&self.lanes)
            .iter()
            .filter(|lane| {
                lane.stream.handle == stream.handle
                    || (stream.kind == StreamKind::Legacy && comes_before(lane, stream))
            })
            .filter_map(StreamTail::pending)
            .collect()
    }

    /// The operations that synchronising with the whole context waits for.
    pub(crate) fn pending(&self) -> Vec<Arc<OperationTicket>> {
        lock(&self.lanes).iter().filter_map(StreamTail::pending).collect()
    }

    /// Ends the context: waits for the work that runs, drops what is queued.
    pub(crate) fn shut_down(&self) {
        self.health.destroy();
        capture::forget(self.handle);
        let lanes = std::mem::take(&mut *lock(&self.lanes));
        for lane in &lanes {
            lane.stream.close();
        }
        for ticket in lanes.iter().filter_map(StreamTail::pending) {
            ticket.wait();
        }
    }
}

/// Whether an operation queued in `stream` now comes after those in `lane`,
/// by the rule of the legacy default stream.
fn comes_before(lane: &StreamTail, stream: &DriverStream) -> bool {
    matches!(
        (lane.stream.kind, stream.kind),
        (StreamKind::Blocking, StreamKind::Legacy) | (StreamKind::Legacy, StreamKind::Blocking)
    )
}
