//! The project's own commands, and the parts of them that tests use.
//!
//! [`stage`](mod@stage) lays out the files that a C program needs; the tests of the C interface
//! start with it. The commands are `header`, [`docs`], [`notices`], [`nvidia`], [`programs`],
//! [`bundle`], [`package`], [`quick`], [`release`], [`site`](mod@site), [`suite`] and [`repeat`], the other modules are
//! shared.
//! [`on_device`] is for tests of other crates.

pub mod bundle;
pub mod criu;
pub mod docs;
pub mod driver;
pub mod error;
pub mod files;
#[cfg(feature = "header")]
pub mod header;
pub mod links;
pub mod map;
pub mod notices;
pub mod nvidia;
pub mod on_device;
pub mod package;
pub mod programs;
pub mod project;
pub mod python;
pub mod quick;
pub mod release;
pub mod repeat;
pub mod runner;
pub mod runtime;
pub mod said;
pub mod sanitizers;
pub mod site;
mod slow;
pub mod stage;
pub mod steps;
pub mod suite;
pub mod system;
pub mod usage;

pub use error::{Error, Result};
