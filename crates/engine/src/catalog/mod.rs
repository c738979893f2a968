//! The location and state of each checkpoint.
//!
//! [`state::State`] has all checkpoints with their copies and the room of the memory levels. Each of its
//! steps keeps the invariants (listed at [`state::State::check`]). `monitor::Catalog` puts a lock around it,
//! and application and workers wait for each other there. Neither moves any bytes.

pub mod entry;
pub(crate) mod monitor;
pub mod state;

#[cfg(all(test, feature = "model-check"))]
mod model_tests;
#[cfg(all(test, not(feature = "model-check")))]
mod state_tests;
