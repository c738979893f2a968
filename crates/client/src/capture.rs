//! Captures protected regions into a checkpoint that is open.

use std::sync::Arc;

use super::callbacks::{Object, WrittenBytes};
use super::deltas::Deltas;
use super::encoding::{Buffers, Encoded};
use super::guards::look_at;
use super::memory::CallMemory;
use super::messages::Packed;
use super::protection::Protection;
use super::regions::{Group, Protected};
use super::way::Ways;
use super::Selection;
use catalog::MESSAGES;
use device::PAGEABLE;
use engine::place::Place;
use engine::{Engine, Open};
use errors::Result;
use format::subarray;
use policy::capture::Capture;

/// The places that a call has captured.
pub(super) struct Captured {
    pub places: Vec<Place>,
    /// The bytes of objects, which `places` points to.
    _written: Vec<WrittenBytes>,
    _log: Option<Packed>,
    _table: Option<Vec<u8>>,
    _subarrays: Option<Vec<u8>>,
    _encoded: Vec<Encoded>,
}

/// The table of subarrays, where there are some and the checkpoint does not have it yet.
fn table_of_subarrays(engine: &Engine, regions: &Group, open: &Open) -> Option<Vec<u8>> {
    let is_there = open.regions.iter().any(|region| region.id == subarray::REGION);
    for (id, region) in regions.iter() {
        if let Protected::Memory(memory) = region {
            if memory.terms.subarray.is_some() && memory.part_of_array().is_none() {
                engine.files().warnings().once(format!(
                    "region {id} has {} bytes now, so it is no part of an array any more (VELOC_Mem_decompose): only as \
                     many ranks can restore it",
                    memory.len
                ));
            }
        }
    }
    let table: Vec<_> = regions.subarrays().collect();
    (!is_there && !table.is_empty()).then(|| subarray::encode(&table))
}

/// What a capture uses.
pub(super) struct Taking<'a> {
    pub engine: &'a Engine,
    pub protection: &'a Protection,
    pub deltas: &'a mut Deltas,
    pub buffers: &'a Buffers,
}

impl Taking<'_> {
    /// Captures regions, in these ways if the same call of the application ends the checkpoint: otherwise it may change
    /// its memory before that. Returns what was captured if it stays as it is until the application's call returns.
    pub(super) fn capture(
        self,
        open: &mut Open,
        selection: &Selection,
        marked: bool,
        mut ways: Option<&mut Ways>,
    ) -> Result<Option<Captured>> {
        let Taking { engine, protection, deltas, buffers } = self;
        let regions = protection.regions.of(&open.name);
        let uses = regions.uses();
        regions.use_once();
        let marker = regions.marker().filter(|_| marked);
        let selected = match marker {
            // A marked checkpoint may have its mark alone.
            Some(_) if !regions.has_regions() => Vec::new(),
            _ => regions.select(selection)?,
        };
        let call = CallMemory::new(engine);
        // Marked versions are compared, and deltas are of memory.
        let config = engine.config();
        let waits_less = config.stream_ordered || config.incremental || marked;
        let mut places = Vec::with_capacity(selected.len() + 1);
        // The bytes of objects stay until they are captured.
        let mut written: Vec<WrittenBytes> = Vec::new();
        let mut encoded = Vec::new();
        let mut write = |id: i32, object: &Arc<dyn Object>| -> Result<Place> {
            call.leave();
            let made = object.write().map_err(|error| error.within(format!("region {id}")))?;
            let bytes = (*made).as_ref();
            let place = Place::plain(id, bytes.as_ptr(), bytes.len());
            written.push(made);
            Ok(place)
        };
        if let Some(marker) = marker {
            let id = regions.mark_id();
            places.push(write(id, marker)?);
            engine.checkpoints().mark(open.id, id);
        }
        for (id, region) in &selected {
            places.push(match region {
                // Looked at again each time: memory may have been freed meanwhile.
                Protected::Memory(memory) => {
                    look_at(engine.files(), *id, memory, regions, !marked && memory.is_new(uses));
                    let mut place = call.place(*id, memory, memory.len)?;
                    let asked = memory.asked();
                    if asked.is_none() && memory.terms.encoding.is_some() {
                        engine.files().warnings().once(format!(
                            "region {id}: its elements have {} bytes now, so it is stored without compression: only \
                             floats (4) and doubles (8) are compressed",
                            memory.element
                        ));
                    }
                    let small = asked.map_or(Ok(None), |how| buffers.encode(engine, place, &how));
                    if let Some((small, buffer)) = small? {
                        encoded.push(buffer);
                        places.push(small);
                        continue;
                    }
                    let is_plain = place.kind == PAGEABLE && place.capture == Capture::Copy;
                    if let Some(ways) = ways.as_mut().filter(|_| is_plain) {
                        place.capture = ways.way_of(engine, memory, &place)?;
                    }
                    // A permission changes no other promise.
                    let may = !waits_less && asked.is_none() && place.capture == Capture::Copy;
                    let small = memory.permitted().filter(|_| may);
                    let small =
                        small.map_or(Ok(None), |how| buffers.try_encode(engine, place, &how));
                    if let Some((small, buffer)) = small? {
                        encoded.push(buffer);
                        places.push(small);
                        continue;
                    }
                    place
                }
                Protected::Object(object) => write(*id, object)?,
            });
        }
        let is_there = open.regions.iter().any(|region| region.id == MESSAGES);
        let log = protection.messages_of(&open.name, selection).filter(|_| !is_there);
        let log = log.map_or(Ok(None), |log| {
            call.leave();
            log.write(regions)
        })?;
        if let Some(log) = &log {
            let bytes = log.bytes();
            places.push(Place::plain(MESSAGES, bytes.as_ptr(), bytes.len()));
            for nth in 0..log.chunks() {
                places.push(log.chunk(nth)?);
            }
        }
        let subarrays = table_of_subarrays(engine, regions, open).filter(|_| !marked);
        if let Some(table) = &subarrays {
            places.push(Place::plain(subarray::REGION, table.as_ptr(), table.len()));
        }
        let is_first = open.regions.is_empty() && engine.config().incremental && !marked;
        let table = match is_first.then(|| (open.name.clone(), open.version)) {
            Some((name, version)) => {
                let of = (name.as_str(), version);
                Some(deltas.only_changes(
                    engine,
                    &protection.regions,
                    of,
                    &mut places,
                    &selected,
                )?)
            }
            None => None,
        };
        if ways.is_some() {
            engine.order_captures(&mut places);
        }
        let release = |(id, region)| match region {
            Protected::Memory(memory) => Some((id, memory.terms.release?)),
            Protected::Object(_) => None,
        };
        let releases: Vec<_> = selected.into_iter().filter_map(release).collect();
        // Memory that is released may change from then on.
        let stays = releases.is_empty();
        engine.capturing().capture_places(open, &places)?;
        call.leave();
        engine.capturing().release(open, releases);
        Ok(stays.then_some(Captured {
            places,
            _written: written,
            _log: log,
            _table: table,
            _subarrays: subarrays,
            _encoded: encoded,
        }))
    }
}
