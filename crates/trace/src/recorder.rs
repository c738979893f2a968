//! The interface of the recorder.

use policy::capture::Capture;
use std::cell::RefCell;
use std::ffi::CString;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::activity::{Activity, Counter, ACTIVITIES};
use super::cause::Cause;
use super::file_name;
use super::live::Page;
use super::nvtx::Nvtx;
use super::ring::{Producer, RecordKind, Ring, TraceRecord};
use super::writer::TraceWriter;
use errors::Result;
use os::clock::Clock;

/// Where a recorder writes to.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The trace file (see `file_name`). `None`: NVTX only.
    pub file: Option<PathBuf>,
    /// The process's rank.
    pub rank: u32,
    /// What `veloc top` is told of the process. `None`: it does not see it.
    pub shown: Option<Shown>,
}

/// What `veloc top` is told of a process at its start.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The number of ranks; 0 if it is unknown.
    pub ranks: u32,
}

/// A recorder, or none. Clones share one file.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    /// Identifies this recorder in a thread's list of rings.
    id: u64,
    clock: Clock,
    /// The job as it is now.
    page: Page,
    writer: Option<TraceWriter>,
    nvtx: Option<&'static Nvtx>,
}

/// A thread's ring for one recorder.
struct Local {
    recorder: u64,
    /// `None`: there are too many threads, or the recorder has ended.
    ring: Option<Arc<Ring>>,
    producer: Producer,
}

impl Drop for Local {
    /// Releases the ring: the thread or the recorder has ended.
    fn drop(&mut self) {
        if let Some(ring) = &self.ring {
            ring.give_back();
        }
    }
}

thread_local! {
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
}

impl Recorder {
    /// A recorder that records nothing.
    pub fn off() -> Recorder {
        Recorder(None)
    }

    /// Starts recording. The calling thread is named "application" unless it is renamed. Without a file,
    /// NVTX and anybody to show it to, nothing is recorded.
    ///
    /// # Errors
    /// The file cannot be created; its name and the reason.
    pub fn start(setup: &Setup) -> Result<Recorder> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (path, writer) = match &setup.file {
            None => (None, None),
            Some(given) => {
                let (path, file) = file_name::create(given, setup.rank)?;
                log::info!("a trace is written to {}", path.display());
                (Some(path.clone()), Some(TraceWriter::start(file, path, std::process::id())?))
            }
        };
        let nvtx = Nvtx::find(writer.is_some());
        if writer.is_none() && nvtx.is_none() && setup.shown.is_none() {
            return Ok(Recorder(None));
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let clock = Clock::new();
        let page = Page::new(setup.rank, setup.shown.as_ref(), path.as_deref(), &clock);
        let recorder = Recorder(Some(Arc::new(Inner { id, clock, page, writer, nvtx })));
        if let Some(inner) = &recorder.0 {
            // Allocates the ring now, not in the first checkpoint.
            inner.with_local(|_, _| {});
        }
        let process = format!("veloc {} (process {})", setup.rank, std::process::id());
        recorder.metadata("process", process);
        recorder.metadata("rank", setup.rank);
        recorder.metadata("version", env!("CARGO_PKG_VERSION"));
        if let Some(inner) = &recorder.0 {
            recorder.metadata("clock_error_ns", inner.clock.error());
        }
        Ok(recorder)
    }

