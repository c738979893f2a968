//! Managed memory, which host and device share: the way of its bytes into a checkpoint and back.
//!
//! The driver moves a page to whoever touches it. So a copy by the device takes pages away from the host, at the
//! speed of a page fault, and one by the processor takes them away from the device. The ways chosen here move none
//! where they can.

/// Bytes of a piece that is copied by the processor or by the device as a whole: the driver's own unit of moving.
pub const PIECE: u64 = 2 << 20;

/// Rates in bytes per second, of 1 GiB of managed memory on an H100 with driver 580 (docs/results): a copy within the
/// device, from the device to registered memory, by the processor where the pages are on the host; and the moving of
/// pages to the device that a copy causes, and back.
const WITHIN_DEVICE: f64 = 1400e9;
const FROM_DEVICE: f64 = 52e9;
const BY_PROCESSOR: f64 = 12e9;
const TO_DEVICE: f64 = 12e9;
const BACK: f64 = 18e9;

/// Which part of a checkpoint a managed region goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// To the device's part, as device memory: the device copies all of it, to its cache if that has room.
    Device,
    /// To the host's part: the processor copies what lies on the host, the device the rest.
    Host,
}

/// The way of a region of `bytes`, of which `on_host` are on the host. `read_mostly`: it was advised that host and
/// device may both have a copy of each page, so that no copy moves any.
pub fn capture(bytes: u64, on_host: u64, read_mostly: bool) -> Side {
    let (bytes, on_host) = (bytes as f64, on_host.min(bytes) as f64);
    let moved = if read_mostly { 0.0 } else { on_host / TO_DEVICE + on_host / BACK };
    let through_device = bytes / WITHIN_DEVICE + moved;
    let where_it_lies = f64::max(on_host / BY_PROCESSOR, (bytes - on_host) / FROM_DEVICE);
    if through_device <= where_it_lies {
        Side::Device
    } else {
        Side::Host
    }
}

/// Whether the processor copies a piece of `bytes`, of which `on_host` are on the host.
pub fn is_of_host(bytes: u64, on_host: u64) -> bool {
    on_host * 2 >= bytes && on_host > 0
}

/// Whether what is restored to pages that are not on the host is left on the host. `fresh`: they may be nowhere yet,
/// as in a job that has just started; else they are on the device. `prefers_host`: so the application has advised.
/// `free`: bytes of free device memory.
pub fn stays_on_host(bytes: u64, fresh: bool, prefers_host: bool, free: u64) -> bool {
    fresh && (prefers_host || bytes > free)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// Catches a region on the device that goes the slow way, and one on the host that is taken away from it.
    #[test]
    fn a_region_goes_from_where_it_lies() {
        assert_eq!(capture(GIB, 0, false), Side::Device);
        assert_eq!(capture(GIB, GIB, false), Side::Host);
        assert_eq!(capture(GIB, GIB / 2, false), Side::Host);
        assert_eq!(
            capture(GIB, 2 << 20, false),
            Side::Device,
            "a page that the host has looked at"
        );
        assert_eq!(capture(GIB, GIB, true), Side::Device, "the device has them as well");
        assert_eq!(capture(0, 0, false), Side::Device);
    }

    /// Catches pieces of which the smaller part decides.
    #[test]
    fn a_piece_goes_with_its_larger_part() {
        assert!(is_of_host(PIECE, PIECE));
        assert!(is_of_host(PIECE, PIECE / 2));
        assert!(!is_of_host(PIECE, PIECE / 2 - 1));
        assert!(!is_of_host(PIECE, 0));
        assert!(!is_of_host(0, 0));
    }

    /// Catches a restore that pushes other memory out of the device, and one that takes pages away from it.
    #[test]
    fn a_restore_leaves_on_the_host_what_the_device_has_no_room_for() {
        assert!(stays_on_host(GIB, true, false, GIB - 1));
        assert!(!stays_on_host(GIB, true, false, GIB));
        assert!(stays_on_host(GIB, true, true, GIB));
        assert!(!stays_on_host(GIB, false, true, 0), "they are on the device already");
    }
}
