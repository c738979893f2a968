//! The environment of a process, as far as it is to be believed. A set-user-id program is run with the
//! rights of its owner and with the environment of whoever started it, who must not decide by that which
//! files are written or which programs are started. There every variable counts as not set.
//!
//! The library and that of messages read variables by this alone (`clippy.toml` sees to it).

// Here is where the others come to.
#![allow(clippy::disallowed_methods)]

use std::env::{self, VarError};
use std::ffi::{OsStr, OsString};

/// Whether this process was started by somebody with other rights than its own (`AT_SECURE`): a program
/// that is set-user-id, set-group-id or has capabilities.
pub fn is_foreign() -> bool {
    // SAFETY: only asks. It is 0 where the system does not say.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The value of a variable.
pub fn var_os(name: impl AsRef<OsStr>) -> Option<OsString> {
    env::var_os(name).filter(|_| !is_foreign())
}

/// The value of a variable, as text.
///
/// # Errors
/// It is not set, or is not UTF-8.
pub fn var(name: impl AsRef<OsStr>) -> Result<String, VarError> {
    var_os(name).ok_or(VarError::NotPresent)?.into_string().map_err(VarError::NotUnicode)
}
