//! Device memory: plain allocations, and the pieces from which a program
//! builds its own (reserved addresses, physical handles, mappings, access).

use std::ops::Range;
use std::sync::Arc;

use crate::abi::{
    AccessDesc, AllocationProp, ACCESS_NONE, ACCESS_READ, ACCESS_READ_WRITE, ALLOCATION_PINNED,
    LOCATION_DEVICE,
};
use crate::address_space::{AliasProtection, GRANULARITY};
use crate::handles::fresh_handle;
use crate::memory::{span, Allocations, DriverMemory, MemoryAccess};
use crate::physical::{Charge, PhysicalMemory};
use crate::status::{DriverResult, ErrorCode};
use crate::sync::lock;

/// Plain allocations smaller than this do not begin at a granule, since a
/// real driver packs them and promises far less.
const PACKED_BELOW: u64 = 1 << 20;
/// The least alignment of a plain allocation.
const ALIGNMENT: u64 = 512;

/// Device memory at some addresses.
#[derive(Debug)]
pub(super) struct DeviceMemory {
    /// A number that no other range has or had.
    pub(super) id: u64,
    pub(super) used_as: Use,
}

#[derive(Debug)]
pub(super) enum Use {
    /// From `cuMemAlloc`.
    Plain {
        /// The context it was made in.
        context: u64,
        /// The reserved addresses it lies in.
        slot: u64,
        charge: Charge,
    },
    /// From `cuMemMap`.
    Mapped {
        physical: Arc<PhysicalMemory>,
        /// The access of each device.
        access: Vec<AliasProtection>,
    },
}

impl DeviceMemory {
    /// The device that holds the memory.
    pub(super) fn device(&self) -> usize {
        match &self.used_as {
            Use::Plain { charge, .. } => charge.device,
            Use::Mapped { physical, .. } => physical.device(),
        }
    }

    /// Whether `access` is permitted. Copy engines reach plain memory of any
    /// device; mapped memory is open only to those that were given access.
    pub(super) fn allows(&self, access: MemoryAccess) -> bool {
        match &self.used_as {
            Use::Plain { charge, .. } => !access.by_kernel || charge.device == access.device,
            Use::Mapped { access: granted, .. } => match granted[access.device] {
                AliasProtection::None => false,
                AliasProtection::Read => !access.writes,
                AliasProtection::ReadWrite => true,
            },
        }
    }
}

