//! The C interface: VELOC's functions, with the additions of its GPU prototype and ours.
//!
//! Every function here is thin: it checks its arguments, catches panics, keeps the text of an
//! error for `VELOC_Last_error`, and makes one call into [`client`]. Calls from several
//! threads are taken one after the other.

mod adjoint;
mod boundary;
mod checkpoint;
mod cxx;
mod fortran;
mod job;
mod messages;
mod metrics;
mod prefetch;
mod regions;
mod restart;
mod revolve;
mod schedule;
mod schedule_settings;

pub use adjoint::*;
pub use checkpoint::*;
pub use cxx::*;
pub use fortran::*;
pub use job::*;
pub use messages::*;
pub use metrics::*;
pub use prefetch::*;
pub use regions::*;
pub use restart::*;
pub use revolve::*;
pub use schedule::*;
pub use schedule_settings::*;

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
/// An action of a schedule: compute the states from `from` to `to`, without recording.
pub const VELOC_ACTION_ADVANCE: i32 = 0;
/// Store the state that the application has in a slot.
pub const VELOC_ACTION_TAKESHOT: i32 = 1;
/// Read a state from a slot.
pub const VELOC_ACTION_RESTORE: i32 = 2;
/// Compute the last step, recording it, begin the adjoint and take its first step.
pub const VELOC_ACTION_FIRSTURN: i32 = 3;
/// Compute a step, recording it, and take the adjoint's step back.
pub const VELOC_ACTION_YOUTURN: i32 = 4;
/// The adjoint has come to state 0.
pub const VELOC_ACTION_TERMINATE: i32 = 5;
/// There is no action: the call failed.
pub const VELOC_ACTION_ERROR: i32 = 6;
/// As VELOC_ACTION_YOUTURN, and then store the adjoint.
pub const VELOC_ACTION_YOUTURN_WITH_CHECK: i32 = 7;
/// A rule of schedules: the least number of advances under the resilience distance.
pub const VELOC_RULE_OPTIMAL: i32 = 0;
/// Revolve's distance between stored states, or the resilience distance if that is less.
pub const VELOC_RULE_RESILIENT: i32 = 1;
/// Distances between stored states that never grow.
pub const VELOC_RULE_MONOTONE: i32 = 2;
/// The shortest distances that do not repeat more.
pub const VELOC_RULE_SHORTEST: i32 = 3;
/// The call stopped as it was asked to; the same call goes on, also in a later job.
pub const VELOC_STOPPED: i32 = 1;
/// Memory of VELOC_Adjoint_protect: the state of the forward steps.
pub const VELOC_ADJOINT_STATE: i32 = 0;
/// Memory of VELOC_Adjoint_protect: the state of the adjoint, and what it computes.
pub const VELOC_ADJOINT_GRADIENT: i32 = 1;
/// A flag of VELOC_Adjoint: states that are computed again are compared with what they were.
pub const VELOC_VERIFY_REPLAY: u32 = 1;
