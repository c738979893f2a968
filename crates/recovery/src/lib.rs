//! What outlives the application: its host buffer and its ledger are shared with a process of its own on
//! each node, which writes what is in them, should the job be killed. This is the application's side, and
//! what both sides say to each other; the other one is the crate `daemon`.
//!
//! As long as an application lives it writes its files itself. The backend (`veloc-backend`) only
//! holds the memory and waits; when a client has ended, it reads the [ledger](levels::ledger)
//! and goes on as an engine without an application. So it costs no message per checkpoint, and an
//! application whose backend was killed goes on unharmed: it says so and starts another one ([`link`]).
//!
//! There is one backend for each user and configuration. It is started by the first client that
//! finds none: that client listens at the backend's path, hands the socket to the program it
//! starts, and connects like everybody else. What is sent to a listening socket is kept by the
//! system, so that nobody waits for the program to be up.

#![deny(clippy::disallowed_methods)]

mod child;
pub mod kill;
mod launch;
pub mod link;
pub mod log;
pub mod protocol;
pub mod usage;

use serde::{Deserialize, Serialize};

use config::VERSION;
use protocol::PROTOCOL;

pub use launch::{program, SOCKET_OPTION};

/// What the program says to `--version`. A backend of another version serves no client of this one.
pub fn version() -> String {
    format!("{} {VERSION}, protocol {PROTOCOL}", usage::PROGRAM)
}

/// A process among those of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number in file names.
    pub rank: u32,
    /// How many the job has; 0 if that was not told (`VELOC_Init_single`).
    pub ranks: u32,
}

impl Process {
    /// The only one of its job.
    pub fn alone(rank: u32) -> Process {
        Process { rank, ranks: 0 }
    }

    /// Whether there are no others, whose files it would have to think of.
    pub fn is_alone(&self) -> bool {
        self.ranks <= 1
    }
}
