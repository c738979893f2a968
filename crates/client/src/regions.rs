//! The protected regions: ranges of memory, and objects that the application writes itself.

use std::cell::Cell;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use super::callbacks::Object;
use super::terms::{float_of, Compression, Encoding, Terms};
use super::Selection;
use catalog::{Part, Region};
use compression::encoded_len;
use errors::{Error, ErrorKind, Result};
use format::mark;
use format::subarray::{self, Subarray};
use os::access::{self, Mappings};
use policy::capture::Capture;

/// The name that stands for the regions of any checkpoint.
pub const COMMON: &str = "default";

/// One protected region.
#[derive(Clone, Debug)]
pub enum Protected {
    /// A range of memory.
    Memory(ProtectedMemory),
    /// An object that the application writes and reads.
    Object(Arc<dyn Object>),
}

impl Protected {
    /// Whether it is memory at this address.
    pub(crate) fn is_at(&self, address: u64) -> bool {
        matches!(self, Protected::Memory(memory) if memory.address == address)
    }

    /// The part of a checkpoint (host or device) that its bytes belong to.
    fn part(&self) -> Part {
        match self {
            Protected::Memory(memory) => memory.part,
            Protected::Object(_) => Part::Host,
        }
    }

    /// Bytes, as far as they are known.
    fn len(&self) -> u128 {
        match self {
            Protected::Memory(memory) => u128::from(memory.len),
            Protected::Object(_) => 0,
        }
    }
}

/// What an id had before the first checkpoint or restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Earlier {
    /// The same memory, or none.
    Nothing,
    /// Once other memory of the same length, at this address.
    Once(u64),
    /// Memory that moves or grows.
    Moving,
}

/// A protected range of memory.
#[derive(Clone, Debug)]
pub struct ProtectedMemory {
    /// Where it is, on the host or the device.
    pub address: u64,
    /// Its bytes.
    pub len: u64,
    /// Bytes of an element.
    pub(crate) element: usize,
    /// The part of a checkpoint that its memory belongs to, as the driver said when it was
    /// protected.
    pub part: Part,
    /// The terms of its protection.
    pub terms: Terms,
    /// So many bytes of host memory, from its start on, were found writable.
    writable: Cell<u64>,
    /// Forked children were found to get it, when one carrier less than this had failed; 0: not looked up.
    children_get: Arc<AtomicUsize>,
    /// How often its group had been used when it was protected.
    since: u64,
    /// What the id had before, until there is a checkpoint.
    pub(super) earlier: Earlier,
}

impl ProtectedMemory {
    /// How it is encoded, as asked for. `None` also where its elements are no floats now.
    pub(crate) fn asked(&self) -> Option<Compression> {
        let element = float_of(self.element)?;
        self.terms.encoding.map(|way| Compression { element, way })
    }

    /// The part of an array that it is. `None` also where it has another length now.
    pub(crate) fn part_of_array(&self) -> Option<Subarray> {
        self.terms.subarray.filter(|part| part.len() == self.len)
    }

    /// How it may be encoded although nobody has asked for it.
    pub(crate) fn permitted(&self) -> Option<Compression> {
        let element = float_of(self.element).filter(|_| self.terms.may_compress)?;
        Some(Compression { element, way: Encoding::Lossless })
    }

    /// Checks the arguments of `VELOC_Mem_protect`.
    pub fn new(id: i32, address: u64, count: usize, size: usize) -> Result<ProtectedMemory> {
        let len = count.checked_mul(size).map(|len| len as u64).filter(|&len| {
            // A range must not wrap around the end of all addresses.
            len <= i64::MAX as u64 && address.checked_add(len).is_some()
        });
        let Some(len) = len else {
            return Err(Error::invalid(format!(
                "region {id}: {count} elements of {size} bytes at {address:#x} are no range of \
                 memory"
            )));
        };
        if address == 0 && len > 0 {
            return Err(Error::invalid(format!("region {id}: {len} bytes at a NULL pointer")));
        }
        Ok(ProtectedMemory {
            address,
            len,
            element: size,
            part: Part::Host,
            terms: Terms::default(),
            writable: Cell::new(0),
            children_get: Arc::default(),
            since: 0,
            earlier: Earlier::Nothing,
        })
    }

