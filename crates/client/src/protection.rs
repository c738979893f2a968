//! What is protected, and what may be.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::callbacks::Object;
use super::deltas;
use super::guards::look_at_empty;
use super::memory::CallMemory;
use super::messages::{self, MessageLog};
use super::phase::Phase;
use super::regions::{Protected, ProtectedMemory, Regions};
use super::terms::Encoding;
use super::under_way::UnderWay;
use super::Selection;
use catalog::{Part, MESSAGES};
use device::Pointer;
use engine::Engine;
use errors::{Error, Result};
use format::names;
use format::subarray::Subarray;
use os::access;
use policy::capture::Capture;

/// What is protected.
#[derive(Debug)]
pub(super) struct Protection {
    pub regions: Regions,
    pub under_way: UnderWay,
    messages: Option<MessageLog>,
    reader: access::Reader,
}

impl Protection {
    pub(super) fn new(messages: Option<MessageLog>) -> Protection {
        Protection {
            regions: Regions::default(),
            under_way: UnderWay::default(),
            messages,
            reader: access::Reader::default(),
        }
    }

    /// The log, if it belongs to the regions that a call selects in checkpoints of this name: it goes
    /// with what is protected for any name.
    pub(super) fn messages_of(&self, name: &str, selection: &Selection) -> Option<MessageLog> {
        // Most jobs have no message log.
        self.messages.filter(|_| selection.has(MESSAGES) && !self.regions.has_own(name))
    }
}

/// Changes what is protected.
#[derive(Debug)]
pub struct Protecting<'a> {
    pub(super) protection: &'a mut Protection,
    pub(super) engine: &'a Engine,
    pub(super) phase: &'a Phase,
}

