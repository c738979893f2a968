//! The library's metrics: bytes and time per hop, and the time for which the application waited, by
//! cause.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use crate::cause::{Cause, CAUSES};
use crate::Recorder;

/// A place where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// In the application's memory.
    Application,
    /// In a level of memory: its row in the table of levels.
    Memory(u8),
    /// In a scratch file.
    Scratch,
    /// In a persistent file.
    Persistent,
}

impl Stop {
    /// The device cache.
    pub const DEVICE: Stop = Stop::Memory(0);
    /// The host buffer.
    pub const HOST: Stop = Stop::Memory(1);

    fn index(self) -> usize {
        match self {
            Stop::Application => 0,
            Stop::Scratch => 1,
            Stop::Persistent => 2,
            Stop::Memory(row) => 3 + usize::from(row),
        }
    }
}

/// The most places: four levels of memory.
const STOPS: usize = 7;

/// A way that bytes take from one place to another.
pub type Hop = (Stop, Stop);

/// The hops that VELOC's GPU prototype counts, with its names, in the order of its numbers. A: application,
/// D: device cache, H: host buffer, F: scratch file, P: persistent file.
pub const HOPS: [(Hop, &str); 13] = {
    use Stop::{Application as A, Persistent as P, Scratch as F};
    const D: Stop = Stop::DEVICE;
    const H: Stop = Stop::HOST;
    [
        ((A, D), "AtoD"),
        ((A, H), "AtoH"),
        ((A, F), "AtoF"),
        ((D, H), "DtoH"),
        ((D, F), "DtoF"),
        ((H, F), "HtoF"),
        ((F, P), "FtoP"),
        ((P, F), "PtoF"),
        ((F, H), "FtoH"),
        ((H, D), "HtoD"),
        ((D, A), "DtoA"),
        ((H, A), "HtoA"),
        ((F, A), "FtoA"),
    ]
};

/// A sum over time.
#[derive(Debug, Default)]
pub struct Sum {
    amount: AtomicU64,
    nanoseconds: AtomicU64,
    count: AtomicU64,
}

impl Sum {
    /// Adds one event.
    pub fn add(&self, amount: u64, time: Duration) {
        self.amount.fetch_add(amount, Ordering::Relaxed);
        self.nanoseconds.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The sum of the amounts, in bytes where the events have bytes.
    pub fn amount(&self) -> u64 {
        self.amount.load(Ordering::Relaxed)
    }

    /// The sum of the times, in nanoseconds.
    pub fn nanoseconds(&self) -> u64 {
        self.nanoseconds.load(Ordering::Relaxed)
    }

    /// The number of events.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// The counters of one job.
#[derive(Debug, Default)]
pub struct Metrics {
    hops: [[Sum; STOPS]; STOPS],
    blocked: [Sum; CAUSES.len()],
    /// Mapping of the device cache: bytes and time.
    pub map: Sum,
    /// Touching of the host buffer: bytes and time, added over the threads.
    pub touch: Sum,
    /// Registration of the host buffer: bytes and time in the driver.
    pub register: Sum,
    /// Waiting for the node lock before a registration.
    pub node_lock: Sum,
    /// The duration of `VELOC_Init`.
    pub init: Sum,
    /// Calls that have taken a whole checkpoint.
    pub checkpoint_calls: Sum,
    /// Calls that have restored a whole checkpoint.
    pub restart_calls: Sum,
    /// Making parities: bytes of the parity files, and time.
    pub encode: Sum,
    /// The number of checkpoints whose parities could not be made.
    pub encode_failures: AtomicU64,
    /// Compressing regions: their bytes before, and time.
    pub compress: Sum,
    /// Decompressing regions: their bytes behind it, and time.
    pub decompress: Sum,
    /// The bytes of compressed regions.
    pub compressed_bytes: AtomicU64,
    /// Blocks of 64 values of them that were kept whole, as the bound asks for it.
    pub compressed_whole: AtomicU64,
    /// Regions that were to be compressed, and were taken as they are.
    pub uncompressed: AtomicU64,
    trace: Recorder,
}

impl Metrics {
    /// All counters 0. Waits are recorded in `trace`, too.
    pub fn new(trace: Recorder) -> Self {
        Metrics { trace, ..Metrics::default() }
    }

    /// The counter of a hop.
    pub fn hop(&self, (from, to): Hop) -> &Sum {
        &self.hops[from.index()][to.index()]
    }

    /// The counter of a cause.
    pub fn blocked(&self, cause: Cause) -> &Sum {
        &self.blocked[cause as usize]
    }

    /// Counts a wait of the application for `cause` since `since`. The trace gets the same nanoseconds.
    pub fn waited(&self, cause: Cause, since: Instant) {
        self.waited_for(cause, since, since.elapsed());
    }

    /// Counts a wait that has ended.
    pub fn waited_for(&self, cause: Cause, since: Instant, time: Duration) {
        self.blocked(cause).add(0, time);
        self.trace.blocked(cause, since, time);
    }

    /// A wait of the application for `cause` begins. It ends, and counts, when the value is dropped.
    pub fn wait(&self, cause: Cause) -> Waiting<'_> {
        let since = Instant::now();
        self.trace.waits(cause, since);
        Waiting { metrics: self, cause, since }
    }

    /// The bytes of each hop, as VELOC's GPU prototype writes them and its scripts read them: one line, each entry
    /// with a comma behind it. At most 378 bytes.
    pub fn text(&self) -> String {
        let hops = HOPS.map(|(hop, name)| format!("{name} : {}, ", self.hop(hop).amount()));
        format!("{{{}}}", hops.concat())
    }
}

/// A wait of the application in progress.
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct Waiting<'a> {
    metrics: &'a Metrics,
    cause: Cause,
    since: Instant,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.metrics.trace.goes_on(self.cause);
        self.metrics.waited(self.cause, self.since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a hop that is counted with another one, or under its name.
    #[test]
    fn each_hop_has_a_counter_of_its_own() {
        let metrics = Metrics::default();
        for (number, (hop, name)) in HOPS.into_iter().enumerate() {
            metrics.hop(hop).add(1 << number, Duration::from_nanos(1));
            let counted = metrics.text();
            assert!(counted.contains(&format!("{name} : {}, ", 1 << number)), "{counted}");
        }
    }

    /// Reads the text as the prototype's scripts do: without its ends, cut at commas, and at the first colon.
    #[test]
    fn the_text_is_what_scripts_of_the_prototype_read() {
        let metrics = Metrics::default();
        for (hop, _) in HOPS {
            metrics.hop(hop).add(u64::MAX / 2, Duration::from_nanos(1));
        }
        let text = metrics.text();
        assert!(text.len() <= 378 && !text.contains('\n'), "{text}");
        let entries = text[1..].split(", ").filter_map(|entry| entry.split_once(':'));
        let read: Vec<_> =
            entries.map(|(name, bytes)| (name.trim(), bytes.trim().parse())).collect();
        assert_eq!(read, HOPS.map(|(_, name)| (name, Ok(u64::MAX / 2))).to_vec());
    }
}
