//! The binary interfaces of MPI libraries: how wide a handle is, what the predefined handles and
//! numbers are, what a status looks like ([`Abi`]); and the MPI library that a process has loaded
//! ([`Library`]).
//!
//! MPI is never linked. Whoever calls it looks its functions up, and passes handles as numbers that
//! are as wide as a pointer ([`Handle`]). One binary serves every MPI.

mod abi;
mod library;

pub use abi::{Abi, Constant, Handle, Handles, Numbers, StatusLayout};
pub use library::Library;
