//! The bytes of an open restore, from the nearest copy directly to the application's memory.

use std::time::Instant;

use super::device_side::DeviceSide;
use super::managed::Pieces;
use super::ordered;
use super::place::Place;
use super::restore::{Owner, Restoring};
use super::run::{about, Run, Way};
use super::shared::{Restores, Shared};
use catalog::space::cut;
use catalog::state::{Acquire, Source};
use catalog::{Id, Level, Part, Region, PARTS};
use device::{Pointer, PAGEABLE};
use errors::{Error, ErrorKind, Result};
use files::{Target, Wanted};
use trace::metrics::{Cause, Stop};

/// The consequence of a restore that failed halfway.
const UNDEFINED: &str = "the content of the regions that were to be restored is undefined now";

/// Keeps a copy in memory until this is dropped.
pub(super) struct Reading<'a> {
    pub(super) shared: &'a Shared,
    pub(super) id: Id,
    pub(super) part: Part,
    pub(super) level: Level,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.shared.catalog.step(|state| state.up().release(self.id, self.part, self.level));
    }
}

impl Restores<'_> {
    /// Restores regions to their current places in the application. Each place names a region of the
    /// checkpoint and is large enough for it. With `in_order`, copies from the device cache stand in the order of the
    /// application's stream, and are not waited for ([`Engine::orders`](crate::Engine::orders)).
    pub fn recover(&self, restoring: &Restoring, places: &[Place], in_order: bool) -> Result<()> {
        self.await_lent(places)?;
        let wanted: Vec<(&Region, &Place)> = places
            .iter()
            .filter_map(|place| {
                let at = restoring.regions.binary_search_by_key(&place.id, |r| r.id).ok()?;
                Some((&restoring.regions[at], place))
            })
            .collect();
        let id = match &restoring.owner {
            Owner::Own(id) if !restoring.is_delta => *id,
            Owner::Own(_) | Owner::Stored(_) => {
                return self
                    .read_file(restoring, &wanted)
                    .map_err(about(&restoring.name, restoring.version));
            }
        };
        for part in PARTS {
            let of_part: Vec<_> =
                wanted.iter().filter(|(region, _)| region.part == part).copied().collect();
            if of_part.iter().any(|(region, _)| region.size > 0) {
                self.recover_part(restoring, id, part, &of_part, in_order)
                    .map_err(about(&restoring.name, restoring.version))?;
            }
        }
        Ok(())
    }

    /// Waits until the application's memory may be written to.
    ///
    /// # Errors
    /// The driver's.
    pub fn await_application(&self, places: &[Place]) -> Result<()> {
        self.await_lent(places)?;
        self.await_order(places.iter())
    }

    /// Waits for the application's own work on this memory.
    fn await_order<'b>(&self, mut places: impl Iterator<Item = &'b Place>) -> Result<()> {
        if places.any(|place| place.kind != PAGEABLE) {
            let _waiting = self.shared.telemetry.metrics.wait(Cause::Order);
            drop(self.shared.device_side.await_application()?);
        }
        Ok(())
    }

    fn recover_part(
        &self,
        restoring: &Restoring,
        id: Id,
        part: Part,
        wanted: &[(&Region, &Place)],
        in_order: bool,
    ) -> Result<()> {
        let is_plain = wanted.iter().all(|(_, place)| ordered::is_plain(place.kind));
        let in_order = in_order && is_plain;
        // In one stream, a restore comes behind a capture by itself.
        let acquired = match in_order && self.shared.is_queued_before(id) {
            true => self.shared.catalog.step(|state| state.up().acquire_behind(id, part)),
            false => self.acquire(id, part)?,
        };
        match acquired {
            Acquire::Memory(source) => {
                let reading = Reading { shared: self.shared, id, part, level: source.level };
                if in_order && source.level == Level::DEVICE {
                    let runs = self.runs_out(&source, wanted)?;
                    let of = (&*restoring.name, restoring.version);
                    return self.shared.restore_in_order(reading, of, &runs);
                }
                self.copy_out(id, &source, wanted)
            }
            Acquire::File => self.read_file(restoring, wanted),
            Acquire::Wait | Acquire::Lost => {
                Err(Error::new(ErrorKind::Internal, "no copy of it is left"))
            }
        }
    }

    /// The nearest copy of a part, once that is complete.
    pub(super) fn acquire(&self, id: Id, part: Part) -> Result<Acquire> {
        let mut waiting = None;
        self.shared.catalog.wait(|state| match state.up().acquire(id, part) {
            Acquire::Wait => {
                waiting.get_or_insert_with(|| self.shared.telemetry.metrics.wait(Cause::Fetch));
                None
            }
            acquired => Some(acquired),
        })
    }

    /// Copies from a level of memory to the application. The catalog keeps the source.
    fn copy_out(&self, id: Id, source: &Source, wanted: &[(&Region, &Place)]) -> Result<()> {
        if source.level > Level::HOST {
            let wanted = wanted.iter().map(|(region, place)| (region.offset, whole(region, place)));
            return self.shared.copy_by_store(source, &wanted.collect::<Vec<_>>());
        }
        self.shared.copy(id, Way::Out, &self.runs_out(source, wanted)?)
    }

    /// The copies from device cache or host buffer.
    fn runs_out(&self, source: &Source, wanted: &[(&Region, &Place)]) -> Result<Vec<Run>> {
        let mut runs = Vec::with_capacity(wanted.len());
        for (region, place) in wanted {
            let place = whole(region, place);
            let pieces = match source.level {
                Level::HOST => self.shared.device_side.pieces_to_restore(&place, false)?,
                _ => Pieces::from(std::slice::from_ref(&place)),
            };
            for piece in pieces.iter().copied() {
                let offset = region.offset + (piece.address - place.address);
                let extents = cut(&source.extents, offset, piece.len).collect();
                runs.push(Run { place: piece, level: source.level, extents });
            }
        }
        Ok(runs)
    }

    /// Reads from a file to the application, which waits.
    fn read_file(&self, restoring: &Restoring, wanted: &[(&Region, &Place)]) -> Result<()> {
        self.await_order(wanted.iter().map(|(_, place)| *place))?;
        let _waiting = self.shared.telemetry.metrics.wait(Cause::File);
        self.read_out(restoring, wanted)
    }

    fn read_out(&self, restoring: &Restoring, wanted: &[(&Region, &Place)]) -> Result<()> {
        let since = Instant::now();
        let overlapping = overlap(wanted);
        let mut begun = false;
        let read = restoring.files(&self.shared.file_side.files).copies().read_nearest(
            &restoring.name,
            restoring.version,
            |opened| {
                let of_copy = wanted.iter().map(|(region, place)| {
                    let offset = opened.offset_of(region)?;
                    Ok(Wanted::new(offset, self.shared.target(region, place, overlapping)))
                });
                let of_copy = of_copy.collect::<Result<Vec<_>>>()?;
                begun = true;
                Ok(of_copy)
            },
        );
        if let Err(error) = read {
            return Err(if begun { error.followed_by(UNDEFINED) } else { error });
        }
        let bytes = wanted.iter().map(|(region, _)| region.size).sum();
        self.shared
            .telemetry
            .metrics
            .hop((Stop::Scratch, Stop::Application))
            .add(bytes, since.elapsed());
        Ok(())
    }
}

