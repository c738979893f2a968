//! Taking a checkpoint: the one step that keeps the application waiting.
//!
//! The application's thread finds room, then copies: device regions within the device, host regions
//! into the host buffer. What is larger than a tier goes straight to the tier below.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::copy::{Run, Way};
use super::file_room::Coming;
use super::loan::{Loan, Release};
use super::place::Place;
use super::shared::Shared;
use super::spool::Spool;
use super::{storage, Engine};
use crate::catalog::entry::{FileTier, Id, Part, Region, Tier};
use crate::catalog::state::{
    is_of_the_file_system, Destination, PersistJob, Reserve, Short, State, WaitFor, Writer,
};
use crate::device::PLAIN;
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
    under_way: bool,
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
        self.shared.pace.call_ends();
    }
}

impl Engine {
    /// Starts a checkpoint.
    pub fn begin(&self, name: &str, version: i32) -> Open {
        self.pace.checkpoint_begins();
        let id = self.catalog.step(|state| state.open(name, version));
        Open {
            shared: self.shared().clone(),
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

    fn capture_places(&self, open: &mut Open, places: &[Place]) -> Result<()> {
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

    fn complete(&self, mut open: Open) -> Result<()> {
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
                let complete = self.complete_spool(spool, &open.name, open.version, persist);
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
                    self.catalog.step(|state| state.commit_persistent(open.id, regions));
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

    /// Ends a checkpoint that is a file of the application's own, which is complete under its
    /// temporary name.
    pub fn commit_routed(
        &self,
        mut open: Open,
        temporary: &Path,
        original: Arc<str>,
    ) -> Result<()> {
        let _outlived = SizeLimitOutlived::begin();
        let naming = self.naming.lock();
        let named = self.files.publish_routed(temporary, &open.name, open.version, &original);
        if let Err(error) = named {
            self.abort(open);
            return Err(error.within(format!("the routed file of {original}")));
        }
        let persist = open.persist.unwrap_or_else(|| self.is_to_persist());
        let own = self.commit_file(open.id, Vec::new(), Some(original), persist);
        open.under_way = false;
        self.arrived(FileTier::Scratch, &open.name, open.version, open.id);
        drop(naming);
        self.pace.call_ends();
        self.wait_persistent(open.id, own)
    }

    /// Commits a checkpoint whose file is in its place. With `mode = sync`, what the caller is to
    /// copy to persistent: it would wait for that, and a worker has to be woken first.
    fn commit_file(
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

    /// `mode = sync`: the bytes are in their files when a checkpoint call returns.
    pub fn writes_directly(&self) -> bool {
        self.config.mode == crate::config::Mode::Sync && !self.config.ephemeral
    }

    /// In `mode = sync`, makes the persistent copy if it is `own`, or waits for it.
    pub fn wait_persistent(&self, id: Id, own: Option<PersistJob>) -> Result<()> {
        if !self.writes_directly() {
            return Ok(());
        }
        self.persist_and_wait(id, own, None)
    }

    /// Claims the persistent copy of a checkpoint for this thread, which is to wait for it: no worker
    /// makes it before the claim is [used](Claim::copy) or given back.
    pub fn claim(&self, id: Id) -> Claim<'_> {
        self.catalog.step(|state| state.claim_persist(id));
        Claim { shared: self, id }
    }

    fn persist_and_wait(
        &self,
        id: Id,
        own: Option<PersistJob>,
        memory: Option<&[Place]>,
    ) -> Result<()> {
        if let Some(job) = own {
            let copied = catch_unwind(AssertUnwindSafe(|| {
                let wait = self.waits_for(FileTier::Persistent);
                storage::persist_one(self, &job, memory, wait);
            }));
            if copied.is_err() {
                // As if its worker had ended: nobody else would wake those who wait for it.
                let what = "copying a checkpoint to persistent panicked";
                self.catalog.fail(Error::new(Kind::Internal, what));
            }
        }
        if self.catalog.wait(|state| state.persist_settled(id))? {
            return Ok(());
        }
        let failure = self.catalog.step(State::take_failure);
        Err(failure.unwrap_or_else(|| Error::new(Kind::System, "there is no persistent copy")))
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

    fn capture_to_file(&self, open: &mut Open, places: &[Place]) -> Result<()> {
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
                    Err(error) if self.may_go_past_scratch(&mut open.persist, &error) => {
                        self.make_room(FileTier::Persistent, &open.name);
                        self.past_scratch(error, || start(FileTier::Persistent))?
                    }
                    started => started?,
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
        if let Err(error) = &result {
            let in_scratch = spool.tier() == FileTier::Scratch;
            if in_scratch && self.may_go_past_scratch(&mut open.persist, error) {
                let error = error.clone();
                self.make_room(FileTier::Persistent, &open.name);
                result = self.past_scratch(error, || {
                    spool.go_past_scratch(self, &open.name, open.version)?;
                    self.spool_places(&mut spool, &places)
                });
            }
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
        name: &str,
        version: i32,
        persist: bool,
    ) -> Result<(FileTier, Written)> {
        let mut completed = spool.complete(self);
        if let Err(error) = &completed {
            let in_scratch = spool.tier() == FileTier::Scratch;
            if in_scratch && self.may_go_past_scratch(&mut Some(persist), error) {
                let error = error.clone();
                self.make_room(FileTier::Persistent, name);
                completed = self.past_scratch(error, || {
                    spool.go_past_scratch(self, name, version)?;
                    spool.complete(self)
                });
            }
        }
        match completed {
            Ok(()) => Ok((spool.tier(), spool.finish())),
            Err(error) => {
                spool.discard();
                Err(error)
            }
        }
    }

    /// Whether a checkpoint that scratch has refused may be written to persistent alone: one that is
    /// to have a copy there, which is decided now if it was not; and any of a process without others.
    fn may_go_past_scratch(&self, persist: &mut Option<bool>, refused: &Error) -> bool {
        self.files.has_persistent()
            && is_of_the_file_system(refused)
            && (*persist.get_or_insert_with(|| self.is_to_persist())
                || self.catalog.look(State::saves_anywhere))
    }

    /// Writes to persistent what scratch has `refused`.
    fn past_scratch<T>(&self, refused: Error, write: impl FnOnce() -> Result<T>) -> Result<T> {
        match write() {
            Ok(written) => {
                self.goes_past_scratch(refused);
                Ok(written)
            }
            Err(error) => Err(refused.followed_by(format!("nor can persistent take it: {error}"))),
        }
    }

    /// How the application waits for room in a tier of files.
    fn waits_for(&self, tier: FileTier) -> impl Fn(Short) -> bool + '_ {
        move |short| {
            let room = |state: &mut State| state.await_room_in(tier, Writer::Application, short);
            self.catalog.wait(room).unwrap_or(false)
        }
    }
}

/// The right to make a checkpoint's persistent copy. Given back when it is dropped, so that nobody
/// waits in vain: a worker makes the copy then.
#[derive(Debug)]
#[must_use]
pub struct Claim<'a> {
    shared: &'a Shared,
    id: Id,
}

impl Claim<'_> {
    /// Makes the copy, if it is known by now that it is to be made, or waits for it. `places` are all
    /// regions of the checkpoint, if the application's memory is as it was when they were captured.
    pub fn copy(self, places: Option<&[Place]>) -> Result<()> {
        let own = self.shared.catalog.step(|state| state.take_claimed(self.id));
        let plain = |places: &&[Place]| places.iter().all(|place| place.kind == PLAIN);
        self.shared.persist_and_wait(self.id, own, places.filter(plain))
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.shared.catalog.step(|state| state.give_claim_back(self.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Process;
    use crate::config::Config;
    use crate::engine::Engine;
    use crate::platform::mapping::Mapping;
    use crate::platform::shared::SharedMemory;
    use crate::tier::host_buffer::HostBuffer;

    /// Where the system refuses a page, a write to it would end the process. Catches a capture that
    /// writes without having asked.
    #[test]
    fn what_the_system_has_no_memory_for_goes_to_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("mode = async\nscratch = {}\n", directory.path().display());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let memory = SharedMemory::create_refusing("veloc-test", 4 << 20).unwrap();
        let host = HostBuffer::over(Mapping::of(&memory).unwrap(), 1 << 20, false);
        let host = Some(host.may_be_refused());
        memory.refuse_from(1 << 20).unwrap();
        let engine = Engine::inherit(config, Process::alone(0), host, &[]).unwrap();
        let bytes = vec![7u8; 3 << 20];
        let mut open = engine.begin("x", 1);
        let place = Place::plain(1, bytes.as_ptr(), bytes.len());
        engine.capture(&mut open, &[place], Vec::new()).unwrap();
        engine.commit(open).unwrap();
        let file = std::fs::read(directory.path().join("x-0-1.dat")).unwrap();
        assert!(file.ends_with(&bytes));
        // What there is memory for is not written to a file by the application.
        let mut open = engine.begin("x", 2);
        engine.capture(&mut open, &[Place { len: 1 << 19, ..place }], Vec::new()).unwrap();
        assert!(open.spool.is_none());
        engine.commit(open).unwrap();
        engine.drain().unwrap();
    }

    /// Catches a part of an aggregated file that is read from scratch although the application waits
    /// with the bytes in its memory; one that is written from memory that may have changed; and a
    /// claim that is kept, so that nobody makes the copy.
    #[test]
    fn a_part_is_written_from_what_the_application_has() {
        let directory = tempfile::tempdir().unwrap();
        let folder = |name: &str| directory.path().join(name);
        let text = format!(
            "mode = sync\nscratch = {}\npersistent = {}\nmeta = {}\naggregated = true\n",
            folder("scratch").display(),
            folder("persistent").display(),
            folder("meta").display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let engine = Engine::start(config, Process::alone(0), None).unwrap();
        let contents = [(2, vec![1u8; 5000]), (7, Vec::new()), (9, vec![2; 70_000])];
        let plain = |(id, bytes): &(i32, Vec<u8>)| Place::plain(*id, bytes.as_ptr(), bytes.len());
        let places: Vec<Place> = contents.iter().map(plain).collect();
        for (version, from_memory) in [(1, true), (2, false)] {
            let mut open = engine.begin("x", version);
            open.persist = Some(false);
            let id = open.id;
            engine.capture(&mut open, &places, Vec::new()).unwrap();
            engine.commit(open).unwrap();
            let scratch = folder("scratch").join(format!("x-0-{version}.dat"));
            let written = std::fs::read(&scratch).unwrap();
            let len = written.len();
            // To be told from what the application has.
            std::fs::write(&scratch, vec![0; len]).unwrap();
            let place =
                crate::tier::files::Place { offset: 0, ranks: 1, job: 1, attempt: version as u64 };
            let claim = engine.claim(id);
            engine.catalog.step(|state| state.want_persistent(id, Some(place)));
            claim.copy(from_memory.then_some(&places[..])).unwrap();
            let part = folder("persistent").join(format!("x-agg-{version}.dat"));
            let expected = if from_memory { written } else { vec![0; len] };
            assert!(std::fs::read(part).unwrap() == expected, "version {version}");
        }
    }

    /// Catches a claim that nobody gives back, so that whoever waits for the copy waits for ever.
    #[test]
    fn a_claim_that_is_not_used_is_given_back() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!(
            "mode = sync\nscratch = {0}/s\npersistent = {0}/p\n",
            directory.path().display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let engine = Engine::start(config, Process::alone(0), None).unwrap();
        let bytes = [7u8; 100];
        let mut open = engine.begin("x", 1);
        open.persist = Some(false);
        let id = open.id;
        engine
            .capture(&mut open, &[Place::plain(1, bytes.as_ptr(), bytes.len())], Vec::new())
            .unwrap();
        engine.commit(open).unwrap();
        let settling = catch_unwind(AssertUnwindSafe(|| {
            let _claim = engine.claim(id);
            engine.catalog.step(|state| state.want_persistent(id, None));
            panic!("as a fault of the library would");
        }));
        assert!(settling.is_err());
        engine.drain().unwrap();
        assert!(directory.path().join("p/x-0-1.dat").exists());
    }

    /// Catches a checkpoint that keeps its room although nobody can end it any more.
    #[test]
    fn a_checkpoint_that_is_dropped_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = directory.path().join("s");
        let text = format!("mode = async\nscratch = {}\nhost_cache_size = 4M\n", scratch.display());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let engine = Engine::start(config, Process::alone(0), None).unwrap();
        let bytes = vec![7u8; 5 << 20];
        let place = |mib: usize| Place::plain(1, bytes.as_ptr(), mib << 20);
        // In the host buffer, and in a file that is larger.
        for mib in [3, 5] {
            let mut open = engine.begin("x", 1);
            engine.capture(&mut open, &[place(mib)], Vec::new()).unwrap();
            assert_eq!(open.spool.is_some(), mib == 5);
            drop(open);
            assert_eq!(engine.catalog.look(|state| state.used()), [0, 0]);
            assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0);
        }
    }

    /// Catches a checkpoint that is refused because memory became short while it waited for room,
    /// although a file could take it.
    #[test]
    fn what_a_shrunken_host_buffer_cannot_take_goes_to_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!(
            "mode = async\nscratch = {}\nhost_cache_size = 4M\n",
            directory.path().display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let engine = Engine::start(config, Process::alone(0), None).unwrap();
        let bytes = vec![7u8; 3 << 20];
        let place = |len: usize| Place::plain(1, bytes.as_ptr(), len << 20);
        let mut first = engine.begin("x", 1);
        let mut second = engine.begin("x", 2);
        // The first one's file gets no name, so that its room stays taken.
        let naming = engine.naming.lock();
        engine.capture(&mut first, &[place(2)], Vec::new()).unwrap();
        engine.commit(first).unwrap();
        while engine.catalog.look(|state| state.work().write) {
            std::thread::yield_now();
        }
        let before = engine.catalog.look(State::changes);
        std::thread::scope(|scope| {
            let captured = scope.spawn(|| engine.capture(&mut second, &[place(3)], Vec::new()));
            while engine.catalog.look(State::changes) == before {
                std::thread::yield_now();
            }
            engine.catalog.step(|state| state.limit_host(0));
            drop(naming);
            captured.join().unwrap().unwrap();
        });
        assert!(second.spool.is_some());
        engine.commit(second).unwrap();
    }
}
