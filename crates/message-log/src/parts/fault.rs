//! What goes wrong with parts.

use crate::log::Shape;

/// Why a call of the application's on parts failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This is why.
    Text(String),
    /// A replay ends too early.
    Early {
        /// The part's id.
        part: i32,
        /// How many calls were made again, equal polls counted as one.
        made: u64,
        /// The logged call that was not.
        logged: Shape,
    },
}

/// A call that the replayed part did not make when it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The part's id.
    pub part: i32,
    /// How many calls of the part lie before this one, equal polls counted as one.
    pub place: u64,
    /// What the log has there; `None` at the part's end.
    pub logged: Option<Shape>,
    /// What was said before, if the replay had gone wrong already.
    pub earlier: Option<String>,
}
