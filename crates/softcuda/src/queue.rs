//! Streams: first-in first-out queues, each carried out by a thread of its own.
//!
//! An operation has a [`OperationTicket`] that says when it is done, and waits for the tickets of the operations it
//! comes after. A ticket is only ever waited for by operations queued later, so no set of streams can wait in
//! a circle. Threads are never joined: the process may end while they work. Those of the default streams
//! start with the first operation; any other stream has its own from the beginning, ready to work, like a
//! driver's streams. So a program's first copy does not include the start of a thread, which is slow while
//! others hold the lock of the address space.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::config;
use crate::late;
use crate::status::{DriverResult, ErrorCode};
use crate::sync::{lock, wait};

/// How many calls have waited by spinning.
pub(crate) static SPUN: AtomicU64 = AtomicU64::new(0);

/// Completion of one operation.
#[derive(Debug, Default)]
pub(crate) struct OperationTicket {
    finished: Mutex<Option<Instant>>,
    changed: Condvar,
    /// The period of [`late`] in which the operation was queued; 0 if it is never late.
    period: u64,
    wanted: AtomicBool,
}

impl OperationTicket {
    /// The ticket of an operation about to be queued.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { period: late::period(), ..Self::default() })
    }

    /// The ticket of an operation that is done already.
    pub(crate) fn done() -> Arc<Self> {
        let ticket = Arc::new(Self::default());
        ticket.complete();
        ticket
    }

    /// Has a late device carry the operation out, and all that comes before it.
    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::Release);
        late::look_again();
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Blocks until the operation is done.
    pub(crate) fn wait(&self) {
        self.want();
        let mut finished = lock(&self.finished);
        while finished.is_none() {
            finished = wait(&self.changed, finished);
        }
    }

    /// Like [`OperationTicket::wait`], for a call that is documented to sleep: it wants nothing of a late device before
    /// that has been late for as long as it is set to be.
    pub(crate) fn sleep(&self) {
        if late::is_on() {
            let (longest, finished) = (config::late(), lock(&self.finished));
            drop(self.changed.wait_timeout_while(finished, longest, |finished| finished.is_none()));
        }
        self.wait();
    }

    /// Like [`OperationTicket::wait`], for a call that is not documented to sleep: drivers spin there.
    pub(crate) fn spin(&self) {
        if self.is_done() {
            return;
        }
        SPUN.fetch_add(1, Ordering::Relaxed);
        self.want();
        while config::spins() && !self.is_done() {
            std::thread::yield_now();
        }
        self.wait();
    }

    /// When the operation was done, if it is.
    pub(crate) fn finished_at(&self) -> Option<Instant> {
        *lock(&self.finished)
    }

    /// Whether the operation is done.
    pub(crate) fn is_done(&self) -> bool {
        self.finished_at().is_some()
    }

    fn complete(&self) {
        *lock(&self.finished) = Some(Instant::now());
        self.changed.notify_all();
    }
}

/// Whether a context is still good: an error of its device work stays.
#[derive(Debug, Default)]
pub(crate) struct ContextHealth {
    error: AtomicU32,
    destroyed: AtomicBool,
}

impl ContextHealth {
    /// Breaks the context with `status`; the first error wins.
    pub(crate) fn fail(&self, status: ErrorCode) {
        let _ = self.error.compare_exchange(0, status.0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Ends the context: what is still queued is not carried out.
    pub(crate) fn destroy(&self) {
        self.destroyed.store(true, Ordering::Release);
    }

    /// The error that every call in this context returns, if any.
    pub(crate) fn check(&self) -> DriverResult {
        if self.destroyed.load(Ordering::Acquire) {
            return Err(ErrorCode::CONTEXT_IS_DESTROYED);
        }
        match self.error.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(ErrorCode(code)),
        }
    }
}

/// The work of an operation; an error breaks the context.
pub(crate) type OperationWork = Box<dyn FnOnce() -> DriverResult + Send>;

/// One entry of a stream.
pub(crate) struct Operation {
    /// Operations to wait for, beside those before it in the stream.
    pub(crate) after: Vec<Arc<OperationTicket>>,
    /// Completed once the work has been done, or skipped.
    pub(crate) ticket: Arc<OperationTicket>,
    /// Injected: fail with this in place of doing the work.
    pub(crate) fails_with: Option<ErrorCode>,
    /// The work to do.
    pub(crate) work: OperationWork,
}

/// How a stream is ordered against the legacy default stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// The legacy default stream itself.
    Legacy,
    /// Waits for the legacy stream, and it for this one.
    Blocking,
    /// Unordered against the legacy stream.
    NonBlocking,
}

