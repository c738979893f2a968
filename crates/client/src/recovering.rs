//! Copies regions of a checkpoint back: finds the memory and the objects, and reads.

use std::cell::Cell;
use std::sync::Arc;

use super::callbacks::Object;
use super::distributed::{Pieces, Wanted};
use super::encoding::{Buffers, Encoded};
use super::guards::look_at_size;
use super::memory::CallMemory;
use super::messages::{is_chunk, MessageLog};
use super::protection::Protection;
use super::regions::{check_writable, Group, Protected, ProtectedMemory};
use super::Selection;
use catalog::{Part, Region, MESSAGES};
use device::Current;
use engine::place::Place;
use engine::restore::Restoring;
use engine::Engine;
use errors::{Error, ErrorKind, Result};
use format::subarray::{self, Subarray};

/// What went wrong.
const RESTORING: &str = "restoring";

/// The memory and the objects that regions are copied back to.
pub(super) struct Prepared {
    pub places: Vec<Place>,
    /// Objects, with the bytes that each is read from once all bytes are there.
    objects: Vec<(i32, Arc<dyn Object>, Vec<u8>)>,
    /// The message log, with the bytes that it is read from.
    messages: Option<(MessageLog, Vec<u8>)>,
    /// Encoded regions, and the memory that they are decoded to once all bytes are there.
    encoded: Vec<(Place, Encoded)>,
    /// Parts of arrays that are read from the files of several ranks.
    arrays: Vec<Wanted>,
    /// The device's context, until the bytes are there.
    inside: Option<Current>,
    /// Copies stand in the order of the application's stream.
    in_order: bool,
}

impl Prepared {
    /// Leaves the device's context, as other code is about to run.
    pub(super) fn leave(&mut self) {
        self.inside = None;
    }

    /// Has copies stand in the order of the application's stream, where the job has that. What is decoded in the call is
    /// waited for.
    pub(super) fn order(&mut self, engine: &Engine) {
        self.in_order = self.encoded.is_empty() && engine.orders();
    }
}

/// What a recovery uses.
#[derive(Clone, Copy)]
pub(super) struct Recovering<'a> {
    pub engine: &'a Engine,
    pub protection: &'a Protection,
    pub buffers: &'a Buffers,
    /// The application has asked for the size of a region in a checkpoint.
    pub sizes_asked: &'a Cell<bool>,
}

