//! Logs and replays the messages of checkpointed parts: `libveloc-mpi.so`.
//!
//! An adjoint code runs parts of its forward sweep again, but messages cannot be sent again. This
//! library interposes on MPI through the profiling interface: it defines the communicating `MPI_*`
//! functions and calls `PMPI_*`. Outside parts it passes calls through. Inside a part
//! (`VELOC_Part_begin`) it logs the results of each call; a replay of the part
//! (`VELOC_Part_replay_begin`) returns these results and sends nothing.
//!
//! What a call means for the log is decided in `message_log_core`, without MPI: events, parts, requests, and
//! what is sent again. This crate makes the calls. Its modules, bottom-up:
//!
//! - `device`, `copy`: copies between the application's memory (host or device) and the log;
//! - `pmpi`, `mpi`, `status`, `types`, `target`: MPI's functions, constants, statuses and types, and the bytes
//!   of what a call sends or receives;
//! - `refuse`, `guard`: how a call fails or panics;
//! - `messages`, `request_pool`, `deferred`, `stand_ins`: the probed messages and the requests that a replay
//!   returns, what must not be freed yet, and communicators that represent others; `communicators`,
//!   `comm_names`: by what another process finds a communicator, and its name in errors;
//! - `resend`: what the processes tell each other of messages that are sent again;
//! - `state`: all of this for one process; `freeing`: communicators and types that the application frees;
//! - `entry`: how a call gets at the state, and which thread may;
//! - `divergence`: a replay that differs from the first run;
//! - `calls`: what calls do inside parts, recording and replaying, by kind; `fast_path` handles most
//!   calls outside parts and inside recorded parts;
//! - `store`: the log in checkpoints and restarts; `scratch`: files for the log beyond its memory;
//! - [`fortran`]: how calls from Fortran get here; `interposition`: whether all calls do;
//! - [`exports`]: the C symbols of MPI (`signatures`: a test against MPI's headers); [`capi`]:
//!   `VELOC_Part_*`.

#![deny(clippy::disallowed_methods)]

mod calls;
pub mod capi;
mod comm_names;
mod communicators;
mod copy;
mod deferred;
mod device;
mod divergence;
mod entry;
pub mod exports;
pub mod fortran;
mod freeing;
mod guard;
mod interposition;
mod messages;
mod mpi;
mod pmpi;
mod refuse;
mod request_pool;
mod resend;
mod scratch;
#[cfg(test)]
mod signatures;
mod stand_ins;
mod state;
mod status;
mod store;
mod target;
mod types;
