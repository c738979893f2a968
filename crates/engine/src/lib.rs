//! Motion: the threads and copies that carry out what `policy` decides and `catalog` records.
//!
//! | file | on whose thread | moves |
//! | --- | --- | --- |
//! | [`capture`] | the application's | finds room, then copies to the first level |
//! | `direct` | the application's | scratch to persistent, in `mode = sync` |
//! | `copy` | the application's | between application memory and the levels of memory |
//! | `application` | the application's | from application memory to memory that is in no level |
//! | `spool` | the application's | application memory straight to a file |
//! | [`restore`] | the application's | the nearest copy to application memory |
//! | `piece` | the application's | the nearest copy to memory that is in no level, piece by piece |
//! | [`deferred`] | a worker | what the application lends, to the host buffer |
//! | `prepare` | workers | maps the device cache, touches and registers the host buffer |
//! | `transfer` | workers | device cache to host buffer and back |
//! | [`storage`] | workers | host buffer to scratch to persistent, and back up |
//! | `prune` | workers | removes the files of versions that a level is not to keep |
//! | [`backlog`] | the application's, and `veloc sync` | what earlier jobs have left in scratch alone, said and copied |
//! | `bypass` | who writes files | what scratch cannot take, to persistent alone |
//! | `queries` | the application's | nothing: what a client asks of the checkpoints, and tells of them |
//! | `routed` | the application's | gives files of its own their place and their name |
//! | `encode` | workers | scratch files of other processes to parities of them |
//!
//! `pace` tells touching from flushing, `guard` watches the machine's memory, `gate` keeps
//! background copies out of the way of a capture, [`shared`] is what all of them see, [`place`] where
//! the application has a region. [`Engine`] starts them (`lifecycle`, with the host buffer of `buffer`
//! and the device of `attach`) and ends them (`end`).

#![deny(clippy::disallowed_methods)]

pub mod backlog;
pub mod capture;
pub mod catalog;
mod copy;
pub mod deferred;
mod encode;
mod gate;
mod guard;
mod lane;
mod pace;
pub mod place;
mod prepare;
pub mod restore;
pub mod shared;
mod spool;
pub mod storage;
mod store;
mod transfer;

mod application;
mod attach;
mod buffer;
mod bypass;
#[cfg(test)]
#[cfg(not(feature = "model-check"))]
mod device_tests;
mod direct;
mod end;
#[cfg(test)]
#[cfg(not(feature = "model-check"))]
mod erasure_tests;
mod lifecycle;
mod piece;
mod prune;
mod queries;
mod routed;
mod streamed;

pub use lifecycle::Engine;
