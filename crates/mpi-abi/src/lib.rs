//! The binary interfaces of MPI libraries ([`Abi`]): width of handles, predefined handles and constants,
//! layout of a status; and the MPI library that a process has loaded ([`Library`]).
//!
//! MPI is never linked. Its functions are looked up, and handles are passed as pointer-wide numbers
//! ([`Handle`]). One binary works with every MPI.

mod abi;
mod library;

pub use abi::{Abi, Constant, Handle, Handles, Numbers, StatusLayout};
pub use library::Library;