impl Shared {
    /// The destination of a region's bytes. Memory that `overlaps` another region is not exclusive, so it is
    /// not read into directly.
    pub(super) fn target<'a>(
        &'a self,
        region: &Region,
        place: &Place,
        overlaps: bool,
    ) -> Target<'a> {
        let address = place.address;
        match place.kind {
            Pointer::Host { .. } if region.size == 0 => Target::Memory(&mut []),
            Pointer::Host { .. } if overlaps => {
                let mut to = address as *mut u8;
                let copy = move |bytes: &[u8]| {
                    // SAFETY: the application passes `place.len` writable bytes, at least as many as the
                    // region has (checked by the client); the buffer is separate.
                    unsafe {
                        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
                        to = to.add(bytes.len());
                    }
                    Ok(())
                };
                Target::Taken(region.size, Box::new(copy))
            }
            Pointer::Host { .. } => {
                // SAFETY: the application passes `place.len` writable bytes, at least as many as the region
                // has (checked by the client), which belong to no other region, and does not touch them
                // during the call. A slice is made for each copy that is tried; only one exists at a time.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(address as *mut u8, region.size as usize)
                };
                Target::Memory(bytes)
            }
            Pointer::Device { .. } => {
                let (mut done, size) = (0, region.size);
                let place = Place { len: size, ..*place };
                let mut pieces = None;
                let mut writes = Writes { side: &self.device_side, active: false };
                let copy = move |bytes: &[u8]| {
                    let pieces = match &mut pieces {
                        Some(pieces) => pieces,
                        None => pieces
                            .insert(self.device_side.pieces_to_restore(&place, true)?.into_owned()),
                    };
                    for piece in pieces.iter().filter_map(|piece| {
                        piece.within(address + done..address + done + bytes.len() as u64)
                    }) {
                        let from = &bytes[(piece.address - address - done) as usize..];
                        let from = &from[..piece.len as usize];
                        // SAFETY: the driver has confirmed the application's pointer, which has the region's
                        // bytes; managed memory is the host's as well. The writes end with the call.
                        unsafe {
                            match piece.kind {
                                Pointer::Host { .. } => std::ptr::copy_nonoverlapping(
                                    from.as_ptr(),
                                    piece.address as *mut u8,
                                    from.len(),
                                ),
                                Pointer::Device { .. } => writes.write(piece.address, from)?,
                            }
                        }
                    }
                    done += bytes.len() as u64;
                    match done < size {
                        true => Ok(()),
                        false => writes.end(),
                    }
                };
                Target::Taken(region.size, Box::new(copy))
            }
        }
    }
}

