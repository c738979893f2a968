//! Taking a checkpoint: the one step that keeps the application waiting.
//!
//! The application's thread finds room, then copies: device regions within the device, host regions
//! into the host buffer. What is larger than a tier goes straight to the tier below.

use std::time::Instant;

use super::shared::Shared;
use super::spool::{Complete, Spool};
use crate::catalog::entry::{Id, Part, Region, Tier};
use crate::catalog::state::{Destination, Reserve, State, WaitFor};
use crate::device::{Pointer, PLAIN};
use crate::error::{Error, Kind, Result};
use crate::metrics::{Cause, Hop};
use crate::tier::space::{cut, Extent};

/// Within a part, regions start at multiples of this many bytes, so that device copies are fast.
const ALIGNMENT: u64 = 256;

/// A region to be captured or restored: where the application has it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The region's id.
    pub id: i32,
    /// The address, of the host or of the device.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// What kind of memory it is.
    pub kind: Pointer,
}

impl Place {
    /// The part of a checkpoint that its bytes go to.
    pub fn part(&self) -> Part {
        match self.kind {
            Pointer::Host { .. } => Part::Host,
            Pointer::Device { .. } => Part::Device,
        }
    }
}

/// A checkpoint under way.
#[derive(Debug)]
pub struct Open {
    /// Its number.
    pub id: Id,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// What was captured so far.
    pub regions: Vec<Region>,
    /// The file it goes to directly, if it does.
    pub spool: Option<Spool>,
}

impl Shared {
    /// Starts a checkpoint.
    pub fn begin(&self, name: &str, version: i32) -> Open {
        let id = self.catalog.step(|state| state.open(name, version));
        Open { id, name: name.to_owned(), version, regions: Vec::new(), spool: None }
    }

    /// Captures regions into a checkpoint under way. After an error the checkpoint is as it was,
    /// or can only be given up.
    pub fn capture(&self, open: &mut Open, places: &[Place]) -> Result<()> {
        if let Some(twice) = places.iter().find(|p| open.regions.iter().any(|r| r.id == p.id)) {
            return Err(Error::invalid(format!(
                "region {} is already part of checkpoint \"{}\" version {}",
                twice.id, open.name, open.version
            )));
        }
        let direct = self.writes_directly() || open.spool.is_some();
        let result = if direct { Err(None) } else { self.capture_to_memory(open, places) };
        match result {
            Ok(()) => Ok(()),
            Err(Some(error)) => Err(error),
            Err(None) => self.capture_to_file(open, places),
        }
    }

    /// Ends a checkpoint: it can be restored from here on.
    pub fn commit(&self, open: Open) -> Result<()> {
        let bytes = open.regions.iter().map(|region| region.size).sum();
        self.pace.captured(bytes);
        match open.spool {
            None => {
                self.catalog.step(|state| state.commit(open.id, open.regions));
                Ok(())
            }
            Some(spool) => {
                let since = Instant::now();
                let complete = spool.complete(self);
                let naming = self.naming.lock();
                if let Err(error) = complete.and_then(Complete::publish) {
                    self.catalog.step(|state| state.abort(open.id));
                    return Err(error);
                }
                self.catalog.step(|state| state.commit_file(open.id, open.regions, None));
                drop(naming);
                let result = self.wait_persistent(open.id);
                self.metrics.waited(Cause::File, since);
                result
            }
        }
    }

    /// Gives a checkpoint under way up.
    pub fn abort(&self, open: Open) {
        if let Some(spool) = open.spool {
            spool.discard();
        }
        self.catalog.step(|state| state.abort(open.id));
    }

    /// `mode = sync`: the bytes are in their files when a checkpoint call returns.
    pub fn writes_directly(&self) -> bool {
        self.config.mode == crate::config::Mode::Sync && !self.config.ephemeral
    }

