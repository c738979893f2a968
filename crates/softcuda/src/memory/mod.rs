//! All memory the driver knows: what each address is, who may touch it, and
//! how much of each device is used.
//!
//! `device` holds device memory, plain and mapped; `host` managed, pinned and
//! registered memory; `managed` where managed pages are; `query` answers what a pointer is. This file turns the
//! arguments of a copy into places that may be touched, which is the one way
//! by which queued work reaches memory: nothing is read or written that was
//! not found accessible here first.

mod device;
mod host;
mod managed;
mod query;

pub(crate) use host::HostKind;
use managed::ResidentBlocks;
pub(crate) use managed::{AdviceQuestion, ManagedAllocation, RangeAdvice, CPU, NOWHERE};
pub(crate) use query::{PointerInfo, PointerKind};

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::address_space::AddressSpace;
use crate::in_flight::{self, InUse};
use crate::intervals::Intervals;
use crate::misuse;
use crate::physical::{Meter, PhysicalMemory};
use crate::status::{DriverResult, ErrorCode};
use crate::sync::lock;

use device::{DeviceMemory, Use};
use host::HostRange;

/// All memory.
pub(crate) struct DriverMemory {
    state: Mutex<Allocations>,
    meter: Arc<Meter>,
    /// The managed memory that is on devices.
    pool: ResidentBlocks,
    devices: usize,
}

struct Allocations {
    space: AddressSpace,
    /// Addresses that programs reserved; plain allocations are not among them.
    reserved: Intervals<()>,
    /// Device memory that exists, by device address.
    device: Intervals<DeviceMemory>,
    /// Managed, pinned and registered memory, by host address.
    host: Intervals<HostRange>,
    handles: HashMap<u64, Arc<PhysicalMemory>>,
    next_id: u64,
}

impl Allocations {
    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

/// The side of an address, as the call says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressSide {
    /// A device address.
    Device,
    /// A host address.
    Host,
    /// An address of either side.
    Either,
}

/// The purpose for which memory is touched, and the device concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryAccess {
    /// The device that does it.
    pub(crate) device: usize,
    /// Whether it writes.
    pub(crate) writes: bool,
    /// Whether a kernel does it, not a copy engine.
    pub(crate) by_kernel: bool,
}

/// The kind of memory of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RangeKind {
    /// Device memory.
    Device,
    /// Managed memory, which counts as the device's.
    Managed,
    /// Page-locked host memory.
    Pinned,
    /// Host memory the driver does not know.
    Pageable,
}

impl RangeKind {
    /// Whether a copy treats it as being on the device.
    pub(crate) fn is_on_device(self) -> bool {
        matches!(self, Self::Device | Self::Managed)
    }
}

/// A range that may be touched until this is dropped.
#[derive(Debug)]
pub(crate) struct Operand {
    address: u64,
    /// The kind of the memory.
    pub(crate) place: RangeKind,
    /// Of managed memory, its pages, the range, and what is done to it.
    managed: Option<(Arc<ManagedAllocation>, Range<u64>, MemoryAccess)>,
    _in_use: InUse,
}

impl Operand {
    /// Where this library reads and writes it; managed pages move there.
    pub(crate) fn bring(&self, memory: Option<&DriverMemory>) -> u64 {
        match (&self.managed, memory) {
            (Some((managed, range, access)), Some(memory)) => memory.bring(managed, range, *access),
            _ => self.address,
        }
    }
}

impl DriverMemory {
    /// No memory yet, on so many devices.
    pub(crate) fn new(devices: usize) -> DriverResult<Self> {
        let state = Allocations {
            space: AddressSpace::new()?,
            reserved: Intervals::default(),
            device: Intervals::default(),
            host: Intervals::default(),
            handles: HashMap::new(),
            next_id: 0,
        };
        let meter = Meter::new(devices);
        Ok(Self { state: Mutex::new(state), meter, pool: ResidentBlocks::default(), devices })
    }

    /// Bytes of `device` in use.
    pub(crate) fn used(&self, device: usize) -> u64 {
        self.meter.used(device)
    }

    /// Finds `bytes` at `address` and marks them as in use.
    ///
    /// Device addresses that are not wholly accessible are illegal; a host
    /// range that is registered only in part, or in two parts, is invalid.
    pub(crate) fn operand(
        &self,
        address: u64,
        bytes: u64,
        side: AddressSide,
        access: MemoryAccess,
    ) -> DriverResult<Operand> {
        let range = span(address, bytes)?;
        let state = lock(&self.state);
        state.operand(range, side, access)
    }

