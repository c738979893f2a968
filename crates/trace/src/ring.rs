//! The ring of one thread's records, which the writer takes from it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use crossbeam::queue::ArrayQueue;

/// Records of a ring: 2.25 MiB, more than a thread fills between two rounds of the writer.
pub(super) const SLOTS: usize = 1 << 15;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A span; the detail is an [`Activity`](super::Activity).
    Span,
    /// The application waited; the detail is a [`Cause`](super::cause::Cause).
    Blocked,
    /// An eviction; the detail is the row of the level.
    Evict,
    /// `touch = auto` has decided; the detail is 1 for concurrent.
    Decide,
    /// How host memory was captured; the detail is the number of the way in `json::WAYS`.
    HostCapture,
    /// A region was compressed; the detail is the bits of a value, the time the blocks that were kept whole.
    Compressed,
    /// A counter; the detail is a [`Counter`](super::Counter).
    Counter,
    /// Two consecutive counters; the second value is in `extra`.
    Counters,
}

/// An event. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceRecord {
    /// The kind of the record.
    pub kind: RecordKind,
    /// The detail of its kind.
    pub detail: u8,
    /// When the event began.
    pub start: u64,
    /// How long the event took.
    pub time: u64,
    /// Bytes moved, or a counter's value.
    pub bytes: u64,
    /// Bytes to untouched pages, or another value of the kind.
    pub extra: u64,
}

/// A record, and what it is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RingEntry {
    /// The thread's number in the file: a released ring is used by the next thread.
    pub thread: u32,
    /// The checkpoint's name and version, if it has one.
    pub checkpoint: Option<(Arc<str>, i32)>,
    /// The record.
    pub record: TraceRecord,
}

/// The ring of a thread.
#[derive(Debug)]
pub(crate) struct Ring {
    entries: ArrayQueue<RingEntry>,
    dropped: AtomicU64,
    /// Whether a thread uses the ring.
    in_use: AtomicBool,
}

/// What a thread knows of its records.
pub(crate) struct Producer {
    /// The thread's number in the file.
    pub thread: u32,
    /// The name that came last: the next one is mostly the same, and then needs no memory.
    name: Arc<str>,
    /// The current checkpoint.
    checkpoint: Option<(Arc<str>, i32)>,
}

impl Producer {
    /// That of thread number `thread`, without a checkpoint.
    pub(crate) fn new(thread: u32) -> Producer {
        Producer { thread, name: "".into(), checkpoint: None }
    }

    /// Sets the checkpoint of the following records that have none of their own. False, and no
    /// change, if a checkpoint is set already.
    pub(crate) fn enter(&mut self, name: &str, version: i32) -> bool {
        if self.checkpoint.is_some() {
            return false;
        }
        self.checkpoint = Some((self.shared(name), version));
        true
    }

    /// Ends what [`Producer::enter`] began.
    pub(crate) fn leave(&mut self) {
        self.checkpoint = None;
    }

    /// Pushes a record about `subject`, or about the current checkpoint.
    pub(crate) fn push(&mut self, ring: &Ring, record: TraceRecord, subject: Option<(&str, i32)>) {
        let checkpoint = match subject {
            Some((name, version)) => Some((self.shared(name), version)),
            None => self.checkpoint.clone(),
        };
        ring.push(RingEntry { thread: self.thread, checkpoint, record });
    }

    fn shared(&mut self, name: &str) -> Arc<str> {
        if *self.name != *name {
            self.name = name.into();
        }
        self.name.clone()
    }
}

impl Ring {
    /// An empty ring with allocated memory, used by the caller.
    pub(crate) fn taken() -> Ring {
        let (dropped, in_use) = (AtomicU64::new(0), AtomicBool::new(true));
        Ring { entries: ArrayQueue::new(SLOTS), dropped, in_use }
    }

    /// Makes the caller the producer, if there is none.
    pub(crate) fn take(&self) -> bool {
        // Acquires what the previous producer has pushed.
        self.in_use.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The producer pushes nothing more.
    pub(crate) fn give_back(&self) {
        self.in_use.store(false, Ordering::Release);
    }

    /// Pushes an entry; called by the producer only. Without room it is dropped.
    fn push(&self, entry: RingEntry) {
        // A slot is left free: a push into the one that is just being taken would wait for the writer.
        if self.entries.len() + 1 == SLOTS || self.entries.push(entry).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Passes the entries so far to `take`. Returns the share of the ring that was in use.
    pub(crate) fn drain(&self, take: impl FnMut(RingEntry)) -> f64 {
        let used = self.entries.len();
        (0..used).map_while(|_| self.entries.pop()).for_each(take);
        used as f64 / SLOTS as f64
    }

    /// The number of dropped records.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
