//! Lines on stderr.

use std::io::Write;

/// Prints one line under this library's name. That it cannot be printed is
/// no reason to fail.
pub(crate) fn notice(text: &str) {
    let _ = writeln!(std::io::stderr(), "softcuda: {text}");
}