impl Recovering<'_> {
    /// Finds the memory and the objects that regions are to be copied back to: with `pieces`, from the files of several
    /// ranks.
    pub(super) fn prepare(
        &self,
        restoring: &Restoring,
        pieces: Option<&Pieces>,
        selection: &Selection,
        known: impl Fn(&ProtectedMemory, u64) -> bool,
    ) -> Result<Prepared> {
        let about = |text: &str| {
            format!("checkpoint \"{}\" version {}: {text}", restoring.name, restoring.version)
        };
        if let Selection::Some(ids) = selection {
            if let Some(id) = ids.iter().find(|&&id| restoring.regions.iter().all(|r| r.id != id)) {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    about(&format!("it has no region {id}")),
                ));
            }
        }
        if restoring.regions.is_empty() {
            return Err(Error::invalid(about(
                "it is a file of its own (VELOC_Route_file) and has no memory regions",
            )));
        }
        let stored = match pieces {
            None => self.stored_parts(restoring)?,
            Some(_) => Vec::new(),
        };
        if self.are_other_parts(&restoring.name, &stored) {
            return Err(Error::invalid(about(
                "its arrays are cut otherwise than VELOC_Mem_decompose says, which VELOC_Restart_begin has to know",
            )));
        }
        let call = CallMemory::new(self.engine);
        let (mut places, mut of_host) = (Vec::new(), Vec::new());
        let mut objects: Vec<(i32, Arc<dyn Object>, Vec<u8>)> = Vec::new();
        let mut encoded = Vec::new();
        let mut arrays = Vec::new();
        // The message log of another rank is of no use to this one.
        let mut messages: Option<(MessageLog, Vec<u8>)> = None;
        let is_own =
            self.engine.restores().rank_of(restoring) == self.engine.files().places().rank();
        let bytes_of = |region: &Region| {
            let reading =
                |error: Error| error.within(about(&format!("reading region {}", region.id)));
            zeros(region.size).map_err(reading)
        };
        let log = self.protection.messages_of(&restoring.name, selection);
        for region in restoring.regions.iter().filter(|region| selection.has(region.id)) {
            if log.is_some() && is_chunk(region.id) {
                continue;
            }
            if let Some(log) = log.filter(|_| region.id == MESSAGES) {
                if is_own {
                    let (_, bytes) = messages.insert((log, bytes_of(region)?));
                    places.push(Place::plain(region.id, bytes.as_mut_ptr(), bytes.len()));
                }
                continue;
            }
            let regions = self.protection.regions.of(&restoring.name);
            let mut read_by = |object: &Arc<dyn Object>| -> Result<()> {
                let mut bytes = bytes_of(region)?;
                places.push(Place::plain(region.id, bytes.as_mut_ptr(), bytes.len()));
                objects.push((region.id, object.clone(), bytes));
                Ok(())
            };
            if let Some(marker) = regions.marker().filter(|_| restoring.mark == Some(region.id)) {
                read_by(marker)?;
                continue;
            }
            if region.id == subarray::REGION && regions.get(region.id).is_none() {
                continue;
            }
            if let Some(part) = pieces.and_then(|pieces| pieces.part_of(region.id)) {
                let wanted = wanted_part(region.id, regions, &part);
                let (memory, part) = wanted.map_err(|error| error.within(about(RESTORING)))?;
                let place = call.place(region.id, memory, memory.len);
                let place = place.map_err(|error| error.within(about(RESTORING)))?;
                if place.part == Part::Host && !known(memory, memory.len) {
                    of_host.push((region.id, memory, memory.len));
                }
                arrays.push(Wanted { place, part: Some(part) });
                continue;
            }
            let Some(protected) = regions.get(region.id) else {
                let why = match region.id {
                    MESSAGES => {
                        "it has a log of messages: load libveloc-mpi.so before VELOC_Init, and give the name no \
                         regions of its own (VELOC_Region_protect)"
                            .to_owned()
                    }
                    id => format!("no memory is protected for its region {id}"),
                };
                return Err(Error::new(ErrorKind::NotFound, about(&why)));
            };
            let memory = match protected {
                Protected::Memory(memory) => memory,
                Protected::Object(object) => {
                    read_by(object)?;
                    continue;
                }
            };
            let len = region.len_in_memory();
            let is_part = stored.iter().any(|(id, _)| *id == region.id);
            if is_part && memory.len != len && memory.part_of_array().is_none() {
                return Err(Error::invalid(about(&format!(
                    "region {} is a part of an array, with {len} bytes, and {} are protected: say which part this process \
                     has (VELOC_Mem_decompose)",
                    region.id, memory.len
                ))));
            }
            if memory.len < len {
                return Err(Error::invalid(about(&format!(
                    "region {} has {len} bytes, but only {} are protected",
                    region.id, memory.len
                ))));
            }
            if !self.sizes_asked.get() {
                let what = || about(RESTORING);
                look_at_size(self.engine.files(), what, region, memory);
            }
            let place = call.place(region.id, memory, len);
            let place = place.map_err(|error| error.within(about(RESTORING)))?;
            if place.part == Part::Host && !known(memory, len) {
                of_host.push((region.id, memory, len));
            }
            match region.decoded {
                None => places.push(place),
                Some(_) => {
                    let (small, buffer) = self.buffers.room(self.engine, region, &place)?;
                    places.push(small);
                    encoded.push((place, buffer));
                }
            }
        }
        check_writable(&of_host).map_err(|error| error.within(about(RESTORING)))?;
        self.judge_lacking(restoring, selection)?;
        let inside = call.into_inside();
        Ok(Prepared { places, objects, messages, encoded, arrays, inside, in_order: false })
    }

    /// Whether a checkpoint has other parts of arrays than this process has now.
    pub(super) fn has_other_parts(&self, restoring: &Restoring) -> Result<bool> {
        Ok(self.are_other_parts(&restoring.name, &self.stored_parts(restoring)?))
    }

    fn are_other_parts(&self, name: &str, stored: &[(i32, Subarray)]) -> bool {
        let is_other = |(id, part): (i32, Subarray)| {
            stored.iter().any(|(of, stored)| *of == id && *stored != part)
        };
        self.protection.regions.of(name).subarrays().any(is_other)
    }

    /// The parts of arrays that the regions of a checkpoint are.
    fn stored_parts(&self, restoring: &Restoring) -> Result<Vec<(i32, Subarray)>> {
        let regions = self.protection.regions.of(&restoring.name);
        let table = restoring.regions.iter().find(|region| region.id == subarray::REGION);
        let Some(table) = table.filter(|table| regions.get(table.id).is_none()) else {
            return Ok(Vec::new());
        };
        if table.size > subarray::LONGEST {
            let text = format!(
                "region {} has {} bytes, more than a table of subarrays",
                table.id, table.size
            );
            return Err(Error::new(ErrorKind::Corrupt, text));
        }
        let mut bytes = zeros(table.size)?;
        let place = Place::plain(table.id, bytes.as_mut_ptr(), bytes.len());
        self.engine.restores().recover(restoring, &[place], false)?;
        subarray::decode(&bytes)
    }

    /// Warns of selected regions that are protected and that the checkpoint does not have.
    ///
    /// # Errors
    /// The checkpoint has none of the selected regions that are protected.
    fn judge_lacking(&self, restoring: &Restoring, selection: &Selection) -> Result<()> {
        let protected = || self.protection.regions.of(&restoring.name).iter().map(|(id, _)| id);
        let has = |id: i32| restoring.regions.binary_search_by_key(&id, |r| r.id).is_ok();
        let lacking: Vec<String> = protected()
            .filter(|id| selection.has(*id) && !has(*id))
            .map(|id| id.to_string())
            .collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let text = format!(
            "checkpoint \"{}\" version {} does not have the protected region{} {}",
            restoring.name,
            restoring.version,
            if lacking.len() == 1 { "" } else { "s" },
            lacking.join(", ")
        );
        if !protected().any(|id| selection.has(id) && has(id)) {
            return Err(Error::new(ErrorKind::NotFound, text));
        }
        self.engine.files().warnings().once(format!("{text}: their memory stays as it is"));
        Ok(())
    }

    /// Copies regions of a checkpoint back to where they were prepared to go, from `pieces` if there are some.
    pub(super) fn recover(
        &self,
        restoring: &Restoring,
        pieces: Option<&Pieces>,
        prepared: &mut Prepared,
    ) -> Result<()> {
        let about = |text: &str| {
            format!("checkpoint \"{}\" version {}: {text}", restoring.name, restoring.version)
        };
        match pieces {
            None => {
                self.engine.restores().recover(restoring, &prepared.places, prepared.in_order)?
            }
            Some(pieces) => {
                let alike = prepared.places.iter().map(|&place| Wanted { place, part: None });
                prepared.arrays.extend(alike);
                let read = pieces.read(self.engine, &prepared.arrays);
                read.map_err(|error| error.within(about(RESTORING)))?;
            }
        }
        prepared
            .encoded
            .iter()
            .try_for_each(|(place, buffer)| buffer.decode(self.engine, place))
            .map_err(|error| error.within(about(RESTORING)))?;
        prepared.leave();
        self.allow_replacing(restoring);
        for (id, object, bytes) in &prepared.objects {
            let read = object.read(bytes);
            let hint = read.map_err(|error| error.within(about(&format!("region {id}"))))?;
            if let Some(hint) = hint {
                self.engine.files().warnings().once(format!("region {id}: {hint}"));
            }
        }
        if let Some((log, bytes)) = &prepared.messages {
            self.recover_log(restoring, *log, bytes)
                .map_err(|error| error.within(about(RESTORING)))?;
        }
        Ok(())
    }

    /// Who has restored what another job has left may replace it.
    fn allow_replacing(&self, restoring: &Restoring) {
        if !self.engine.restores().is_of_this_job(restoring) {
            self.engine.files().rights().allow_replacing(&restoring.name);
        }
    }

    /// Restores the message log from a checkpoint.
    fn recover_log(&self, restoring: &Restoring, log: MessageLog, bytes: &[u8]) -> Result<()> {
        let chunks = restoring.regions.iter().filter(|region| is_chunk(region.id));
        for region in chunks.take(log.begin(bytes)?) {
            let place = log.place(region.id, region.size)?;
            self.engine.restores().recover(restoring, &[place], false)?;
        }
        log.read(bytes, self.protection.regions.of(&restoring.name))
    }
}

