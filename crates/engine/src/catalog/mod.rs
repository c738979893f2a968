//! Which checkpoint is where and in which state.
//!
//! [`state::State`] holds every checkpoint with its copies and the room of the memory levels, and
//! changes them by steps that each leave the invariants true (they are written down at
//! [`state::State::check`]). `monitor::Catalog` puts the one lock of the library's data around
//! it, and is where application and workers wait for each other. Neither moves a byte.

pub mod entry;
pub(crate) mod monitor;
pub mod state;

#[cfg(all(test, feature = "model-check"))]
mod model_tests;
#[cfg(all(test, not(feature = "model-check")))]
mod state_tests;