impl Protecting<'_> {
    /// Protects memory, or changes an id's region, for the checkpoints of one name or of any.
    pub fn protect(&mut self, group: Option<&str>, id: i32, region: ProtectedMemory) -> Result<()> {
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
        list: Vec<(i32, ProtectedMemory)>,
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
        list: Vec<(i32, ProtectedMemory)>,
        called: impl Fn(usize) -> String,
    ) -> Result<Vec<(i32, ProtectedMemory)>> {
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
    fn checked(
        &self,
        group: Option<&str>,
        id: i32,
        mut region: ProtectedMemory,
    ) -> Result<ProtectedMemory> {
        group.map_or(Ok(()), names::validate_name)?;
        self.check_id(group, id)?;
        if self.protection.under_way.holds(group) {
            self.check_protects(group, id, &Protected::Memory(region.clone()))?;
        }
        if region.terms.read_only {
            self.engine.start_deferred_captures()?;
        }
        let address = region.address;
        let kind = CallMemory::new(self.engine).kind(address, region.len);
        let kind = kind.map_err(|error| error.within(format!("region {id}")))?;
        if matches!(kind, Pointer::Device { .. }) {
            region.part = Part::Device;
        } else if !self.protection.reader.can_read(address, region.len) {
            // Device memory that was freed looks like this, too.
            return Err(Error::invalid(format!(
                "region {id}: {} bytes at {address:#x} are neither host memory nor memory that a \
                 CUDA driver knows",
                region.len
            )));
        }
        Ok(region)
    }

    fn keep(
        &mut self,
        group: Option<&str>,
        regions: impl IntoIterator<Item = (i32, ProtectedMemory)>,
    ) {
        for (id, region) in regions {
            look_at_empty(self.engine.files(), id, &region);
            self.protection.regions.group_mut(group).protect(id, Protected::Memory(region));
        }
        let bytes = self.protection.regions.group_mut(group).bytes();
        self.engine.host_side().expect(bytes);
    }

    /// Protects an object, which the application writes and reads by itself.
    pub fn protect_object(
        &mut self,
        group: Option<&str>,
        id: i32,
        object: Arc<dyn Object>,
    ) -> Result<()> {
        group.map_or(Ok(()), names::validate_name)?;
        self.check_id(group, id)?;
        let object = Protected::Object(object);
        self.check_protects(group, id, &object)?;
        self.protection.regions.group_mut(group).protect(id, object);
        Ok(())
    }

    /// Ends the protection of an id.
    pub fn unprotect(&mut self, group: Option<&str>, id: i32) -> Result<()> {
        group.map_or(Ok(()), names::validate_name)?;
        self.protection.under_way.check_unprotects(group, Some(id))?;
        let found = self.protection.regions.group_mut(group).unprotect(id);
        found.map_err(|error| match group {
            None => error,
            Some(name) => error.within(format!("the regions of \"{name}\"")),
        })
    }

    /// Ends the protection of every id of a group.
    pub fn unprotect_all(&mut self, group: Option<&str>) -> Result<()> {
        group.map_or(Ok(()), names::validate_name)?;
        self.protection.under_way.check_unprotects(group, None)?;
        self.protection.regions.group_mut(group).clear();
        Ok(())
    }

    /// Refuses an id of the library's regions. Without a log, the log's ids are the application's.
    fn check_id(&self, group: Option<&str>, id: i32) -> Result<()> {
        self.protection.regions.get(group).map_or(Ok(()), |group| group.check_id(id))?;
        if self.engine.config().incremental {
            deltas::check_id(id)?;
        }
        self.protection.messages.map_or(Ok(()), |_| messages::check_id(id))
    }

    /// Refuses a region that a computation under way has otherwise.
    fn check_protects(&self, group: Option<&str>, id: i32, new: &Protected) -> Result<()> {
        let Protection { regions, under_way, .. } = &*self.protection;
        under_way.check_protects(regions, group, id, new)
    }

    /// Sets how a region is captured, in place of the key `host_capture` (`VELOC_Mem_capture`).
    ///
    /// # Errors
    /// There is no such region, or its bytes are no memory of the application's that may change.
    pub fn set_capture(&mut self, id: i32, way: Option<Capture>) -> Result<()> {
        self.protection.regions.group_mut(None).set_capture(id, way)
    }

    /// Permits to encode a region without loss where nothing speaks against it, or takes that back.
    ///
    /// # Errors
    /// There is no such region.
    pub fn set_may_compress(&mut self, id: i32, may: bool) -> Result<()> {
        self.protection.regions.group_mut(None).set_may_compress(id, may)
    }

    /// Says which part of an array a region is; `None`: of none (`VELOC_Mem_decompose`).
    ///
    /// # Errors
    /// There is no such region, it is an object or has another length, a region has the id of the table or there are too
    /// many, or the open checkpoint has the table already.
    pub fn set_subarray(&mut self, id: i32, part: Option<Subarray>) -> Result<()> {
        match self.phase {
            Phase::Checkpoint { open, .. } if !open.regions.is_empty() => {
                Err(Error::invalid(format!(
                    "region {id}: checkpoint \"{}\" version {} is open and has regions already: end it first",
                    open.name, open.version
                )))
            }
            _ => self.protection.regions.group_mut(None).set_subarray(id, part),
        }
    }

    /// Has a region encoded; `None`: it is not (`VELOC_Mem_compress`).
    ///
    /// # Errors
    /// There is no such region, it is no array of floats or doubles, the job is incremental, a computation under way has
    /// the region, or the driver cannot load what compresses device memory.
    pub fn set_compression(
        &mut self,
        group: Option<&str>,
        id: i32,
        how: Option<Encoding>,
    ) -> Result<()> {
        group.map_or(Ok(()), names::validate_name)?;
        self.protection.under_way.check_compresses(group, id)?;
        if how.is_some() && self.engine.config().incremental {
            return Err(Error::invalid(format!(
                "region {id}: compression does not go with incremental = true: a delta has the bytes that have \
                 changed"
            )));
        }
        self.protection.regions.group_mut(group).set_compression(id, how)?;
        self.prepare_compression(group, id).inspect_err(|_| {
            // It is there, and no region is refused this.
            let _ = self.protection.regions.group_mut(group).set_compression(id, None);
        })
    }

    /// Has the device ready for a region that is compressed there.
    fn prepare_compression(&self, group: Option<&str>, id: i32) -> Result<()> {
        let region = self.protection.regions.get(group).and_then(|group| group.get(id));
        let Some(Protected::Memory(memory)) = region else { return Ok(()) };
        let Some(how) = memory.asked().filter(|_| memory.part == Part::Device) else {
            return Ok(());
        };
        let place = CallMemory::new(self.engine).place(id, memory, memory.len)?;
        if !matches!(place.kind, Pointer::Device { managed: false, .. }) {
            return Ok(());
        }
        let side = self.engine.device_side();
        let prepared = side.prepare_compression(place.len, how.element, how.way.on_device());
        prepared.map_err(|error| error.within(format!("region {id}")))
    }

    /// From here on, the checkpoints of a name consist of this object and of what is protected for
    /// the name.
    pub fn manage(&mut self, name: &str, marker: Arc<dyn Object>) -> Result<()> {
        names::validate_name(name)?;
        self.protection.regions.group_mut(Some(name)).manage(marker);
        Ok(())
    }

    /// Whether a marked name has regions beside its manager's mark.
    pub fn has_regions(&self, name: &str) -> bool {
        self.protection.regions.of(name).has_regions()
    }

    /// How many bytes of memory are protected for a name, and how many of them its checkpoints have: fewer, if they are
    /// compressed, unless a region does not fit its bits.
    pub fn bytes_of(&self, name: &str) -> (u64, u64) {
        let lens = self.protection.regions.of(name).iter().map(|(_, region)| match region {
            Protected::Memory(memory) => (memory.len, memory.stored_len()),
            Protected::Object(_) => (0, 0),
        });
        lens.fold((0, 0), |all, len| (all.0 + len.0, all.1 + len.1))
    }

    /// A digest of the memory that is protected for a name, without the manager's region. `None`:
    /// some of it is device memory, which is not read for this.
    ///
    /// # Errors
    /// The driver's.
    pub fn digest_of(&self, name: &str) -> Result<Option<u64>> {
        let mut digest = Sha256::new();
        let call = CallMemory::new(self.engine);
        for (id, region) in self.protection.regions.of(name).iter() {
            let memory = match region {
                Protected::Memory(memory) => memory,
                Protected::Object(_) => continue,
            };
            let place = call.place(id, memory, memory.len)?;
            if place.part != Part::Host {
                return Ok(None);
            }
            digest.update(id.to_le_bytes());
            digest.update(memory.len.to_le_bytes());
            if memory.len > 0 {
                // SAFETY: the application has protected these bytes of host memory and does not
                // change them during its own call.
                let bytes = unsafe {
                    std::slice::from_raw_parts(memory.address as *const u8, memory.len as usize)
                };
                digest.update(bytes);
            }
        }
        let digest = digest.finalize();
        Ok(Some(digest.iter().take(8).fold(0, |word, byte| word << 8 | u64::from(*byte))))
    }

    /// An adjoint computation begins, which stores its states, its adjoints, and the hashes of
    /// states under these names.
    pub fn hold_names(&mut self, names: [String; 3]) {
        self.protection.under_way.hold_names(names);
    }

    /// Everything that the computation stores is protected: from here on ids and sizes stay.
    pub fn fix_regions(&mut self) {
        self.protection.under_way.fix_regions();
    }

    /// The computation has ended: the names are the application's again.
    pub fn release_names(&mut self) {
        self.protection.under_way.release_names();
    }
}
