//! Parts of adjoint programs over MPI, with their messages logged: C programs under Open MPI and
//! MPICH, with the library linked and preloaded, and without it.
//!
//! A program decides by itself whether its results are right (`parts/parts.h`). A program that
//! passes without the library would show nothing, so programs that replay are also run without it,
//! and must fail.

// A test fails by panicking; the helpers beside the tests are part of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod careless;
mod complete;
mod device;
mod fortran;
mod intercepted_calls;
mod misused;
mod replayed;
mod restarted;
mod spilled;
mod under;
