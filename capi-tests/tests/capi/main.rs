//! The C interface, through C programs that run as processes of their own.

// A test fails by panicking; the helpers beside the tests are part of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adjoint;
mod adjoint_failures;
mod backend;
mod bounded;
mod bypass;
mod callback_misuse;
mod changed_initial_state;
mod checksums;
mod compressed;
mod counts;
mod cxx;
mod damaged;
mod deferred_capture;
mod descriptors;
mod device;
mod discard;
mod erasure;
mod failing;
mod faults;
mod files;
mod fortran;
mod handover;
mod heat;
mod host;
mod hostile;
mod ids;
mod incremental;
mod injection;
mod instrumented;
mod job_ends;
mod kernels;
mod kill;
mod mistakes;
mod mpi;
mod no_room;
mod ordered;
mod other_users;
mod pinning;
mod places;
mod pmem;
mod printed;
mod proofs;
mod refusals;
mod routed;
mod runs;
mod signals;
mod storm;
mod sweep;
mod sweep_limits;
mod touching_by_need;
mod trace;
mod unified;
mod versions;
