//! Taking a checkpoint: the only step that the application waits for.
//!
//! The application's thread finds room, then copies: device regions within the device, host regions to the
//! host buffer. A checkpoint larger than a level goes straight to the level below.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::copy::{Run, Way};
use super::deferred::{DeferredCapture, Release};
use super::managed::Settled;
use super::place::{check_mapped, Capture, Place};
use super::shared::Shared;
use super::spool::Spool;
use super::Engine;
use catalog::space::{cut, Extent};
use catalog::state::{Destination, PersistJob, Reserve, State, WaitFor};
use catalog::{Id, Level, Part, Region};
use device::kinds;
use errors::{Error, Kind, Result};
use format::identity::Identity;
use trace::metrics::Cause;

/// Within a part, regions start at multiples of this many bytes, so that device copies are fast.
const ALIGNMENT: u64 = 256;

/// An open checkpoint. If it is dropped before it is committed, for instance by a panic, it is aborted.
#[derive(Debug)]
pub struct Open {
    shared: Arc<Shared>,
    /// Whether it is neither committed nor aborted.
    pub(super) under_way: bool,
    /// The checkpoint's number.
    pub id: Id,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// The run that makes it.
    pub(super) identity: Identity,
    /// The regions captured so far.
    pub regions: Vec<Region>,
    /// Whether it is copied to persistent; `None`: decided when it is complete.
    pub persist: Option<bool>,
    /// The file that it is written to directly, if any.
    pub(crate) spool: Option<Box<Spool>>,
    /// The deferred part of the capture.
    pub(crate) deferred: DeferredCapture,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.under_way {
            return;
        }
        if let Some(spool) = self.spool.take() {
            spool.discard();
        }
        self.shared.catalog.step(|state| state.captures().abort(self.id));
        self.shared.pace.call_ends();
    }
}

impl Engine {
    /// Starts a checkpoint.
    pub fn begin(&self, name: &str, version: i32) -> Open {
        self.pace.checkpoint_begins();
        Open::begin(self.shared(), name, version)
    }
}

impl Open {
    /// Starts a checkpoint, or a file-based one.
    pub(super) fn begin(shared: &Arc<Shared>, name: &str, version: i32) -> Open {
        let may_replace = shared.files.may_replace(name);
        let (id, identity) = shared.catalog.step(|state| {
            let id = state.captures().open(name, version);
            if may_replace {
                state.captures().may_replace(id);
            }
            (id, state.checkpoints().identity(id))
        });
        Open {
            shared: shared.clone(),
            under_way: true,
            id,
            name: name.to_owned(),
            version,
            identity,
            regions: Vec::new(),
            persist: None,
            spool: None,
            deferred: DeferredCapture::default(),
        }
    }
}

impl Shared {
    /// Captures regions into an open checkpoint. After an error the checkpoint is unchanged, or can only be
    /// aborted. Each of `releases` is called once, when the region with this id is not needed any more: at
    /// once, or when its deferred capture has ended.
    pub fn capture(
        &self,
        open: &mut Open,
        places: &[Place],
        releases: Vec<(i32, Arc<dyn Release>)>,
    ) -> Result<()> {
        self.capture_places(open, places)?;
        let mut ended = DeferredCapture::default();
        for (id, release) in releases {
            let deferred = if open.deferred.has(id) { &mut open.deferred } else { &mut ended };
            deferred.until(id, release);
        }
        self.end(ended);
        Ok(())
    }

    pub(super) fn capture_places(&self, open: &mut Open, places: &[Place]) -> Result<()> {
        let captured: BTreeSet<i32> = open.regions.iter().map(|region| region.id).collect();
        if let Some(twice) = places.iter().find(|place| captured.contains(&place.id)) {
            return Err(Error::invalid(format!(
                "region {} is already part of checkpoint \"{}\" version {}",
                twice.id, open.name, open.version
            )));
        }
        let mut before = None;
        check_mapped(places.iter().filter(|place| {
            // The pages of a delta are those that the system has just told.
            !before.replace(place.id).is_some_and(|id| place.continues(id))
        }))?;
        if self.writes_directly() || open.spool.is_some() {
            return self.capture_to_file(open, places);
        }
        let settled = self.settle(places)?;
        match self.capture_to_memory(open, &settled) {
            Ok(()) => Ok(()),
            Err(Some(error)) => Err(error),
            Err(None) => self.capture_to_file(open, places),
        }
    }

