//! Which chunk of the host buffer to register next with the driver, and in whose turn.
//!
//! Registration comes after touching: pinning pages that exist is several times as fast as making
//! them (HiPC'22, section IV-A). The paper registers the whole buffer once all of it is touched;
//! here each chunk is, unless `pin` says otherwise, so that what is flushed early is registered early.
//! One registration call stops every copy of the process while it runs and may not be larger than
//! 2 GiB on some kernels, so even that is done chunk by chunk here; transfers are cut at the
//! borders, which the driver demands.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The key `pin`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pin {
    /// All chunks once all pages are touched, in this process's turn on the node (the paper's way).
    Serial,
    /// All chunks once all pages are touched, whatever other processes do.
    Parallel,
    /// Never: transfers go by way of a few MiB that are.
    Off,
    /// Each chunk as soon as its pages are touched, in this process's turns on the node.
    #[default]
    Chunked,
}

/// What the registrar is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Register this chunk.
    Register(usize),
    /// Wait until more is touched.
    Wait,
    /// Nothing is left to do.
    Done,
}

/// The next chunk of `chunks`, given whether all that are open are touched, which are touched and
/// which are settled (registered, refused by the driver, or given up).
pub fn next(
    pin: Pin,
    chunks: usize,
    all_touched: bool,
    touched: impl Fn(usize) -> bool,
    done: impl Fn(usize) -> bool,
) -> Next {
    let open = || (0..chunks).filter(|&chunk| !done(chunk));
    match pin {
        Pin::Off => Next::Done,
        Pin::Serial | Pin::Parallel => match open().next() {
            None => Next::Done,
            Some(chunk) if all_touched => Next::Register(chunk),
            Some(_) => Next::Wait,
        },
        Pin::Chunked => match open().find(|&chunk| touched(chunk)) {
            Some(chunk) => Next::Register(chunk),
            None if open().next().is_none() => Next::Done,
            None => Next::Wait,
        },
    }
}

/// The rate of registering touched pages, in bytes per second, before it has been measured: a slow
/// one, so that the first registration begins early in a lull (see [`super::lull`]).
const ASSUMED_RATE: f64 = 8e9;

/// How many seconds the registration of `bytes` will take, judged by those before: so many bytes
/// in so many seconds.
pub fn expected_seconds(bytes: u64, before: (u64, f64)) -> f64 {
    match before {
        (done, seconds) if done > 0 && seconds > 0.0 => bytes as f64 * seconds / done as f64,
        _ => bytes as f64 / ASSUMED_RATE,
    }
}

/// Whether there is anything to register: a device that reads the host's page tables copies as fast
/// without.
pub fn is_useful(pin: Pin, reads_page_tables: bool) -> bool {
    pin != Pin::Off && !reads_page_tables
}

/// Whether registration waits for this process's turn on the node.
pub fn takes_node_lock(pin: Pin) -> bool {
    matches!(pin, Pin::Serial | Pin::Chunked)
}

/// How long a turn is waited for. Who has it may be stopped, or hold it for no good reason, and to go on
/// without one only takes longer: the registrations of several processes share one rate.
pub const NODE_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a turn may be held idle for a lull, in seconds: about as long as it takes to hand it
/// over, for the others sleep for half a millisecond between two looks. It is given back after that,
/// and when no chunk is left that could be registered; until then it is kept for one chunk after the
/// other, of which several take less than handing it over.
pub const LONGEST_IDLE_LOCK: f64 = 2e-3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_waits_for_the_last_page_and_then_takes_all() {
        assert_eq!(next(Pin::Serial, 3, false, |c| c != 1, |_| false), Next::Wait);
        assert_eq!(next(Pin::Serial, 3, true, |_| true, |c| c == 0), Next::Register(1));
        assert_eq!(next(Pin::Serial, 3, true, |_| true, |_| true), Next::Done);
    }

    #[test]
    fn chunked_follows_the_touch_front() {
        assert_eq!(next(Pin::Chunked, 3, false, |c| c == 1, |_| false), Next::Register(1));
        assert_eq!(next(Pin::Chunked, 3, false, |c| c == 1, |c| c == 1), Next::Wait);
        assert_eq!(next(Pin::Chunked, 3, true, |_| true, |_| true), Next::Done);
    }

    #[test]
    fn a_device_that_reads_page_tables_needs_nothing_registered() {
        assert!(is_useful(Pin::Serial, false) && !is_useful(Pin::Serial, true));
        assert!(!is_useful(Pin::Off, false));
    }

    #[test]
    fn off_has_nothing_to_do() {
        assert_eq!(next(Pin::Off, 3, true, |_| true, |_| false), Next::Done);
    }
}
