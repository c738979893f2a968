//! The devices' address space.
//!
//! Two areas of equal size are set aside once. Addresses of the first, the
//! *device area*, are what programs see: it is never accessible, so a host
//! access to device memory faults at once, as it does beside a real GPU. The
//! second, the *alias area*, holds the memory itself at the same offsets, and
//! only this library uses it. Addresses are handed out one after another and
//! with gaps, so that a stale or overrunning pointer rarely meets new memory.

use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{null_mut, with_exposed_provenance_mut};

use crate::intervals::Intervals;
use crate::status::{DriverResult, ErrorCode};

/// The unit of address ranges and of physical memory.
pub(crate) const GRANULARITY: u64 = 2 << 20;

const LARGEST_AREA: u64 = 8 << 40;
const SMALLEST_AREA: u64 = 1 << 30;

const QUIET: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

/// How the library itself may use part of the alias area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AliasProtection {
    None,
    Read,
    ReadWrite,
}

impl AliasProtection {
    fn flags(self) -> i32 {
        match self {
            Self::None => libc::PROT_NONE,
            Self::Read => libc::PROT_READ,
            Self::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

/// The two areas, and which parts of them are handed out.
pub(crate) struct AddressSpace {
    device_area: Range<u64>,
    alias_area: u64,
    slots: Intervals<()>,
    next: u64,
}

impl AddressSpace {
    /// Sets the areas aside, smaller ones if the system refuses large ones.
    pub(crate) fn new() -> DriverResult<Self> {
        let mut size = LARGEST_AREA;
        loop {
            if let Some(base) = set_aside(2 * size + GRANULARITY) {
                let base = base.next_multiple_of(GRANULARITY);
                return Ok(Self {
                    device_area: base..base + size,
                    alias_area: base + size,
                    slots: Intervals::default(),
                    next: base,
                });
            }
            size /= 2;
            if size < SMALLEST_AREA {
                return Err(ErrorCode::OUT_OF_MEMORY);
            }
        }
    }

    /// Whether `range` reaches into the device area.
    pub(crate) fn reaches_into(&self, range: &Range<u64>) -> bool {
        range.start < self.device_area.end && self.device_area.start < range.end
    }

    /// Hands out `size` addresses at a multiple of `alignment`, at `wish` if
    /// that is possible.
    pub(crate) fn reserve(&mut self, size: u64, alignment: u64, wish: u64) -> DriverResult<u64> {
        let size = size.checked_next_multiple_of(GRANULARITY).ok_or(ErrorCode::OUT_OF_MEMORY)?;
        let alignment = alignment.max(GRANULARITY);
        if wish != 0 && wish.is_multiple_of(alignment) && self.is_free(wish, size) {
            self.slots.insert(wish..wish + size, ());
            return Ok(wish);
        }
        let start = self
            .first_fit(self.next, size, alignment)
            .or_else(|| self.first_fit(self.device_area.start, size, alignment))
            .ok_or(ErrorCode::OUT_OF_MEMORY)?;
        self.slots.insert(start..start + size, ());
        self.next = start + size + GRANULARITY;
        Ok(start)
    }

    /// Takes back what [`AddressSpace::reserve`] handed out at `start`.
    pub(crate) fn release(&mut self, start: u64) {
        self.slots.remove(start);
    }

    /// Where the memory behind a device address is.
    pub(crate) fn alias(&self, address: u64) -> u64 {
        address - self.device_area.start + self.alias_area
    }

    /// Puts fresh memory of zeros behind `range`.
    pub(crate) fn back_with_zeros(&self, range: &Range<u64>) -> DriverResult {
        self.place(range, AliasProtection::ReadWrite, QUIET, -1)
    }

    /// Puts the beginning of `file` behind `range`, inaccessible at first.
    pub(crate) fn back_with_file(&self, range: &Range<u64>, file: BorrowedFd<'_>) -> DriverResult {
        self.place(range, AliasProtection::None, libc::MAP_SHARED, file.as_raw_fd())
    }

    /// Takes away whatever is behind `range`.
    pub(crate) fn withdraw(&self, range: &Range<u64>) -> DriverResult {
        self.place(range, AliasProtection::None, QUIET, -1)
    }

    /// Changes what may be done with what is behind `range`.
    pub(crate) fn protect(&self, range: &Range<u64>, protection: AliasProtection) -> DriverResult {
        let size = (range.end - range.start) as usize;
        let start = with_exposed_provenance_mut(self.alias(range.start) as usize);
        // SAFETY: the range lies in the alias area, which this object set
        // aside and nothing else uses.
        let code = unsafe { libc::mprotect(start, size, protection.flags()) };
        if code == 0 {
            Ok(())
        } else {
            Err(ErrorCode::OUT_OF_MEMORY)
        }
    }

    fn place(
        &self,
        range: &Range<u64>,
        protection: AliasProtection,
        flags: i32,
        file: i32,
    ) -> DriverResult {
        let size = (range.end - range.start) as usize;
        let start = with_exposed_provenance_mut(self.alias(range.start) as usize);
        // SAFETY: the range lies in the alias area, which this object set
        // aside, so MAP_FIXED replaces nothing that is not its own.
        let placed = unsafe {
            libc::mmap(start, size, protection.flags(), flags | libc::MAP_FIXED, file, 0)
        };
        if placed == libc::MAP_FAILED {
            Err(ErrorCode::OUT_OF_MEMORY)
        } else {
            Ok(())
        }
    }

    fn is_free(&self, start: u64, size: u64) -> bool {
        let Some(end) = start.checked_add(size) else {
            return false;
        };
        start >= self.device_area.start
            && end <= self.device_area.end
            && !self.slots.overlaps(&(start..end))
    }

    fn first_fit(&self, from: u64, size: u64, alignment: u64) -> Option<u64> {
        let mut start = from.checked_next_multiple_of(alignment)?;
        loop {
            let end = start.checked_add(size)?.checked_add(GRANULARITY)?;
            if end > self.device_area.end {
                return None;
            }
            match self.slots.last_overlapping(&(start..end)) {
                None => return Some(start),
                Some(taken) => {
                    start = (taken.end + GRANULARITY).checked_next_multiple_of(alignment)?;
                }
            }
        }
    }
}

fn set_aside(size: u64) -> Option<u64> {
    let size = usize::try_from(size).ok()?;
    // SAFETY: a new inaccessible mapping at an address the system chooses
    // touches no memory that anyone has.
    let base = unsafe { libc::mmap(null_mut(), size, libc::PROT_NONE, QUIET, -1, 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: `base` and `size` are the mapping just made. A failure only
    // makes core dumps list it.
    unsafe { libc::madvise(base, size, libc::MADV_DONTDUMP) };
    Some(base.expose_provenance() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_aligned_apart_and_given_at_wish() {
        let mut space = AddressSpace::new().unwrap();
        let first = space.reserve(1, 0, 0).unwrap();
        let second = space.reserve(GRANULARITY, 64 << 20, 0).unwrap();
        assert_eq!(second % (64 << 20), 0);
        assert!(second >= first + 2 * GRANULARITY);

        let wish = first + GRANULARITY;
        assert_eq!(space.reserve(GRANULARITY, 0, wish), Ok(wish));
        assert_ne!(space.reserve(GRANULARITY, 0, wish), Ok(wish));
        space.release(wish);
        assert_eq!(space.reserve(GRANULARITY, 0, wish), Ok(wish));
    }

    #[test]
    fn released_addresses_are_found_again_when_the_area_is_used_up() {
        let mut space = AddressSpace::new().unwrap();
        let most = space.device_area.end - space.device_area.start - 8 * GRANULARITY;
        let all = space.reserve(most, 0, 0).unwrap();
        assert_eq!(space.reserve(most, 0, 0), Err(ErrorCode::OUT_OF_MEMORY));
        space.release(all);
        assert_eq!(space.reserve(most, 0, 0), Ok(all));
    }
}
