//! What each request of the application is: what it receives, and what began it.
//!
//! Libraries give the same handle to several requests that are done when they begin (small sends,
//! messages of `MPI_PROC_NULL`, collective calls of one process). These stand in a queue, and which of
//! them is completed shows where the application has the handle: mostly where it was when it began.
//!
//! | file | owns |
//! | --- | --- |
//! | `request` | what is known of one |
//! | `table` | all of them, by handle |

mod request;
mod table;
#[cfg(test)]
mod tests;

pub use request::{General, Life, Plain, Request};
pub use table::{EntryPosition, Requests};