    /// Bytes that checkpoints have of it, if it fits the bits that it is compressed to; without loss they are not known
    /// ahead, and may be all.
    pub(crate) fn stored_len(&self) -> u64 {
        let len = match self.asked() {
            Some(Compression { element, way: Encoding::Bounded { bits, .. } }) => {
                encoded_len(self.len, element, bits).ok()
            }
            _ => None,
        };
        len.map_or(self.len, |len| len.min(self.len))
    }

    /// Whether forked children get this host memory. What the application has advised about them is looked up
    /// once, and again if one more carrier has `failed`.
    pub(crate) fn children_get(&self, mappings: &Mappings, failed: usize) -> bool {
        let is_known = self.children_get.load(Ordering::Relaxed) == failed + 1;
        let found = is_known || mappings.children_get(self.address, self.len);
        self.children_get.store(if found { failed + 1 } else { 0 }, Ordering::Relaxed);
        found
    }

    /// Whether it was protected after the last use of its group, the one with this number.
    pub(crate) fn is_new(&self, uses: u64) -> bool {
        self.since == uses
    }

    /// Whether the first `len` bytes, of host memory, were found to be writable before.
    pub(crate) fn was_writable(&self, len: u64) -> bool {
        self.writable.get() >= len
    }

    /// Whether the first `len` bytes, of host memory, are mapped to be written to.
    fn is_writable(&self, len: u64, mappings: &Mappings) -> bool {
        let writable = mappings.have_writable(self.address, len);
        if writable {
            self.writable.set(len);
        }
        writable
    }
}

/// Refuses a restore to host memory that can only be read, as a constant table: it would end the
/// process. Each entry is a region's id, its memory, and how many of its first bytes are restored.
/// A range is looked up once, but its ends are checked every time.
pub fn check_writable(regions: &[(i32, &ProtectedMemory, u64)]) -> Result<()> {
    let ranges: Vec<_> = regions.iter().map(|(_, memory, len)| (memory.address, *len)).collect();
    let bad = access::first_unwritable(&ranges).or_else(|| {
        let mappings = Mappings::now();
        regions.iter().position(|(_, memory, len)| {
            !memory.was_writable(*len) && !memory.is_writable(*len, &mappings)
        })
    });
    match bad {
        None => Ok(()),
        Some(place) => {
            let (id, memory, len) = regions[place];
            Err(Error::invalid(format!(
                "region {id}: the {len} bytes at {:#x} cannot be written to: they are \
                 constants, in a mapping without PROT_WRITE, or not there any more",
                memory.address
            )))
        }
    }
}

/// All protected regions: the common ones of any checkpoint, and those that are private to the
/// checkpoints of a name. A name with private regions does without the common ones. As upstream has
/// it, the name `default` means the common ones.
#[derive(Debug, Default)]
pub struct Regions {
    common: Group,
    /// Few names have regions of their own.
    private: BTreeMap<String, Group>,
}

impl Regions {
    /// The private regions of a name, or the common ones, to be changed.
    pub(crate) fn group_mut(&mut self, name: Option<&str>) -> &mut Group {
        match name {
            None | Some(COMMON) => &mut self.common,
            Some(name) => self.private.entry(name.to_owned()).or_default(),
        }
    }

    /// Puts these regions in place of a name's own. Returns what it had.
    pub(crate) fn exchange(&mut self, name: &str, group: Option<Group>) -> Option<Group> {
        match group {
            Some(group) => self.private.insert(name.to_owned(), group),
            None => self.private.remove(name),
        }
    }

