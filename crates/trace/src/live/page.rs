//! The words of a page, and writing them.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::time::{Duration, Instant};

use errors::Result;
use os::clock::Clock;
use os::shared::SharedMemory;

use crate::activity::{Activity, Counter, ACTIVITIES};
use crate::cause::{Cause, CAUSES};
use crate::Shown;

/// The name of the memory in `/proc`.
pub(super) const NAME: &str = "veloc-job";
/// Says that the words mean what this file says. Another layout has another mark.
pub(super) const MARK: u64 = u64::from_be_bytes(*b"veloc\0\0\x01");
/// The most levels of memory.
pub(super) const LEVELS: usize = 3;

// The words of the head.
pub(super) const MARK_AT: usize = 0;
pub(super) const PROCESS: usize = 1;
pub(super) const RANK: usize = 2;
pub(super) const RANKS: usize = 3;
/// When the job has started, in nanoseconds of `CLOCK_MONOTONIC`.
pub(super) const SINCE: usize = 4;
/// The version of the checkpoint that was taken or restored last, plus one.
pub(super) const VERSION: usize = 5;
/// Texts end at their first zero byte.
pub(super) const LIBRARY: Words = Words { at: 6, count: 2 };
pub(super) const CHECKPOINT: Words = Words { at: LIBRARY.end(), count: 8 };
pub(super) const TRACE: Words = Words { at: CHECKPOINT.end(), count: 64 };

/// Of each level its name, then its size, the bytes of it that are ready for use, and the bytes used.
pub(super) const LEVEL_WORDS: usize = 6;
pub(super) const LEVEL_NAME: usize = 3;
/// Of each activity how many are under way, their number, bytes and nanoseconds.
pub(super) const ACTIVITY_WORDS: usize = 4;
/// Of each cause how many waits are in progress, since when the last one of them, the number of those that have ended,
/// and their nanoseconds.
pub(super) const CAUSE_WORDS: usize = 4;

pub(super) const LEVELS_AT: usize = TRACE.end();
pub(super) const ACTIVITIES_AT: usize = LEVELS_AT + LEVELS * LEVEL_WORDS;
pub(super) const CAUSES_AT: usize = ACTIVITIES_AT + ACTIVITIES.len() * ACTIVITY_WORDS;
/// The number of words.
pub(super) const WORDS: usize = CAUSES_AT + CAUSES.len() * CAUSE_WORDS;

/// Words of the page that have a text.
#[derive(Clone, Copy)]
pub(super) struct Words {
    pub(super) at: usize,
    pub(super) count: usize,
}

impl Words {
    const fn end(self) -> usize {
        self.at + self.count
    }
}

/// The page of this process, or words that nobody else sees.
pub(crate) struct Page {
    words: Box<dyn AsRef<[AtomicU64]> + Send + Sync>,
    /// Keeps the descriptor, by which others find the page.
    _memory: Option<SharedMemory>,
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").finish_non_exhaustive()
    }
}

impl Page {
    /// A page that others see, if they are to see this process. The timeline goes to the file `trace`.
    pub(crate) fn new(
        rank: u32,
        shown: Option<&Shown>,
        trace: Option<&Path>,
        clock: &Clock,
    ) -> Page {
        let page = match shown.map(|_| Page::shared()) {
            Some(Ok(page)) => page,
            Some(Err(error)) => {
                log::warn!("veloc top does not see this process: {error}");
                Page::unseen()
            }
            None => return Page::unseen(),
        };
        page.set(PROCESS, std::process::id().into());
        page.set(RANK, rank.into());
        page.set(RANKS, shown.map_or(0, |shown| shown.ranks).into());
        page.set(SINCE, clock.nanoseconds(Instant::now()));
        // Half a path would name another file.
        let trace = trace.map(|path| path.as_os_str().as_encoded_bytes());
        if let Some(trace) = trace.filter(|path| path.len() <= TRACE.count * 8) {
            page.set_text(TRACE, trace);
        }
        page.set_text(LIBRARY, env!("CARGO_PKG_VERSION").as_bytes());
        page.words()[MARK_AT].store(MARK, Release);
        page
    }

