//! The C interface, through C programs that run as processes of their own.

// A test fails by panicking; the helpers beside the tests are part of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adjoint;
mod apart;
mod backend;
mod bypass;
mod checksums;
mod compressed;
mod counts;
mod cxx;
mod damaged;
mod descriptors;
mod device;
mod discard;
mod edited;
mod ends;
mod erasure;
mod failing;
mod faults;
mod files;
mod fortran;
mod frozen;
mod handover;
mod heat;
mod host;
mod hostile;
mod ids;
mod incremental;
mod injection;
mod instrumented;
mod kernels;
mod kill;
mod meddle;
mod mistakes;
mod mpi;
mod need;
mod no_room;
mod other_users;
mod pinning;
mod places;
mod pmem;
mod printed;
mod proofs;
mod refuse;
mod routed;
mod runs;
mod signals;
mod storm;
mod sweep;
mod sweep_limits;
mod trace;
mod unified;
mod versions;
