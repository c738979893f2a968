//! How much device memory the device cache may map.

/// Bytes of device memory that are left to the application.
const KEEP_FREE: u64 = 256 << 20;
/// A share (1/64) of the device's memory, which is left instead where that is less.
const KEEP_FREE_SHARE: u64 = 64;

/// Whether `bytes` more may be mapped on a device with `free` of `total` bytes free. The application
/// needs memory after the caches are mapped, too.
pub fn may_map(bytes: u64, free: u64, total: u64) -> bool {
    free >= bytes.saturating_add(KEEP_FREE.min(total / KEEP_FREE_SHARE))
}

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
}
