//! A checkpoint that is written directly to its scratch file, on the application's thread: in `mode = sync`,
//! or because it is larger than the levels of memory.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::both::Second;
use super::open::Open;
use super::place::{sizes, Place};
use super::shared::{Capturing, Shared};
use ::files::{Output, Written};
use catalog::{FileLevel, Id, Region};
use device::{Pointer, PAGEABLE};
use errors::Result;
use format::header::{Header, Size};
use os::files;
use policy::slice::SLICE;
use trace::metrics::Stop;

/// The file of a checkpoint that is being written.
#[derive(Debug)]
pub(crate) struct Spool {
    output: Output,
    /// Its level: persistent if scratch cannot take it.
    level: FileLevel,
    complete: PathBuf,
    /// The header of the expected regions, which is at the beginning of the file.
    expected: Vec<u8>,
    /// The id, size and offset of each written region, in the order of writing.
    written: Vec<(i32, Size, u64)>,
    /// Whether other bytes follow that could not be removed.
    spoilt: bool,
    /// The persistent file, if it is written at the same time.
    pub(super) second: Second,
}

impl Spool {
    /// Creates the file of a checkpoint that is expected to have these regions, as id and size.
    pub(crate) fn create(
        shared: &Shared,
        level: FileLevel,
        name: &str,
        version: i32,
        expected: Vec<(i32, Size)>,
    ) -> Result<Spool> {
        shared.file_side.await_earlier_jobs();
        shared.succession.may_write()?;
        let complete = match level {
            FileLevel::Scratch => shared.file_side.files.places().scratch_path(name, version)?,
            FileLevel::Persistent => {
                shared.file_side.files.places().own_persistent_path(name, version)?
            }
        };
        let expected = Header::new(expected)?.encode();
        let output = new_output(shared, &complete)?;
        let (written, spoilt) = (Vec::new(), false);
        let second = Second::default();
        let mut spool = Spool { output, level, complete, expected, written, spoilt, second };
        match spool.output.put(&spool.expected) {
            Ok(()) => Ok(spool),
            Err(error) => {
                spool.discard();
                Err(error)
            }
        }
    }

    /// The level of the file.
    pub(crate) fn level(&self) -> FileLevel {
        self.level
    }

    /// Continues in persistent, with a copy of what is written already, because scratch has no room for the
    /// rest.
    ///
    /// # Errors
    /// The file is unchanged.
    pub(crate) fn go_past_scratch(
        &mut self,
        shared: &Shared,
        name: &str,
        version: i32,
    ) -> Result<()> {
        let complete = shared.file_side.files.places().own_persistent_path(name, version)?;
        let output = new_output(shared, &complete)?;
        let end = self.output.end();
        self.replace(output, |old, output| copy_range(old, output, 0, end))?;
        (self.level, self.complete) = (FileLevel::Persistent, complete);
        self.second.give_up();
        Ok(())
    }

    /// Completes the file, under its temporary name. After an error it is unchanged.
    pub(crate) fn complete(&mut self, shared: &Shared, open: &Open) -> Result<()> {
        self.put_in_order(shared)?;
        let (name, version, identity) = (&open.name, open.version, open.identity);
        let (files, output) = (&shared.file_side.files, &self.output);
        match self.level {
            FileLevel::Scratch => files.scratch().seal(output, name, version, identity),
            FileLevel::Persistent => {
                files.persistent().seal_straight(output, name, version, (identity, None))
            }
        }
    }

    /// The completed file, and the persistent one if it was written at the same time.
    pub(crate) fn finish(mut self, shared: &Shared, open: &Open) -> (Written, Option<Output>) {
        let second = self.second.complete(shared, open);
        (self.output.finish(), second)
    }

    /// Begins to write the persistent file of an open checkpoint at the same time, if there is to be one.
    pub(crate) fn begin_second(&mut self, shared: &Shared, open: &Open) {
        if self.level == FileLevel::Scratch {
            self.second = Second::begin(shared, open, &self.expected);
        }
    }

    /// Copies the regions to a new file, in the order of the format, if they are not the expected ones: a
    /// checkpoint was captured in several calls, or some of them failed.
    fn put_in_order(&mut self, shared: &Shared) -> Result<()> {
        let header = Header::new(self.written.iter().map(|&(id, size, _)| (id, size)).collect())?;
        let in_order = self.written.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let encoded = header.encode();
        if in_order && !self.spoilt && encoded == self.expected {
            return Ok(());
        }
        // Its header is not the right one.
        self.second.give_up();
        let output = new_output(shared, &self.complete)?;
        let written = std::mem::take(&mut self.written);
        let copied = self.replace(output, |old, output| {
            output.put(&header.encode())?;
            for region in header.places() {
                if let Some(&(_, size, from)) = written.iter().find(|w| w.0 == region.id) {
                    copy_range(old, output, from, size.stored)?;
                }
            }
            Ok(())
        });
        self.written = written;
        if copied.is_ok() {
            // The new file is in order.
            let mut at = encoded.len() as u64;
            self.written.sort_unstable_by_key(|written| written.0);
            for written in &mut self.written {
                written.2 = at;
                at += written.1.stored;
            }
            (self.expected, self.spoilt) = (encoded, false);
        }
        copied
    }