/// A stream: its traits, its queue and (once needed) its thread.
pub(crate) struct DriverStream {
    /// The value that names it; 1 and 2 are the default streams.
    pub(crate) handle: u64,
    /// How it is ordered against the legacy stream.
    pub(crate) kind: StreamKind,
    /// The flags it was made with.
    pub(crate) flags: u32,
    health: Arc<ContextHealth>,
    queue: Mutex<OperationQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct OperationQueue {
    operations: VecDeque<Operation>,
    has_worker: bool,
    closed: bool,
}

impl DriverStream {
    /// An empty stream of the context with this health.
    pub(crate) fn new(
        handle: u64,
        kind: StreamKind,
        flags: u32,
        health: Arc<ContextHealth>,
    ) -> Arc<Self> {
        Arc::new(Self {
            handle,
            kind,
            flags,
            health,
            queue: Mutex::new(OperationQueue::default()),
            changed: Condvar::new(),
        })
    }

    /// Starts the thread and returns when it is ready to work.
    pub(crate) fn start(self: &Arc<Self>) -> DriverResult {
        let ready = Arc::new(OperationTicket::default());
        let told = Arc::clone(&ready);
        self.push(Operation {
            after: Vec::new(),
            ticket: told,
            fails_with: None,
            work: Box::new(|| {
                // A thread's first allocation sets up its part of the heap.
                std::hint::black_box(Box::new(0_u64));
                Ok(())
            }),
        })?;
        ready.wait();
        Ok(())
    }

    /// Appends an operation.
    pub(crate) fn push(self: &Arc<Self>, operation: Operation) -> DriverResult {
        let mut queue = lock(&self.queue);
        if queue.closed {
            return Err(ErrorCode::INVALID_HANDLE);
        }
        if !queue.has_worker {
            let stream = Arc::clone(self);
            std::thread::Builder::new()
                .name("softcuda-stream".into())
                .spawn(move || stream.work())
                .map_err(|_| ErrorCode::OUT_OF_MEMORY)?;
            queue.has_worker = true;
        }
        queue.operations.push_back(operation);
        self.changed.notify_one();
        Ok(())
    }

    /// Takes no more operations; the thread ends when it has done the rest.
    pub(crate) fn close(&self) {
        lock(&self.queue).closed = true;
        self.changed.notify_one();
        late::look_again();
    }

    /// Whether [`DriverStream::close`] was called.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.queue).closed
    }

    fn work(&self) {
        while let Some(operation) = self.next() {
            let Operation { after, ticket, fails_with, work } = operation;
            late::hold_back(ticket.period, || ticket.is_wanted() || self.wants_all_before());
            for earlier in after {
                earlier.wait();
            }
            self.carry_out(fails_with, work);
            ticket.complete();
        }
    }

    /// Whether anything queued is wanted, or the stream is closed.
    fn wants_all_before(&self) -> bool {
        let queue = lock(&self.queue);
        queue.closed || queue.operations.iter().any(|queued| queued.ticket.is_wanted())
    }

    /// Runs or drops the work. Either way whatever it held is released when
    /// this returns, which is before anyone learns that it is done.
    fn carry_out(&self, fails_with: Option<ErrorCode>, work: OperationWork) {
        if self.health.check().is_err() {
            return;
        }
        let outcome = match fails_with {
            Some(status) => Err(status),
            None => catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(ErrorCode::UNKNOWN)),
        };
        if let Err(status) = outcome {
            self.health.fail(status);
        }
    }

    fn next(&self) -> Option<Operation> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(operation) = queue.operations.pop_front() {
                return Some(operation);
            }
            if queue.closed {
                return None;
            }
            queue = wait(&self.changed, queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;

    /// Catches a stream whose first copy has to start its thread.
    #[test]
    fn a_programs_stream_has_its_thread_from_the_beginning() {
        let context = Context::new(0x40, 0, true);
        let stream = context.add_stream(0x80, StreamKind::NonBlocking, 1).unwrap();
        let queue = lock(&stream.queue);
        assert!(queue.has_worker && queue.operations.is_empty());
        drop(queue);
        stream.close();
    }
}
