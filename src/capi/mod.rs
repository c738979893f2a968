//! The C interface: VELOC's functions, with the additions of its GPU prototype and ours.
//!
//! Every function here is thin: it checks its arguments, catches panics, keeps the text of an
//! error for `VELOC_Last_error`, and makes one call into [`client`], or into the crate of schedules or of persistent
//! memory. Calls of the client from several threads are taken one after the other.

mod adjoint;
mod boundary;
mod checkpoint;
mod constants;
mod cxx;
mod errors;
mod fortran;
mod job;
mod messages;
mod metrics;
mod pmem;
mod pmem_iterations;
mod prefetch;
mod regions;
mod restart;
mod revolve;
mod schedule;
mod schedule_settings;
mod sums;

pub use adjoint::*;
pub use checkpoint::*;
pub use constants::*;
pub use cxx::*;
pub use errors::*;
pub use fortran::*;
pub use job::*;
pub use messages::*;
pub use metrics::*;
pub use pmem::*;
pub use pmem_iterations::*;
pub use prefetch::*;
pub use regions::*;
pub use restart::*;
pub use revolve::*;
pub use schedule::*;
pub use schedule_settings::*;
pub use sums::*;
