//! Why a call failed.

use std::ffi::c_char;

use super::boundary::last_error;

/// The reason of the calling thread's last failed call, in English, with the thing and the value.
///
/// The library also prints each reason on standard error, until the program first calls this
/// function: a program that prints errors itself calls it once at its start. The key print_errors
/// overrides this.
///
/// @return a string, empty if no call of this thread has failed; valid until eight more calls of
///         the thread have failed; never NULL. Call it in a statement of its own: in a list of
///         arguments C may evaluate it before another call.
///
/// Source: an addition of this library.
#[no_mangle]
pub extern "C" fn VELOC_Last_error() -> *const c_char {
    last_error()
}
