//! Messages that are sent again instead of being logged: which ones, and whether all processes agree.
//!
//! | file | owns |
//! | --- | --- |
//! | [`streams`] | counts what this process has sent and received |
//! | `table` | an index of streams |
//! | [`shortcuts`] | a cache from a call's arguments to its stream |
//! | [`comms`] | numbers of communicators, common to all processes |
//! | [`report`] | a process's report to the others at a part's end |
//! | [`tightness`] | whether a part is right-tight, and which messages are closed |
//! | [`verdicts`] | which verdicts all processes know |
//! | [`judge`] | the verdicts on parts, and what follows from them for the log |
//! | `not_resent` | reports why a part's messages are not sent again |
//! | [`closed`] | which messages of a part this process sends and receives again |

pub mod closed;
pub mod comms;
pub mod judge;
mod key_hasher;
mod not_resent;
pub mod report;
#[cfg(test)]
mod restart_tests;
pub mod shortcuts;
pub mod streams;
mod table;
#[cfg(test)]
mod tests;
pub mod tightness;
pub mod verdicts;

pub use key_hasher::KeyHasher;

/// The most streams that a process can report for a part, so that each has a tag of its own.
pub const MOST: usize = 2047;
