//! The timeline of a job: what the workers do and why the application waits. It is written to a file in
//! the Chrome trace-event format (for Perfetto, chrome://tracing and `python -m veloc.plot`), and as
//! NVTX ranges for profilers. What it shows of the moment is in memory that `veloc top` reads.
//!
//! | file | owns |
//! | --- | --- |
//! | `activity` | the recorded activities, with their names in the file |
//! | `cause` | why the application waits |
//! | `recorder` | the interface: spans, waits, instant events, counters |
//! | `ring` | the ring of one thread's records |
//! | `writer` | the thread that writes the file |
//! | `json` | formats records as JSON |
//! | `file_name` | the file's name |
//! | `live` | the job as it is now, for `veloc top` |
//! | `nvtx` | NVTX, found at run time |
//!
//! A record is a few words in its thread's ring, written without lock or system call (but for the
//! clock), and without allocation unless its checkpoint has another name than the one before. Only a
//! thread's first record needs a ring, a new one or one that another thread has released. Records that
//! find the ring full are dropped and counted. A thread writes the file every few milliseconds as an
//! array, whose closing bracket is written each time, so the file of a killed job is whole. Times are those
//! of `CLOCK_MONOTONIC`, so files of processes on one node can be merged; `clock_error_ns` is the
//! accuracy. A counter is recorded under the lock that protects its quantity, so its records are in
//! order.
//!
//! The recorder is independent of the engine; other programs may use it:
//!
//! ```
//! use trace::{Activity, Recorder, Setup};
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("trace.json");
//! let trace = Recorder::start(&Setup { file: Some(path), ..Setup::default() })?;
//! let mut span = trace.span(Activity::Flush).of("shot", 7);
//! // ... move the bytes ...
//! span.bytes(1 << 20);
//! drop(span);
//! trace.finish();
//! # Ok::<(), errors::Error>(())
//! ```

#![deny(clippy::disallowed_methods)]

mod activity;
mod cause;
mod file_name;
mod json;
pub mod live;
pub mod metrics;
mod nvtx;
mod recorder;
mod ring;
mod writer;

#[cfg(test)]
mod ring_tests;
#[cfg(test)]
mod tests;

pub use activity::{Activity, Counter, ACTIVITIES};
pub use recorder::{Recorder, Setup, Shown, Span};
