//! Why a call failed.

use std::ffi::c_char;

use super::boundary::last_error;

/// The reason of the calling thread's last failed call, in English, with the thing and the value.
///
/// The library prints it on standard error as well, but not any more once the program has asked for one:
/// a program that prints errors itself asks once at its start. The key print_errors decides otherwise.
///
/// @return a string, empty if no call of this thread has failed; valid until eight more calls of the
///         thread have failed; never NULL. Ask in a statement of its own: beside another call in one
///         list of arguments, C may evaluate this one first.
///
/// Source: an addition of this library.
#[no_mangle]
pub extern "C" fn VELOC_Last_error() -> *const c_char {
    last_error()
}
