//! Data movement: the threads and copies that carry out what `policy` decides and `catalog` records.
//!
//! An [`Engine`] is made of parts (`shared`), which the application's threads and the workers use:
//!
//! | part | has |
//! | --- | --- |
//! | `monitor` | the catalog and its lock, on which all wait for each other |
//! | [`DeviceSide`] | the device, its cache, its copies (`lane`), and the `gate` that keeps background copies out of the way of a capture |
//! | [`HostSide`] | the host buffer and the levels below it (`store`), touching beside flushing (`pace`), the machine's memory (`guard`) |
//! | [`FileSide`] | the directories, which versions have files and may (`prune`, `backlog`, `bypass`), the parities |
//! | [`Captures`] | what is captured behind a call (`deferred`, `frozen`, `digests`), and what captures have cost |
//! | [`Succession`] | the backend: whom this process follows, and who follows it |
//! | [`Telemetry`] | counters, timeline, warnings |
//!
//! On the application's threads:
//!
//! | file | does |
//! | --- | --- |
//! | `capture` | finds room, then copies to the first level ([`Capturing`]; an `open` checkpoint) |
//! | `copy`, `run` | copies between application memory and the levels of memory |
//! | `ways`, `arrive` | leaves deferred captures to a worker or a forked process |
//! | `managed` | cuts managed memory by where its pages are |
//! | `streamed`, `spool` | writes application memory straight to a file |
//! | `both` | the same to a second file, on one more thread, in `mode = sync` |
//! | `direct` | copies scratch to persistent, in `mode = sync` |
//! | `routed` | gives the application's own files a place and a name |
//! | [`restore`] | begins and ends a restore ([`Restores`]) |
//! | `recover` | copies the nearest copy to application memory |
//! | `piece`, `application` | copies the nearest copy, or application memory, to memory outside of all levels |
//! | `checkpoints`, `order` | answers the client's questions, and takes its notices |
//!
//! Workers:
//!
//! | file | does |
//! | --- | --- |
//! | `arrive` | copies deferred captures to the host buffer |
//! | `map` | maps the device cache, lets it grow and shrink |
//! | `prepare` | touches and registers the host buffer |
//! | `transfer` | copies from the device cache to the host buffer and back |
//! | `storage` | writes the host buffer to scratch, scratch to persistent, and reads ahead |
//! | `unchanged` | leaves out of a file what its base has (`incremental`) |
//! | `encode` | makes parities of the scratch files of other processes |
//!
//! [`place`] describes an application's region. `lifecycle` starts an engine (with the host buffer of `buffer`, the memory
//! of the job before by `inherit`, and the device of `attach`), and `end` ends it.

#![deny(clippy::disallowed_methods)]

mod application;
mod arrive;
mod attach;
pub mod backlog;
mod both;
#[cfg(test)]
#[cfg(not(feature = "model-check"))]
mod both_tests;
mod buffer;
mod bypass;
mod calls;
mod capture;
mod captures;
mod checkpoints;
#[cfg(test)]
mod compressed_tests;
mod copy;
pub mod deferred;
pub mod device_compression;
mod device_side;
#[cfg(test)]
#[cfg(not(feature = "model-check"))]
mod device_tests;
mod digests;
mod direct;
#[cfg(test)]
#[cfg(not(feature = "model-check"))]
mod drive_tests;
mod encode;
mod end;
#[cfg(test)]
#[cfg(not(feature = "model-check"))]
mod erasure_tests;
mod file_side;
mod frozen;
mod gate;
mod guard;
mod host_side;
mod inherit;
mod lane;
mod lifecycle;
mod managed;
mod map;
mod monitor;
#[cfg(all(test, feature = "model-check"))]
mod monitor_model;
mod open;
mod order;
mod ordered;
mod pace;
mod piece;
pub mod place;
mod prepare;
mod prune;
mod recover;
pub mod restore;
mod routed;
mod run;
mod shared;
mod spool;
mod storage;
#[cfg(test)]
#[cfg(not(feature = "model-check"))]
mod store_tests;
mod streamed;
mod succession;
mod telemetry;
mod transfer;
mod unchanged;
mod verify;
mod ways;
mod workers;

pub use captures::Captures;
pub use checkpoints::CheckpointView;
pub use device_side::DeviceSide;
pub use file_side::FileSide;
pub use host_side::HostSide;
pub use lifecycle::{Engine, EngineHandle};
pub use open::Open;
pub use order::Order;
pub use shared::{Capturing, Restores};
pub use succession::Succession;
pub use telemetry::Telemetry;
