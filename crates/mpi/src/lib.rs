//! The few MPI calls that the library makes, found at run time in whatever MPI the application has
//! loaded: one binary for every MPI, and none needed.
//!
//! MPI is never linked, and never loaded for a job. [`Mpi::find`] looks for it in the process and finds
//! out which binary interface it has ([`Abi`]); [`Comm`] makes the calls, [`PendingCollective`] those that
//! nobody waits for, of which a [`CollectiveQueue`] holds one after the other. All of them have to come from a
//! thread from which the application may call MPI, which means from within the calls that are
//! collective by the library's own interface, never from a worker.

#![deny(clippy::disallowed_methods)]

mod calls;
mod comm;
mod nonblocking;

pub use comm::{Comm, Mpi};
pub use mpi_abi::{Abi, Library};
pub use nonblocking::{CollectiveQueue, PendingCollective};
