//! Managed memory: its bytes, which host and device share, and the place of each block of them.
//!
//! A block is on the host if it is in the page table there. Moving it to a device takes it out; the host's next
//! access brings it back, which is noticed when somebody asks. The bytes themselves stay where they are, in a
//! memory file that is mapped twice: for the program, and for the device's work.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::address_space::GRANULARITY as BLOCK;
use crate::config;
use crate::memory::{DriverMemory, MemoryAccess};
use crate::physical::memory_file;
use crate::status::{DriverResult, ErrorCode};
use crate::sync::lock;

/// `CU_DEVICE_CPU`.
pub(crate) const CPU: i32 = -1;
/// `CU_DEVICE_INVALID`: nobody asked for it, or not for the whole range.
pub(crate) const NOWHERE: i32 = -2;

/// The place of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    /// Nobody has touched it.
    Nowhere,
    Host,
    Device(usize),
    /// On the host, with a copy on this device.
    Both(usize),
}

/// What a program can advise, or ask for, about a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RangeAdvice {
    ReadMostly(bool),
    /// A device, the processor, or [`NOWHERE`].
    Preferred(i32),
    /// By a device or the processor, or not any more.
    AccessedBy(i32, bool),
}

/// What a program is told about a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdviceQuestion {
    ReadMostly,
    Preferred,
    LastPrefetch,
}

#[derive(Debug, Clone)]
struct ManagedBlock {
    home: Home,
    read_mostly: bool,
    preferred: i32,
    last_prefetch: i32,
    accessed_by: Vec<i32>,
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct ManagedAllocation {
    /// Where the program has it.
    pub(crate) range: Range<u64>,
    /// Where the device's work is done.
    alias: u64,
    blocks: Mutex<Vec<ManagedBlock>>,
}

/// The blocks that are on devices, and how many bytes have moved.
#[derive(Debug, Default)]
pub(crate) struct ResidentBlocks {
    /// The oldest first; some may have gone back to the host.
    resident: Mutex<VecDeque<(Weak<ManagedAllocation>, usize)>>,
    to_device: AtomicU64,
    to_host: AtomicU64,
}

impl ManagedAllocation {
    /// Maps `bytes` of zeros.
    pub(super) fn new(bytes: u64) -> DriverResult<Arc<ManagedAllocation>> {
        let size = usize::try_from(bytes).map_err(|_| ErrorCode::OUT_OF_MEMORY)?;
        let file = memory_file(bytes)?;
        let (start, alias) = (map(&file, size)?, map(&file, size)?);
        let new = ManagedBlock {
            home: Home::Nowhere,
            read_mostly: false,
            preferred: NOWHERE,
            last_prefetch: NOWHERE,
            accessed_by: Vec::new(),
        };
        let blocks = Mutex::new(vec![new; bytes.div_ceil(BLOCK) as usize]);
        Ok(Arc::new(ManagedAllocation { range: start..start + bytes, alias, blocks }))
    }

    /// Where the device's work finds an address of the program's.
    pub(super) fn alias(&self, address: u64) -> u64 {
        self.alias + (address - self.range.start)
    }

    /// The blocks of a range.
    fn of(&self, range: &Range<u64>) -> Range<usize> {
        let number = |address: u64| ((address - self.range.start) / BLOCK) as usize;
        number(range.start)..number(range.end - 1) + 1
    }

    /// The addresses of a block.
    fn addresses(&self, block: usize) -> Range<u64> {
        let start = self.range.start + block as u64 * BLOCK;
        start..(start + BLOCK).min(self.range.end)
    }

    /// Keeps what a program advises.
    pub(crate) fn advise(&self, range: &Range<u64>, advice: RangeAdvice) {
        for block in &mut lock(&self.blocks)[self.of(range)] {
            match advice {
                RangeAdvice::ReadMostly(set) => block.read_mostly = set,
                RangeAdvice::Preferred(place) => block.preferred = place,
                RangeAdvice::AccessedBy(who, set) => {
                    block.accessed_by.retain(|known| *known != who);
                    block.accessed_by.extend(set.then_some(who));
                }
            }
        }
    }

    /// What was asked for, if it is the same in all of the range.
    pub(crate) fn answer(&self, range: &Range<u64>, question: AdviceQuestion) -> i32 {
        let of = |block: &ManagedBlock| match question {
            AdviceQuestion::ReadMostly => i32::from(block.read_mostly),
            AdviceQuestion::Preferred => block.preferred,
            AdviceQuestion::LastPrefetch => block.last_prefetch,
        };
        let blocks = lock(&self.blocks);
        let blocks = &blocks[self.of(range)];
        let otherwise = if question == AdviceQuestion::ReadMostly { 0 } else { NOWHERE };
        let first = of(&blocks[0]);
        if blocks.iter().all(|block| of(block) == first) {
            first
        } else {
            otherwise
        }
    }

    /// Who was said to access all of the range.
    pub(crate) fn accessed_by(&self, range: &Range<u64>) -> Vec<i32> {
        let blocks = lock(&self.blocks);
        let blocks = &blocks[self.of(range)];
        let everywhere = |who: &&i32| blocks.iter().all(|block| block.accessed_by.contains(who));
        blocks[0].accessed_by.iter().filter(everywhere).copied().collect()
    }

