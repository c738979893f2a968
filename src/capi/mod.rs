//! The C interface: VELOC's functions, with the additions of its GPU prototype and ours.
//!
//! Every function here is thin: it checks its arguments, catches panics, keeps the text of an
//! error for `VELOC_Last_error`, and makes one call into [`crate::client`]. Calls from several
//! threads are taken one after the other.

mod boundary;
mod checkpoint;
mod cxx;
mod fortran;
mod job;
mod metrics;
mod prefetch;
mod regions;
mod restart;

pub use checkpoint::*;
pub use cxx::*;
pub use fortran::*;
pub use job::*;
pub use metrics::*;
pub use prefetch::*;
pub use regions::*;
pub use restart::*;

/// The call did what it says.
pub const VELOC_SUCCESS: i32 = 0;
/// The call failed, and changed nothing that it does not say; `VELOC_Last_error` has the reason.
pub const VELOC_FAILURE: i32 = -1;
/// Bytes of the longest name or path that the interface takes or gives, the final NUL included.
pub const VELOC_MAX_NAME: usize = 1024;
/// All protected regions.
pub const VELOC_CKPT_ALL: i32 = 0;
/// The regions whose ids are listed.
pub const VELOC_CKPT_SOME: i32 = 1;
/// The regions whose ids are not listed.
pub const VELOC_CKPT_REST: i32 = 2;
/// All regions of the checkpoint.
pub const VELOC_RECOVER_ALL: i32 = 0;
/// The regions whose ids are listed.
pub const VELOC_RECOVER_SOME: i32 = 1;
/// The regions whose ids are not listed.
pub const VELOC_RECOVER_REST: i32 = 2;
/// No flag of a region.
pub const VELOC_DEFAULT: u32 = 0;
/// A flag of a region: the application does not change it until it is released.
pub const VELOC_READ_ONLY: u32 = 1;
/// A kind of event that C++ programs can observe: a checkpoint has ended.
pub const VELOC_OBSERVE_CKPT_END: i32 = 0;
