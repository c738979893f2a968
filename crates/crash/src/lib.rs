//! Simulates crashes of programs that compute in persistent memory: `libveloc-crash.so`, for `veloc crash`.
//!
//! A program that is compiled with `-fsanitize=thread` and linked with this library in place of the sanitizer's runtime
//! tells it each of its accesses. It keeps a cache and what memory holds; at the accesses that the tool has chosen it
//! forks, and the fork leaves what a crash there would.
//!
//! - `cache`, `image`: what the cache holds, and what a crash leaves of a line; pure;
//! - `plan`: what the tool asks for; `start`: the begin and end of the process;
//! - `state`: both of these and the program's files, and the lock that takes threads in turn; `sites`: where it calls;
//! - `hooks`, `copies`, `calls`, `simulation`: where it is called from: compiled code, copies, calls of the library, and
//!   the library itself;
//! - `crash`: the fork; `text`: writing without allocating; `arena`: memory apart from the program's.

#![deny(clippy::disallowed_methods)]
// Tests run without what calls the simulation.
#![cfg_attr(test, allow(dead_code))]

#[cfg(not(test))]
mod arena;
mod cache;
#[cfg(not(test))]
mod calls;
mod copies;
mod crash;
#[cfg(not(test))]
mod hooks;
mod image;
mod plain;
mod plan;
mod simulation;
mod sites;
#[cfg(not(test))]
mod start;
mod state;
mod text;
