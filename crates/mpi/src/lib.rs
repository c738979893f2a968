//! The few MPI calls of the library, resolved at run time from the MPI library that the application has
//! loaded: one binary works with every MPI, and without any.
//!
//! MPI is never linked or loaded by this library. A [`Library`] is the MPI that the process has loaded, with
//! its binary interface ([`Abi`]): width of handles, predefined handles and constants, layout of a status.
//! Handles are passed as pointer-wide numbers. The log of messages uses these two alone, and makes its calls itself.
//!
//! [`Mpi::find`] takes the functions from there. [`Comm`] makes blocking calls, [`PendingCollective`] non-blocking
//! ones, and a [`CollectiveQueue`] holds several in order. All calls must come from a thread that may
//! call MPI: from within the library's collective functions, never from a worker.

#![deny(clippy::disallowed_methods)]

mod abi;
mod calls;
mod comm;
mod library;
mod nonblocking;

pub use abi::{Abi, Constant, Handles, Numbers, StatusLayout};
pub use comm::{Comm, Mpi};
pub use library::Library;
pub use nonblocking::{CollectiveQueue, PendingCollective};
