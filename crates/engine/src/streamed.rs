//! Taking a checkpoint that bypasses the levels of memory: the application's thread writes it to its file,
//! which gets its name at the commit.

use std::time::Instant;

use super::open::Open;
use super::place::{sizes, Place};
use super::shared::Capturing;
use super::spool::Spool;
use catalog::{FileLevel, Part, Region};
use errors::Result;
use files::{Output, Written};
use os::files::SizeLimitOutlived;
use trace::metrics::Cause;

impl Capturing<'_> {
    pub(super) fn capture_to_file(&self, open: &mut Open, places: &[Place]) -> Result<()> {
        let _waiting = self.shared.telemetry.metrics.wait(Cause::File);
        let _outlived = SizeLimitOutlived::begin();
        self.spool(open, places)
    }

    /// Writes regions to the file of an open checkpoint, after the regions that it has in memory.
    fn spool(&self, open: &mut Open, places: &[Place]) -> Result<()> {
        let mut spool = match open.spool.take() {
            Some(spool) => spool,
            None => {
                let captured = open.regions.iter().map(|region| (region.id, region.stored()));
                let now = sizes(places);
                let expected: Vec<_> = captured.chain(now).collect();
                self.finish_deferred(open)?;
                let start = |level| {
                    let (name, expected) = (&open.name, expected.clone());
                    let spool = Spool::create(self.shared, level, name, open.version, expected)?;
                    let mut spool = Box::new(spool);
                    match self.spool_memory(open.id, &open.regions, &mut spool) {
                        Ok(()) => {
                            spool.begin_second(self.shared, open);
                            Ok(spool)
                        }
                        Err(error) => {
                            spool.discard();
                            Err(error)
                        }
                    }
                };
                self.shared.file_side.make_room(FileLevel::Scratch, &open.name);
                match start(FileLevel::Scratch) {
                    Err(error) => {
                        let error = self.shared.file_side.with_limit(FileLevel::Scratch, error);
                        self.shared.file_side.may_go_past_scratch(&error)?;
                        self.shared.file_side.make_room(FileLevel::Persistent, &open.name);
                        self.shared
                            .file_side
                            .past_scratch(error, || start(FileLevel::Persistent))?
                    }
                    Ok(started) => started,
                }
            }
        };
        let mut places = places.to_vec();
        places.sort_by_key(|place| place.id);
        let level = spool.level();
        let mut result = self
            .spool_places(&mut spool, &places)
            .map_err(|error| self.shared.file_side.with_limit(level, error));
        if let (Err(error), FileLevel::Scratch) = (&result, level) {
            let error = error.clone();
            let may = self.shared.file_side.may_go_past_scratch(&error);
            result = may.and_then(|()| {
                self.shared.file_side.make_room(FileLevel::Persistent, &open.name);
                self.shared.file_side.past_scratch(error, || {
                    spool.go_past_scratch(self.shared, &open.name, open.version)?;
                    self.spool_places(&mut spool, &places)
                })
            });
        }
        open.spool = Some(spool);
        result?;
        // Ascending, as the sizes are.
        let part = |id| {
            let at = places.partition_point(|place| place.id < id);
            places.get(at).map_or(Part::Host, |place| place.part)
        };
        let regions = sizes(&places).into_iter();
        open.regions.extend(regions.map(|(id, size)| Region {
            id,
            size: size.stored,
            part: part(id),
            offset: 0,
            decoded: size.decoded,
        }));
        Ok(())
    }

    /// Completes the file of a checkpoint, in scratch or persistent; and that in persistent as well, if it was
    /// written at the same time.
    fn complete_spool(
        &self,
        mut spool: Box<Spool>,
        open: &Open,
    ) -> Result<(FileLevel, Written, Option<Output>)> {
        let mut completed = spool.complete(self.shared, open);
        if let (Err(error), FileLevel::Scratch) = (&completed, spool.level()) {
            let error = error.clone();
            let may = self.shared.file_side.may_go_past_scratch(&error);
            completed = may.and_then(|()| {
                self.shared.file_side.make_room(FileLevel::Persistent, &open.name);
                self.shared.file_side.past_scratch(error, || {
                    spool.go_past_scratch(self.shared, &open.name, open.version)?;
                    spool.complete(self.shared, open)
                })
            });
        }
        match completed {
            Ok(()) => {
                let level = spool.level();
                let (written, second) = spool.finish(self.shared, open);
                Ok((level, written, second))
            }
            Err(error) => {
                spool.discard();
                Err(error)
            }
        }
    }

    /// Commits a checkpoint that has a file: the file gets its name, and is copied to persistent if `persist`
    /// is set.
    pub(super) fn commit_spool(
        &self,
        spool: Box<Spool>,
        mut open: Open,
        persist: bool,
    ) -> Result<()> {
        let since = Instant::now();
        let _outlived = SizeLimitOutlived::begin();
        let complete = self.complete_spool(spool, &open);
        let naming = self.shared.file_side.naming.lock();
        let published = complete.and_then(|(level, file, second)| {
            let (name, version) = (&open.name, open.version);
            let published = match level {
                FileLevel::Scratch => {
                    self.shared.file_side.files.scratch().publish(&naming, &file, name, version)
                }
                FileLevel::Persistent => {
                    self.shared.file_side.publish_straight(&naming, &file, name, version, None)
                }
            };
            match published {
                Ok(()) => Ok((level, second)),
                Err(error) => {
                    file.discard();
                    if let Some(second) = second {
                        second.finish().discard();
                    }
                    Err(error)
                }
            }
        });
        let (level, second) = published?;
        let regions = std::mem::take(&mut open.regions);
        if level == FileLevel::Persistent {
            self.shared
                .catalog
                .step(|state| state.captures().commit_persistent(open.id, regions, None, persist));
            open.under_way = false;
            self.shared.file_side.arrived(&naming, level, &open.name, open.version, open.id);
            self.shared.telemetry.metrics.waited(Cause::File, since);
            return Ok(());
        }
        let own = self.commit_file(open.id, regions, None, persist);
        open.under_way = false;
        self.shared.file_side.arrived(
            &naming,
            FileLevel::Scratch,
            &open.name,
            open.version,
            open.id,
        );
        drop(naming);
        let result = self.shared.make_persistent(open.id, own, second);
        self.shared.telemetry.metrics.waited(Cause::File, since);
        result
    }
}
