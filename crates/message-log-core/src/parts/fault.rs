//! Errors of parts.

use crate::log::CallShape;

/// Why a call on parts failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error with this text.
    Text(String),
    /// A replay ends too early.
    Early {
        /// The part's id.
        part: i32,
        /// How many calls were repeated, counting equal polls once.
        made: u64,
        /// The first logged call that was not repeated.
        logged: CallShape,
    },
}

/// A call that the first run of the replayed part did not make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The part's id.
    pub part: i32,
    /// How many calls of the part precede it, counting equal polls once.
    pub place: u64,
    /// The logged call at that position; `None`: the part's end.
    pub logged: Option<CallShape>,
    /// The earlier error, if the replay had failed before.
    pub earlier: Option<String>,
}
