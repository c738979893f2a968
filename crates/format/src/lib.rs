//! Upstream's file formats: the contents and the names of its files. Everything that is read is checked
//! completely. Nothing here writes a file.

#![deny(clippy::disallowed_methods)]

pub mod aggregate;
pub mod checksum;
pub mod delta;
pub mod frames;
pub mod header;
pub mod identity;
pub mod mark;
pub mod names;
pub mod pmem;
pub mod proof;
pub mod subarray;
