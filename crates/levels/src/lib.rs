//! The levels: places with room for checkpoints, one above the other.
//!
//! A level knows its space and what is resident in it. It does not know when anything happens: what
//! to flush, touch, register, evict or fetch next is decided in `policy`, and carried out in
//! `engine`.

#![deny(clippy::disallowed_methods)]

pub mod compressed;
pub mod device_cache;
pub mod drive;
pub mod host_buffer;
#[cfg(all(test, feature = "model-check"))]
mod host_buffer_model;
pub mod store;