    /// In `mode = sync`, waits for the persistent copy.
    pub fn wait_persistent(&self, id: Id) -> Result<()> {
        if !self.writes_directly() {
            return Ok(());
        }
        self.catalog.wait(|state| state.persist_settled(id))?;
        match self.catalog.step(State::take_failure) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// `Err(None)`: the checkpoint does not fit in memory and must go to a file.
    fn capture_to_memory(
        &self,
        open: &mut Open,
        places: &[Place],
    ) -> std::result::Result<(), Option<Error>> {
        let mut regions = Vec::with_capacity(places.len());
        let mut lens = [0; 2];
        for place in places {
            let len = &mut lens[place.part() as usize];
            *len = u64::next_multiple_of(*len, ALIGNMENT);
            regions.push(Region {
                id: place.id,
                size: place.len,
                part: place.part(),
                offset: *len,
            });
            *len += place.len;
        }
        // What this very checkpoint holds already cannot make room for it.
        let held = self.catalog.look(|state| state.building_bytes(open.id));
        let both = [lens[0] + held[0], lens[1] + held[1]];
        let mut rooms: [Option<(Tier, u64, Vec<Extent>)>; 2] = [None, None];
        for part in [Part::Device, Part::Host] {
            let len = lens[part as usize];
            if len > 0 {
                rooms[part as usize] = Some(self.find_room(open, part, len, both)?);
            }
        }
        for region in &mut regions {
            if let Some((_, base, _)) = &rooms[region.part as usize] {
                region.offset += base;
            }
        }
        let since = Instant::now();
        let result = self.copy_in(open.id, places, &regions, &rooms);
        self.metrics.waited(Cause::Copy, since);
        result.map_err(Some)?;
        open.regions.append(&mut regions);
        Ok(())
    }

    /// Room for `len` bytes of a part, in the tier it belongs to. `both` is what the checkpoint
    /// will have of each part in all.
    fn find_room(
        &self,
        open: &Open,
        part: Part,
        len: u64,
        both: [u64; 2],
    ) -> std::result::Result<(Tier, u64, Vec<Extent>), Option<Error>> {
        let mut retried = false;
        loop {
            let tier = self.catalog.look(|state| match state.destination(both)?[part as usize] {
                Destination::Memory(tier) => {
                    // A part is in one tier, and what is in the device cache cannot be moved
                    // before the checkpoint is complete.
                    let before = state.building_in(open.id, part);
                    let room = state.host_room().0;
                    Ok(match before {
                        Some(Tier::Host) if both[0] + both[1] <= room => Some(Tier::Host),
                        Some(before) => (before == tier).then_some(tier),
                        None => Some(tier),
                    })
                }
                Destination::File => Ok(None),
            });
            let Some(tier) = tier.map_err(Some)? else {
                return Err(None);
            };
            match self.reserve(open.id, part, len, tier) {
                Ok((base, extents)) => return Ok((tier, base, extents)),
                Err(error) if error.kind() != Kind::NoRoom || retried => return Err(Some(error)),
                Err(error) => {
                    // The device cache may have come out smaller than asked for; and what failed
                    // to move on before may move on now.
                    retried = true;
                    let smaller = tier == Tier::Device
                        && self.catalog.look(|state| state.device_room().0 < len);
                    if !smaller && !self.catalog.step(State::retry) {
                        return Err(Some(error));
                    }
                }
            }
        }
    }

    fn reserve(&self, id: Id, part: Part, len: u64, tier: Tier) -> Result<(u64, Vec<Extent>)> {
        let mut waiting: Option<(WaitFor, Instant)> = None;
        let count = |waiting: &mut Option<(WaitFor, Instant)>| {
            if let Some((cause, since)) = waiting.take() {
                let cause = match cause {
                    WaitFor::Map => Cause::Map,
                    WaitFor::DeviceRoom => Cause::DeviceRoom,
                    WaitFor::HostRoom => Cause::HostRoom,
                };
                self.metrics.waited(cause, since);
            }
        };
        let got = self.catalog.wait(|state| match state.reserve(id, part, len, tier) {
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

    /// Copies the application's bytes into the room taken for them, and returns when it may
    /// overwrite them.
    fn copy_in(
        &self,
        id: Id,
        places: &[Place],
        regions: &[Region],
        rooms: &[Option<(Tier, u64, Vec<Extent>)>; 2],
    ) -> Result<()> {
        let room_of = |region: &Region| {
            rooms[region.part as usize].as_ref().map(|(tier, base, extents)| {
                (*tier, cut(extents, region.offset - base, region.size))
            })
        };
        // Copies that the application has queued may still be filling registered host memory.
        let ordered = places.iter().any(|place| place.kind != PLAIN);
        let own = if ordered { Some(self.device_side()?.own.lock()) } else { None };
        let mut _closed = None;
        let mut device_bytes = 0;
        let device_since = Instant::now();
        if let Some(own) = &own {
            let side = self.device_side()?;
            let _current = side.device.enter()?;
            _closed = side.after_application(self, own)?;
            if places.iter().any(|place| place.kind == (Pointer::Host { pinned: true })) {
                // The processor reads it itself: not before the application's own copies.
                own.0.synchronize()?;
            }
            self.metrics.waited(Cause::Order, device_since);
        }
        let since = Instant::now();
        let mut leases = Vec::new();
        let mut queue_device = || -> Result<()> {
            let Some(own) = &own else { return Ok(()) };
            let _current = self.device_side()?.device.enter()?;
            let stream = &own.0;
            for (place, region) in places.iter().zip(regions) {
                if region.part != Part::Device {
                    continue;
                }
                let managed = matches!(place.kind, Pointer::Device { managed: true, .. });
                let Some((tier, extents)) = room_of(region) else {
                    continue;
                };
                let mut from = place.address;
                for extent in extents {
                    match tier {
                        Tier::Device => {
                            let to = self.cache()?.address(extent.offset);
                            // SAFETY: the room is this checkpoint's alone, the driver has vouched
                            // for the application's pointer, and both stay until the stream is
                            // waited for below.
                            unsafe {
                                if managed {
                                    stream.copy_any(to, from, extent.len)?;
                                } else {
                                    stream.copy_on_device(to, from, extent.len)?;
                                }
                            }
                            from += extent.len;
                        }
                        Tier::Host => {
                            let host = self.host()?;
                            let mut at = extent.offset;
                            let end = extent.offset + extent.len;
                            while at < end {
                                let run = host.chunk_end(at).min(end) - at;
                                let lease = match host.try_lease(at) {
                                    Some(lease) => lease,
                                    None => {
                                        stream.synchronize()?;
                                        leases.clear();
                                        host.lease(at)
                                    }
                                };
                                leases.push(lease);
                                // SAFETY: as above, and the run stays within one chunk.
                                unsafe { stream.copy_to_host(host.address(at), from, run)? };
                                at += run;
                                from += run;
                            }
                        }
                    }
                }
                device_bytes += region.size;
            }
            Ok(())
        };
        let queued = queue_device();
        let mut host_result = Ok(());
        if queued.is_ok() && places.iter().any(|place| place.part() == Part::Host) {
            host_result = self.copy_in_host(places, regions, rooms);
        }
        // Whatever happened, nothing may go on using the room or the application's memory.
        if let Some(own) = &own {
            let side = self.device_side()?;
            let _current = side.device.enter()?;
            if let Err(error) = own.0.synchronize() {
                // If even the context cannot be waited for, the copies may go on for ever.
                if side.device.synchronize().is_err() {
                    self.catalog.step(|state| state.strand(id));
                    leases.into_iter().for_each(std::mem::forget);
                }
                return Err(error);
            }
            let to_host = matches!(&rooms[Part::Device as usize], Some((Tier::Host, _, _)));
            let hop = if to_host { Hop::AtoH } else { Hop::AtoD };
            if device_bytes > 0 {
                self.metrics.hop(hop).add(device_bytes, since.elapsed());
            }
        }
        drop(leases);
        queued?;
        host_result?;
        if let (Some((Tier::Host, _, extents)), Some(host)) =
            (&rooms[Part::Device as usize], &self.host)
        {
            host.written(extents);
        }
        Ok(())
    }

    fn copy_in_host(
        &self,
        places: &[Place],
        regions: &[Region],
        rooms: &[Option<(Tier, u64, Vec<Extent>)>; 2],
    ) -> Result<()> {
        let Some((_, base, extents)) = &rooms[Part::Host as usize] else {
            return Ok(());
        };
        let host = self.host()?;
        let since = Instant::now();
        let untouched = host.untouched(extents);
        let flushing = self.pace.flush();
        let mut bytes = 0;
        for (place, region) in places.iter().zip(regions) {
            if region.part != Part::Host {
                continue;
            }
            let mut from = place.address as *const u8;
            for extent in cut(extents, region.offset - base, region.size) {
                // SAFETY: the application protects `len` readable bytes at its address and does
                // not change them during the call; the room is this checkpoint's alone. Registered
                // or not makes no difference to the processor.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        from,
                        host.address(extent.offset),
                        extent.len as usize,
                    );
                    from = from.add(extent.len as usize);
                }
            }
            bytes += region.size;
        }
        host.written(extents);
        flushing.finish(bytes, untouched);
        self.metrics.hop(Hop::AtoH).add(bytes, since.elapsed());
        Ok(())
    }

    fn capture_to_file(&self, open: &mut Open, places: &[Place]) -> Result<()> {
        let since = Instant::now();
        let result = self.spool(open, places);
        self.metrics.waited(Cause::File, since);
        result
    }
}
