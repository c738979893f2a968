//! Decisions, apart from motion.
//!
//! Everything here is a pure function or a small state machine that is handed the time and the
//! measured rates. No thread, no lock, no clock of its own, no driver: the same decisions run in
//! the engine, in tests and in a virtual-time model of a node.

#![deny(clippy::disallowed_methods)]

/// The most members of a group of erasure coding.
pub const LARGEST_GROUP: usize = 64;

pub mod bandwidth;
pub mod evict;
pub mod idle_window;
pub mod interval;
pub mod map;
pub mod order;
pub mod prefault;
pub mod register;
pub mod retention;
pub mod rounds;
pub mod slice;
pub mod touch;
