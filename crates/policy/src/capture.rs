//! How host memory gets to the host buffer if the library is to choose (`host_capture = auto`).
//!
//! Copying in the call costs the application the time of the copy. Protecting the memory costs a fraction of that, and
//! at the most one more copy of what is written at once. A forked process costs the copy of its page tables, and then a
//! page fault for every page that the application writes: much more than a copy if it writes everything.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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

/// A way of capturing: how the bytes of a region get to a level of memory. All but `Copy` are deferred captures: the
/// checkpoint is committed with bytes still to come. `Ordered` is for device memory, the others are for the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Capture {
    /// The application's call copies them. What is not known is captured so.
    #[default]
    Copy,
    /// A worker copies them after the call: the application leaves them unchanged until they are released.
    Lent,
    /// A worker copies them after the call, and before the application writes to them.
    Protect,
    /// A copy-on-write child of the process copies them: the application may change them at once.
    Fork,
    /// The device copies them within its memory, between what the application's stream has and what it gets later.
    Ordered,
}

/// What there is to know of a way: a row of the table.
#[derive(Debug)]
pub struct Row {
    /// The way.
    pub way: Capture,
    /// Its word in the configuration (`host_capture`) and in the timeline.
    pub word: &'static str,
    /// Its number in C (`VELOC_CAPTURE_*`) and in the timeline. None: nobody asks for it by itself.
    pub number: Option<u8>,
    /// What is said of it where the key asks for it.
    pub reason: &'static str,
    /// Whether the application may change the memory as soon as the call has returned. If not, a restore to it waits
    /// until it has been copied.
    pub may_change: bool,
    /// Whether a version whose call has returned survives a kill of the process, if the host buffer does.
    pub survives_kill: bool,
}

/// All ways, in the order of [`Capture`].
pub const ROWS: [Row; 5] = [
    Row {
        way: Capture::Copy,
        word: "copy",
        number: Some(1),
        reason: "host_capture = copy",
        may_change: true,
        survives_kill: true,
    },
    Row {
        way: Capture::Lent,
        word: "lent",
        number: None,
        reason: "VELOC_READ_ONLY",
        may_change: false,
        survives_kill: false,
    },
    Row {
        way: Capture::Protect,
        word: "protect",
        number: Some(2),
        reason: "host_capture = protect",
        may_change: true,
        survives_kill: false,
    },
    Row {
        way: Capture::Fork,
        word: "fork",
        number: Some(3),
        reason: "host_capture = fork",
        may_change: true,
        survives_kill: true,
    },
    Row {
        way: Capture::Ordered,
        word: "ordered",
        number: None,
        reason: "stream_ordered",
        may_change: true,
        survives_kill: false,
    },
];

impl Capture {
    /// Its row.
    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The way of a number in C.
    pub fn of_number(number: u8) -> Option<Capture> {
        ROWS.iter().find(|row| row.number == Some(number)).map(|row| row.way)
    }
}

/// Below, another thread or process costs more than the copy. Bytes.
const LEAST: u64 = 4 << 20;

/// Bytes that a processor copies in a second: a usual figure, as only its order matters.
const COPIED: f64 = 5e9;

/// Microseconds that a fork takes for each KiB of the process that is in memory (4 KiB pages: 25 ms for each GiB).
const FORK: f64 = 0.025;

/// The way for a checkpoint, and why.
pub fn choose(facts: &Facts) -> (Capture, &'static str) {
    let copy = facts.bytes as f64 / COPIED;
    if facts.bytes < LEAST {
        return (Capture::Copy, "the copy is short");
    }
    if facts.can_protect && (!facts.outlives || Capture::Protect.row().survives_kill) {
        return (Capture::Protect, "writes can be stopped");
    }
    if !facts.can_fork {
        return (
            Capture::Copy,
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
        return (Capture::Copy, "too little memory is free for a forked process");
    }
    match facts.forked {
        Some((cost, bytes)) if cost.as_secs_f64() * COPIED > bytes as f64 => {
            (Capture::Copy, "the last forked process cost more than a copy")
        }
        None if FORK * (facts.resident >> 10) as f64 / 1e6 > copy / 2.0 => {
            (Capture::Copy, "a fork takes longer than half of the copy")
        }
        _ => (Capture::Fork, "a fork is shorter than the copy"),
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

    fn way(facts: Facts) -> Capture {
        choose(&facts).0
    }

    /// Catches a row that stands elsewhere than its way, and two ways of one number.
    #[test]
    fn rows_are_those_of_their_ways() {
        for row in &ROWS {
            assert_eq!(row.way.row().word, row.word);
            assert!(row.number.is_none_or(|number| Capture::of_number(number) == Some(row.way)));
        }
        assert_eq!(Capture::of_number(0), None);
    }

    /// Catches a way that the system forbids, and memory that is not there.
    #[test]
    fn what_is_impossible_is_not_chosen() {
        assert_eq!(way(FACTS), Capture::Fork);
        assert_eq!(way(Facts { can_fork: false, ..FACTS }), Capture::Copy);
        assert_eq!(way(Facts { free: GIB, ..FACTS }), Capture::Copy);
        let protects = Facts { can_protect: true, ..FACTS };
        assert_eq!(way(protects), Capture::Protect);
        // It takes no memory.
        assert_eq!(way(Facts { free: 0, can_fork: false, ..protects }), Capture::Protect);
    }

    /// Catches a version that a kill takes though the call has returned, in a job whose memory a kill leaves.
    #[test]
    fn what_outlives_the_process_is_not_risked() {
        let protects = Facts { can_protect: true, outlives: true, ..FACTS };
        assert_eq!(way(protects), Capture::Fork);
        assert_eq!(way(Facts { can_fork: false, ..protects }), Capture::Copy);
    }

    /// Catches a way that costs more than the copy.
    #[test]
    fn what_costs_more_than_a_copy_is_not_chosen() {
        assert_eq!(way(Facts { bytes: 1 << 20, can_protect: true, ..FACTS }), Capture::Copy);
        // The process is much larger than what it saves.
        assert_eq!(way(Facts { resident: 20 * GIB, ..FACTS }), Capture::Copy);
        let forked = |milliseconds| {
            way(Facts { forked: Some((Duration::from_millis(milliseconds), GIB)), ..FACTS })
        };
        assert_eq!((forked(50), forked(900)), (Capture::Fork, Capture::Copy));
    }
}
