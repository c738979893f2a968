//! Callbacks of the application, which write and read regions that are no range of memory.

use std::fmt::Debug;

use errors::Result;

/// The bytes of an object.
pub type WrittenBytes = Box<dyn AsRef<[u8]>>;

/// A region that is no range of memory: the application writes it as bytes, and reads it from them.
pub trait Object: Debug + Send + Sync {
    /// The object as bytes.
    fn write(&self) -> Result<WrittenBytes>;

    /// Restores the object from the bytes that it was written as. Returns what the application should be told of that,
    /// if there is anything.
    fn read(&self, bytes: &[u8]) -> Result<Option<String>>;
}
