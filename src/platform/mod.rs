//! Mechanisms of the operating system (Linux): memory, pages, NUMA, files, processors, and the
//! page through which the processes of a node take turns. No policy: when and how much is decided
//! elsewhere. Every system call of the library that is not the driver's is here.

pub mod affinity;
pub mod clock;
pub mod files;
pub mod mapping;
pub mod memory;
pub mod numa;
pub mod shared;
pub mod socket;
pub mod turns;

/// The calling thread's number in the system.
pub fn thread_id() -> u32 {
    // SAFETY: without arguments, and cannot fail.
    unsafe { libc::gettid() }.unsigned_abs()
}
