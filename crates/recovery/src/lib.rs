//! Recovery of a killed job's data: the application shares its host buffer and its ledger with a backend
//! process on each node, which writes them to files if the job is killed. This crate has the client's
//! side and the protocol. The backend is a crate of its own, `daemon`: it uses the engine, which uses this crate.
//!
//! A live application writes its files itself; the backend (`veloc-backend`) only holds the memory. When
//! a client has ended, the backend reads the ledger (crate `catalog`) and continues as an engine without
//! an application. So checkpoints cost no messages, and an application whose backend was killed
//! continues: it logs a warning and starts another one ([`link`]).
//!
//! There is one backend per user and configuration, or, for jobs that hand their memory over
//! ([`handover`]), per user and name. The first client that finds none listens at the
//! backend's path, passes the socket to the program it starts, and connects like any other client. The
//! system queues what is sent to the socket, so nobody waits for the program to start.

#![deny(clippy::disallowed_methods)]

mod child;
pub mod handover;
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

/// The answer to `--version`. A backend serves only clients of its own version.
pub fn version() -> String {
    format!("{} {VERSION}, protocol {PROTOCOL}", usage::PROGRAM)
}

/// A process of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its rank in file names.
    pub rank: u32,
    /// The number of processes; 0 if unknown (`VELOC_Init_single`).
    pub ranks: u32,
    /// The random number of the run, which all processes have; 0 if they cannot agree on one.
    pub run: u64,
}

impl Process {
    /// A process whose job has no others.
    pub fn single(rank: u32) -> Process {
        Process { rank, ranks: 0, run: 0 }
    }

    /// Whether both are the same process of their jobs, which may be different runs.
    pub fn stands_for(&self, other: &Process) -> bool {
        (self.rank, self.ranks) == (other.rank, other.ranks)
    }

    /// Whether there are no other processes whose files matter.
    pub fn is_single(&self) -> bool {
        self.ranks <= 1
    }
}
