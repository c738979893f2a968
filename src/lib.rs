//! Checkpoints for adjoint computations on GPUs, behind the C interface of VELOC.
//!
//! `docs/architecture.md` draws the house. In short: [`capi`] checks arguments and calls
//! [`client`], which knows protected regions and the checkpoint protocol; [`engine`] moves bytes
//! between the tiers of [`tier`] as [`policy`] decides and [`catalog`] records. [`sweep`] drives whole
//! adjoint computations above the client.

#![deny(clippy::disallowed_methods)]

/// The version of this library, and the VELOC whose interfaces and files it has. CMake and pkg-config
/// know the library by the latter.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (VELOC 1.8)");

pub mod adjoint;
pub mod capi;
pub mod catalog;
pub mod client;
pub mod config;
pub mod daemon;
pub mod device;
pub mod engine;
pub mod erasure;
pub mod error;
pub mod format;
pub mod logging;
pub mod metrics;
pub mod mpi;
pub mod platform;
pub mod policy;
pub mod recovery;
pub mod sweep;
pub mod sync;
pub mod tier;
pub mod trace;