    /// Brings a block to the host.
    fn populate(&self, block: usize) {
        advise_system(&self.addresses(block), libc::MADV_POPULATE_READ);
    }

    /// Takes a block out of the host's page table.
    fn hide(&self, block: usize) {
        advise_system(&self.addresses(block), libc::MADV_DONTNEED);
    }
}

impl Drop for ManagedAllocation {
    fn drop(&mut self) {
        let size = (self.range.end - self.range.start) as usize;
        for start in [self.range.start, self.alias] {
            // SAFETY: both were mapped by `new` with this size, and nobody can reach them any more.
            unsafe { libc::munmap(with_exposed_provenance_mut(start as usize), size) };
        }
    }
}

impl ResidentBlocks {
    /// Bytes that have moved to a device, and to the host.
    fn moved(&self) -> (u64, u64) {
        self.forget_those_gone(&mut lock(&self.resident));
        (self.to_device.load(Ordering::Relaxed), self.to_host.load(Ordering::Relaxed))
    }

    /// Bytes of a device that managed memory takes.
    pub(super) fn on(&self, device: usize) -> u64 {
        let mut resident = lock(&self.resident);
        self.forget_those_gone(&mut resident);
        let on = |(managed, block): &(Weak<ManagedAllocation>, usize)| {
            let managed = managed.upgrade()?;
            let home = lock(&managed.blocks)[*block].home;
            let range = managed.addresses(*block);
            [Home::Device(device), Home::Both(device)]
                .contains(&home)
                .then_some(range.end - range.start)
        };
        resident.iter().filter_map(on).sum()
    }

    /// A device works on a range, for which it has `room` bytes in all: pages move.
    fn touch(
        &self,
        managed: &Arc<ManagedAllocation>,
        range: &Range<u64>,
        access: MemoryAccess,
        room: u64,
    ) {
        let mut resident = lock(&self.resident);
        for number in managed.of(range) {
            let mut blocks = lock(&managed.blocks);
            let block = &mut blocks[number];
            self.refresh(managed, number, block);
            if block.preferred == CPU {
                continue;
            }
            self.to_device(managed, number, block, access);
            drop(blocks);
            self.note(&mut resident, managed, number);
            self.evict(&mut resident, (managed, number), room);
        }
    }

    fn to_device(
        &self,
        managed: &ManagedAllocation,
        number: usize,
        block: &mut ManagedBlock,
        access: MemoryAccess,
    ) {
        let Range { start, end } = managed.addresses(number);
        let (duplicates, here) = (block.read_mostly && !access.writes, access.device);
        let moved = match block.home {
            Home::Device(there) if there == here => false,
            Home::Both(there) if there == here && duplicates => false,
            Home::Both(there) => there != here,
            Home::Nowhere => false,
            Home::Host | Home::Device(_) => true,
        };
        self.to_device.fetch_add(if moved { end - start } else { 0 }, Ordering::Relaxed);
        block.home = match block.home {
            Home::Host | Home::Both(_) if duplicates => Home::Both(here),
            Home::Host | Home::Both(_) => {
                managed.hide(number);
                Home::Device(here)
            }
            _ => Home::Device(here),
        };
    }

    /// What a program asks to be moved.
    pub(super) fn prefetch(
        &self,
        managed: &Arc<ManagedAllocation>,
        range: &Range<u64>,
        to: i32,
        room: u64,
    ) {
        for block in &mut lock(&managed.blocks)[managed.of(range)] {
            block.last_prefetch = to;
        }
        if let Ok(device) = usize::try_from(to) {
            let access = MemoryAccess { device, writes: false, by_kernel: false };
            return self.touch(managed, range, access, room);
        }
        for number in managed.of(range) {
            let block = &mut lock(&managed.blocks)[number];
            self.refresh(managed, number, block);
            self.to_host(managed, number, block);
        }
    }

    fn to_host(&self, managed: &ManagedAllocation, number: usize, block: &mut ManagedBlock) {
        if let Home::Device(_) = block.home {
            let Range { start, end } = managed.addresses(number);
            self.to_host.fetch_add(end - start, Ordering::Relaxed);
        }
        managed.populate(number);
        block.home = Home::Host;
    }

    /// Notices that the host has touched a block.
    fn refresh(&self, managed: &ManagedAllocation, number: usize, block: &mut ManagedBlock) {
        let (from, range) = (block.home, managed.addresses(number));
        if !matches!(from, Home::Nowhere | Home::Device(_)) || !is_present(&range) {
            return;
        }
        block.home = match from {
            Home::Device(device) if block.read_mostly => Home::Both(device),
            _ => Home::Host,
        };
        if let Home::Device(_) = from {
            self.to_host.fetch_add(range.end - range.start, Ordering::Relaxed);
        }
    }

