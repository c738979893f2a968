//! Messages that are sent again instead of being kept.
//!
//! | file | owns |
//! | --- | --- |
//! | [`streams`] | what this process has sent and received, counted |
//! | [`report`] | what it tells the others of a part at its end |
//! | [`survey`] | what follows from the reports of all: whether a part is right-tight, and which messages are closed |
//!
//! All of these are without MPI.

pub mod report;
pub mod streams;
pub mod survey;
#[cfg(test)]
mod tests;