    /// The private regions of a name, or the common ones, if there are any.
    pub(crate) fn get(&self, name: Option<&str>) -> Option<&Group> {
        match name {
            None | Some(COMMON) => Some(&self.common),
            Some(name) => self.private.get(name),
        }
    }

    /// The addresses and lengths of all ranges of memory.
    pub(crate) fn memories(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let groups = std::iter::once(&self.common).chain(self.private.values());
        groups.flat_map(Group::iter).filter_map(|(_, region)| match region {
            Protected::Memory(memory) => Some((memory.address, memory.len)),
            Protected::Object(_) => None,
        })
    }

    /// The names that have or had regions of their own.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.private.keys().map(String::as_str)
    }

    /// Whether a name has regions of its own.
    pub(crate) fn has_own(&self, name: &str) -> bool {
        self.private.get(name).is_some_and(|group| !group.is_empty())
    }

    /// The regions that a checkpoint of this name has.
    pub fn of(&self, name: &str) -> &Group {
        self.private.get(name).filter(|group| !group.is_empty()).unwrap_or(&self.common)
    }
}

/// Regions that make a checkpoint together.
#[derive(Debug, Default)]
pub struct Group {
    by_id: BTreeMap<i32, Protected>,
    /// Bytes of the ranges of memory among them.
    bytes: u128,
    /// Writes the mark that a manager adds to each of its checkpoints of these regions.
    marker: Option<Arc<dyn Object>>,
    /// Checkpoints that were taken of these regions, and restarts that were begun.
    uses: Cell<u64>,
}

impl Group {
    /// Counts a checkpoint or a restart of these regions.
    pub(crate) fn use_once(&self) {
        self.uses.set(self.uses.get() + 1);
    }

    /// Checkpoints and restarts so far.
    pub(crate) fn uses(&self) -> u64 {
        self.uses.get()
    }

    /// Adds or changes a region.
    pub fn protect(&mut self, id: i32, mut region: Protected) {
        if let Protected::Memory(new) = &mut region {
            new.since = self.uses.get();
        }
        self.bytes += region.len();
        let mut there = match self.by_id.entry(id) {
            Entry::Occupied(there) => there,
            Entry::Vacant(place) => {
                place.insert(region);
                return;
            }
        };
        if let (Protected::Memory(new), Protected::Memory(old)) = (&mut region, there.get()) {
            // Protected again with another length, as adjoint codes do for each version.
            if old.address == new.address {
                new.writable.set(old.writable.get());
            }
            if (old.address, old.len) == (new.address, new.len) {
                new.children_get = old.children_get.clone();
            }
            new.terms.capture = old.terms.capture;
            new.terms.may_compress = old.terms.may_compress;
            new.terms.encoding = old.terms.encoding;
            new.terms.subarray = old.terms.subarray;
            if self.uses.get() == 0 {
                new.earlier = match old.earlier {
                    earlier if old.address == new.address => earlier,
                    Earlier::Nothing if old.len == new.len => Earlier::Once(old.address),
                    _ => Earlier::Moving,
                };
            }
        }
        self.bytes -= there.insert(region).len();
    }

    /// Removes a region.
    pub fn unprotect(&mut self, id: i32) -> Result<()> {
        let old = self.by_id.remove(&id).ok_or_else(|| unknown(id))?;
        self.bytes -= old.len();
        Ok(())
    }

