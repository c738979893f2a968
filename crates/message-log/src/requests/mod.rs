//! The application's requests: what began each of them, and where it receives.
//!
//! MPI libraries give one handle to several requests that are complete from the start (small sends,
//! messages of `MPI_PROC_NULL`, collective calls of one process). These form a queue. Which of them is
//! completed is told by the address of the application's handle, usually the same as when it began.
//!
//! | file | owns |
//! | --- | --- |
//! | `request` | one request |
//! | `table` | all requests, by handle |

mod request;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use request::{General, Life, Plain, Request};
pub(crate) use table::{EntryPosition, Requests};
