//! Lines on stderr.

use std::io::Write;

/// Prints one line under this library's name. A failure to print is ignored.
pub(crate) fn notice(text: &str) {
    let _ = writeln!(std::io::stderr(), "softcuda: {text}");
}
