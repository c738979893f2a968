//! How far the parts of a process are.

use crate::log::Position;
use crate::parts::{OpenPart, Parts};

/// The progress of the parts.
#[derive(Debug, PartialEq, Eq)]
pub struct PartsProgress {
    numbers: u64,
    begun: u64,
    next: u64,
    live: usize,
    cursors: Vec<Option<Position>>,
}

impl PartsProgress {
    /// The progress now.
    pub fn of(parts: &Parts) -> PartsProgress {
        let cursor = |open: &OpenPart| match open {
            OpenPart::Record(_) => None,
            OpenPart::Replay(replay) => Some(replay.cursor),
        };
        PartsProgress {
            numbers: parts.instances.now,
            begun: parts.begun,
            next: parts.next_event(),
            live: parts.instances().count(),
            cursors: parts.open.0.iter().map(cursor).collect(),
        }
    }
}