    /// The whole range around `address` (an allocation, a mapping or a registration), to be
    /// touched.
    pub(crate) fn window(
        &self,
        address: u64,
        access: MemoryAccess,
    ) -> DriverResult<(Range<u64>, Operand)> {
        let state = lock(&self.state);
        let device = state.device.containing(address).map(|(range, _)| range);
        let range = device.or_else(|| state.host.containing(address).map(|(range, _)| range));
        let range = range.ok_or(ErrorCode::ILLEGAL_ADDRESS)?;
        let operand = state.operand(range.clone(), AddressSide::Device, access)?;
        Ok((range, operand))
    }

    /// Locks the memory once no queued work touches the range that `find`
    /// names. Having to wait for that is misuse of the function `caller`.
    fn when_unused(
        &self,
        caller: &str,
        find: impl Fn(&Allocations) -> DriverResult<Range<u64>>,
    ) -> DriverResult<(MutexGuard<'_, Allocations>, Range<u64>)> {
        let mut reported = false;
        loop {
            let state = lock(&self.state);
            let range = find(&state)?;
            if !in_flight::touches(&range) {
                return Ok((state, range));
            }
            drop(state);
            if !reported {
                let Range { start, end } = range;
                misuse::report(format!("{caller}: {start:#x}..{end:#x} is used by queued work"));
                reported = true;
            }
            in_flight::wait_until_free(&range);
        }
    }

    /// Frees everything that belongs to a destroyed context. What it had
    /// queued is done; another context may still be at work on its memory.
    pub(crate) fn release_context(&self, context: u64) {
        let (device, host) = {
            let state = lock(&self.state);
            (state.device_ranges_of(context), state.host_ranges_of(context))
        };
        for start in device {
            // This can only fail because another thread has just freed the memory.
            let _ = self.free("cuCtxDestroy", start);
        }
        for start in host {
            let _ = self.remove_host("cuCtxDestroy", start, |_| true, ErrorCode::INVALID_VALUE);
        }
    }
}

impl Allocations {
    fn operand(
        &self,
        range: Range<u64>,
        side: AddressSide,
        access: MemoryAccess,
    ) -> DriverResult<Operand> {
        let (address, place) = self.find(&range, side, access)?;
        let found = match place {
            RangeKind::Managed => self.host.containing(range.start),
            _ => None,
        };
        let managed = found.and_then(|(_, found)| found.managed.clone());
        let managed = managed.map(|managed| (managed, range.clone(), access));
        Ok(Operand { address, place, managed, _in_use: in_flight::claim(range) })
    }

    fn find(
        &self,
        range: &Range<u64>,
        side: AddressSide,
        access: MemoryAccess,
    ) -> DriverResult<(u64, RangeKind)> {
        if self.space.reaches_into(range) {
            if side == AddressSide::Host {
                return Err(ErrorCode::INVALID_VALUE);
            }
            if !self.device.covered_by(range, |found| found.allows(access)) {
                return Err(ErrorCode::ILLEGAL_ADDRESS);
            }
            return Ok((self.space.alias(range.start), RangeKind::Device));
        }
        if let Some((whole, found)) = self.host.containing(range.start) {
            if range.end <= whole.end {
                return Ok((range.start, found.kind.place()));
            }
        }
        if self.host.overlaps(range) {
            return Err(ErrorCode::INVALID_VALUE);
        }
        match side {
            AddressSide::Device => Err(ErrorCode::ILLEGAL_ADDRESS),
            AddressSide::Host | AddressSide::Either => Ok((range.start, RangeKind::Pageable)),
        }
    }

    fn device_ranges_of(&self, context: u64) -> Vec<u64> {
        self.device
            .iter()
            .filter(|(_, range)| matches!(range.used_as, Use::Plain { context: owner, .. } if owner == context))
            .map(|(range, _)| range.start)
            .collect()
    }

    fn host_ranges_of(&self, context: u64) -> Vec<u64> {
        self.host
            .iter()
            .filter(|(_, range)| range.context == context)
            .map(|(range, _)| range.start)
            .collect()
    }
}

impl HostKind {
    fn place(self) -> RangeKind {
        match self {
            Self::Managed => RangeKind::Managed,
            Self::Allocated | Self::Registered => RangeKind::Pinned,
        }
    }
}

/// The range of `bytes` at `address`, which must exist.
fn span(address: u64, bytes: u64) -> DriverResult<Range<u64>> {
    let end = address.checked_add(bytes).ok_or(ErrorCode::INVALID_VALUE)?;
    if address == 0 || bytes == 0 {
        Err(ErrorCode::INVALID_VALUE)
    } else {
        Ok(address..end)
    }
}
