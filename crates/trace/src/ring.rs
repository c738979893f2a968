//! The ring of one thread's records, with one producer and one consumer.
//!
//! A checkpoint's name is written before its first record, in as many slots as needed, and is valid
//! until the next name. So records are small and names need no table. Likewise the thread's number
//! precedes its first record, because a released ring is used by the next thread.

#[cfg(feature = "model-check")]
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(not(feature = "model-check"))]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::slot::{Slot, WORDS};

/// Bytes of a name per slot.
const NAME_BYTES: usize = 8 * (WORDS - 1);
/// Slots of a ring: 1.25 MiB, more than a thread fills between two rounds of the writer. Few in a model
/// check, so that the ring wraps around soon.
pub(super) const SLOTS: usize = if cfg!(feature = "model-check") { 4 } else { 1 << 15 };
/// The longest name in bytes, as in the C interface.
const MOST_NAME: usize = 127;

/// The most slots of a record: the thread, the pieces of its name, which may lack 3 bytes to a whole
/// character, and the record.
const MOST_SLOTS: usize = 2 + MOST_NAME.div_ceil(NAME_BYTES - 3);

const _: () = assert!(SLOTS.is_power_of_two());

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A span; the detail is an [`Activity`](super::Activity).
    Span = 1,
    /// The application waited; the detail is a [`Cause`](super::cause::Cause).
    Blocked,
    /// An eviction; the detail is the row of the level.
    Evict,
    /// `touch = auto` has decided; the detail is 1 for concurrent.
    Decide,
    /// How host memory was captured; the detail is the number of the way in `json::WAYS`.
    HostCapture,
    /// A counter; the detail is a [`Counter`](super::Counter).
    Counter,
    /// Two consecutive counters; the second value is in `extra`.
    Counters,
    /// A piece of a name.
    Name,
    /// The following records are another thread's, without a name.
    Thread,
}

/// An event. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The kind of the record.
    pub kind: Kind,
    /// The detail of its kind.
    pub detail: u8,
    /// The checkpoint's version, if it has one; its name precedes it.
    pub version: Option<i32>,
    /// When the event began.
    pub start: u64,
    /// How long the event took.
    pub time: u64,
    /// Bytes moved, or a counter's value.
    pub bytes: u64,
    /// Bytes to untouched pages, or another value of the kind.
    pub extra: u64,
}

/// A name of bounded length, stored in place.
#[derive(Clone, Copy)]
struct Name {
    bytes: [u8; MOST_NAME],
    len: usize,
}

impl Name {
    const NONE: Name = Name { bytes: [0; MOST_NAME], len: 0 };

    fn of(text: &str) -> Name {
        let kept = beginning(text, MOST_NAME).as_bytes();
        let mut name = Name { len: kept.len(), ..Name::NONE };
        name.bytes[..kept.len()].copy_from_slice(kept);
        name
    }

    fn is(&self, text: &str) -> bool {
        &self.bytes[..self.len] == beginning(text, MOST_NAME).as_bytes()
    }
}

/// As many whole characters of `text` as fit into `most` bytes.
fn beginning(text: &str, most: usize) -> &str {
    let mut len = text.len().min(most);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    &text[..len]
}

#[derive(Debug)]
pub(crate) struct Ring {
    slots: Box<[Slot]>,
    /// Slots written since the start.
    head: AtomicU64,
    /// Slots read since the start.
    tail: AtomicU64,
    dropped: AtomicU64,
    /// Whether a thread uses the ring.
    in_use: AtomicBool,
}

/// The producer's state.
pub(crate) struct Producer {
    /// The thread's number in the file.
    pub thread: u32,
    /// Whether the ring has the thread's number.
    thread_announced: bool,
    announced: Name,
    context: Name,
    version: Option<i32>,
}

/// The consumer's state.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    thread: u32,
    name: String,
}

impl Producer {
    /// The state of a producer for thread number `thread`, without records.
    pub(crate) fn new(thread: u32) -> Producer {
        let (announced, context) = (Name::NONE, Name::NONE);
        Producer { thread, thread_announced: false, announced, context, version: None }
    }

    /// Sets the checkpoint of the following records that have none of their own. False, and no
    /// change, if a checkpoint is set already.
    pub(crate) fn enter(&mut self, name: &str, version: i32) -> bool {
        if self.version.is_some() {
            return false;
        }
        self.context = Name::of(name);
        self.version = Some(version);
        true
    }

    /// Ends what [`Producer::enter`] began.
    pub(crate) fn leave(&mut self) {
        self.version = None;
    }