    /// Whether a timeline is recorded, for callers whose records are costly to make.
    pub fn is_on(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.writer.is_some() || inner.nvtx.is_some())
    }

    /// Tells those who look at the job of a level of memory: its row, name and size in bytes, and whether all of it is
    /// there at once.
    pub fn level(&self, row: usize, name: &str, size: u64, comes_later: bool) {
        if let Some(inner) = &self.0 {
            inner.page.level(row, name, size, comes_later);
        }
    }

    /// Names the calling thread, in the file and for profilers, and allocates its ring.
    pub fn name_thread(&self, name: &str) {
        let Some(inner) = &self.0 else { return };
        inner.with_local(|ring, producer| {
            if let (Some(writer), Some(_)) = (&inner.writer, ring) {
                writer.name(producer.thread, name);
            }
        });
        if let (Some(nvtx), Ok(name)) = (inner.nvtx, CString::new(name)) {
            nvtx.name_thread(&name);
        }
    }

    /// Records metadata of the job. The key `warning` is shown beside the process.
    pub fn metadata(&self, key: &str, value: impl std::fmt::Display) {
        if let Some(writer) = self.0.as_ref().and_then(|inner| inner.writer.as_ref()) {
            writer.metadata(key, value.to_string());
        }
    }

    /// Begins a span, which ends when it is dropped.
    pub fn span(&self, activity: Activity) -> Span<'_> {
        let open = self.0.as_deref().map(|inner| {
            if let Some(nvtx) = inner.nvtx {
                nvtx.push(ACTIVITIES[activity as usize].1);
            }
            inner.page.begins(activity);
            let since = Instant::now();
            let (entered, discarded, bytes, untouched) = (false, false, 0, 0);
            OpenSpan { inner, activity, since, entered, discarded, bytes, untouched }
        });
        Span { open, _of_its_thread: PhantomData }
    }

    /// Records an activity on this thread that began at `since` and took `time`.
    pub fn spent(&self, activity: Activity, since: Instant, time: Duration, bytes: u64) {
        if let Some(inner) = &self.0 {
            inner.page.done(activity, bytes, time);
        }
        self.record(RecordKind::Span, activity as u8, since, time, [bytes, 0], None);
    }

    /// Records that the application, on this thread, waited for `cause` since `since`.
    pub fn blocked(&self, cause: Cause, since: Instant, time: Duration) {
        if let Some(inner) = &self.0 {
            inner.page.waited(cause, time);
        }
        self.record(RecordKind::Blocked, cause as u8, since, time, [0, 0], None);
    }

    /// A wait of the application begins, which [`Recorder::goes_on`] ends.
    pub(crate) fn waits(&self, cause: Cause, since: Instant) {
        if let Some(inner) = &self.0 {
            inner.page.waits(cause, inner.clock.nanoseconds(since));
        }
    }

    /// The application goes on.
    pub(crate) fn goes_on(&self, cause: Cause) {
        if let Some(inner) = &self.0 {
            inner.page.goes_on(cause);
        }
    }

    /// Records the eviction of a copy.
    pub fn evicted(&self, level: u8, name: &str, version: i32, bytes: u64) {
        self.record_now(RecordKind::Evict, level, [bytes, 0], Some((name, version)));
    }

    /// Records the current touch mode, with the predicted durations of a flush, in seconds, under
    /// sequential and concurrent touching.
    pub fn touch_mode(&self, concurrent: bool, predicted: [f64; 2]) {
        let predicted = predicted.map(|seconds| (seconds * 1e9) as u64);
        self.record_now(RecordKind::Decide, concurrent.into(), predicted, None);
    }

    /// Records how the host memory of a checkpoint was captured by `VELOC_Checkpoint`,
    /// its bytes, and how long the call has taken.
    pub fn host_capture(&self, way: Capture, of: (&str, i32), bytes: u64, call: Duration) {
        self.record_now(
            RecordKind::HostCapture,
            way.row().number.unwrap_or_default(),
            [bytes, call.as_nanos() as u64],
            Some(of),
        );
    }

    /// Records that a region of a checkpoint was compressed to so many bits of a value and these bytes, the most by which a
    /// value differs, and how many blocks were kept whole.
    pub fn compressed(&self, bits: u32, bytes: u64, error: f64, whole: u64) {
        let (whole, values) = (Duration::from_nanos(whole), [bytes, error.to_bits()]);
        self.record(RecordKind::Compressed, bits as u8, Instant::now(), whole, values, None);
    }

    /// Records the value of a counter in bytes.
    pub fn counter(&self, counter: Counter, bytes: u64) {
        if let Some(inner) = &self.0 {
            inner.page.counter(counter, bytes);
        }
        self.record_now(RecordKind::Counter, counter as u8, [bytes, 0], None);
    }

    /// Records the values of two consecutive counters in bytes.
    pub fn counters(&self, counters: [Counter; 2], bytes: [u64; 2]) {
        debug_assert_eq!(counters[0] as u8 + 1, counters[1] as u8);
        if let Some(inner) = &self.0 {
            counters
                .iter()
                .zip(bytes)
                .for_each(|(counter, bytes)| inner.page.counter(*counter, bytes));
        }
        self.record_now(RecordKind::Counters, counters[0] as u8, bytes, None);
    }

    /// Writes what was recorded, and closes the file. Later records are lost.
    pub fn finish(&self) {
        if let Some(writer) = self.0.as_ref().and_then(|inner| inner.writer.as_ref()) {
            writer.finish();
        }
    }

    #[cfg(test)]
    pub(super) fn rings(&self) -> usize {
        self.0.as_ref().and_then(|inner| inner.writer.as_ref()).map_or(0, TraceWriter::rings)
    }

    fn record_now(
        &self,
        kind: RecordKind,
        detail: u8,
        values: [u64; 2],
        subject: Option<(&str, i32)>,
    ) {
        if self.0.as_ref().is_some_and(|inner| inner.writer.is_some()) {
            self.record(kind, detail, Instant::now(), Duration::ZERO, values, subject);
        }
    }

    fn record(
        &self,
        kind: RecordKind,
        detail: u8,
        since: Instant,
        time: Duration,
        [bytes, extra]: [u64; 2],
        subject: Option<(&str, i32)>,
    ) {
        let Some(inner) = self.0.as_ref().filter(|inner| inner.writer.is_some()) else { return };
        let start = inner.clock.nanoseconds(since);
        let time = time.as_nanos() as u64;
        let record = TraceRecord { kind, detail, start, time, bytes, extra };
        inner.push(record, subject);
    }
}

