//! Taking a checkpoint: the one step that keeps the application waiting.
//!
//! The application's thread finds room, then copies: device regions within the device, host regions
//! into the host buffer. What is larger than a tier goes straight to the tier below.

use std::sync::Arc;
use std::time::Instant;

use super::copy::{Run, Way};
use super::file_room::Coming;
use super::loan::{Loan, Release};
use super::place::Place;
use super::shared::Shared;
use super::spool::Spool;
use super::Engine;
use crate::background;
use crate::catalog::entry::{FileTier, Id, Part, Region, Tier};
use crate::catalog::state::{Destination, PersistJob, Reserve, Short, State, WaitFor, Writer};
use crate::error::{Error, Kind, Result};
use crate::metrics::Cause;
use crate::platform::files::SizeLimitOutlived;
use crate::tier::files::Written;
use crate::tier::space::{cut, Extent};

/// Within a part, regions start at multiples of this many bytes, so that device copies are fast.
const ALIGNMENT: u64 = 256;

/// A checkpoint under way. Dropped before it is committed, as by a panic, it is given up.
#[derive(Debug)]
pub struct Open {
    shared: Arc<Shared>,
    /// It is neither committed nor given up.
    pub(super) under_way: bool,
    /// Its number.
    pub id: Id,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// What was captured so far.
    pub regions: Vec<Region>,
    /// Whether it is copied to persistent; `None`: that depends on when it is complete.
    pub persist: Option<bool>,
    /// The file it goes to directly, if it does.
    pub spool: Option<Box<Spool>>,
    /// What it has still to fetch.
    pub loan: Loan,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.under_way {
            return;
        }
        if let Some(spool) = self.spool.take() {
            spool.discard();
        }
        self.shared.catalog.step(|state| state.abort(self.id));
        // What goes in the background is no call of the application's.
        if !background::is_here() {
            self.shared.pace.call_ends();
        }
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
    /// Starts a checkpoint, or what takes its way.
    pub(super) fn begin(shared: &Arc<Shared>, name: &str, version: i32) -> Open {
        let id = shared.catalog.step(|state| state.open(name, version));
        Open {
            shared: shared.clone(),
            under_way: true,
            id,
            name: name.to_owned(),
            version,
            regions: Vec::new(),
            persist: None,
            spool: None,
            loan: Loan::default(),
        }
    }
}

impl Shared {
    /// Captures regions into a checkpoint under way. After an error the checkpoint is as it was,
    /// or can only be given up. `releases` are called, each once, when the regions of these ids are
    /// not needed any more: at once, or when what was lent has arrived.
    pub fn capture(
        &self,
        open: &mut Open,
        places: &[Place],
        releases: Vec<(i32, Arc<dyn Release>)>,
    ) -> Result<()> {
        self.capture_places(open, places)?;
        let mut ended = Loan::default();
        for (id, release) in releases {
            let loan = if open.loan.has(id) { &mut open.loan } else { &mut ended };
            loan.until(id, release);
        }
        self.end(ended);
        Ok(())
    }

    pub(super) fn capture_places(&self, open: &mut Open, places: &[Place]) -> Result<()> {
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
        let result = self.complete(open);
        self.pace.call_ends();
        result
    }

