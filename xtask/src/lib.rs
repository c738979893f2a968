//! The project's own commands, and the parts of them that tests use.
//!
//! [`stage`] lays out what a C program needs; the tests of the C interface start with it.

pub mod error;
pub mod files;
pub mod header;
pub mod project;
pub mod stage;

pub use error::{Error, Result};
