//! The log of messages without MPI: `crates/message-log` makes the calls, and asks this crate what they mean.
//!
//! Handles, addresses and statuses are numbers and bytes here, and nothing calls MPI. So random histories test
//! all of it.
//!
//! The modules, bottom-up:
//!
//! - `memory`: out of memory, a call fails; [`digest`]: hashes of bytes;
//! - [`status`], [`target`]: what MPI said of a message, and where its bytes go;
//! - [`resend`]: counts of messages, and which of them are sent again instead of logged;
//! - [`log`]: the sequence of [`log::LogEvent`]s and the memory of their payloads, or files beyond a limit;
//! - [`parts`]: which parts are open, which are logged, and where a call's result comes from;
//! - [`counting`]: what each call counts; [`requests`]: the application's requests;
//! - [`store`]: the log as bytes of a checkpoint.

#![deny(clippy::disallowed_methods)]

pub mod counting;
pub mod digest;
pub mod log;
pub mod memory;
pub mod parts;
pub mod requests;
pub mod resend;
pub mod status;
pub mod store;
pub mod target;