    /// Ends a checkpoint: it can be restored from here on.
    pub fn commit(&self, open: Open) -> Result<()> {
        let bytes = open.regions.iter().map(|region| region.size).sum();
        self.pace.captured(bytes);
        self.warn_of_unused_device_cache();
        let result = self.complete(open);
        self.pace.call_ends();
        result
    }

    /// Warns once that a configured device cache has no effect, because no region is on a device, or there is
    /// no driver.
    fn warn_of_unused_device_cache(&self) {
        let Some(1..) = self.config.gpu_cache_size else { return };
        if self.device.get().is_some() {
            return;
        }
        let why = match kinds::is_there() {
            Ok(true) => "none of the protected memory is a device's",
            // One configuration serves machines with a device and without.
            Ok(false) => {
                if self.warned.lock().insert("gpu_cache_size") {
                    log::info!("gpu_cache_size has no effect: this process has no CUDA driver");
                }
                return;
            }
            Err(_) => "the CUDA driver cannot be used",
        };
        self.degrade("gpu_cache_size", format_args!("gpu_cache_size has no effect yet: {why}"));
    }

    pub(super) fn complete(&self, mut open: Open) -> Result<()> {
        let persist = open.persist.unwrap_or_else(|| self.is_to_persist());
        match open.spool.take() {
            None => {
                self.freeze(&mut open)?;
                self.carry(&mut open)?;
                self.commit_deferred(&mut open, persist);
                open.under_way = false;
                Ok(())
            }
            Some(spool) => self.commit_spool(spool, open, persist),
        }
    }

    /// Commits a checkpoint whose file is in its place. With `mode = sync`, returns the copy to persistent
    /// for the caller to make: it would wait for it anyway, and a worker would have to be woken first.
    pub(super) fn commit_file(
        &self,
        id: Id,
        regions: Vec<Region>,
        routed: Option<Arc<str>>,
        persist: bool,
    ) -> Option<PersistJob> {
        self.catalog.step(|state| {
            state.captures().commit_file(id, regions, routed, persist);
            if self.writes_directly() {
                state.down().take_persist(id)
            } else {
                None
            }
        })
    }

    /// Aborts an open checkpoint.
    pub fn abort(&self, mut open: Open) {
        self.end(std::mem::take(&mut open.deferred));
    }

    /// Captures regions. `Err(None)`: the checkpoint does not fit in memory and must go to a file.
    fn capture_to_memory(
        &self,
        open: &mut Open,
        settled: &Settled<'_>,
    ) -> std::result::Result<(), Option<Error>> {
        let places = &*settled.places;
        let mut regions: Vec<Region> = Vec::new();
        let mut offsets = Vec::with_capacity(places.len());
        let mut lens = [0; 2];
        for place in places {
            let len = &mut lens[place.part as usize];
            match regions.last_mut().filter(|region| place.continues(region.id)) {
                Some(region) => region.size += place.len,
                None => {
                    *len = u64::next_multiple_of(*len, ALIGNMENT);
                    let (id, size, part, offset) = (place.id, place.len, place.part, *len);
                    regions.push(Region { id, size, part, offset });
                }
            }
            offsets.push(*len);
            *len += place.len;
        }
        // Bytes of this checkpoint cannot be evicted to make room for itself.
        let held = self.catalog.read(|state| state.checkpoints().building_bytes(open.id));
        let both = [lens[0] + held[0], lens[1] + held[1]];
        let mut rooms: [Option<(Level, u64, Vec<Extent>)>; 2] = [None, None];
        for part in [Part::Device, Part::Host] {
            let len = lens[part as usize];
            if len > 0 {
                let mut of_part = places.iter().filter(|place| place.part == part);
                let lent = |place: &Place| place.capture == Capture::Lent;
                let deferred = part == Part::Device && of_part.all(lent);
                let room = deferred.then(|| self.room_for_deferred(open, len, both)).flatten();
                rooms[part as usize] = Some(match room {
                    Some(room) => room,
                    None => self.find_room(open, part, len, both)?,
                });
            }
        }
        for region in &mut regions {
            if let Some((_, base, _)) = &rooms[region.part as usize] {
                region.offset += base;
            }
        }
        let mut runs = Vec::with_capacity(places.len());
        for (place, begin) in places.iter().zip(offsets) {
            let Some((level, _, extents)) = &rooms[place.part as usize] else { continue };
            for piece in settled.pieces(place, *level).iter().copied() {
                let offset = begin + (piece.address - place.address);
                let extents = cut(extents, offset, piece.len).collect();
                runs.push(Run { place: piece, level: *level, extents });
            }
        }
        let is_deferred = |run: &Run| match run.place.capture {
            Capture::Copy => false,
            Capture::Lent => run.level == Level::HOST,
            Capture::Fork | Capture::Protect => run.by_processor(),
        };
        let (deferred, now): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(is_deferred);
        self.copy(open.id, Way::In, &now).map_err(|error| {
            // The system may refuse memory to the host buffer. A file needs none.
            let refused = error.kind() == Kind::NoRoom && self.files.has_scratch();
            (!refused).then_some(error)
        })?;
        self.defer(open, deferred).map_err(Some)?;
        open.regions.append(&mut regions);
        Ok(())
    }

