//! Logs and replays the messages of checkpointed parts: `libveloc-mpi.so`.
//!
//! An adjoint code runs parts of its forward sweep again, but messages cannot be sent again. This
//! library interposes on MPI through the profiling interface: it defines the communicating `MPI_*`
//! functions and calls `PMPI_*`. Outside parts it passes calls through. Inside a part
//! (`VELOC_Part_begin`) it logs the results of each call; a replay of the part
//! (`VELOC_Part_replay_begin`) returns these results and sends nothing.
//!
//! The modules, bottom-up:
//!
//! - `log`: the sequence of `log::Event`s and the memory of their payloads, or files in the job's
//!   scratch directory beyond a limit (`scratch`); `digest`: hashes of bytes;
//! - `parts`: which parts are open, which are logged, and where a call's result comes from; with the
//!   log it can be tested without MPI;
//! - `copy`, `device`: copies between the application's memory (host or device) and the log;
//! - `pmpi`, `mpi`, `types`, `status`, `target`: MPI's functions, constants, types and statuses, and
//!   where received bytes go;
//! - `requests`, `messages`, `request_pool`, `deferred`, `stand_ins`: the application's requests and
//!   probed messages, the requests that a replay returns, what must not be freed yet, and communicators
//!   that represent others;
//! - `state`: all of this for one process, and which thread may use it when;
//! - `calls`: what calls do inside parts, recording and replaying, by kind; `fast_path` handles most
//!   calls outside parts and inside recorded parts;
//! - `divergence`, `refuse`, `guard`: how a call fails or panics; `memory`: out of memory;
//!   `comm_names`: names of communicators in errors;
//! - `resend`: messages that are sent again instead of logged;
//! - `store`: the log in checkpoints and restarts;
//! - [`fortran`]: how calls from Fortran get here; `interposition`: whether all calls do;
//! - [`exports`]: the C symbols of MPI (`signatures`: a test against MPI's headers); [`capi`]:
//!   `VELOC_Part_*`.

#![deny(clippy::disallowed_methods)]

mod calls;
pub mod capi;
mod comm_names;
mod copy;
mod deferred;
mod device;
mod digest;
mod divergence;
pub mod exports;
pub mod fortran;
mod guard;
mod interposition;
mod log;
mod memory;
mod messages;
mod mpi;
mod parts;
mod pmpi;
mod refuse;
mod request_pool;
mod requests;
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
