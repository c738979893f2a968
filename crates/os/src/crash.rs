//! What a library that simulates crashes (`libveloc-crash.so`) is told, if there is one in the process.
//!
//! It has no dependency on this library, nor this one on it: a table of C functions is found by name.

use std::ffi::{c_char, c_int, CStr};
use std::sync::OnceLock;

/// The version of [`Simulation`].
pub const INTERFACE: c_int = 2;

/// The function that gives the table: it takes [`INTERFACE`], and returns a [`Simulation`], or null where no crash is
/// simulated. It ends the process if it knows another version.
pub const FUNCTION: &CStr = c"veloc_crash_simulation";

/// The functions of a simulation of crashes. None fails.
#[repr(C)]
#[derive(Debug)]
pub struct Simulation {
    /// The file to open in place of `path`: its path, with NUL, goes to `place`, which has `PATH_MAX` bytes.
    pub place: extern "C" fn(path: *const c_char, place: *mut c_char),
    /// A file was mapped, to survive this crash: 0 process, 1 power ([`crate::persistent::Model`]). Returns the one that is
    /// simulated for it: these, or 2 page.
    pub mapped: extern "C" fn(path: *const c_char, at: u64, bytes: u64, asked: c_int) -> c_int,
    /// It is unmapped next.
    pub unmapped: extern "C" fn(at: u64, bytes: u64),
    /// Stores a word of the library's own: the compiler has not made its stores known, as it has those of the program.
    pub store: extern "C" fn(at: *mut u64, word: u64),
    /// These bytes are being written back.
    pub flush: extern "C" fn(at: u64, bytes: u64),
    /// What was being written back by this thread is there.
    pub drain: extern "C" fn(),
}

static FOUND: OnceLock<Option<&'static Simulation>> = OnceLock::new();

/// Has this process simulate crashes, without such a library: for tests.
pub fn simulate(by: &'static Simulation) {
    FOUND.get_or_init(|| Some(by));
}

/// The simulation in this process.
pub fn simulation() -> Option<&'static Simulation> {
    *FOUND.get_or_init(|| {
        // SAFETY: the name ends with its only null byte.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, FUNCTION.as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: a function of this name is one of that library.
        let function: extern "C" fn(c_int) -> *const Simulation =
            unsafe { std::mem::transmute(found) };
        // Null: the process is one that no tool has started.
        // SAFETY: it returns null, or a table that is never freed.
        unsafe { function(INTERFACE).as_ref() }
    })
}