    fn note(
        &self,
        resident: &mut VecDeque<(Weak<ManagedAllocation>, usize)>,
        managed: &Arc<ManagedAllocation>,
        number: usize,
    ) {
        let is_same = |(other, block): &(Weak<ManagedAllocation>, usize)| {
            *block == number && std::ptr::eq(other.as_ptr(), Arc::as_ptr(managed))
        };
        if !resident.iter().any(is_same) {
            resident.push_back((Arc::downgrade(managed), number));
        }
    }

    /// Moves the oldest blocks to the host until the device has room, but not the one just touched.
    fn evict(
        &self,
        resident: &mut VecDeque<(Weak<ManagedAllocation>, usize)>,
        (touched, own): (&Arc<ManagedAllocation>, usize),
        room: u64,
    ) {
        while resident.len() as u64 * BLOCK > room {
            self.forget_those_gone(resident);
            if resident.len() as u64 * BLOCK <= room || resident.len() < 2 {
                return;
            }
            let Some((managed, number)) = resident.pop_front() else { return };
            let Some(managed) = managed.upgrade() else { continue };
            if number == own && Arc::ptr_eq(&managed, touched) {
                resident.push_back((Arc::downgrade(&managed), number));
                continue;
            }
            let mut blocks = lock(&managed.blocks);
            self.to_host(&managed, number, &mut blocks[number]);
        }
    }

    /// Drops blocks that were freed, or that the host has taken back.
    fn forget_those_gone(&self, resident: &mut VecDeque<(Weak<ManagedAllocation>, usize)>) {
        resident.retain(|(managed, number)| {
            let Some(managed) = managed.upgrade() else { return false };
            let mut blocks = lock(&managed.blocks);
            let block = &mut blocks[*number];
            self.refresh(&managed, *number, block);
            matches!(block.home, Home::Device(_) | Home::Both(_))
        });
    }
}

impl DriverMemory {
    /// Has a device work on a range of managed memory: pages move. Returns where it does.
    pub(super) fn bring(
        &self,
        managed: &Arc<ManagedAllocation>,
        range: &Range<u64>,
        access: MemoryAccess,
    ) -> u64 {
        self.pool.touch(managed, range, access, self.room_for_managed(access.device));
        managed.alias(range.start)
    }

    /// Moves a range to a device or the host.
    pub(crate) fn prefetch(&self, managed: &Arc<ManagedAllocation>, range: &Range<u64>, to: i32) {
        let room = usize::try_from(to).map_or(0, |device| self.room_for_managed(device));
        self.pool.prefetch(managed, range, to, room);
    }

    /// Bytes of managed memory that have moved to a device, and to the host.
    pub(crate) fn moved(&self) -> (u64, u64) {
        self.pool.moved()
    }

    fn room_for_managed(&self, device: usize) -> u64 {
        config::memory_bytes().saturating_sub(self.meter.used(device))
    }
}

/// Maps a memory file at an address with the alignment of blocks. Forked children do not get it, as from the driver.
fn map(file: &std::os::fd::OwnedFd, size: usize) -> DriverResult<u64> {
    use std::os::fd::AsRawFd as _;
    let room = size.checked_add(BLOCK as usize).ok_or(ErrorCode::OUT_OF_MEMORY)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address the system chooses touches no memory that anyone has.
    let base = unsafe { libc::mmap(null_mut(), room, libc::PROT_NONE, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(ErrorCode::OUT_OF_MEMORY);
    }
    let base = base.expose_provenance();
    let start = base.next_multiple_of(BLOCK as usize);
    let pages = size.next_multiple_of(4096);
    let at = |address: usize| with_exposed_provenance_mut(address);
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
    // SAFETY: all of it is within the mapping made above, which nobody else has; the ends are given back.
    unsafe {
        let mapped = libc::mmap(at(start), size, protection, flags, file.as_raw_fd(), 0);
        if start > base {
            libc::munmap(at(base), start - base);
        }
        if start + pages < base + room {
            libc::munmap(at(start + pages), base + room - start - pages);
        }
        if mapped == libc::MAP_FAILED {
            libc::munmap(at(start), pages);
            return Err(ErrorCode::OUT_OF_MEMORY);
        }
        libc::madvise(at(start), size, libc::MADV_DONTFORK);
    }
    Ok(start as u64)
}

/// Advises the system about mapped memory of this module.
fn advise_system(range: &Range<u64>, advice: i32) {
    let len = (range.end - range.start) as usize;
    // SAFETY: a shared mapping of a memory file, which keeps its bytes whatever is advised here.
    unsafe { libc::madvise(with_exposed_provenance_mut(range.start as usize), len, advice) };
}

/// Whether any page of a block is in this process's page table.
fn is_present(range: &Range<u64>) -> bool {
    const PRESENT: u64 = 1 << 63;
    let Ok(map) = File::open("/proc/self/pagemap") else { return false };
    let mut entries = vec![0; (range.end - range.start).div_ceil(4096) as usize * 8];
    let read = map.read_exact_at(&mut entries, range.start / 4096 * 8);
    let entry = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
    read.is_ok() && entries.chunks_exact(8).any(|bytes| entry(bytes) & PRESENT != 0)
}