    pub(super) fn complete(&self, mut open: Open) -> Result<()> {
        let persist = open.persist.unwrap_or_else(|| self.is_to_persist());
        match open.spool.take() {
            None => {
                self.commit_with_loan(&mut open, persist);
                open.under_way = false;
                Ok(())
            }
            Some(spool) => {
                let since = Instant::now();
                let _outlived = SizeLimitOutlived::begin();
                let complete = self.complete_spool(spool, &open, persist);
                let naming = self.naming.lock();
                let published = complete.and_then(|(tier, file)| {
                    let (name, version) = (&open.name, open.version);
                    let published = match tier {
                        FileTier::Scratch => self.files.publish(&file, name, version),
                        FileTier::Persistent => self.publish_straight(&file, name, version, None),
                    };
                    match published {
                        Ok(()) => Ok(tier),
                        Err(error) => {
                            file.discard();
                            Err(error)
                        }
                    }
                });
                let tier = published?;
                let regions = std::mem::take(&mut open.regions);
                if tier == FileTier::Persistent {
                    self.catalog.step(|state| state.commit_persistent(open.id, regions, None));
                    open.under_way = false;
                    self.arrived(tier, &open.name, open.version, open.id);
                    self.metrics.waited(Cause::File, since);
                    return Ok(());
                }
                let own = self.commit_file(open.id, regions, None, persist);
                open.under_way = false;
                self.arrived(FileTier::Scratch, &open.name, open.version, open.id);
                drop(naming);
                let result = self.wait_persistent(open.id, own);
                self.metrics.waited(Cause::File, since);
                result
            }
        }
    }

    /// Commits a checkpoint whose file is in its place. With `mode = sync`, what the caller is to
    /// copy to persistent: it would wait for that, and a worker has to be woken first.
    pub(super) fn commit_file(
        &self,
        id: Id,
        regions: Vec<Region>,
        routed: Option<Arc<str>>,
        persist: bool,
    ) -> Option<PersistJob> {
        self.catalog.step(|state| {
            state.commit_file(id, regions, routed, persist);
            if self.writes_directly() {
                state.take_persist(id)
            } else {
                None
            }
        })
    }