/// Writes to device memory through the ring of the application's lane, which go on while the next bytes are read. They
/// have ended when this is dropped.
struct Writes<'a> {
    side: &'a DeviceSide,
    active: bool,
}

impl Writes<'_> {
    /// # Safety
    /// The bytes at `to` stay valid, and nothing else uses them, until the writes have ended.
    unsafe fn write(&mut self, to: u64, bytes: &[u8]) -> Result<()> {
        let side = self.side.attached()?;
        let mut own = self.side.own()?;
        let _current = side.device.enter()?;
        self.active = true;
        // SAFETY: the caller's promise.
        unsafe { own.lane.write(to, bytes) }
    }

    fn end(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.active) {
            return Ok(());
        }
        let side = self.side.attached()?;
        let mut own = self.side.own()?;
        let _current = side.device.enter()?;
        own.lane.end_writes()
    }
}

impl Drop for Writes<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            log::debug!("{error}");
        }
    }
}

/// The place of a region that has its size in the checkpoint.
fn whole(region: &Region, place: &Place) -> Place {
    Place { len: region.size, ..*place }
}

/// Whether regions overlap in host memory.
fn overlap(wanted: &[(&Region, &Place)]) -> bool {
    let mut ranges: Vec<(u64, u64)> = wanted
        .iter()
        .filter(|(region, place)| matches!(place.kind, Pointer::Host { .. }) && region.size > 0)
        .map(|(region, place)| (place.address, region.size))
        .collect();
    ranges.sort_unstable();
    ranges.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0)
}

#[cfg(test)]
mod tests {
    use std::panic::{catch_unwind, AssertUnwindSafe};

    use super::*;
    use crate::Engine;
    use catalog::state::State;
    use config::Config;
    use recovery::Process;

    /// Catches a copy that is pinned for ever because its reader did not release it.
    #[test]
    fn a_copy_that_was_read_may_be_evicted_also_after_a_panic() {
        let text = "mode = async\nephemeral = true\nhost_cache_size = 4M\n";
        let (config, _) = Config::from_text(text, |_| None).unwrap();
        let engine = Engine::start(config, Process::single(0), None).unwrap();
        let bytes = vec![7u8; 3 << 20];
        let take = |version| {
            let mut open = engine.begin("x", version).unwrap();
            let place = Place::plain(1, bytes.as_ptr(), bytes.len());
            engine
                .shared
                .capturing()
                .capture(&mut open, &[place], Vec::new())
                .and_then(|()| engine.shared.capturing().commit(open))
        };
        take(1).unwrap();
        let restoring = engine.shared.restores().begin_restore("x", 1, |_| Part::Host).unwrap();
        let id = engine.shared.catalog.read(|state| state.checkpoints().find("x", 1)).unwrap();
        let reading = catch_unwind(AssertUnwindSafe(|| {
            let acquired = engine.shared.catalog.step(|state| state.up().acquire(id, Part::Host));
            let Acquire::Memory(source) = acquired else { return };
            let (part, level) = (Part::Host, source.level);
            let _reading = Reading { shared: &engine.shared, id, part, level };
            panic!("as a fault of the library would");
        }));
        assert!(reading.is_err());
        engine.shared.restores().end_restore(restoring, true);
        // Version 1 was consumed, and its room is needed.
        take(2).unwrap();
        assert_eq!(engine.shared.catalog.read(State::check), Ok(()));
    }
}
