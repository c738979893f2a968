//! Environment variables, as far as they can be trusted. A set-user-id program runs with its owner's
//! rights and its caller's environment, which must not decide which files are written or which programs
//! are started. There, all variables count as not set.
//!
//! The library reads variables only through this module (enforced by `clippy.toml`).

// The only place that reads the environment.
#![allow(clippy::disallowed_methods)]

use std::env::{self, VarError};
use std::ffi::{OsStr, OsString};

/// Whether this process has other rights than its caller (`AT_SECURE`): set-user-id, set-group-id, or
/// capabilities.
pub fn is_foreign() -> bool {
    // SAFETY: only asks. It is 0 where the system does not say.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The value of a variable.
pub fn var_os(name: impl AsRef<OsStr>) -> Option<OsString> {
    env::var_os(name).filter(|_| !is_foreign())
}

/// The names of all variables that are text and begin with `prefix`.
pub fn names(prefix: &str) -> Vec<String> {
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| name.starts_with(prefix) && !is_foreign()).collect()
}

/// The value of a variable, as text.
///
/// # Errors
/// The variable is not set, or is not UTF-8.
pub fn var(name: impl AsRef<OsStr>) -> Result<String, VarError> {
    var_os(name).ok_or(VarError::NotPresent)?.into_string().map_err(VarError::NotUnicode)
}
