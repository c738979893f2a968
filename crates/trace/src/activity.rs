//! The activities, counters and levels that are recorded, with their names in the file.

/// Something that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// Initialisation, on the application's thread.
    Init = 0,
    /// An application call that takes a checkpoint or a part of one.
    Checkpoint,
    /// An application call that restores a checkpoint or a part of one.
    Restore,
    /// An application call that waits for background work.
    Drain,
    /// Copying the application's bytes into the first level.
    Capture,
    /// Copying bytes from a level of memory to the application.
    Recover,
    /// Mapping of device memory into the device cache.
    Map,
    /// Touching of host pages.
    Touch,
    /// Waiting for the node lock before a registration.
    NodeLock,
    /// Waiting for an idle window between the application's calls while holding the node lock.
    IdleWindow,
    /// Registration of host memory with the driver.
    Register,
    /// Copying from the device cache to the host buffer.
    Flush,
    /// Prefetching from the host buffer to the device cache.
    Fetch,
    /// Writing from memory to a scratch file.
    Write,
    /// Copying from a scratch file to a persistent file.
    Persist,
    /// Prefetching from a file to the host buffer.
    Read,
    /// Computing parities from scratch files of other processes.
    Encode,
    /// Compressing a region (`VELOC_Mem_compress`).
    Compress,
    /// Decompressing a region.
    Decompress,
}

/// All activities with their names, by number.
pub const ACTIVITIES: [(Activity, &std::ffi::CStr); 19] = [
    (Activity::Init, c"init"),
    (Activity::Checkpoint, c"checkpoint"),
    (Activity::Restore, c"restore"),
    (Activity::Drain, c"drain"),
    (Activity::Capture, c"capture"),
    (Activity::Recover, c"recover"),
    (Activity::Map, c"map"),
    (Activity::Touch, c"touch"),
    (Activity::NodeLock, c"node lock"),
    (Activity::IdleWindow, c"idle window"),
    (Activity::Register, c"register"),
    (Activity::Flush, c"flush"),
    (Activity::Fetch, c"fetch"),
    (Activity::Write, c"write"),
    (Activity::Persist, c"persist"),
    (Activity::Read, c"read"),
    (Activity::Encode, c"encode"),
    (Activity::Compress, c"compress"),
    (Activity::Decompress, c"decompress"),
];

/// A quantity in bytes that changes in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Counter {
    /// Mapped bytes of the device cache.
    DeviceMapped = 0,
    /// Touched bytes of the host buffer.
    HostTouched,
    /// Registered bytes of the host buffer.
    HostRegistered,
    /// Bytes of the device cache used by checkpoints.
    DeviceUsed,
    /// Bytes of the host buffer used by checkpoints.
    HostUsed,
    /// Bytes of the level below it used by checkpoints.
    LowerUsed,
}

/// All counters with their names, by number.
pub(crate) const COUNTERS: [(Counter, &str); 6] = [
    (Counter::DeviceMapped, "device mapped"),
    (Counter::HostTouched, "host touched"),
    (Counter::HostRegistered, "host registered"),
    (Counter::DeviceUsed, "device used"),
    (Counter::HostUsed, "host used"),
    (Counter::LowerUsed, "lower used"),
];

/// The names of the levels of memory, by their row. "lower" is the one below the host buffer.
pub(crate) const LEVELS: [&str; 3] = ["device", "host", "lower"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_numbers() {
        assert!(ACTIVITIES.iter().enumerate().all(|(i, (activity, _))| *activity as usize == i));
        assert!(COUNTERS.iter().enumerate().all(|(i, (counter, _))| *counter as usize == i));
        assert!(ACTIVITIES.iter().all(|(_, name)| name.to_str().is_ok()));
    }
}
