//! Messages of checkpointed parts, logged and replayed: `libveloc-mpi.so`.
//!
//! An adjoint code runs parts of its forward sweep again, and messages cannot be sent again. This
//! library stands between the application and MPI, under the profiling interface: it has the `MPI_*`
//! functions that communicate, and calls the library's own as `PMPI_*`. Outside parts it passes
//! calls on. Inside one (`VELOC_Part_begin`) it keeps what each call gave; a replay of the part
//! (`VELOC_Part_replay_begin`) gives that again, and sends nothing.
//!
//! The rooms, ground floor first:
//!
//! - [`log`]: the one sequence of [`log::Event`]s and the memory that their payloads are in, or
//!   files in the job's scratch directory beyond that (`scratch`); `digest`: what tells bytes from others;
//! - [`parts`]: which parts are open, which are logged, and where a call's result comes from; with
//!   the log it is a model of its own, without MPI;
//! - `copy`, `device`: bytes between the application's memory, which may be a device's, and the log;
//! - `pmpi`, `mpi`, `types`, `status`, `target`: MPI's functions, constants, types and statuses, and
//!   where received bytes lie;
//! - `requests`, `messages`, `request_pool`, `deferred`, `stand_ins`: what the application has under way and has
//!   probed for, the requests that a replay gives out, what must not be freed yet, and communicators that
//!   stand in for others;
//! - `state`: all of this, for one process, and who may touch it when;
//! - `calls`: what a call does inside parts, recording and replaying, one room for each kind; in
//!   `quick` what most calls do outside parts and inside parts that are recorded;
//! - `divergence`, `refuse`, `guard`: how a call fails, or panics; [`memory`]: where it does for want of memory;
//!   `names`: what communicators are called then;
//! - [`resend`]: messages that are sent again instead of kept;
//! - `store`: the log in checkpoints, and in the process that goes on from one;
//! - [`fortran`]: how calls from Fortran come here; `callers`: whether all calls do;
//! - [`exports`]: the C symbols of MPI (`signatures`: a test that they are as MPI's headers say); [`capi`]:
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
pub mod log;
pub mod memory;
mod messages;
mod mpi;
pub mod parts;
mod pmpi;
mod refuse;
mod request_pool;
mod requests;
pub mod resend;
mod scratch;
#[cfg(test)]
mod signatures;
mod stand_ins;
mod state;
mod status;
mod store;
mod target;
mod types;
