//! Which chunk of the host buffer to register (pin) next with the driver.
//!
//! Registration follows touching: pinning existing pages is several times as fast as faulting them in
//! (HiPC'22, section IV-A). The paper registers the buffer once all of it is touched. By default each
//! chunk is registered here as soon as it is touched, so that early flushes find registered memory. A
//! registration call blocks every copy of the process and is limited to 2 GiB on some kernels, so all
//! modes register chunk by chunk. Transfers are split at chunk boundaries, as the driver requires.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The key `pin`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pin {
    /// All chunks after all pages are touched, under the node lock (the paper's method).
    Serial,
    /// All chunks after all pages are touched, without the node lock.
    Parallel,
    /// Never: transfers use a small registered staging ring.
    Off,
    /// Each chunk as soon as its pages are touched, under the node lock.
    #[default]
    Chunked,
}

/// The registrar's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrarStep {
    /// Register this chunk.
    Register(usize),
    /// Wait until more pages are touched.
    Wait,
    /// All chunks are done.
    Done,
}

/// The next chunk of `chunks` to register. `all_touched`: every open chunk is touched; `touched`: a
/// chunk is touched; `done`: a chunk is registered, refused by the driver, or given up.
pub fn next(
    pin: Pin,
    chunks: usize,
    all_touched: bool,
    touched: impl Fn(usize) -> bool,
    done: impl Fn(usize) -> bool,
) -> RegistrarStep {
    let open = || (0..chunks).filter(|&chunk| !done(chunk));
    match pin {
        Pin::Off => RegistrarStep::Done,
        Pin::Serial | Pin::Parallel => match open().next() {
            None => RegistrarStep::Done,
            Some(chunk) if all_touched => RegistrarStep::Register(chunk),
            Some(_) => RegistrarStep::Wait,
        },
        Pin::Chunked => match open().find(|&chunk| touched(chunk)) {
            Some(chunk) => RegistrarStep::Register(chunk),
            None if open().next().is_none() => RegistrarStep::Done,
            None => RegistrarStep::Wait,
        },
    }
}

/// The assumed rate of registering touched pages, in bytes per second, until it is measured. It is low,
/// so that the first registration starts early in an idle window ([`super::idle_window`]).
const ASSUMED_RATE: f64 = 8e9;

/// The expected duration of registering `bytes`, in seconds, from the bytes and seconds measured
/// `before`.
pub fn expected_seconds(bytes: u64, before: (u64, f64)) -> f64 {
    match before {
        (done, seconds) if done > 0 && seconds > 0.0 => bytes as f64 * seconds / done as f64,
        _ => bytes as f64 / ASSUMED_RATE,
    }
}

/// Whether registration helps: a device that reads the host's page tables copies as fast without it.
pub fn is_useful(pin: Pin, reads_page_tables: bool) -> bool {
    pin != Pin::Off && !reads_page_tables
}

/// Whether registration is done under the node lock.
pub fn takes_node_lock(pin: Pin) -> bool {
    matches!(pin, Pin::Serial | Pin::Chunked)
}

/// How long to wait for the node lock. Its holder may be stopped; registering without it is correct but
/// slower, because the processes share one rate.
pub const NODE_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long after it has a device a job registers nothing: processes that start together map their caches first,
/// and none of them waits for another's registrations.
pub const BEGIN_AFTER: Duration = Duration::from_millis(30);

/// How long, in seconds, the node lock may be held idle while waiting for an idle window: about the time
/// of handing it over, as the others poll every half millisecond. It is kept from chunk to chunk,
/// because several chunks take less time than handing it over.
pub const LONGEST_IDLE_LOCK: f64 = 2e-3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_waits_for_the_last_page_and_then_takes_all() {
        assert_eq!(next(Pin::Serial, 3, false, |c| c != 1, |_| false), RegistrarStep::Wait);
        assert_eq!(next(Pin::Serial, 3, true, |_| true, |c| c == 0), RegistrarStep::Register(1));
        assert_eq!(next(Pin::Serial, 3, true, |_| true, |_| true), RegistrarStep::Done);
    }

    #[test]
    fn chunked_follows_the_touch_front() {
        assert_eq!(next(Pin::Chunked, 3, false, |c| c == 1, |_| false), RegistrarStep::Register(1));
        assert_eq!(next(Pin::Chunked, 3, false, |c| c == 1, |c| c == 1), RegistrarStep::Wait);
        assert_eq!(next(Pin::Chunked, 3, true, |_| true, |_| true), RegistrarStep::Done);
    }

    #[test]
    fn a_device_that_reads_page_tables_needs_nothing_registered() {
        assert!(is_useful(Pin::Serial, false) && !is_useful(Pin::Serial, true));
        assert!(!is_useful(Pin::Off, false));
    }

    #[test]
    fn off_has_nothing_to_do() {
        assert_eq!(next(Pin::Off, 3, true, |_| true, |_| false), RegistrarStep::Done);
    }
}
