//! A software stand-in for the CUDA driver library, `libcuda.so.1`.
//!
//! It lets code that talks to the CUDA driver run where there is no GPU. It is
//! a test bed, not a simulator: it keeps the driver's *rules* (what is an
//! error, what waits for what, what is asynchronous) and says nothing about a
//! GPU's speed. No figure measured on it is a measurement of anything else.
//!
//! From the top down:
//!
//! * [`api`] holds the driver's entry points by subject, and the
//!   `softcuda_*` functions with which tests steer the device;
//! * `registry` and `context` own the objects behind the handles, `queue`
//!   the streams and what waits for what, `capture` what is recorded in place
//!   of being queued, `late` what holds work back, `kernels` the native kernels;
//! * `memory` knows every range and who may touch it, over `address_space`
//!   (the addresses), `physical` (what backs them) and `in_flight` (which
//!   of them queued work is going to touch); `transfer` moves the bytes;
//! * `checkpoint` is what other processes stop this one by;
//! * `config`, `inject` and `misuse` are what a test sets and reads.
//!
//! Locks are taken in this order and never the other way round: `registry`,
//! a context's streams, `late`, one stream's queue; and, separately, `memory`, then
//! `in_flight`. No lock of these is held while user code runs, while a copy
//! runs or while anything waits for a stream.

#![allow(non_snake_case)]

pub mod abi;
pub mod api;

mod address_space;
mod capture;
mod checkpoint;
mod config;
mod context;
mod handles;
mod in_flight;
mod inject;
mod intervals;
mod kernels;
mod late;
mod memory;
mod misuse;
mod notice;
mod physical;
mod ptx;
mod queue;
mod registry;
mod status;
mod sync;
mod thread;
mod transfer;
