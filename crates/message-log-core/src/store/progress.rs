//! How far the parts of a process are.

use crate::log::Position;
use crate::parts::{Open, Parts};

/// The progress of the parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Progress {
    numbers: u64,
    begun: u64,
    next: u64,
    live: usize,
    cursors: Vec<Option<Position>>,
}

impl Progress {
    /// The progress now.
    pub fn of(parts: &Parts) -> Progress {
        let cursor = |open: &Open| match open {
            Open::Record(_) => None,
            Open::Replay(replay) => Some(replay.cursor),
        };
        Progress {
            numbers: parts.instances.now,
            begun: parts.begun,
            next: parts.next_event(),
            live: parts.instances().count(),
            cursors: parts.open.0.iter().map(cursor).collect(),
        }
    }
}
