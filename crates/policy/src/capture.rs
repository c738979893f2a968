//! How host memory gets to the host buffer if the library is to choose (`host_capture = auto`).
//!
//! Copying in the call costs the application the time of the copy. Protecting the memory costs a fraction of that, and
//! at the most one more copy of what is written at once. A forked process costs the copy of its page tables, and then a
//! page fault for every page that the application writes: much more than a copy if it writes everything.

use std::time::Duration;

/// What is known about a checkpoint that is to be captured.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Bytes of its regions in host memory.
    pub bytes: u64,
    /// Bytes of memory that this process can still use.
    pub free: u64,
    /// Bytes of this process that are in memory.
    pub resident: u64,
    /// Whether memory can be protected against all writes: the system allows it, and neither a device nor a network
    /// card writes to it.
    pub can_protect: bool,
    /// Whether what is in the host buffer outlives this process: what is not copied yet does not.
    pub outlives: bool,
    /// Whether a forked process can copy.
    pub can_fork: bool,
    /// What the last capture by a forked process has cost the application: the call, and the page faults until the
    /// copy was done; and its bytes.
    pub forked: Option<(Duration, u64)>,
}

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The call copies.
    Copy,
    /// A worker copies, and the memory is protected until then.
    Protect,
    /// A forked process copies.
    Fork,
}

/// Below, another thread or process costs more than the copy. Bytes.
const LEAST: u64 = 4 << 20;

/// Bytes that a processor copies in a second: a usual figure, as only its order matters.
const COPIED: f64 = 5e9;

/// Microseconds that a fork takes for each KiB of the process that is in memory (4 KiB pages: 25 ms for each GiB).
const FORK: f64 = 0.025;

/// The way for a checkpoint, and why.
pub fn choose(facts: &Facts) -> (Way, &'static str) {
    let copy = facts.bytes as f64 / COPIED;
    if facts.bytes < LEAST {
        return (Way::Copy, "the copy is short");
    }
    if facts.can_protect && !facts.outlives {
        return (Way::Protect, "writes can be stopped");
    }
    if !facts.can_fork {
        return (
            Way::Copy,
            match facts.outlives {
                true => {
                    "a copy in the call outlives this process, and a forked process cannot make it"
                }
                false => "neither can writes be stopped, nor can a forked process copy",
            },
        );
    }
    // In the worst case every page exists twice, and others use memory as well.
    if facts.free < facts.bytes.saturating_add(facts.bytes / 2) {
        return (Way::Copy, "too little memory is free for a forked process");
    }
    match facts.forked {
        Some((cost, bytes)) if cost.as_secs_f64() * COPIED > bytes as f64 => {
            (Way::Copy, "the last forked process cost more than a copy")
        }
        None if FORK * (facts.resident >> 10) as f64 / 1e6 > copy / 2.0 => {
            (Way::Copy, "a fork takes longer than half of the copy")
        }
        _ => (Way::Fork, "a fork is shorter than the copy"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const FACTS: Facts = Facts {
        bytes: GIB,
        free: 4 * GIB,
        resident: GIB,
        can_protect: false,
        outlives: false,
        can_fork: true,
        forked: None,
    };

    fn way(facts: Facts) -> Way {
        choose(&facts).0
    }

    /// Catches a way that the system forbids, and memory that is not there.
    #[test]
    fn what_is_impossible_is_not_chosen() {
        assert_eq!(way(FACTS), Way::Fork);
        assert_eq!(way(Facts { can_fork: false, ..FACTS }), Way::Copy);
        assert_eq!(way(Facts { free: GIB, ..FACTS }), Way::Copy);
        let protects = Facts { can_protect: true, ..FACTS };
        assert_eq!(way(protects), Way::Protect);
        // It takes no memory.
        assert_eq!(way(Facts { free: 0, can_fork: false, ..protects }), Way::Protect);
    }

    /// Catches a version that a kill takes though the call has returned, in a job whose memory a kill leaves.
    #[test]
    fn what_outlives_the_process_is_not_risked() {
        let protects = Facts { can_protect: true, outlives: true, ..FACTS };
        assert_eq!(way(protects), Way::Fork);
        assert_eq!(way(Facts { can_fork: false, ..protects }), Way::Copy);
    }

    /// Catches a way that costs more than the copy.
    #[test]
    fn what_costs_more_than_a_copy_is_not_chosen() {
        assert_eq!(way(Facts { bytes: 1 << 20, can_protect: true, ..FACTS }), Way::Copy);
        // The process is much larger than what it saves.
        assert_eq!(way(Facts { resident: 20 * GIB, ..FACTS }), Way::Copy);
        let forked = |milliseconds| {
            way(Facts { forked: Some((Duration::from_millis(milliseconds), GIB)), ..FACTS })
        };
        assert_eq!((forked(50), forked(900)), (Way::Fork, Way::Copy));
    }
}
