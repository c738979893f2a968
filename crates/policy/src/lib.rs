//! The library's decisions: pure functions and small state machines.
//!
//! Time and measured rates are passed in. There is no thread, lock, clock or driver here, so the same
//! code runs in the engine, in tests and in the virtual-time model of a node.

#![deny(clippy::disallowed_methods)]

/// The most members of an erasure-coding group.
pub const LARGEST_GROUP: usize = 64;

pub mod bandwidth;
pub mod capture;
pub mod changes;
pub mod evict;
pub mod idle_window;
pub mod interval;
pub mod managed;
pub mod map;
pub mod order;
pub mod prefault;
pub mod register;
pub mod retention;
pub mod rounds;
pub mod slice;
pub mod touch;