impl Inner {
    fn push(&self, record: TraceRecord, subject: Option<(&str, i32)>) {
        self.with_local(|ring, producer| match ring {
            Some(ring) => producer.push(ring, record, subject),
            None => self.count_lost(),
        });
    }

    fn count_lost(&self) {
        if let Some(writer) = &self.writer {
            writer.count_refused();
        }
    }

    /// Calls `body` with the calling thread's ring for this recorder, registering the thread if
    /// necessary.
    fn with_local(&self, body: impl FnOnce(Option<&Ring>, &mut Producer)) {
        let Some(writer) = &self.writer else { return };
        // A thread that is exiting records nothing more.
        let _ = LOCALS.try_with(|locals| {
            let mut locals = locals.borrow_mut();
            let known = locals.iter().position(|local| local.recorder == self.id);
            let at = known.unwrap_or_else(|| {
                // Removes rings that only this thread still references: their recorders have ended.
                locals.retain(|l| l.ring.as_ref().is_some_and(|t| Arc::strong_count(t) > 1));
                locals.push(Local::registered(self.id, writer));
                locals.len() - 1
            });
            let local = &mut locals[at];
            body(local.ring.as_deref(), &mut local.producer);
        });
    }
}

impl Local {
    fn registered(recorder: u64, writer: &TraceWriter) -> Local {
        let Some((ring, number)) = writer.register_thread() else {
            return Local { recorder, ring: None, producer: Producer::new(0) };
        };
        // Workers name themselves, so this is a thread of the application.
        match number {
            1 => writer.name(number, "application"),
            _ => writer.name(number, &format!("application {number}")),
        }
        Local { recorder, ring: Some(ring), producer: Producer::new(number) }
    }
}

/// An activity in progress on the thread that began it.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct Span<'a> {
    open: Option<OpenSpan<'a>>,
    /// A span ends on its thread.
    _of_its_thread: PhantomData<*const ()>,
}

#[derive(Debug)]
struct OpenSpan<'a> {
    inner: &'a Inner,
    activity: Activity,
    since: Instant,
    /// The thread's records belong to the span's checkpoint meanwhile.
    entered: bool,
    discarded: bool,
    bytes: u64,
    untouched: u64,
}

impl Span<'_> {
    /// Assigns the span, and what this thread records meanwhile, to a checkpoint, unless an outer span
    /// has done so.
    pub fn of(mut self, name: &str, version: i32) -> Self {
        if let Some(open) = &mut self.open {
            if matches!(open.activity, Activity::Checkpoint | Activity::Restore) {
                open.inner.page.checkpoint(name, version);
            }
            let entered = &mut open.entered;
            open.inner.with_local(|_, producer| *entered |= producer.enter(name, version));
        }
        self
    }

    /// Sets the bytes moved. A span without bytes has failed, or moves none.
    pub fn bytes(&mut self, bytes: u64) {
        if let Some(open) = &mut self.open {
            open.bytes = bytes;
        }
    }

    /// Drops the span without a record: there was nothing to do.
    pub fn discard(&mut self) {
        if let Some(open) = &mut self.open {
            open.discarded = true;
        }
    }

    /// Sets how many of the bytes went to untouched pages.
    pub fn untouched(&mut self, bytes: u64) {
        if let Some(open) = &mut self.open {
            open.untouched = bytes;
        }
    }
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        let Some(open) = &self.open else { return };
        let inner = open.inner;
        let time = open.since.elapsed();
        inner.page.is_over(open.activity);
        if !open.discarded {
            inner.page.done(open.activity, open.bytes, time);
        }
        let record = TraceRecord {
            kind: RecordKind::Span,
            detail: open.activity as u8,
            start: inner.clock.nanoseconds(open.since),
            time: time.as_nanos() as u64,
            bytes: open.bytes,
            extra: open.untouched,
        };
        if !open.discarded {
            inner.push(record, None);
        }
        if open.entered {
            inner.with_local(|_, producer| producer.leave());
        }
        if let Some(nvtx) = inner.nvtx {
            nvtx.pop();
        }
    }
}
