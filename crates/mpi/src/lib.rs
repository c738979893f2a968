//! The few MPI calls of the library, resolved at run time from the MPI library that the application has
//! loaded: one binary works with every MPI, and without any.
//!
//! MPI is never linked or loaded by this library. [`Mpi::find`] looks for it in the process and detects
//! its binary interface ([`Abi`]). [`Comm`] makes blocking calls, [`PendingCollective`] non-blocking
//! ones, and a [`CollectiveQueue`] holds several in order. All calls must come from a thread that may
//! call MPI: from within the library's collective functions, never from a worker.

#![deny(clippy::disallowed_methods)]

mod calls;
mod comm;
mod nonblocking;

pub use comm::{Comm, Mpi};
pub use mpi_abi::{Abi, Library};
pub use nonblocking::{CollectiveQueue, PendingCollective};
