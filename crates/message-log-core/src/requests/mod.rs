//! The application's requests: the call that began each, and where it receives.
//!
//! MPI libraries give one handle to several requests that are complete from the start (small sends, messages
//! of `MPI_PROC_NULL`, collective calls of one process). Such requests form a queue. The address of the
//! application's handle, usually the same as when the request began, tells which of them is completed.
//!
//! | file | owns |
//! | --- | --- |
//! | `request` | one request |
//! | `table` | all requests, by handle |

mod request;
mod table;
#[cfg(test)]
mod tests;

pub use request::{General, MpiRequest, PlainRequest, RequestLife};
pub use table::{EntryPosition, Requests};
