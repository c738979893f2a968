//! The CUDA driver behind one small fallible interface.
//!
//! Every driver call of the library is in this room and nowhere else. [`driver`] finds the library
//! and its functions; [`context`] stands for one device with its context; the others are what the
//! layers above speak of: address ranges, streams and copies, pointers, registrations.

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
