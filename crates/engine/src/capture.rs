//! Taking a checkpoint: the only step that the application waits for.
//!
//! The application's thread finds room, then copies: device regions within the device, host regions to the
//! host buffer. A checkpoint larger than a level goes straight to the level below.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::deferred::{DeferredCapture, Release};
use super::lifecycle::Engine;
use super::managed::Settled;
use super::open::Open;
use super::place::{check_mapped, Place};
use super::run::{Run, Way};
use super::shared::Capturing;
use super::ways::is_deferred;
use catalog::space::{cut, Extent};
use catalog::state::{Destination, PersistJob, Reserve, State, WaitFor};
use catalog::{Id, Level, Part, Region, PARTS};
use config::GrowingSize;
use device::kinds;
use errors::{Error, ErrorKind, Result};
use policy::capture::Capture;
use trace::metrics::{Cause, Waiting};

/// Within a part, regions start at multiples of this many bytes, so that device copies are fast.
const ALIGNMENT: u64 = 256;

impl Engine {
    /// Starts a checkpoint.
    ///
    /// # Errors
    /// A failure in the background that was not reported yet, which is reported now; or a worker has failed.
    pub fn begin(&self, name: &str, version: i32) -> Result<Open> {
        let open = Open::begin(&self.shared, name, version)?;
        self.shared.host_side.pace.checkpoint_begins();
        Ok(open)
    }
}

