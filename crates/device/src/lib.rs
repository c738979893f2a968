//! Access to CUDA devices through one small fallible interface.
//!
//! All driver calls of the library are in this crate. [`driver`] finds the library and its functions;
//! [`context`] is a device with its context; the other modules are address ranges, streams and copies,
//! pointers, and registrations.

#![deny(clippy::disallowed_methods)]

pub mod context;
pub mod driver;
pub mod pointer;
pub mod probe;
pub mod range;
pub mod register;
pub mod stream;

pub use context::Device;
pub use driver::Driver;
pub use pointer::{Pointer, PAGEABLE};
pub use range::DeviceRange;
pub use register::PinnedBuffer;
pub use stream::{Event, Stream, WaitMode};