    /// Gives a checkpoint under way up.
    pub fn abort(&self, mut open: Open) {
        self.end(std::mem::take(&mut open.loan));
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
                let mut of_part = places.iter().filter(|place| place.part() == part);
                let lent = part == Part::Device && of_part.all(|place| place.lent);
                let room = lent.then(|| self.room_for_loan(open, len, both)).flatten();
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
        let runs: Vec<Run> = places
            .iter()
            .zip(&regions)
            .filter_map(|(place, region)| {
                let (tier, base, extents) = rooms[region.part as usize].as_ref()?;
                let extents = cut(extents, region.offset - base, region.size).collect();
                Some(Run { place: *place, tier: *tier, extents })
            })
            .collect();
        let is_lent = |run: &Run| run.place.lent && run.tier == Tier::Host;
        let (lent, now): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(is_lent);
        self.copy(open.id, Way::In, &now).map_err(|error| {
            // The system may refuse memory to the host buffer. A file needs none.
            let refused = error.kind() == Kind::NoRoom && self.files.has_scratch();
            (!refused).then_some(error)
        })?;
        self.lend(open, lent).map_err(Some)?;
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
                    let device = state.building_in(open.id, Part::Device);
                    if device == Some(Tier::Host) && !state.fits_host(both) {
                        return Ok(None);
                    }
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
                Err(error) if error.kind() != Kind::NoRoom => return Err(Some(error)),
                Err(error) => {
                    // The tier may have become too small meanwhile: the device had less memory than
                    // the cache was to have, or the machine's became short. Else what failed to
                    // move on before may move on now.
                    let (capacity, _) = self.catalog.look(|state| match tier {
                        Tier::Device => state.device_room(),
                        Tier::Host => state.host_room(),
                    });
                    if capacity < len {
                        continue;
                    }
                    if std::mem::replace(&mut retried, true) || !self.catalog.step(State::retry) {
                        // The log of messages may be what cannot move on. A file needs no room here.
                        let crowded = self.catalog.look(State::passing_bytes) > 0;
                        let refused = crowded && tier == Tier::Host && self.files.has_scratch();
                        return Err((!refused).then_some(error));
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

    pub(super) fn capture_to_file(&self, open: &mut Open, places: &[Place]) -> Result<()> {
        let since = Instant::now();
        let _outlived = SizeLimitOutlived::begin();
        let result = self.spool(open, places);
        self.metrics.waited(Cause::File, since);
        result
    }

    /// Writes regions to the file of a checkpoint under way, after those that it has in memory.
    fn spool(&self, open: &mut Open, places: &[Place]) -> Result<()> {
        let bytes = places.iter().map(|place| place.len).sum();
        let name = open.name.clone();
        let coming = Coming { tier: FileTier::Scratch, name: &name, bytes };
        let mut spool = match open.spool.take() {
            Some(spool) => spool,
            None => {
                let captured = open.regions.iter().map(|region| (region.id, region.size));
                let now = places.iter().map(|place| (place.id, place.len));
                let expected: Vec<_> = captured.chain(now).collect();
                self.end_loan(open)?;
                let start = |tier| {
                    let (name, expected) = (&open.name, expected.clone());
                    let spool = Spool::create(self, tier, name, open.version, expected)?;
                    let mut spool = Box::new(spool);
                    match self.spool_memory(open.id, &open.regions, &mut spool) {
                        Ok(()) => Ok(spool),
                        Err(error) => {
                            spool.discard();
                            Err(error)
                        }
                    }
                };
                let waits = self.waits_for(FileTier::Scratch);
                let started = self.with_room(coming, waits, || start(FileTier::Scratch));
                match started {
                    Err(error) => {
                        self.may_go_past_scratch(open.id, &mut open.persist, &error)?;
                        self.make_room(FileTier::Persistent, &open.name);
                        self.past_scratch(error, || start(FileTier::Persistent))?
                    }
                    Ok(started) => started,
                }
            }
        };
        let mut places = places.to_vec();
        places.sort_by_key(|place| place.id);
        let mut result = match spool.tier() {
            FileTier::Scratch => {
                let waits = self.waits_for(FileTier::Scratch);
                self.with_room(coming, waits, || self.spool_places(&mut spool, &places))
            }
            FileTier::Persistent => self.spool_places(&mut spool, &places),
        };
        if let (Err(error), FileTier::Scratch) = (&result, spool.tier()) {
            let error = error.clone();
            let may = self.may_go_past_scratch(open.id, &mut open.persist, &error);
            result = may.and_then(|()| {
                self.make_room(FileTier::Persistent, &open.name);
                self.past_scratch(error, || {
                    spool.go_past_scratch(self, &open.name, open.version)?;
                    self.spool_places(&mut spool, &places)
                })
            });
        }
        open.spool = Some(spool);
        result?;
        open.regions.extend(places.iter().map(|place| Region {
            id: place.id,
            size: place.len,
            part: place.part(),
            offset: 0,
        }));
        Ok(())
    }

    /// Completes the file of a checkpoint, in scratch or past it.
    fn complete_spool(
        &self,
        mut spool: Box<Spool>,
        open: &Open,
        persist: bool,
    ) -> Result<(FileTier, Written)> {
        let mut completed = spool.complete(self);
        if let (Err(error), FileTier::Scratch) = (&completed, spool.tier()) {
            let error = error.clone();
            let may = self.may_go_past_scratch(open.id, &mut Some(persist), &error);
            completed = may.and_then(|()| {
                self.make_room(FileTier::Persistent, &open.name);
                self.past_scratch(error, || {
                    spool.go_past_scratch(self, &open.name, open.version)?;
                    spool.complete(self)
                })
            });
        }
        match completed {
            Ok(()) => Ok((spool.tier(), spool.finish())),
            Err(error) => {
                spool.discard();
                Err(error)
            }
        }
    }

    /// How the application waits for room in a tier of files. Nobody else does on its behalf.
    pub(super) fn waits_for(&self, tier: FileTier) -> impl Fn(Short) -> bool + '_ {
        move |short| {
            if background::is_here() {
                return false;
            }
            let room = |state: &mut State| state.await_room_in(tier, Writer::Application, short);
            self.catalog.wait(room).unwrap_or(false)
        }
    }
}

#[cfg(test)]
mod tests;
