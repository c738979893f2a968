//! Arrays in persistent memory (`VELOC_Pmem_*`): found again by name after a crash, with marks that number iterations, and
//! a search for the newest one in which what must hold between the data does hold.
//!
//! No store is logged or copied: the application flushes little, most of its data reaches memory as the cache lets it go,
//! and the search finds out what did.

#![deny(clippy::disallowed_methods)]

pub mod file;
pub mod iterations;
pub mod search;
pub mod sums;