    /// Pushes a record about `subject`, or about the current checkpoint.
    pub(crate) fn push(&mut self, ring: &Ring, mut record: Record, subject: Option<(&str, i32)>) {
        let name = match subject {
            Some((name, version)) => {
                record.version = Some(version);
                name
            }
            None => {
                record.version = self.version;
                std::str::from_utf8(&self.context.bytes[..self.context.len]).unwrap_or_default()
            }
        };
        let named = record.version.is_none() || self.announced.is(name);
        if named && self.thread_announced {
            ring.push(&[encode(&record)]);
        } else if self.announce(ring, (!named).then_some(name), &record) {
            self.thread_announced = true;
            if !named {
                self.announced = Name::of(name);
            }
        }
    }

    /// Pushes a record after the thread's number and the name, if the consumer does not know them.
    /// False: there was no room.
    #[cold]
    fn announce(&self, ring: &Ring, name: Option<&str>, record: &Record) -> bool {
        let mut slots = [[0; WORDS]; MOST_SLOTS];
        let mut count = 0;
        let mut add = |slot| {
            slots[count] = slot;
            count += 1;
        };
        if !self.thread_announced {
            add(encode_thread(self.thread));
        }
        if let Some(name) = name {
            let mut rest = beginning(name, MOST_NAME);
            let mut first = true;
            // An empty name must be written, too, to replace the previous one.
            while first || !rest.is_empty() {
                let piece = beginning(rest, NAME_BYTES);
                add(encode_name(piece.as_bytes(), first));
                (rest, first) = (&rest[piece.len()..], false);
            }
        }
        add(encode(record));
        ring.push(&slots[..count])
    }
}

impl Ring {
    /// An empty ring with allocated memory, used by the caller.
    pub(crate) fn taken() -> Ring {
        Ring {
            slots: std::iter::repeat_with(Slot::default).take(SLOTS).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            in_use: AtomicBool::new(true),
        }
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

    /// Pushes slots; called by the producer only. False: there was no room, and the record is
    /// dropped.
    fn push(&self, slots: &[[u64; WORDS]]) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        let used = head - self.tail.load(Ordering::Acquire);
        if used as usize + slots.len() > SLOTS {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        for (number, slot) in (head..).zip(slots) {
            self.slots[number as usize % SLOTS].put(slot);
        }
        self.head.store(head + slots.len() as u64, Ordering::Release);
        true
    }

    /// Passes the records to `take`, with their thread and name. `at` keeps the state between calls.
    /// Called by the consumer only. Returns the share of the ring that was in use.
    pub(crate) fn drain(&self, at: &mut Consumer, mut take: impl FnMut(u32, &Record, &str)) -> f64 {
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        for number in tail..head {
            let words = self.slots[number as usize % SLOTS].get();
            match decode(&words) {
                Some(record) => take(at.thread, &record, &at.name),
                None => at.apply_header(&words),
            }
        }
        self.tail.store(head, Ordering::Release);
        (head - tail) as f64 / SLOTS as f64
    }

    /// The number of dropped records.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Consumer {
    /// Takes a slot that sets the thread or the name of the following records.
    fn apply_header(&mut self, words: &[u64; WORDS]) {
        if words[0] as u8 == Kind::Thread as u8 {
            self.thread = words[1] as u32;
            self.name.clear();
        } else {
            add_name(words, &mut self.name);
        }
    }
}

fn encode(record: &Record) -> [u64; WORDS] {
    let version = record.version.unwrap_or(0) as u32;
    let first = record.kind as u64
        | u64::from(record.detail) << 8
        | u64::from(record.version.is_some()) << 16
        | u64::from(version) << 32;
    [first, record.start, record.time, record.bytes, record.extra]
}

fn decode(words: &[u64; WORDS]) -> Option<Record> {
    const KINDS: [Kind; 7] = [
        Kind::Span,
        Kind::Blocked,
        Kind::Evict,
        Kind::Decide,
        Kind::HostCapture,
        Kind::Counter,
        Kind::Counters,
    ];
    let kind = KINDS.into_iter().find(|kind| *kind as u8 == words[0] as u8)?;
    Some(Record {
        kind,
        detail: (words[0] >> 8) as u8,
        version: (words[0] >> 16 & 1 == 1).then_some((words[0] >> 32) as u32 as i32),
        start: words[1],
        time: words[2],
        bytes: words[3],
        extra: words[4],
    })
}

fn encode_thread(number: u32) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    (words[0], words[1]) = (Kind::Thread as u64, u64::from(number));
    words
}

fn encode_name(bytes: &[u8], first: bool) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[0] = Kind::Name as u64 | (bytes.len() as u64) << 8 | u64::from(first) << 16;
    for (word, piece) in words[1..].iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..piece.len()].copy_from_slice(piece);
        *word = u64::from_le_bytes(whole);
    }
    words
}

fn add_name(words: &[u64; WORDS], name: &mut String) {
    if words[0] >> 16 & 1 == 1 {
        name.clear();
    }
    let mut bytes = Vec::with_capacity(NAME_BYTES);
    words[1..].iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    bytes.truncate((words[0] >> 8) as u8 as usize);
    // A piece consists of whole characters.
    name.push_str(&String::from_utf8_lossy(&bytes));
}
