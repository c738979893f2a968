//! Giving a checkpoint back: from the nearest copy, straight into the application's memory.

use std::sync::Arc;
use std::time::Instant;

use super::copy::{Run, Way};
use super::place::Place;
use super::shared::Shared;
use super::spool::about;
use crate::catalog::entry::{Id, Part, Region, PARTS};
use crate::catalog::state::{Acquire, Source};
use crate::device::{Pointer, PLAIN};
use crate::error::{Error, Kind, Result};
use crate::metrics::{Cause, Hop};
use crate::policy::slice::SLICE;
use crate::tier::files::{Files, Found, Opened};
use crate::tier::space::cut;

/// Whose checkpoint is restored.
#[derive(Debug)]
enum Owner {
    /// This job's.
    Own(Id),
    /// Another rank's, of which only files are known: those in these directories.
    Other(Files),
}

/// A restore under way.
#[derive(Debug)]
pub struct Restoring {
    owner: Owner,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// Its regions, ascending by id.
    pub regions: Arc<[Region]>,
}

impl Restoring {
    /// Where its files are.
    pub fn files<'a>(&'a self, shared: &'a Shared) -> &'a Files {
        match &self.owner {
            Owner::Own(_) => &shared.files,
            Owner::Other(files) => files,
        }
    }
}

impl Shared {
    /// The checkpoint of this name and version: known already, or found on disk. `part_of` tells
    /// which regions the application has in device memory.
    pub fn find(&self, name: &str, version: i32, part_of: impl Fn(i32) -> Part) -> Result<Id> {
        if let Some(id) = self.catalog.look(|state| state.find(name, version)) {
            return Ok(id);
        }
        self.settle();
        let found = self.files.look(name, version).map_err(|error| match error.kind() {
            Kind::NotFound => Error::new(Kind::NotFound, self.no_such(name, version)),
            _ => error,
        })?;
        let there = [
            self.files.scratch_path(name, version).is_ok_and(|path| path.exists()),
            self.files.is_persistent(name, version),
        ];
        Ok(self.catalog.step(|state| match found {
            Found::Regions(opened) => {
                let regions: Vec<(i32, u64)> =
                    opened.header.regions().iter().map(|region| (region.id, region.size)).collect();
                state.adopt(name, version, &regions, part_of, there, false)
            }
            Found::Routed => state.adopt(name, version, &[], part_of, there, true),
        }))
    }

    fn no_such(&self, name: &str, version: i32) -> String {
        let discarded = self.catalog.look(|state| state.counts().discards);
        let mut text = format!("there is no checkpoint \"{name}\" version {version}");
        if discarded > 0 {
            text += &format!(
                " (of this ephemeral job, {discarded} that were restored before were discarded to \
                 make room)"
            );
        } else if self.files.has_scratch() {
            text += &format!(", in memory or in a file of number {}", self.files.rank());
        }
        text
    }

    /// Starts a restore.
    pub fn begin_restore(
        &self,
        name: &str,
        version: i32,
        part_of: impl Fn(i32) -> Part,
    ) -> Result<Restoring> {
        let id = self.find(name, version, part_of)?;
        let regions = self.catalog.step(|state| {
            state.begin_restore(id);
            state.regions(id)
        });
        let regions = regions.ok_or_else(|| {
            Error::new(Kind::NotFound, "it was removed").within(format!("\"{name}\" {version}"))
        })?;
        self.pace.restore_begins();
        Ok(Restoring { owner: Owner::Own(id), name: name.to_owned(), version, regions })
    }

    /// Starts a restore of another rank's checkpoint, of which only files are known.
    pub fn begin_restore_of(
        &self,
        rank: u32,
        name: &str,
        version: i32,
        part_of: impl Fn(i32) -> Part,
    ) -> Result<Restoring> {
        let files = self.files.of_rank(rank);
        let regions = match files.look(name, version)? {
            Found::Routed => Arc::from([]),
            Found::Regions(opened) => {
                let regions = opened.header.regions().iter().map(|&region| Region {
                    id: region.id,
                    size: region.size,
                    part: part_of(region.id),
                    offset: 0,
                });
                regions.collect()
            }
        };
        self.pace.restore_begins();
        Ok(Restoring { owner: Owner::Other(files), name: name.to_owned(), version, regions })
    }

    /// Ends a restore.
    pub fn end_restore(&self, restoring: Restoring, success: bool) {
        if let Owner::Own(id) = restoring.owner {
            self.catalog.step(|state| state.end_restore(id, success));
        }
        self.pace.call_ends();
    }

