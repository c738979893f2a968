//! The table of functions that the library finds ([`os::crash`]), and where its files are.

use std::ffi::{c_char, c_int, CStr};

use crate::image::Model;
use os::crash::{Simulation, INTERFACE};

use crate::state::{tracked, turn, TRACKING};
use crate::text::{fail, Text};
use std::sync::atomic::Ordering;

static TABLE: Simulation = Simulation { place, mapped, unmapped, store, flush, drain };

/// The table; null in a process that `veloc crash` has not started.
#[no_mangle]
extern "C" fn veloc_crash_simulation(version: c_int) -> *const Simulation {
    if turn().is_none_or(|state| state.plan.is_none()) {
        return std::ptr::null();
    }
    if version != INTERFACE {
        fail("libveloc-crash.so is of another version than libveloc-client.so", b"");
    }
    &raw const TABLE
}

/// The name of a file in the run's folder: two of the same name in two folders are two.
fn name(path: &[u8], here: &[u8]) -> Text {
    let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let before: &[u8] = if path.starts_with(b"/") { b"" } else { here };
    let slash: &[u8] = if before.is_empty() { b"" } else { b"/" };
    let sum = [before, slash, path].concat().iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Text::new().number((sum >> 1) as i64).push(b"-").push(base)
}

extern "C" fn place(path: *const c_char, place: *mut c_char) {
    let Some(state) = turn() else { return };
    let Some(plan) = &state.plan else { return };
    let mut here = [0_u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer's size.
    unsafe { libc::getcwd(here.as_mut_ptr().cast(), here.len()) };
    let here = CStr::from_bytes_until_nul(&here).unwrap_or_default();
    // SAFETY: a string with NUL, as the library promises.
    let path = unsafe { CStr::from_ptr(path) };
    let name = name(path.to_bytes(), here.to_bytes());
    let placed = Text::new().push(plan.folder.as_bytes()).push(b"/").push(name.bytes());
    let bytes = placed.c_str().to_bytes_with_nul();
    if bytes.len() > libc::PATH_MAX as usize {
        fail("the path is too long: ", bytes);
    }
    // SAFETY: the library gives that much room.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast(), bytes.len()) };
}

extern "C" fn mapped(path: *const c_char, at: u64, bytes: u64, asked: c_int) -> c_int {
    let asked = if asked == Model::Process as c_int { Model::Process } else { Model::Power };
    let told = turn().and_then(|state| state.plan.as_ref().and_then(|plan| plan.model));
    let model = told.unwrap_or(asked);
    if let Some(mut state) = tracked() {
        // SAFETY: a string with NUL, as the library promises.
        let path = unsafe { CStr::from_ptr(path) };
        state.mapped(path, at as usize, bytes as usize, model);
    }
    model as c_int
}

extern "C" fn unmapped(at: u64, _bytes: u64) {
    if let Some(mut state) = tracked() {
        state.unmapped(at as usize);
    }
}

extern "C" fn store(at: *mut u64, word: u64) {
    if !TRACKING.load(Ordering::Relaxed) {
        // SAFETY: the library's own word, as it promises.
        unsafe { at.write_volatile(word) };
        return;
    }
    let state = turn();
    if let Some(mut state) = state {
        state.own_step();
        state.touch(at as usize, true);
        // SAFETY: as above; the turn is held, so that nothing is written back in between.
        unsafe { at.write_volatile(word) };
    }
}

extern "C" fn flush(at: u64, bytes: u64) {
    if let Some(mut state) = tracked() {
        state.flush(at as usize, bytes as usize);
    }
}

extern "C" fn drain() {
    if let Some(mut state) = tracked() {
        state.drain();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches two files that share a place, and one file that has two.
    #[test]
    fn each_file_has_a_place() {
        let of = |path: &str, here: &str| name(path.as_bytes(), here.as_bytes()).bytes().to_vec();
        assert_eq!(of("/a/arrays", "/x"), of("arrays", "/a"));
        assert_ne!(of("/a/arrays", "/x"), of("/b/arrays", "/x"));
        assert!(of("/a/arrays", "/x").ends_with(b"-arrays"));
    }
}