    /// Replaces the file with `output`, after `copy` has written its content.
    fn replace(
        &mut self,
        mut output: Output,
        copy: impl FnOnce(&Output, &mut Output) -> Result<()>,
    ) -> Result<()> {
        if let Err(error) = copy(&self.output, &mut output) {
            output.finish().discard();
            return Err(error);
        }
        std::mem::replace(&mut self.output, output).finish().discard();
        Ok(())
    }

    /// Removes the file.
    pub(crate) fn discard(self) {
        self.output.finish().discard();
    }
}

fn new_output(shared: &Shared, complete: &Path) -> Result<Output> {
    Output::create(
        shared.file_side.files.places().temporary(complete),
        shared.file_side.files.proofs().digest(),
    )
}

/// Appends bytes of one file to another.
fn copy_range(old: &Output, output: &mut Output, from: u64, len: u64) -> Result<()> {
    let mut buffer = vec![0; len.min(SLICE) as usize];
    let mut done = 0;
    while done < len {
        let bytes = &mut buffer[..(len - done).min(SLICE) as usize];
        files::read_exact_at(old.file(), bytes, from + done, old.temporary())?;
        output.put(bytes)?;
        done += bytes.len() as u64;
    }
    Ok(())
}

impl Capturing<'_> {
    /// Writes the bytes that the checkpoint captured into memory before it turned out too large.
    pub(super) fn spool_memory(&self, id: Id, regions: &[Region], spool: &mut Spool) -> Result<()> {
        let sources = self.shared.catalog.read(|state| state.checkpoints().building_sources(id));
        for region in regions {
            let at = spool.output.end();
            if let Some(source) = &sources[region.part as usize] {
                self.shared.read_memory(source, region, |bytes| spool.output.put(bytes))?;
            }
            spool.written.push((region.id, region.stored(), at));
        }
        Ok(())
    }

    /// Appends regions of the application, in the order given: all of them or, after an error, none.
    pub(super) fn spool_places(&self, spool: &mut Spool, places: &[Place]) -> Result<()> {
        let before = (spool.written.len(), spool.output.mark());
        let mut second = std::mem::take(&mut spool.second);
        let result = second.append_beside(places, || self.append_places(spool, places));
        if result.is_ok() {
            spool.second = second;
        } else {
            // Removes the written ones, as there may be no room for them.
            spool.written.truncate(before.0);
            spool.spoilt |= spool.output.take_back(before.1).is_err();
        }
        result
    }

    fn append_places(&self, spool: &mut Spool, places: &[Place]) -> Result<()> {
        let since = Instant::now();
        let mut own = if places.iter().any(|place| place.kind != PAGEABLE) {
            // Nothing is queued yet: the gate need not stay closed while the file is written.
            Some(self.shared.device_side.await_application()?.1)
        } else {
            None
        };
        let mut total = 0;
        let mut gathering = spool.output.gathering();
        for place in places {
            let at = gathering.end();
            for piece in self.shared.device_side.pieces(place).iter() {
                match (piece.kind, &mut own) {
                    (Pointer::Device { .. }, Some(own)) => {
                        let _current = self.shared.device_side.attached()?.device.enter()?;
                        let put = |bytes: &[u8]| gathering.put(bytes);
                        // Without the gate: at the end of the process nothing would open it for this thread.
                        // SAFETY: the driver has confirmed the application's pointer.
                        unsafe { own.lane.read(piece.address, piece.len, None, put) }?;
                    }
                    _ => gathering.put(bytes_of(piece))?,
                }
            }
            match spool.written.last_mut().filter(|(id, ..)| place.continues(*id)) {
                Some((_, size, _)) => size.stored += place.len,
                None => spool.written.push((place.id, place.stored(), at)),
            }
            total += place.len;
        }
        gathering.finish()?;
        self.shared
            .telemetry
            .metrics
            .hop((Stop::Application, Stop::Scratch))
            .add(total, since.elapsed());
        Ok(())
    }
}

/// Writes the file of a checkpoint with these regions, all in plain memory.
pub(super) fn put_regions(output: &mut Output, places: &[Place]) -> Result<()> {
    output.put(&Header::new(sizes(places))?.encode())?;
    let mut places = places.to_vec();
    places.sort_by_key(|place| place.id);
    append(output, &places)
}

/// Appends regions in plain memory, in the order given.
pub(super) fn append(output: &mut Output, places: &[Place]) -> Result<()> {
    let mut gathering = output.gathering();
    places.iter().try_for_each(|place| gathering.put(bytes_of(place)))?;
    gathering.finish()
}

/// The bytes of a region in host memory.
fn bytes_of(place: &Place) -> &[u8] {
    if place.len == 0 {
        return &[];
    }
    // SAFETY: the application protects `len` readable bytes there and does not change them during the call.
    unsafe { std::slice::from_raw_parts(place.address as *const u8, place.len as usize) }
}