    /// Room for `len` bytes of a part, in the level it belongs to. `both` are the total sizes of the
    /// checkpoint's parts.
    fn find_room(
        &self,
        open: &Open,
        part: Part,
        len: u64,
        both: [u64; 2],
    ) -> std::result::Result<(Level, u64, Vec<Extent>), Option<Error>> {
        let mut retried = false;
        loop {
            let level = self.catalog.read(|state| match state.destination(both)?[part as usize] {
                Destination::Memory(level) => {
                    // A part is in one level, and a part in the device cache cannot be moved before the
                    // checkpoint is complete.
                    let staging = state.levels().staging();
                    let before = state.checkpoints().building_in(open.id, part);
                    let device = state.checkpoints().building_in(open.id, Part::Device);
                    if device == Some(staging) && !state.levels().fits_staging(both) {
                        return Ok(None);
                    }
                    let room = state.levels().room(staging).0;
                    Ok(match before {
                        Some(before) if before == staging && both[0] + both[1] <= room => {
                            Some(staging)
                        }
                        Some(before) => (before == level).then_some(level),
                        None => Some(level),
                    })
                }
                Destination::File => Ok(None),
            });
            let Some(level) = level.map_err(Some)? else {
                return Err(None);
            };
            match self.reserve(open.id, part, len, level) {
                Ok((base, extents)) => return Ok((level, base, extents)),
                Err(error) if error.kind() != Kind::NoRoom => return Err(Some(error)),
                Err(error) => {
                    // The level may have become too small by now: the device had less memory than configured,
                    // or the machine ran short. Or a flush that failed before may succeed now.
                    let (capacity, _) = self.catalog.read(|state| state.levels().room(level));
                    if capacity < len {
                        continue;
                    }
                    if std::mem::replace(&mut retried, true) || !self.catalog.step(State::retry) {
                        return Err(Some(error));
                    }
                }
            }
        }
    }

    fn reserve(&self, id: Id, part: Part, len: u64, level: Level) -> Result<(u64, Vec<Extent>)> {
        let mut waiting: Option<(WaitFor, Instant)> = None;
        let count = |waiting: &mut Option<(WaitFor, Instant)>| {
            if let Some((cause, since)) = waiting.take() {
                let cause = match cause {
                    WaitFor::Growth => Cause::Map,
                    WaitFor::Room(Level::DEVICE) => Cause::DeviceRoom,
                    WaitFor::Room(_) => Cause::HostRoom,
                };
                self.metrics.waited(cause, since);
            }
        };
        let got = self.catalog.wait(|state| match state.captures().reserve(id, part, len, level) {
            Reserve::Got { base, extents } => Some(Ok((base, extents))),
            Reserve::Never(error) => Some(Err(error)),
            Reserve::Wait(cause) => {
                if waiting.is_none_or(|(before, _)| before != cause) {
                    count(&mut waiting);
                    waiting = Some((cause, Instant::now()));
                }
                None
            }
        });
        count(&mut waiting);
        got?
    }
}

#[cfg(test)]
mod tests;
