//! Reading a checkpoint piece by piece into the library's memory, to examine bytes that are not restored.

use std::time::Instant;

use super::place::Place;
use super::recover::Reading;
use super::restore::{Owner, Restoring};
use super::run::{Run, Way};
use super::shared::Restores;
use catalog::space::cut;
use catalog::state::Acquire;
use catalog::{Level, Region};
use errors::{Error, ErrorKind, Result};
use files::Wanted;
use trace::metrics::{Cause, Stop};

impl Restores<'_> {
    /// Fills `bytes` with those of a region from `start` on, from the nearest copy.
    ///
    /// # Errors
    /// There is no good copy, or the driver's error. Then `bytes` is empty if a copy may still be running.
    pub fn read_piece(
        &self,
        restoring: &Restoring,
        region: &Region,
        start: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let place = Place::plain(region.id, bytes.as_mut_ptr(), bytes.len());
        let acquired = match &restoring.owner {
            Owner::Own(id) => self.acquire(*id, region.part).map(|acquired| (*id, acquired))?,
            Owner::Stored(_) => return self.read_piece_of_file(restoring, region, start, &place),
        };
        match acquired {
            (id, Acquire::Memory(source)) => {
                let (part, level) = (region.part, source.level);
                let _reading = Reading { shared: self.shared, id, part, level };
                let start = region.offset + start;
                let copied = if level > Level::HOST {
                    self.shared.copy_by_store(&source, &[(start, place)])
                } else {
                    let extents = cut(&source.extents, start, place.len).collect();
                    self.shared.copy(id, Way::Out, &[Run { place, level, extents }])
                };
                if copied.is_err() {
                    std::mem::forget(std::mem::take(bytes));
                }
                copied
            }
            (_, Acquire::File) => self.read_piece_of_file(restoring, region, start, &place),
            (_, Acquire::Wait | Acquire::Lost) => {
                Err(Error::new(ErrorKind::Internal, "no copy of it is left"))
            }
        }
    }

    /// Fills `bytes` with those of a region from `start` on, from a file.
    fn read_piece_of_file(
        &self,
        restoring: &Restoring,
        region: &Region,
        start: u64,
        place: &Place,
    ) -> Result<()> {
        let since = Instant::now();
        let piece = Region { size: place.len, ..*region };
        let read = restoring.files(&self.shared.file_side.files).copies().read_nearest(
            &restoring.name,
            restoring.version,
            |opened| {
                let offset = opened.offset_of(region)? + start;
                Ok(vec![Wanted::new(offset, self.shared.target(&piece, place, false))])
            },
        );
        self.shared.telemetry.metrics.waited(Cause::File, since);
        read?;
        self.shared
            .telemetry
            .metrics
            .hop((Stop::Scratch, Stop::Application))
            .add(place.len, since.elapsed());
        Ok(())
    }
}
