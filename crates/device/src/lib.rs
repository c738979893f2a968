//! Access to devices through one small fallible interface.
//!
//! [`DeviceApi`] has the operations that the library needs of a kind of device, and `cuda` is the
//! one kind there is: all driver calls of the library are there. [`kinds`] finds the device that a
//! process uses. The other modules are the library's own logic on top, the same for every kind: a
//! device with its context, address ranges, streams and copies, pointers, and registrations.

#![deny(clippy::disallowed_methods)]

mod api;
mod cuda;
mod device;
#[cfg(any(test, debug_assertions))]
pub mod host;
mod kernels;
pub mod kinds;
mod managed;
mod pointer;
mod range;
mod register;
mod stream;

#[cfg(test)]
#[cfg(not(feature = "model-check"))]
mod tests;

pub use api::{Advice, DeviceApi, DeviceInfo, WaitMode};
pub use cuda::{probe, Probe};
pub use device::{Current, Device};
pub use kernels::{Compression, DeviceBuffer};
pub use managed::ManagedRange;
pub use pointer::{Pointer, PAGEABLE};
pub use range::DeviceRange;
pub use register::{register, unregister, PinnedBuffer};
pub use stream::{ApplicationStream, Event, Stream};
