//! Which levels there are: in memory, and of files.

/// A memory tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// The device cache.
    Device,
    /// The host buffer.
    Host,
}

/// A tier of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileTier {
    /// On the node.
    Scratch = 0,
    /// On the parallel file system.
    Persistent = 1,
}