    /// Bytes of the ranges of memory: a checkpoint of them all has so many and a few more.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(u64::MAX)
    }

    /// Removes all regions, and the marker.
    pub fn clear(&mut self) {
        *self = Group::default();
    }

    /// Adds a mark, which this object writes and reads, to marked checkpoints of these regions.
    pub fn manage(&mut self, marker: Arc<dyn Object>) {
        self.marker = Some(marker);
    }

    /// The object that writes and reads the mark of a marked checkpoint, if there is one.
    pub fn marker(&self) -> Option<&Arc<dyn Object>> {
        self.marker.as_ref()
    }

    /// The id of the mark, which none of these regions has.
    pub(crate) fn mark_id(&self) -> i32 {
        mark::free_id(|id| self.by_id.contains_key(&id))
    }

    /// Whether there is a region.
    pub fn has_regions(&self) -> bool {
        !self.by_id.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.by_id.is_empty() && self.marker.is_none()
    }

    /// The region of an id.
    pub fn get(&self, id: i32) -> Option<&Protected> {
        self.by_id.get(&id)
    }

    /// Sets how a region is captured, in place of the key `host_capture`; `None`: as that says.
    ///
    /// # Errors
    /// There is no such region, or its bytes are no memory of the application's that may change.
    pub fn set_capture(&mut self, id: i32, way: Option<Capture>) -> Result<()> {
        match self.by_id.get_mut(&id) {
            None => Err(unknown(id)),
            Some(Protected::Memory(memory)) if memory.part == Part::Device => {
                Err(Error::invalid(format!(
                    "region {id} is device or managed memory: how it is captured can be chosen for host memory alone"
                )))
            }
            Some(Protected::Memory(memory)) if !memory.terms.read_only => {
                memory.terms.capture = way;
                Ok(())
            }
            Some(_) => Err(Error::invalid(format!(
                "region {id} is an object, or VELOC_READ_ONLY: how it is captured cannot be chosen"
            ))),
        }
    }

    /// Permits to encode a region without loss, or takes that back. Of an object it changes nothing.
    ///
    /// # Errors
    /// There is no such region.
    pub fn set_may_compress(&mut self, id: i32, may: bool) -> Result<()> {
        match self.by_id.get_mut(&id) {
            None => Err(unknown(id)),
            Some(Protected::Object(_)) => Ok(()),
            Some(Protected::Memory(memory)) => {
                memory.terms.may_compress = may;
                Ok(())
            }
        }
    }

    /// Says which part of an array a region is; `None`: of none.
    ///
    /// # Errors
    /// There is no such region, it is an object or has another length, or a region has the id of the table; or there are
    /// as many as a table has.
    pub fn set_subarray(&mut self, id: i32, part: Option<Subarray>) -> Result<()> {
        let others = self.subarrays().filter(|(of, _)| *of != id).count();
        if part.is_some() && others >= subarray::MOST {
            return Err(Error::invalid(format!(
                "region {id}: there are {others} parts of arrays already, and a checkpoint has no more"
            )));
        }
        if part.is_some() && self.by_id.contains_key(&subarray::REGION) {
            return Err(table_id());
        }
        match self.by_id.get_mut(&id) {
            None => Err(unknown(id)),
            Some(Protected::Object(_)) => {
                Err(Error::invalid(format!("region {id} is an object, and no part of an array")))
            }
            Some(Protected::Memory(memory)) => match part.filter(|part| part.len() != memory.len) {
                Some(part) => Err(Error::invalid(format!(
                    "region {id} has {} bytes, and a subarray of {part} has {}",
                    memory.len,
                    part.len()
                ))),
                None => {
                    memory.terms.subarray = part;
                    Ok(())
                }
            },
        }
    }

    /// The regions that are parts of arrays. One that was protected again with another length is none.
    pub(crate) fn subarrays(&self) -> impl Iterator<Item = (i32, Subarray)> + '_ {
        self.iter().filter_map(|(id, region)| match region {
            Protected::Memory(memory) => memory.part_of_array().map(|part| (id, part)),
            Protected::Object(_) => None,
        })
    }

    /// Refuses a region with the id of the table of subarrays, where there is one.
    pub(crate) fn check_id(&self, id: i32) -> Result<()> {
        match id == subarray::REGION && self.subarrays().next().is_some() {
            true => Err(table_id()),
            false => Ok(()),
        }
    }

    /// Has a region encoded; `None`: it is not, and may not be.
    ///
    /// # Errors
    /// There is no such region, or it is no array of floats or doubles.
    pub fn set_compression(&mut self, id: i32, how: Option<Encoding>) -> Result<()> {
        let memory = match self.by_id.get_mut(&id) {
            None => return Err(unknown(id)),
            Some(Protected::Memory(memory)) => memory,
            Some(Protected::Object(_)) => {
                let text = format!("region {id} is an object, which is not compressed");
                return Err(Error::invalid(text));
            }
        };
        let Some(way) = how else {
            memory.terms.encoding = None;
            memory.terms.may_compress = false;
            return Ok(());
        };
        if float_of(memory.element).is_none() {
            let other = memory.element;
            return Err(Error::invalid(format!(
                "region {id} was protected with elements of {other} bytes: floats (4) and doubles (8) are compressed"
            )));
        }
        memory.terms.encoding = Some(way);
        Ok(())
    }

    /// All regions, ascending by id.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &Protected)> {
        self.by_id.iter().map(|(&id, region)| (id, region))
    }

    /// The part of a checkpoint (host or device) that the bytes of an id belong to.
    pub fn part(&self, id: i32) -> Part {
        self.by_id.get(&id).map_or(Part::Host, Protected::part)
    }

    /// Checks that a checkpoint has exactly the memory of these regions, beside its `mark`.
    pub(crate) fn check_stored(&self, stored: &[Region], mark: i32) -> Result<()> {
        let of_memory = || stored.iter().filter(|region| region.id != mark);
        let size = |id| of_memory().find(|region| region.id == id).map(Region::len_in_memory);
        for (id, region) in self.iter() {
            let Protected::Memory(memory) = region else { continue };
            let has = match size(id) {
                Some(size) if size == memory.len => continue,
                Some(size) => format!("{size} bytes of region {id}"),
                None => format!("no region {id}"),
            };
            return Err(Error::invalid(format!(
                "it has {has}, for which {} bytes are protected",
                memory.len
            )));
        }
        match of_memory().find(|region| self.get(region.id).is_none()) {
            None => Ok(()),
            Some(Region { id, size, .. }) => Err(Error::invalid(format!(
                "it has {size} bytes of region {id}, for which no memory is protected"
            ))),
        }
    }

    /// The regions that a checkpoint call selects, ascending by id. An id that is asked for must
    /// be protected, and something must be selected.
    pub fn select(&self, selection: &Selection) -> Result<Vec<(i32, Protected)>> {
        if let Selection::Some(ids) = selection {
            if let Some(&id) = ids.iter().find(|id| !self.by_id.contains_key(id)) {
                return Err(unknown(id));
            }
        }
        let selected: Vec<(i32, Protected)> = self
            .by_id
            .iter()
            .filter(|(id, _)| selection.has(**id))
            .map(|(&id, region)| (id, region.clone()))
            .collect();
        if selected.is_empty() {
            return Err(Error::invalid(match selection {
                Selection::All => "no region is protected".to_owned(),
                Selection::Some(ids) | Selection::Rest(ids) => {
                    format!("the selection with ids {ids:?} leaves no region")
                }
            }));
        }
        Ok(selected)
    }
}

