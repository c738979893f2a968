//! What the application does for the library: it writes and reads regions that are no range of
//! memory.

use std::fmt::Debug;

use os::error::Result;

/// Bytes that an object has been written as.
pub type Written = Box<dyn AsRef<[u8]>>;

/// A region that is no range of memory: the application writes it as bytes, and reads it from them.
pub trait Object: Debug + Send + Sync {
    /// The object as bytes.
    fn write(&self) -> Result<Written>;

    /// Makes the object what it was when it was written as these bytes.
    fn read(&self, bytes: &[u8]) -> Result<()>;
}
