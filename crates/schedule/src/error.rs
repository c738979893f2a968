//! Errors of schedules.

use std::fmt;

/// What sort of failure an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An argument, or the order of calls.
    Invalid,
    /// A state that is needed is stored nowhere.
    Missing,
    /// Bytes are not those of a schedule.
    Damaged,
}

/// An error with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    message: String,
}

/// The result of every fallible function here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of the given kind. The message names the thing and the value.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }

    /// Shorthand for [`Kind::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// What sort of failure this is.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
