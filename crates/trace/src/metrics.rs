//! The library's metrics: bytes and time per hop, and the time for which the application waited, by
//! cause.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use crate::cause::{Cause, CAUSES};
use crate::Recorder;

/// A transfer from one place to another. A: application, D: device cache, H: host buffer, F: scratch
/// file, P: persistent file (the names of VELOC's GPU prototype).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Each name says it.
pub enum Hop {
    AtoD = 0,
    AtoH = 1,
    AtoF = 2,
    DtoH = 3,
    DtoF = 4,
    HtoF = 5,
    FtoP = 6,
    PtoF = 7,
    FtoH = 8,
    HtoD = 9,
    DtoA = 10,
    HtoA = 11,
    FtoA = 12,
}

/// All hops with their names, by number.
pub const HOPS: [(Hop, &str); 13] = [
    (Hop::AtoD, "AtoD"),
    (Hop::AtoH, "AtoH"),
    (Hop::AtoF, "AtoF"),
    (Hop::DtoH, "DtoH"),
    (Hop::DtoF, "DtoF"),
    (Hop::HtoF, "HtoF"),
    (Hop::FtoP, "FtoP"),
    (Hop::PtoF, "PtoF"),
    (Hop::FtoH, "FtoH"),
    (Hop::HtoD, "HtoD"),
    (Hop::DtoA, "DtoA"),
    (Hop::HtoA, "HtoA"),
    (Hop::FtoA, "FtoA"),
];

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
    hops: [Sum; HOPS.len()],
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
    /// Making parities: bytes of the parity files, and time.
    pub encode: Sum,
    /// The number of checkpoints whose parities could not be made.
    pub encode_failures: AtomicU64,
    trace: Recorder,
}

impl Metrics {
    /// All counters 0. Waits are recorded in `trace`, too.
    pub fn new(trace: Recorder) -> Self {
        Metrics { trace, ..Metrics::default() }
    }

    /// The counter of a hop.
    pub fn hop(&self, hop: Hop) -> &Sum {
        &self.hops[hop as usize]
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

    /// One line per hop, without a rate if nothing was moved: `DtoH: 1048576 bytes, 12.50 GB/s`; at most
    /// `limit` bytes in all.
    pub fn text(&self, limit: usize) -> String {
        let mut text = String::new();
        for (hop, name) in HOPS {
            let sum = self.hop(hop);
            let line = if sum.nanoseconds() > 0 {
                let rate = sum.amount() as f64 / sum.nanoseconds() as f64;
                format!("{name}: {} bytes, {rate:.2} GB/s\n", sum.amount())
            } else {
                format!("{name}: {} bytes\n", sum.amount())
            };
            if text.len() + line.len() > limit {
                break;
            }
            text.push_str(&line);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_numbers() {
        assert!(HOPS.iter().enumerate().all(|(i, (hop, _))| *hop as usize == i));
    }

    #[test]
    fn the_text_keeps_to_its_limit_and_names_every_hop_within_1024_bytes() {
        let metrics = Metrics::default();
        for (hop, _) in HOPS {
            metrics.hop(hop).add(u64::MAX / 2, Duration::from_nanos(1));
        }
        let text = metrics.text(1023);
        assert!(text.len() <= 1023);
        assert!(HOPS.iter().all(|(_, name)| text.contains(name)), "{text}");
        assert!(metrics.text(60).len() <= 60);
    }
}
