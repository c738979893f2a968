//! The entry points: the driver's own by subject, and in `extension` those
//! that steer this device.
//!
//! Each has the driver's signature, with a `CUresult` as its plain number and arguments of
//! enumerated type as plain integers. Functions that read or write through a pointer are `unsafe`:
//! the pointer must be null, which is refused where the driver refuses it, or point to what the
//! driver's manual asks for.

mod entry;

mod context;
mod copy;
mod event;
mod extension;
mod graph;
mod green;
mod host;
mod init_device;
mod managed;
mod memory;
mod module;
mod pointer;
mod proc_address;
mod process;
mod stream;
mod vmm;

pub use context::*;
pub use copy::*;
pub use event::*;
pub use extension::*;
pub use graph::*;
pub use green::*;
pub use host::*;
pub use init_device::*;
pub use managed::*;
pub use memory::*;
pub use module::*;
pub use pointer::*;
pub use proc_address::*;
pub use process::*;
pub use stream::*;
pub use vmm::*;