impl Capturing<'_> {
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
        self.release(open, releases);
        Ok(())
    }

    /// Calls each of `releases` once what was captured of its region is not needed any more
    /// ([`capture`](Self::capture)).
    pub fn release(&self, open: &mut Open, releases: Vec<(i32, Arc<dyn Release>)>) {
        let mut ended = DeferredCapture::default();
        for (id, release) in releases {
            let deferred = if open.deferred.has(id) { &mut open.deferred } else { &mut ended };
            deferred.until(id, release);
        }
        self.end(ended);
    }

    /// Captures regions into an open checkpoint, and releases none ([`capture`](Self::capture)).
    ///
    /// # Errors
    /// As of [`capture`](Self::capture).
    pub fn capture_places(&self, open: &mut Open, places: &[Place]) -> Result<()> {
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
        if self.shared.config.writes_directly() || open.spool.is_some() {
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
        self.shared.host_side.pace.captured(bytes);
        self.warn_of_unused_device_cache();
        let result = self.complete(open);
        self.shared.host_side.pace.call_ends();
        result
    }

    /// Warns once that a configured device cache has no effect, because no region is on a device, or there is
    /// no driver.
    fn warn_of_unused_device_cache(&self) {
        let Some(GrowingSize { most: 1.., .. }) = self.shared.config.gpu_cache_size else { return };
        if self.shared.device_side.attached.get().is_some() {
            return;
        }
        let why = match kinds::is_there() {
            Ok(true) => "none of the protected regions is in device memory",
            // One configuration serves machines with a device and without.
            Ok(false) => {
                if self.shared.telemetry.is_new("gpu_cache_size") {
                    log::info!("gpu_cache_size has no effect: this process has no CUDA driver");
                }
                return;
            }
            Err(_) => "the CUDA driver cannot be used",
        };
        self.shared
            .telemetry
            .degrade("gpu_cache_size", format_args!("gpu_cache_size has no effect yet: {why}"));
    }

    pub(super) fn complete(&self, mut open: Open) -> Result<()> {
        let persist = open.is_to_persist();
        match open.spool.take() {
            None => {
                self.begin_deferred(&mut open)?;
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
        self.shared.catalog.step(|state| {
            state.captures().commit_file(id, regions, routed, persist);
            if self.shared.config.writes_directly() {
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
                    let (id, part, offset) = (place.id, place.part, *len);
                    let (size, decoded) = (place.len, place.decoded);
                    regions.push(Region { id, size, part, offset, decoded });
                }
            }
            offsets.push(*len);
            *len += place.len;
        }
        let lends = |part: Part| {
            let mut of_part = places.iter().filter(|place| place.part == part);
            of_part.all(|place| place.capture == Capture::Lent)
        };
        let rooms = self.find_rooms(open.id, lens, lends(Part::Device))?;
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
        let (deferred, now): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(is_deferred);
        if now.iter().any(|run| run.place.capture == Capture::Ordered) {
            let why = "a checkpoint does not fit the device cache (gpu_cache_size)";
            self.shared.waits_unordered("stream_ordered, room", why);
        }
        self.shared.copy(open.id, Way::In, &now).map_err(|error| {
            // The system may refuse memory to the host buffer. A file needs none.
            let refused = error.kind() == ErrorKind::NoRoom
                && self.shared.file_side.files.places().has_scratch();
            (!refused).then_some(error)
        })?;
        self.defer(open, deferred).map_err(Some)?;
        open.regions.append(&mut regions);
        Ok(())
    }

    /// Room for `lens` more bytes of each part, in the levels that they belong to. `Err(None)`: in no level. Of `lent`
    /// device memory the room is in the host buffer if there is some now: otherwise a copy to the device cache keeps
    /// the application waiting for less time.
    fn find_rooms(
        &self,
        id: Id,
        lens: [u64; 2],
        lent: bool,
    ) -> std::result::Result<[Option<CaptureRoom>; 2], Option<Error>> {
        let metrics = &self.shared.telemetry.metrics;
        let mut waiting: Option<(WaitFor, Waiting<'_>)> = None;
        let mut search = RoomSearch { id, lens, lent, retried: false, rooms: [None, None] };
        // All of it in one step where nothing is waited for.
        let found = self.shared.catalog.wait(|state| match search.step(state) {
            Ok(()) => Some(Ok(())),
            Err(Missing::Never(error)) => Some(Err(error)),
            Err(Missing::Now(cause)) => {
                if waiting.as_ref().is_none_or(|(before, _)| *before != cause) {
                    let of = match cause {
                        WaitFor::Growth => Cause::Map,
                        WaitFor::Room(Level::DEVICE) => Cause::DeviceRoom,
                        WaitFor::Room(_) => Cause::HostRoom,
                    };
                    waiting = Some((cause, metrics.wait(of)));
                }
                None
            }
        });
        drop(waiting);
        found.map_err(Some)??;
        Ok(search.rooms)
    }
}

/// The level of a part's bytes, their offset within the part, and where they are in the level.
type CaptureRoom = (Level, u64, Vec<Extent>);

/// Why there is no room.
enum Missing {
    /// It is waited for.
    Now(WaitFor),
    /// It will not come. `None`: no level could have it.
    Never(Option<Error>),
}

/// A search for the room of a capture, which may wait between its steps.
struct RoomSearch {
    id: Id,
    /// The bytes of each part.
    lens: [u64; 2],
    /// The device memory stays as it is until it is copied.
    lent: bool,
    /// Failed flushes were tried again.
    retried: bool,
    /// What was found.
    rooms: [Option<CaptureRoom>; 2],
}

impl RoomSearch {
    fn step(&mut self, state: &mut State) -> std::result::Result<(), Missing> {
        for part in PARTS {
            let i = part as usize;
            while self.lens[i] > 0 && self.rooms[i].is_none() {
                self.rooms[i] = self.room_of(state, part)?;
            }
        }
        Ok(())
    }

    /// `None`: it has to be looked for again.
    fn room_of(
        &mut self,
        state: &mut State,
        part: Part,
    ) -> std::result::Result<Option<CaptureRoom>, Missing> {
        // Bytes of this checkpoint cannot be evicted to make room for itself. Those of parts that have room count already.
        let held = state.checkpoints().building_bytes(self.id);
        let [device, host] = [0, 1].map(|i| match &self.rooms[i] {
            Some(_) => held[i],
            None => held[i] + self.lens[i],
        });
        let (len, both) = (self.lens[part as usize], [device, host]);
        if part == Part::Device && std::mem::take(&mut self.lent) {
            let room = state.captures().reserve_for_deferred(self.id, len, both);
            if let Some((base, extents)) = room {
                return Ok(Some((Level::HOST, base, extents)));
            }
        }
        let level = level_of(state, self.id, part, both).map_err(|e| Missing::Never(Some(e)))?;
        let level = level.ok_or(Missing::Never(None))?;
        match state.captures().reserve(self.id, part, len, level) {
            Reserve::Got { base, extents } => Ok(Some((level, base, extents))),
            Reserve::Wait(cause) => Err(Missing::Now(cause)),
            // A flush that failed before may succeed now: once more.
            Reserve::Never(error)
                if error.kind() == ErrorKind::NoRoom
                    && !std::mem::replace(&mut self.retried, true)
                    && state.retry() =>
            {
                Ok(None)
            }
            Reserve::Never(error) => Err(Missing::Never(Some(error))),
        }
    }
}

/// The level that more bytes of a part go to. `both` are the total sizes of the checkpoint's parts. `None`: to a file.
fn level_of(state: &State, id: Id, part: Part, both: [u64; 2]) -> Result<Option<Level>> {
    let Destination::Memory(level) = state.destination(both)?[part as usize] else {
        return Ok(None);
    };
    // A part is in one level, and a part in the device cache cannot be moved before the checkpoint is complete.
    let staging = state.levels().staging();
    let before = state.checkpoints().building_in(id, part);
    let device = state.checkpoints().building_in(id, Part::Device);
    if device == Some(staging) && !state.levels().fits_staging(both) {
        return Ok(None);
    }
    let room = state.levels().room(staging).0;
    Ok(match before {
        Some(before) if before == staging && both[0] + both[1] <= room => Some(staging),
        Some(before) => (before == level).then_some(level),
        None => Some(level),
    })
}

#[cfg(test)]
mod tests;
