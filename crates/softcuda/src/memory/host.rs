//! Memory at host addresses: managed memory, page-locked memory that the
//! driver allocates, and memory of the program's that it registers.

use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::Arc;

use crate::in_flight;
use crate::memory::managed::ManagedAllocation;
use crate::memory::{span, DriverMemory};
use crate::misuse;
use crate::status::{DriverResult, ErrorCode};
use crate::sync::lock;
use crate::transfer;

/// Memory at some host addresses.
#[derive(Debug)]
pub(super) struct HostRange {
    /// A number that no other range has or had.
    pub(super) id: u64,
    pub(super) kind: HostKind,
    /// The context it was made or registered in.
    pub(super) context: u64,
    /// The ordinal of that context's device.
    pub(super) device: usize,
    /// Of managed memory, its pages.
    pub(super) managed: Option<Arc<ManagedAllocation>>,
}

/// How a host range came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// From `cuMemAllocManaged`.
    Managed,
    /// From `cuMemHostAlloc` or `cuMemAllocHost`.
    Allocated,
    /// From `cuMemHostRegister`.
    Registered,
}

impl DriverMemory {
    /// Allocates managed memory, of zeros.
    pub(crate) fn allocate_managed(
        &self,
        device: usize,
        context: u64,
        bytes: u64,
    ) -> DriverResult<u64> {
        if bytes == 0 {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let managed = ManagedAllocation::new(bytes)?;
        let range = managed.range.clone();
        let start = range.start;
        let mut state = lock(&self.state);
        let (id, kind, managed) = (state.fresh_id(), HostKind::Managed, Some(managed));
        state.host.insert(range, HostRange { id, kind, context, device, managed });
        Ok(start)
    }

    /// Allocates page-locked memory, of zeros.
    pub(crate) fn allocate_pinned(
        &self,
        device: usize,
        context: u64,
        bytes: u64,
    ) -> DriverResult<u64> {
        if bytes == 0 {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let size = usize::try_from(bytes).map_err(|_| ErrorCode::OUT_OF_MEMORY)?;
        let mut state = lock(&self.state);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address the system chooses touches no
        // memory that anyone has.
        let start = unsafe { libc::mmap(null_mut(), size, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(ErrorCode::OUT_OF_MEMORY);
        }
        let start = start.expose_provenance() as u64;
        let id = state.fresh_id();
        let (kind, managed) = (HostKind::Allocated, None);
        state.host.insert(start..start + bytes, HostRange { id, kind, context, device, managed });
        Ok(start)
    }

    /// Page-locks `bytes` of the program's memory. While that takes its time,
    /// no copy out of device memory goes on.
    pub(crate) fn register(
        &self,
        device: usize,
        context: u64,
        start: u64,
        bytes: u64,
        stall: impl FnOnce(),
    ) -> DriverResult {
        let range = span(start, bytes)?;
        {
            let state = lock(&self.state);
            if state.space.reaches_into(&range) || !is_mapped(start, bytes) {
                return Err(ErrorCode::INVALID_VALUE);
            }
            if state.host.overlaps(&range) {
                return Err(ErrorCode::HOST_MEMORY_ALREADY_REGISTERED);
            }
        }
        let copied_before = in_flight::touches(&range);
        transfer::while_copies_wait(|| {
            stall();
            transfer::pace_registration(bytes);
            populate(start, bytes);
        });
        let mut state = lock(&self.state);
        if state.host.overlaps(&range) {
            return Err(ErrorCode::HOST_MEMORY_ALREADY_REGISTERED);
        }
        // From here on a copy finds the range registered.
        if copied_before || in_flight::touches(&range) {
            let end = range.end;
            misuse::report(format!("cuMemHostRegister_v2: {start:#x}..{end:#x} is being copied"));
        }
        let id = state.fresh_id();
        let kind = HostKind::Registered;
        state.host.insert(range, HostRange { id, kind, context, device, managed: None });
        Ok(())
    }

    /// Ends the registration that begins at `start`.
    pub(crate) fn unregister(&self, start: u64) -> DriverResult {
        self.remove_host(
            "cuMemHostUnregister",
            start,
            |kind| kind == HostKind::Registered,
            ErrorCode::HOST_MEMORY_NOT_REGISTERED,
        )
    }

    /// Frees the page-locked memory that begins at `start`.
    pub(crate) fn free_pinned(&self, start: u64) -> DriverResult {
        let wanted = |kind| kind == HostKind::Allocated;
        self.remove_host("cuMemFreeHost", start, wanted, ErrorCode::INVALID_VALUE)
    }

    /// Frees the managed memory that begins at `start`.
    pub(crate) fn free_managed(&self, start: u64) -> DriverResult {
        let wanted = |kind| kind == HostKind::Managed;
        self.remove_host("cuMemFree_v2", start, wanted, ErrorCode::INVALID_VALUE)
    }

    /// Forgets the range that begins at `start` if it is `wanted`, and frees
    /// it if it is the driver's own.
    pub(super) fn remove_host(
        &self,
        caller: &str,
        start: u64,
        wanted: impl Fn(HostKind) -> bool,
        otherwise: ErrorCode,
    ) -> DriverResult {
        let (mut state, range) = self.when_unused(caller, |state| {
            state
                .host
                .at(start)
                .filter(|(_, found)| wanted(found.kind))
                .map(|(range, _)| range)
                .ok_or(otherwise)
        })?;
        let removed = state.host.remove(range.start);
        if removed.is_some_and(|(_, found)| found.kind == HostKind::Allocated) {
            let size = (range.end - range.start) as usize;
            // SAFETY: the mapping was made by `allocate_pinned` with this size,
            // nobody else may unmap it, and no queued work touches it.
            unsafe { libc::munmap(with_exposed_provenance_mut(range.start as usize), size) };
        }
        Ok(())
    }

    /// Whether `address` lies in page-locked memory, and so is a device
    /// address as well.
    pub(crate) fn is_pinned(&self, address: u64) -> bool {
        lock(&self.state)
            .host
            .containing(address)
            .is_some_and(|(_, found)| found.kind != HostKind::Managed)
    }

    /// Whether there is managed memory.
    pub(crate) fn has_managed(&self) -> bool {
        lock(&self.state).host.iter().any(|(_, found)| found.kind == HostKind::Managed)
    }

    /// The managed allocation that an address lies in.
    pub(crate) fn managed(&self, address: u64) -> Option<Arc<ManagedAllocation>> {
        lock(&self.state).host.containing(address).and_then(|(_, found)| found.managed.clone())
    }

    /// Bytes of `device` that managed memory takes now.
    pub(crate) fn managed_on(&self, device: usize) -> u64 {
        self.pool.on(device)
    }
}

/// The pages that hold a range.
fn pages_of(start: u64, bytes: u64) -> (u64, u64) {
    // SAFETY: it only reads a constant of the system.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let first = start / page * page;
    (first, (start + bytes).next_multiple_of(page) - first)
}

/// Whether every page of the range is mapped.
fn is_mapped(start: u64, bytes: u64) -> bool {
    let (first, length) = pages_of(start, bytes);
    // `msync` looks at no more than whether the pages are mapped: MS_ASYNC
    // has had no other effect on Linux since 2.6.19.
    // SAFETY: it changes nothing, whatever the range is.
    let code = unsafe {
        libc::msync(with_exposed_provenance_mut(first as usize), length as usize, libc::MS_ASYNC)
    };
    code == 0
}

/// Brings the pages in, as page-locking does. A failure (an old kernel, a
/// read-only mapping) costs only the emulation of that effect.
fn populate(start: u64, bytes: u64) {
    let (first, length) = pages_of(start, bytes);
    // SAFETY: populating leaves the contents as they are; the range is mapped
    // and, being registered, must stay so.
    unsafe {
        libc::madvise(
            with_exposed_provenance_mut(first as usize),
            length as usize,
            libc::MADV_POPULATE_WRITE,
        )
    };
}