    /// Restores regions to where the application has them now. Every place must name a region of
    /// the checkpoint and be large enough for it.
    pub fn recover(&self, restoring: &Restoring, places: &[Place]) -> Result<()> {
        let wanted: Vec<(&Region, &Place)> = places
            .iter()
            .filter_map(|place| {
                let at = restoring.regions.binary_search_by_key(&place.id, |r| r.id).ok()?;
                Some((&restoring.regions[at], place))
            })
            .collect();
        let id = match &restoring.owner {
            Owner::Own(id) => *id,
            Owner::Other(_) => {
                return self
                    .read_file(restoring, &wanted)
                    .map_err(about(&restoring.name, restoring.version));
            }
        };
        for part in PARTS {
            let of_part: Vec<_> =
                wanted.iter().filter(|(region, _)| region.part == part).copied().collect();
            if of_part.iter().any(|(region, _)| region.size > 0) {
                self.recover_part(restoring, id, part, &of_part)
                    .map_err(about(&restoring.name, restoring.version))?;
            }
        }
        Ok(())
    }

    fn recover_part(
        &self,
        restoring: &Restoring,
        id: Id,
        part: Part,
        wanted: &[(&Region, &Place)],
    ) -> Result<()> {
        let mut since = None;
        let acquired = self.catalog.wait(|state| match state.acquire(id, part) {
            Acquire::Wait => {
                since.get_or_insert_with(Instant::now);
                None
            }
            acquired => Some(acquired),
        });
        if let Some(since) = since {
            self.metrics.waited(Cause::Fetch, since);
        }
        match acquired? {
            Acquire::Memory(source) => {
                let result = self.copy_out(id, &source, wanted);
                self.catalog.step(|state| state.release(id, part, source.tier));
                result
            }
            Acquire::File => self.read_file(restoring, wanted),
            Acquire::Wait | Acquire::Lost => {
                Err(Error::new(Kind::Internal, "its bytes are nowhere"))
            }
        }
    }

    /// From a memory tier to the application. The catalog keeps the source.
    fn copy_out(&self, id: Id, source: &Source, wanted: &[(&Region, &Place)]) -> Result<()> {
        let runs: Vec<Run> = wanted
            .iter()
            .map(|(region, place)| Run {
                place: **place,
                tier: source.tier,
                extents: cut(&source.extents, region.offset, region.size).collect(),
            })
            .collect();
        self.copy(id, Way::Out, &runs)
    }

    /// From a file to the application, which waits.
    fn read_file(&self, restoring: &Restoring, wanted: &[(&Region, &Place)]) -> Result<()> {
        let since = Instant::now();
        let result = self.read_out(restoring, wanted);
        self.metrics.waited(Cause::File, since);
        result
    }

    fn read_out(&self, restoring: &Restoring, wanted: &[(&Region, &Place)]) -> Result<()> {
        let since = Instant::now();
        let opened = restoring.files(self).open_nearest(&restoring.name, restoring.version)?;
        if wanted.iter().any(|(_, place)| place.kind != PLAIN) {
            // Not before the application's own copies out of that memory.
            let side = self.device_side()?;
            let own = side.own.lock();
            let _current = side.device.enter()?;
            drop(side.after_application(self, &own)?);
            own.0.synchronize()?;
        }
        let mut bytes = 0;
        for (region, place) in wanted {
            let found = opened.header.region(region.id).filter(|found| found.size == region.size);
            let Some(found) = found else {
                return Err(Error::new(
                    Kind::Corrupt,
                    format!("{}: region {} is not what it was", opened.path.display(), region.id),
                ));
            };
            match place.kind {
                Pointer::Host { .. } => {
                    if region.size > 0 {
                        // SAFETY: the application gives `place.len` writable bytes, at least as
                        // many as the region has (checked by the client).
                        let into = unsafe {
                            std::slice::from_raw_parts_mut(
                                place.address as *mut u8,
                                region.size as usize,
                            )
                        };
                        opened.read_exact_at(into, found.offset)?;
                    }
                }
                Pointer::Device { .. } => {
                    self.read_to_device(&opened, found.offset, region, place)?
                }
            }
            bytes += region.size;
        }
        self.metrics.hop(Hop::FtoA).add(bytes, since.elapsed());
        Ok(())
    }

    fn read_to_device(
        &self,
        opened: &Opened,
        offset: u64,
        region: &Region,
        place: &Place,
    ) -> Result<()> {
        let side = self.device_side()?;
        let own = side.own.lock();
        let _current = side.device.enter()?;
        let mut bounce = vec![0u8; SLICE.min(region.size) as usize];
        let mut done = 0;
        while done < region.size {
            let len = (region.size - done).min(SLICE);
            let bytes = &mut bounce[..len as usize];
            opened.read_exact_at(bytes, offset + done)?;
            // SAFETY: the driver has vouched for the application's pointer, which has at least
            // `region.size` bytes; the buffer waits for the stream.
            unsafe { own.0.copy_from_host(place.address + done, bytes.as_ptr(), len) }
                .and_then(|()| own.0.synchronize())?;
            done += len;
        }
        Ok(())
    }
}
