//! What can happen, and what it is called in the file.

/// Something that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// Initialisation, on the application's thread.
    Init = 0,
    /// A call of the application's that takes a checkpoint, or a part of one.
    Checkpoint,
    /// A call of the application's that restores a checkpoint, or a part of one.
    Restore,
    /// A call of the application's that waits for background work.
    Drain,
    /// The application's bytes on their way into the first tier.
    Capture,
    /// Bytes on their way from a memory tier back to the application.
    Recover,
    /// Mapping of device memory into the device cache.
    Map,
    /// Touching of host pages.
    Touch,
    /// Waiting for the turn to register.
    NodeLock,
    /// Waiting, with the turn, for a lull between the application's calls.
    IdleWindow,
    /// Registration of host memory with the driver.
    Register,
    /// From the device cache to the host buffer.
    Flush,
    /// From the host buffer to the device cache, ahead of a restore.
    Fetch,
    /// From memory to a scratch file.
    Write,
    /// From a scratch file to a persistent one.
    Persist,
    /// From a file to the host buffer, ahead of a restore.
    Read,
    /// From scratch files of other processes to parities of them.
    Encode,
}

/// All activities with their names, in the order of their numbers.
pub const ACTIVITIES: [(Activity, &std::ffi::CStr); 17] = [
    (Activity::Init, c"init"),
    (Activity::Checkpoint, c"checkpoint"),
    (Activity::Restore, c"restore"),
    (Activity::Drain, c"drain"),
    (Activity::Capture, c"capture"),
    (Activity::Recover, c"recover"),
    (Activity::Map, c"map"),
    (Activity::Touch, c"touch"),
    (Activity::NodeLock, c"turn"),
    (Activity::IdleWindow, c"lull"),
    (Activity::Register, c"register"),
    (Activity::Flush, c"flush"),
    (Activity::Fetch, c"fetch"),
    (Activity::Write, c"write"),
    (Activity::Persist, c"persist"),
    (Activity::Read, c"read"),
    (Activity::Encode, c"encode"),
];

/// A quantity that changes in steps, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Counter {
    /// Of the device cache, mapped.
    DeviceMapped = 0,
    /// Of the host buffer, with pages.
    HostTouched,
    /// Of the host buffer, registered.
    HostRegistered,
    /// Of the device cache, taken by checkpoints.
    DeviceUsed,
    /// Of the host buffer, taken by checkpoints.
    HostUsed,
}

/// All counters with their names, in the order of their numbers.
pub const COUNTERS: [(Counter, &str); 5] = [
    (Counter::DeviceMapped, "device mapped"),
    (Counter::HostTouched, "host touched"),
    (Counter::HostRegistered, "host registered"),
    (Counter::DeviceUsed, "device used"),
    (Counter::HostUsed, "host used"),
];

/// Where a copy was that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemoryTier {
    /// The device cache.
    Device = 0,
    /// The host buffer.
    Host,
}

/// The names of the places, in the order of their numbers.
pub const MEMORY_TIERS: [&str; 2] = ["device", "host"];

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
