//! Copies of the C library's own. They must not be those of `copies`: compilers make calls of `memcpy` from loops.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

type CopyFunction = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;
type Set = unsafe extern "C" fn(*mut c_void, c_int, usize) -> *mut c_void;

/// The C library's functions; null before the start, when few bytes are copied.
static COPY: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static SET: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Finds the C library's functions.
pub(crate) fn find() {
    // SAFETY: names with NUL.
    let next = |name: &std::ffi::CStr| unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    COPY.store(next(c"memmove"), Ordering::Relaxed);
    SET.store(next(c"memset"), Ordering::Relaxed);
}

/// As `memmove`.
///
/// # Safety
/// As of `memmove`.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    let copy = COPY.load(Ordering::Relaxed);
    if !copy.is_null() {
        // SAFETY: that function; the caller's promise.
        unsafe {
            std::mem::transmute::<*mut c_void, CopyFunction>(copy)(to.cast(), from.cast(), bytes)
        };
        return;
    }
    let forwards = (to as usize) <= from as usize;
    for nth in 0..bytes {
        let nth = if forwards { nth } else { bytes - 1 - nth };
        // SAFETY: the caller's promise. Volatile, so that no call is made of the loop.
        unsafe { to.add(nth).write_volatile(from.add(nth).read_volatile()) };
    }
}

/// As `memset`.
///
/// # Safety
/// As of `memset`.
pub(crate) unsafe fn set(to: *mut u8, byte: u8, bytes: usize) {
    let set = SET.load(Ordering::Relaxed);
    if !set.is_null() {
        // SAFETY: that function; the caller's promise.
        unsafe { std::mem::transmute::<*mut c_void, Set>(set)(to.cast(), byte.into(), bytes) };
        return;
    }
    for nth in 0..bytes {
        // SAFETY: as above.
        unsafe { to.add(nth).write_volatile(byte) };
    }
}
