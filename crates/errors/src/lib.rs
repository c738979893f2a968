//! Errors. Every message names the thing and the value, so that the reader can act.
//!
//! The C interface returns -1 and keeps the message for `VELOC_Last_error`.

use std::fmt;

/// The kind of an [`Error`], for code that must decide what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// An argument, a configuration value or the order of calls is wrong. Nothing was changed.
    Invalid,
    /// A checkpoint, version or region that was asked for does not exist.
    NotFound,
    /// There is no room, and there will be none.
    NoRoom,
    /// A file or system call failed.
    System,
    /// A driver call failed. The number is the driver's `CUresult`.
    Driver(u32),
    /// A file's content is not what it should be.
    Corrupt,
    /// A checkpoint is of a job with another number of processes.
    OtherJob,
    /// The library itself failed (a worker ended, a panic was caught).
    Internal,
}

/// An error with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    is_of_another: bool,
}

/// The result of every fallible function of this library.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of the given kind. The message should name the thing and the value.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), is_of_another: false }
    }

    /// Shorthand for [`ErrorKind::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// A failed system call: what was tried, on what, and the system's message.
    pub fn system(what: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::new(ErrorKind::System, format!("{what}: {error}"))
    }

    /// A failed system call whose error is in `errno`.
    pub fn errno(what: impl fmt::Display) -> Self {
        Self::system(what, &std::io::Error::last_os_error())
    }

    /// The error's kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The error with `context` before its message.
    #[must_use]
    pub fn within(self, context: impl fmt::Display) -> Self {
        Error { message: format!("{context}: {}", self.message), ..self }
    }

    /// The error with `more` after its message.
    #[must_use]
    pub fn followed_by(self, more: impl fmt::Display) -> Self {
        Error { message: format!("{}; {more}", self.message), ..self }
    }

    /// The same error, marked as one that another process of the job tells the user of.
    #[must_use]
    pub fn told_by_another(self) -> Self {
        Error { is_of_another: true, ..self }
    }

    /// Whether another process of the job tells the user of this error.
    pub fn is_told_by_another(&self) -> bool {
        self.is_of_another
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
