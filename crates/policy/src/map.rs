//! How much device memory the device cache may map, and how much at a time.

use std::time::Duration;

/// Bytes of device memory that are left to the application.
const KEEP_FREE: u64 = 256 << 20;
/// A share (1/64) of the device's memory, which is left instead where that is less.
const KEEP_FREE_SHARE: u64 = 64;

/// Whether `bytes` more may be mapped on a device with `free` of `total` bytes free. The application
/// needs memory after the caches are mapped, too.
pub fn may_map(bytes: u64, free: u64, total: u64) -> bool {
    free >= bytes.saturating_add(KEEP_FREE.min(total / KEEP_FREE_SHARE))
}

/// Bytes that are mapped in one call of what a cache begins with: a call takes its time, and waits for registrations,
/// once, however much it maps, and a capture that comes meanwhile waits for no more than that call (H200: 1 GiB in
/// 0.11 ms, in chunks of 128 MiB in 0.39 ms; beside registrations in 0.9 and 9.1 ms).
pub const PIECE: u64 = 4 << 30;

/// Bytes that are mapped in one call where a piece is not to be had, and when a cache grows.
pub const CHUNK: u64 = 128 << 20;

/// Bytes of device memory that stay free when a cache grows beyond what it was given for good.
const GROWTH_KEEPS: u64 = 2 << 30;
/// A share (1/16) of the device's memory, which stays free instead where that is more.
const GROWTH_KEEPS_SHARE: u64 = 16;

/// Whether a cache may grow by `bytes` on a device with `free` of `total` bytes free.
pub fn may_grow(bytes: u64, free: u64, total: u64) -> bool {
    free > bytes.saturating_add(GROWTH_KEEPS.max(total / GROWTH_KEEPS_SHARE))
}

/// For how long a job has to be idle before its cache gives back what it has grown by; and how long after a
/// refusal it may ask for memory again, as nobody tells when others have freed theirs.
pub const IDLE_AFTER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_keeps_some_memory() {
        let total = 64 << 30;
        assert!(may_map(1 << 30, (1 << 30) + KEEP_FREE, total));
        assert!(!may_map(1 << 30, (1 << 30) + KEEP_FREE - 1, total));
        assert!(may_map(1 << 20, (1 << 20) + (1 << 14), 1 << 20), "a small device, a small share");
    }

    /// Catches growth into what the application and others on the card may need.
    #[test]
    fn growth_leaves_more_than_mapping_does() {
        let (small, large) = (16 << 30, 128 << 30);
        assert!(may_grow(1 << 30, (3 << 30) + 1, small) && !may_grow(1 << 30, 3 << 30, small));
        assert!(may_grow(1 << 30, (9 << 30) + 1, large) && !may_grow(1 << 30, 9 << 30, large));
        assert!(!may_grow(u64::MAX, u64::MAX, large));
    }
}
