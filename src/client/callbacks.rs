//! What the application does for the library: it writes and reads regions that are no range of
//! memory, and is told when a region that it has lent is not needed any more.

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::Result;

/// Bytes that an object has been written as.
pub type Written = Box<dyn AsRef<[u8]>>;

/// A region that is no range of memory: the application writes it as bytes, and reads it from them.
pub trait Object: Debug + Send + Sync {
    /// The object as bytes.
    fn write(&self) -> Result<Written>;

    /// Makes the object what it was when it was written as these bytes.
    fn read(&self, bytes: &[u8]) -> Result<()>;
}

/// Tells the application that a region's bytes are not needed any more.
pub trait Release: Debug + Send + Sync {
    /// The checkpoint has the bytes: the application may change its memory.
    fn release(&self);
}

/// The terms on which a region of memory is protected.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The application leaves the region as it is until it is released.
    pub read_only: bool,
    /// Called once for each checkpoint that the region is captured into.
    pub release: Option<Arc<dyn Release>>,
}