    fn shared() -> Result<Page> {
        let memory = SharedMemory::create(NAME, WORDS as u64 * 8)?;
        let words = memory.words()?;
        Ok(Page { words, _memory: Some(memory) })
    }

    fn unseen() -> Page {
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        Page { words: Box::new(words), _memory: None }
    }

    fn words(&self) -> &[AtomicU64] {
        (*self.words).as_ref()
    }

    fn set(&self, word: usize, value: u64) {
        self.words()[word].store(value, Relaxed);
    }

    /// Writes a text, as much of it as there is room for.
    fn set_text(&self, words: Words, text: &[u8]) {
        let mut bytes = text.chunks(8);
        for word in words.at..words.end() {
            let mut eight = [0; 8];
            let next = bytes.next().unwrap_or_default();
            eight[..next.len()].copy_from_slice(next);
            let eight = u64::from_ne_bytes(eight);
            // Names seldom change.
            if self.words()[word].load(Relaxed) != eight {
                self.set(word, eight);
            }
        }
    }

    /// A level of memory, by its row, with its size in bytes. All of it is ready, or, with `comes`, nothing yet.
    pub(crate) fn level(&self, row: usize, name: &str, size: u64, comes: bool) {
        if row < LEVELS {
            let at = LEVELS_AT + row * LEVEL_WORDS;
            self.set_text(Words { at, count: LEVEL_NAME }, name.as_bytes());
            self.set(at + LEVEL_NAME, size);
            self.set(at + LEVEL_NAME + 1, if comes { 0 } else { size });
        }
    }

    /// A checkpoint that is taken or restored.
    pub(crate) fn checkpoint(&self, name: &str, version: i32) {
        self.set_text(CHECKPOINT, name.as_bytes());
        self.set(VERSION, u64::try_from(version).map_or(0, |version| version + 1));
    }

    pub(crate) fn counter(&self, counter: Counter, bytes: u64) {
        const READY: usize = LEVEL_NAME + 1;
        const USED: usize = LEVEL_NAME + 2;
        let (row, word) = match counter {
            Counter::DeviceMapped => (0, READY),
            Counter::HostTouched => (1, READY),
            Counter::HostRegistered => return,
            Counter::DeviceUsed => (0, USED),
            Counter::HostUsed => (1, USED),
            Counter::LowerUsed => (2, USED),
        };
        self.set(LEVELS_AT + row * LEVEL_WORDS + word, bytes);
    }

    fn activity(&self, activity: Activity) -> &[AtomicU64] {
        let at = ACTIVITIES_AT + activity as usize * ACTIVITY_WORDS;
        &self.words()[at..at + ACTIVITY_WORDS]
    }

    pub(crate) fn begins(&self, activity: Activity) {
        self.activity(activity)[0].fetch_add(1, Relaxed);
    }

    /// What has begun is over.
    pub(crate) fn is_over(&self, activity: Activity) {
        self.activity(activity)[0].fetch_sub(1, Relaxed);
    }

    /// What was done counts.
    pub(crate) fn done(&self, activity: Activity, bytes: u64, time: Duration) {
        let [_, number, moved, nanoseconds] = self.activity(activity) else { return };
        number.fetch_add(1, Relaxed);
        moved.fetch_add(bytes, Relaxed);
        nanoseconds.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    fn cause(&self, cause: Cause) -> &[AtomicU64] {
        let at = CAUSES_AT + cause as usize * CAUSE_WORDS;
        &self.words()[at..at + CAUSE_WORDS]
    }

    /// The application waits since this time, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) fn waits(&self, cause: Cause, since: u64) {
        let [waiting, begun, ..] = self.cause(cause) else { return };
        begun.store(since, Relaxed);
        waiting.fetch_add(1, Relaxed);
    }

    /// The application waits no longer.
    pub(crate) fn goes_on(&self, cause: Cause) {
        self.cause(cause)[0].fetch_sub(1, Relaxed);
    }

    /// A wait counts.
    pub(crate) fn waited(&self, cause: Cause, time: Duration) {
        let [_, _, number, nanoseconds] = self.cause(cause) else { return };
        number.fetch_add(1, Relaxed);
        nanoseconds.fetch_add(time.as_nanos() as u64, Relaxed);
    }
}