impl DriverMemory {
    /// Allocates plain device memory.
    pub(crate) fn allocate(&self, device: usize, context: u64, bytes: u64) -> DriverResult<u64> {
        if bytes == 0 {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let charged = bytes.checked_next_multiple_of(ALIGNMENT).ok_or(ErrorCode::OUT_OF_MEMORY)?;
        let charge = self.meter.charge(device, charged)?;
        let offset = if bytes < PACKED_BELOW { ALIGNMENT } else { 0 };

        let mut state = lock(&self.state);
        let slot = state.space.reserve(offset + bytes, 0, 0)?;
        let backing = slot..slot + whole_granules(offset + bytes);
        if let Err(status) = state.space.back_with_zeros(&backing) {
            state.space.release(slot);
            return Err(status);
        }
        let id = state.fresh_id();
        let range = slot + offset..slot + offset + bytes;
        let used_as = Use::Plain { context, slot, charge };
        state.device.insert(range, DeviceMemory { id, used_as });
        Ok(slot + offset)
    }

    /// Frees the plain allocation that begins at `start`.
    pub(crate) fn free(&self, caller: &str, start: u64) -> DriverResult {
        let (mut state, range) = self.when_unused(caller, |state| {
            state
                .device
                .at(start)
                .filter(|(_, found)| matches!(found.used_as, Use::Plain { .. }))
                .map(|(range, _)| range)
                .ok_or(ErrorCode::INVALID_VALUE)
        })?;
        if let Some((_, DeviceMemory { used_as: Use::Plain { slot, .. }, .. })) =
            state.device.remove(range.start)
        {
            let backing = slot..slot + whole_granules(range.end - slot);
            state.space.withdraw(&backing)?;
            state.space.release(slot);
        }
        Ok(())
    }

    /// Reserves addresses.
    pub(crate) fn reserve(&self, size: u64, alignment: u64, wish: u64) -> DriverResult<u64> {
        if !is_granular(size) || (alignment != 0 && !alignment.is_power_of_two()) {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let mut state = lock(&self.state);
        let start = state.space.reserve(size, alignment, wish)?;
        state.reserved.insert(start..start + size, ());
        Ok(start)
    }

    /// Gives a whole reservation back, which must hold no mapping.
    pub(crate) fn unreserve(&self, start: u64, size: u64) -> DriverResult {
        let range = span(start, size)?;
        let mut state = lock(&self.state);
        match state.reserved.at(start) {
            Some((found, ())) if found == range && !state.device.overlaps(&range) => {}
            _ => return Err(ErrorCode::INVALID_VALUE),
        }
        state.reserved.remove(start);
        state.space.release(start);
        Ok(())
    }

    /// Makes physical memory and returns its handle.
    pub(crate) fn create(&self, size: u64, properties: &AllocationProp) -> DriverResult<u64> {
        if !is_granular(size)
            || properties.kind != ALLOCATION_PINNED
            || properties.location.kind != LOCATION_DEVICE
        {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let device = self.device_of(properties.location.id)?;
        if properties.requested_handle_types != 0 {
            return Err(ErrorCode::NOT_SUPPORTED);
        }
        let physical = PhysicalMemory::new(size, self.meter.charge(device, size)?)?;
        let handle = fresh_handle();
        lock(&self.state).handles.insert(handle, Arc::new(physical));
        Ok(handle)
    }

    /// Ends a handle; the memory lives on where it is mapped.
    pub(crate) fn release(&self, handle: u64) -> DriverResult {
        lock(&self.state).handles.remove(&handle).map(|_| ()).ok_or(ErrorCode::INVALID_VALUE)
    }

    /// Maps physical memory at reserved addresses, accessible to nobody yet.
    pub(crate) fn map(&self, start: u64, size: u64, offset: u64, handle: u64) -> DriverResult {
        let range = span(start, size)?;
        if offset != 0 || !is_granular(size) || !start.is_multiple_of(GRANULARITY) {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let mut state = lock(&self.state);
        let physical = state.handles.get(&handle).cloned().ok_or(ErrorCode::INVALID_VALUE)?;
        let reserved = state
            .reserved
            .containing(start)
            .is_some_and(|(reservation, ())| range.end <= reservation.end);
        if size > physical.size || !reserved || state.device.overlaps(&range) {
            return Err(ErrorCode::INVALID_VALUE);
        }
        state.space.back_with_file(&range, physical.file())?;
        let id = state.fresh_id();
        let access = vec![AliasProtection::None; self.devices];
        let used_as = Use::Mapped { physical, access };
        state.device.insert(range, DeviceMemory { id, used_as });
        Ok(())
    }

    /// Removes all mappings in a range that begins and ends with one.
    pub(crate) fn unmap(&self, start: u64, size: u64) -> DriverResult {
        let wanted = span(start, size)?;
        let (mut state, range) = self.when_unused("cuMemUnmap", |state| {
            state.mappings_in(&wanted).map(|_| wanted.clone())
        })?;
        let mappings = state.mappings_in(&range)?;
        state.space.withdraw(&range)?;
        for mapping in mappings {
            state.device.remove(mapping);
        }
        Ok(())
    }

    /// Grants or takes access to whole mappings.
    pub(crate) fn set_access(&self, start: u64, size: u64, grants: &[AccessDesc]) -> DriverResult {
        let wanted = span(start, size)?;
        let grants = grants
            .iter()
            .map(|grant| self.protection_of(grant))
            .collect::<DriverResult<Vec<_>>>()?;
        if grants.is_empty() {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let (mut state, range) = self.when_unused("cuMemSetAccess", |state| {
            state.mappings_in(&wanted).map(|_| wanted.clone())
        })?;
        for mapping in state.mappings_in(&range)? {
            state.grant(mapping, &grants)?;
        }
        Ok(())
    }

    /// The access of `device` to a mapped address, as the driver's flags.
    pub(crate) fn access_of(&self, address: u64, location: u32, device: i32) -> DriverResult<u32> {
        if location != LOCATION_DEVICE {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let device = self.device_of(device)?;
        let state = lock(&self.state);
        match state.device.containing(address) {
            Some((_, DeviceMemory { used_as: Use::Mapped { access, .. }, .. })) => {
                Ok(match access[device] {
                    AliasProtection::None => ACCESS_NONE,
                    AliasProtection::Read => ACCESS_READ,
                    AliasProtection::ReadWrite => ACCESS_READ_WRITE,
                })
            }
            _ => Err(ErrorCode::INVALID_VALUE),
        }
    }

    fn device_of(&self, ordinal: i32) -> DriverResult<usize> {
        usize::try_from(ordinal)
            .ok()
            .filter(|ordinal| *ordinal < self.devices)
            .ok_or(ErrorCode::INVALID_DEVICE)
    }

    fn protection_of(&self, grant: &AccessDesc) -> DriverResult<(usize, AliasProtection)> {
        if grant.location.kind != LOCATION_DEVICE {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let device = self.device_of(grant.location.id)?;
        match grant.flags {
            ACCESS_NONE => Ok((device, AliasProtection::None)),
            ACCESS_READ => Ok((device, AliasProtection::Read)),
            ACCESS_READ_WRITE => Ok((device, AliasProtection::ReadWrite)),
            _ => Err(ErrorCode::INVALID_VALUE),
        }
    }
}

impl Allocations {
    /// The starts of the mappings that are exactly `range` together.
    fn mappings_in(&self, range: &Range<u64>) -> DriverResult<Vec<u64>> {
        let starts = self.device.tiling(range).ok_or(ErrorCode::INVALID_VALUE)?;
        let all_mapped = starts.iter().all(|start| {
            let found = self.device.at(*start);
            found.is_some_and(|(_, found)| matches!(found.used_as, Use::Mapped { .. }))
        });
        if all_mapped {
            Ok(starts)
        } else {
            Err(ErrorCode::INVALID_VALUE)
        }
    }

    fn grant(&mut self, mapping: u64, grants: &[(usize, AliasProtection)]) -> DriverResult {
        let Some(range) = self.device.at(mapping).map(|(range, _)| range) else {
            return Err(ErrorCode::INVALID_VALUE);
        };
        let Some(DeviceMemory { used_as: Use::Mapped { access, .. }, .. }) =
            self.device.value_mut(mapping)
        else {
            return Err(ErrorCode::INVALID_VALUE);
        };
        for (device, protection) in grants {
            access[*device] = *protection;
        }
        let strongest = if access.contains(&AliasProtection::ReadWrite) {
            AliasProtection::ReadWrite
        } else if access.contains(&AliasProtection::Read) {
            AliasProtection::Read
        } else {
            AliasProtection::None
        };
        self.space.protect(&range, strongest)
    }
}

fn is_granular(size: u64) -> bool {
    size != 0 && size.is_multiple_of(GRANULARITY)
}

fn whole_granules(size: u64) -> u64 {
    size.next_multiple_of(GRANULARITY)
}
