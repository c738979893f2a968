//! The causes for which the application waits.

/// The reason why the application waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its own copy, into or out of the first level.
    Copy = 0,
    /// Its own work that was queued before the checkpoint.
    Order = 1,
    /// Mapping of the device cache.
    Map = 2,
    /// Room in the device cache.
    DeviceRoom = 3,
    /// Room in the host buffer.
    HostRoom = 4,
    /// In a restore, a prefetch in progress.
    Fetch = 5,
    /// Files: `mode = sync`, a checkpoint larger than memory, or a restore from a file.
    File = 6,
    /// `VELOC_Checkpoint_wait` or a draining `VELOC_Finalize`: the application asked to wait.
    Drain = 7,
}

/// All causes with their names, by number.
pub const CAUSES: [(Cause, &str); 8] = [
    (Cause::Copy, "copy"),
    (Cause::Order, "order"),
    (Cause::Map, "map"),
    (Cause::DeviceRoom, "device room"),
    (Cause::HostRoom, "host room"),
    (Cause::Fetch, "fetch"),
    (Cause::File, "file"),
    (Cause::Drain, "drain"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_numbers() {
        assert!(CAUSES.iter().enumerate().all(|(i, (cause, _))| *cause as usize == i));
    }
}
