//! Data movement: the threads and copies that carry out what `policy` decides and `catalog` records.
//!
//! | file | on whose thread | moves |
//! | --- | --- | --- |
//! | [`capture`] | the application's | finds room, then copies to the first level |
//! | `direct` | the application's | scratch to persistent, in `mode = sync` |
//! | `copy` | the application's | between application memory and the levels of memory |
//! | `application` | the application's | from application memory to memory outside of all levels |
//! | `both` | the application's and one more | the same to a second file, in `mode = sync` |
//! | `spool` | the application's | application memory straight to a file |
//! | [`restore`] | the application's | the nearest copy to application memory |
//! | `piece` | the application's | the nearest copy to memory outside of all levels, piece by piece |
//! | [`deferred`] | a worker | deferred captures, to the host buffer |
//! | `prepare` | workers | maps the device cache, touches and registers the host buffer |
//! | `transfer` | workers | device cache to host buffer and back |
//! | [`storage`] | workers | host buffer to scratch to persistent, and back up |
//! | `sift` | workers | nothing: leaves out of a file what its base has (`incremental`) |
//! | `prune` | workers | removes the files of versions beyond a level's limit |
//! | [`backlog`] | the application's, and `veloc sync` | reports and copies what earlier jobs have left in scratch only |
//! | `bypass` | threads that write files | checkpoints that scratch cannot take, to persistent only |
//! | `queries` | the application's | nothing: the client's queries and notices about checkpoints |
//! | `routed` | the application's | the place and the name of the application's own files |
//! | `encode` | workers | scratch files of other processes to parities |
//!
//! `monitor` is the lock around the catalog, on which application and workers wait for each other. `pace` decides between touching and flushing, `guard` watches the machine's memory, `gate` keeps
//! background copies out of the way of a capture, `managed` cuts managed memory by where its pages
//! are, [`shared`] is the state that all of them use, [`place`] describes an application's region.
//! `lifecycle` starts an [`Engine`] (with the host buffer of `buffer` and the device of `attach`),
//! and `end` ends it.

#![deny(clippy::disallowed_methods)]

pub mod backlog;
mod both;
#[cfg(test)]
#[cfg(not(feature = "model-check"))]
mod both_tests;
pub mod capture;
mod carried;
mod copy;
pub mod deferred;
mod encode;
mod frozen;
mod gate;
mod guard;
mod inherit;
mod lane;
mod managed;
mod monitor;
#[cfg(all(test, feature = "model-check"))]
mod monitor_model;
mod pace;
pub mod place;
mod prepare;
pub mod restore;
pub mod shared;
mod sift;
pub mod snapshot;
mod spool;
pub mod storage;
mod store;
mod transfer;
mod verify;

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