fn table_id() -> Error {
    Error::invalid(format!(
        "region {}: the library uses this id itself with VELOC_Mem_decompose; take another",
        subarray::REGION
    ))
}

fn unknown(id: i32) -> Error {
    Error::new(ErrorKind::NotFound, format!("region {id} is not protected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(id: i32, len: usize) -> Protected {
        Protected::Memory(ProtectedMemory::new(id, 0x1000, len, 1).unwrap())
    }

    fn regions() -> Group {
        let mut regions = Group::default();
        for id in [3, 1, 2] {
            regions.protect(id, memory(id, 32));
        }
        regions
    }

    #[test]
    fn selections_ascend_by_id() {
        let ids = |selection| -> Vec<i32> {
            regions().select(&selection).unwrap().iter().map(|(id, _)| *id).collect()
        };
        assert_eq!(ids(Selection::All), [1, 2, 3]);
        assert_eq!(ids(Selection::Some(vec![3, 1, 3])), [1, 3]);
        assert_eq!(ids(Selection::Rest(vec![2, 99])), [1, 3]);
    }

    /// Catches bytes that are counted again when a region is protected again, as adjoint codes do
    /// for each version, and bytes of a region that is not protected any more.
    #[test]
    fn a_checkpoint_has_the_bytes_of_what_is_protected_now() {
        let mut regions = Group::default();
        for (id, len) in [(1, 100), (2, 50), (1, 100), (1, 30)] {
            regions.protect(id, memory(id, len));
        }
        assert_eq!(regions.bytes(), 80);
        assert!(regions.unprotect(3).is_err());
        regions.unprotect(2).unwrap();
        assert_eq!(regions.bytes(), 30);
        (3..8).for_each(|id| regions.protect(id, memory(id, i64::MAX as usize)));
        assert_eq!(regions.bytes(), u64::MAX, "more than there can be");
        regions.clear();
        assert_eq!(regions.bytes(), 0);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let text = regions().select(&Selection::Some(vec![1, 7])).unwrap_err().to_string();
        assert!(text.contains('7'), "{text}");
        assert!(regions().select(&Selection::Rest(vec![1, 2, 3])).is_err());
        assert!(Group::default().select(&Selection::All).is_err());
    }

    /// Catches a group that is frozen by its first use, or that a name keeps without regions.
    #[test]
    fn a_name_has_its_own_regions_or_those_of_all() {
        let len = |regions: &Regions, name, id| match regions.of(name).get(id) {
            Some(Protected::Memory(memory)) => Some(memory.len),
            _ => None,
        };
        let mut regions = Regions::default();
        regions.group_mut(None).protect(1, memory(1, 1));
        assert_eq!(len(&regions, "a", 1), Some(1));
        regions.group_mut(Some("default")).protect(1, memory(1, 2));
        assert_eq!(len(&regions, "a", 1), Some(2));
        regions.group_mut(Some("a")).protect(7, memory(7, 3));
        assert_eq!((len(&regions, "a", 7), len(&regions, "a", 1)), (Some(3), None));
        assert_eq!(len(&regions, "b", 7), None);
        regions.group_mut(Some("a")).unprotect(7).unwrap();
        assert_eq!(len(&regions, "a", 1), Some(2));
    }

    /// Catches a list of mappings that is read again for each version of a shot, and one that is not
    /// read for other memory.
    #[test]
    fn what_was_found_writable_is_known_of_the_same_memory_alone() {
        let mut bytes = vec![0_u8; 64];
        let start = bytes.as_mut_ptr() as u64;
        let of =
            |at: u64, len| Protected::Memory(ProtectedMemory::new(1, start + at, len, 1).unwrap());
        let known = |group: &Group| match group.get(1) {
            Some(Protected::Memory(memory)) => memory.writable.get(),
            _ => panic!("no memory"),
        };
        let mut group = Group::default();
        group.protect(1, of(0, 64));
        match group.get(1) {
            Some(Protected::Memory(memory)) => check_writable(&[(1, memory, 48)]).unwrap(),
            _ => panic!("no memory"),
        }
        group.protect(1, of(0, 32));
        assert_eq!(known(&group), 48);
        group.protect(1, of(16, 32));
        assert_eq!(known(&group), 0);
    }

    #[test]
    fn ranges_that_cannot_be_are_refused() {
        assert!(ProtectedMemory::new(0, 0, 1, 1).is_err());
        assert!(ProtectedMemory::new(0, 0, 0, 1).is_ok(), "an empty region needs no memory");
        assert!(ProtectedMemory::new(0, 0x1000, usize::MAX, 2).is_err());
        assert!(ProtectedMemory::new(0, u64::MAX - 4, 8, 1).is_err());
    }
}
