//! Upstream's file formats: what the bytes and the names of its files mean. What is read is checked
//! in full before anything is believed, and nothing here writes a file.

#![deny(clippy::disallowed_methods)]

pub mod aggregate;
pub mod checksum;
pub mod header;
pub mod mark;
pub mod names;
pub mod proof;
