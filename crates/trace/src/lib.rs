//! The timeline of a job: what each worker does and why the application waits, as a file in the
//! Chrome trace-event format (Perfetto and chrome://tracing open it, `python -m veloc.plot` draws it),
//! and as NVTX ranges where a profiler listens.
//!
//! | file | owns |
//! | --- | --- |
//! | [`activity`] | what can happen, with the names in the file |
//! | [`cause`] | why the application waits |
//! | [`recorder`] | the interface: spans, waits, marks, counters |
//! | [`ring`] | one thread's records on their way to the writer |
//! | [`slot`] | one place of a track's ring |
//! | [`writer`] | the thread that writes the file |
//! | [`json`] | one record as a line of JSON |
//! | [`file_name`] | the file's name |
//! | [`nvtx`] | NVTX, found at run time |
//!
//! A record is a few words in a ring that its thread has: no lock, no allocation and no system call
//! but the clock, except for a thread's first, which gets it a ring: one that another has given
//! back, or a new one. What finds its ring full is dropped and counted. The file is written by a
//! thread of its own every few milliseconds, as an array whose closing bracket may be missing: that
//! of a killed job can be read all the same. Times are those of `CLOCK_MONOTONIC`, so that the
//! files of a node's processes can be laid side by side; `clock_error_ns` says how exactly.
//! A counter is recorded under the lock that its quantity changes under, so that its records stand in
//! the order of the changes.
//!
//! The recorder knows nothing of this library's engine; other programs may record with it:
//!
//! ```
//! use trace::{Activity, Recorder, Setup};
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("trace.json");
//! let trace = Recorder::start(&Setup { file: Some(path), rank: 0 })?;
//! let mut span = trace.span(Activity::Flush).of("shot", 7);
//! // ... move the bytes ...
//! span.bytes(1 << 20);
//! drop(span);
//! trace.finish();
//! # Ok::<(), os::error::Error>(())
//! ```

#![deny(clippy::disallowed_methods)]

pub mod activity;
pub mod cause;
pub mod file_name;
pub mod json;
pub mod metrics;
pub mod nvtx;
pub mod recorder;
pub mod ring;
pub mod slot;
pub mod writer;

#[cfg(all(test, feature = "model-check"))]
mod model_tests;
#[cfg(test)]
mod ring_tests;
#[cfg(test)]
mod tests;

pub use activity::{Activity, Counter, MemoryTier};
pub use recorder::{Recorder, Setup, Span};