/// The memory of a region, and the part that this process wants of the array that it is a part of, as the checkpoint
/// has that.
///
/// # Errors
/// The process does not say which part it wants, or wants one of another array.
fn wanted_part<'a>(
    id: i32,
    regions: &'a Group,
    stored: &Subarray,
) -> Result<(&'a ProtectedMemory, Subarray)> {
    let memory = match regions.get(id) {
        Some(Protected::Memory(memory)) => Some(memory),
        Some(Protected::Object(_)) | None => None,
    };
    let Some((memory, part)) = memory.and_then(|memory| Some((memory, memory.part_of_array()?)))
    else {
        return Err(Error::invalid(format!(
            "region {id} is a part of an array: protect this process's part, and say which it is (VELOC_Mem_decompose)"
        )));
    };
    if part.array != stored.array {
        return Err(Error::invalid(format!(
            "region {id} is a part of an array of {}, and VELOC_Mem_decompose has said {}",
            stored.array, part.array
        )));
    }
    Ok((memory, part))
}

/// A buffer of `len` zero bytes.
pub(super) fn zeros(len: u64) -> Result<Vec<u8>> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| {
        Error::new(ErrorKind::NoRoom, format!("there is no memory for {len} bytes"))
    })?;
    bytes.resize(len, 0);
    Ok(bytes)
}
