//! Which checkpoint is where, and what is to be done next.
//!
//! [`state::State`] has all checkpoints with their copies and the room of the memory levels. Each of its
//! steps keeps the invariants (listed at `State::check`). It moves no byte, waits for nothing and knows no
//! system: the engine has a lock around it, carries out what its lists say, and tells it what came of that.
//! What another process must know to go on is in the [`ledger`], in words that the engine shares with it.
//! Beside it, [`pages`] and [`chunks`] know which memory of the host buffer exists, and what the driver has pinned of it.

#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods)]

pub mod chunks;
pub mod entry;
pub mod ledger;
pub mod level;
pub mod pages;
pub mod region;
pub mod space;
pub mod state;

#[cfg(test)]
mod state_tests;

pub use level::{FileLevel, Level, MOST};
pub use region::{Id, Part, Region, MESSAGES, PARTS};
