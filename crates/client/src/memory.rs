//! Protection: the kind of each region's memory, and the stream that the application computes in.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::callbacks::Object;
use super::regions::{Memory, Protected};
use super::Client;
use catalog::Part;
use device::{kinds, ApplicationStream, Pointer, PAGEABLE};
use engine::place::{part_of, Place};
use errors::{Error, Result};
use format::names;
use os::access;
use policy::capture::Capture;

impl Client {
    /// Protects memory, or changes an id's region, for the checkpoints of one name or of any.
    pub fn protect(&mut self, group: Option<&str>, id: i32, region: Memory) -> Result<()> {
        let region = self.checked(group, id, region)?;
        self.keep(group, [(id, region)]);
        Ok(())
    }

    /// Protects all regions of a list for any checkpoint, or none of them.
    ///
    /// # Errors
    /// The first region's, with what its place in the list is `called`; or an id is there twice.
    pub fn protect_list(
        &mut self,
        list: Vec<(i32, Memory)>,
        called: impl Fn(usize) -> String,
    ) -> Result<()> {
        let checked = self.checked_list(None, list, called)?;
        self.keep(None, checked);
        Ok(())
    }

    /// The regions of a list, each with the part that it belongs to.
    pub(super) fn checked_list(
        &self,
        group: Option<&str>,
        list: Vec<(i32, Memory)>,
        called: impl Fn(usize) -> String,
    ) -> Result<Vec<(i32, Memory)>> {
        let mut places = BTreeMap::new();
        let mut checked = Vec::with_capacity(list.len());
        for (place, (id, region)) in list.into_iter().enumerate() {
            if let Some(before) = places.insert(id, place) {
                let before = called(before);
                let why = format!("{}: region {id} is also {before}", called(place));
                return Err(Error::invalid(why));
            }
            let region = self.checked(group, id, region);
            checked.push((id, region.map_err(|error| error.within(called(place)))?));
        }
        Ok(checked)
    }

    /// Checks that a region can be protected, and finds the part that it belongs to.
    fn checked(&self, group: Option<&str>, id: i32, mut region: Memory) -> Result<Memory> {
        group.map_or(Ok(()), names::validate_name)?;
        self.check_id(id)?;
        if self.holds(group) {
            self.check_protects(group, id, &Protected::Memory(region.clone()))?;
        }
        if region.terms.read_only {
            self.engine.start_deferred_captures()?;
        }
        let address = region.address;
        let kind = self.kind(address, region.len);
        let kind = kind.map_err(|error| error.within(format!("region {id}")))?;
        if matches!(kind, Pointer::Device { .. }) {
            region.part = Part::Device;
        } else if !self.reader.can_read(address, region.len) {
            // Device memory that was freed looks like this, too.
            return Err(Error::invalid(format!(
                "region {id}: {} bytes at {address:#x} are neither host memory nor memory that a \
                 CUDA driver knows",
                region.len
            )));
        }
        Ok(region)
    }

    fn keep(&mut self, group: Option<&str>, regions: impl IntoIterator<Item = (i32, Memory)>) {
        for (id, region) in regions {
            self.look_at_empty(id, &region);
            self.regions.group_mut(group).protect(id, Protected::Memory(region));
        }
        self.engine.host_side().expect(self.regions.group_mut(group).bytes());
    }

    /// Protects an object, which the application writes and reads by itself.
    pub fn protect_object(
        &mut self,
        group: Option<&str>,
        id: i32,
        object: Arc<dyn Object>,
    ) -> Result<()> {
        group.map_or(Ok(()), names::validate_name)?;
        self.check_id(id)?;
        let object = Protected::Object(object);
        self.check_protects(group, id, &object)?;
        self.regions.group_mut(group).protect(id, object);
        Ok(())
    }

    /// Ends the protection of an id.
    pub fn unprotect(&mut self, group: Option<&str>, id: i32) -> Result<()> {
        group.map_or(Ok(()), names::validate_name)?;
        self.check_unprotects(group, Some(id))?;
        let found = self.regions.group_mut(group).unprotect(id);
        found.map_err(|error| match group {
            None => error,
            Some(name) => error.within(format!("the regions of \"{name}\"")),
        })
    }

    /// Ends the protection of every id of a group.
    pub fn unprotect_all(&mut self, group: Option<&str>) -> Result<()> {
        group.map_or(Ok(()), names::validate_name)?;
        self.check_unprotects(group, None)?;
        self.regions.group_mut(group).clear();
        Ok(())
    }

    /// The kind of memory at an address. The first device memory that is met makes its device this
    /// job's.
    fn kind(&self, address: u64, len: u64) -> Result<Pointer> {
        match kinds::is_there() {
            Ok(true) => {}
            Ok(false) => return Ok(PAGEABLE),
            Err(error) => {
                self.engine
                    .telemetry()
                    .degrade("driver", format!("going on without a device: {error}"));
                // The application may use the device all the same; its memory is not the host's.
                return if access::is_readable(address, len) { Ok(PAGEABLE) } else { Err(error) };
            }
        }
        if address == 0 {
            return Ok(PAGEABLE);
        }
        match self.known(address, len) {
            // When the driver has ended, so has all device memory; host memory is there still.
            Err(error) if kinds::says_ended(&error) && access::is_readable(address, len) => {
                Ok(PAGEABLE)
            }
            known => known,
        }
    }

    /// The kind of memory that the driver reports.
    fn known(&self, address: u64, len: u64) -> Result<Pointer> {
        if !self.engine.device_side().has_device() {
            match kinds::device_of(address)? {
                Some(device) => self.engine.attach(device)?,
                None => return Ok(PAGEABLE),
            }
        }
        Pointer::classify(self.engine.device_side().device()?, address, len)
    }

    /// Where a protected region's first `len` bytes are now. Device memory that the driver does not
    /// know any more was freed: it must not be taken for host memory.
    pub(super) fn place(&self, id: i32, region: &Memory, len: u64) -> Result<Place> {
        let kind = self.kind(region.address, len);
        let kind = kind.map_err(|error| error.within(format!("region {id}")))?;
        let capture = match region.terms.read_only {
            true => Capture::Lent,
            false => Capture::Copy,
        };
        let place = Place { id, address: region.address, len, kind, part: part_of(kind), capture };
        if region.part == Part::Device && place.part == Part::Host && len > 0 {
            return Err(Error::invalid(format!(
                "region {id}: the device memory at {:#x} that was protected is not known to the \
                 driver any more; was it freed?",
                region.address
            )));
        }
        Ok(place)
    }

    /// From here on, captures are ordered with the work of this stream; NULL: with everything
    /// queued in the context.
    ///
    /// # Safety
    /// `stream` is NULL or a stream that stays alive until another one is set.
    pub unsafe fn set_stream(&mut self, stream: *mut std::ffi::c_void) -> Result<()> {
        let new = if stream.is_null() {
            None
        } else {
            if !kinds::is_there()? {
                return Err(Error::invalid("a stream was given, but no CUDA driver is loaded"));
            }
            if !self.engine.device_side().has_device() {
                let device = kinds::current()?.ok_or_else(|| {
                    Error::invalid("a stream was given, but no context is current")
                })?;
                self.engine.attach(device)?;
            }
            let device = self.engine.device_side().device()?;
            // SAFETY: the caller's promise.
            Some(unsafe { ApplicationStream::new(device, stream) }?)
        };
        self.engine.device_side().set_stream(new);
        Ok(())
    }
}
