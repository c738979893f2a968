//! Helpers of the tests of the C interface: C programs compiled against the staged library and run
//! as processes of their own, jobs with directories of their own, and checkpoint files read and
//! made by hand.
//!
//! Nothing here uses the library from Rust: the tests see what a C program sees.

// A helper of tests fails by panicking, like the test that calls it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod backends;
pub mod checkpoint_file;
mod compiled;
pub mod cxx;
pub mod depth;
pub mod ground;
pub mod job;
pub mod mpi;
pub mod parts_fortran;
pub mod program;
pub mod random;
pub mod run;
