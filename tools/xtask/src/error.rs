//! Errors that name the file, command or value concerned.

use std::fmt;

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

/// A message that names the file, command or value.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    /// An error that says `text`.
    pub fn new(text: impl Into<String>) -> Error {
        Error(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Adds to an error what was being done, and with what.
pub trait While<T> {
    /// The value, or the error after `what: `.
    fn when(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> While<T> for std::result::Result<T, E> {
    fn when(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error(format!("{}: {error}", what())))
    }
}
