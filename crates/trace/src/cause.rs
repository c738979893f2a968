//! Why the application waits.

/// Why the application waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// For its own copy, into or out of the first tier.
    Copy = 0,
    /// For its own work that it had queued before the checkpoint.
    Order = 1,
    /// For the device cache to be mapped.
    Map = 2,
    /// For room in the device cache.
    DeviceRoom = 3,
    /// For room in the host buffer.
    HostRoom = 4,
    /// In a restore, for bytes on their way up.
    Fetch = 5,
    /// For files: `mode = sync`, or a checkpoint that is larger than memory, or a restore from a
    /// file.
    File = 6,
    /// In `VELOC_Checkpoint_wait` and a draining `VELOC_Finalize`, because it asked to.
    Drain = 7,
}

/// All causes with their names, in the order of their numbers.
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
