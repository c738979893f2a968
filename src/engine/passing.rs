//! What the log of messages gives here because it has no memory for it, and takes back. It takes the
//! way of a checkpoint, through the host buffer to a file in scratch, but is none: it stands under a
//! name that no application can have ([`names::LOG`]), in files that are removed as temporary ones are,
//! has neither checksum, parities nor a copy in persistent, is nothing to an heir, and no limit of
//! versions applies to it. It never has more than half of the host buffer while files do not take it, so
//! that checkpoints find room whatever becomes of it. Whoever gives it waits for room, so that is a
//! thread of the giver's own.

use std::path::PathBuf;
use std::sync::Arc;

use super::capture::Open;
use super::place::Place;
use super::restore::{Owner, Restoring};
use super::shared::Shared;
use crate::background::Background;
use crate::catalog::state::State;
use crate::error::{Error, Kind, Result};
use crate::format::names;

/// The id of the one region.
pub const REGION: i32 = 0;

impl Shared {
    /// Takes a copy of these bytes.
    ///
    /// # Errors
    /// There is no room, in its half of memory or in scratch, and none can come.
    pub fn take_passing(self: &Arc<Shared>, number: i32, bytes: &[u8]) -> Result<()> {
        let _background = Background::begin();
        let mut open = Open::begin(self, names::LOG, number);
        open.persist = Some(false);
        let place = Place::plain(REGION, bytes.as_ptr(), bytes.len());
        let len = place.len;
        let captured = match self.catalog.look(|state| state.is_crowded_by_passing(len)) {
            false => self.capture_places(&mut open, &[place]),
            true if self.files.has_scratch() => {
                // What could not be written may be written now.
                self.catalog.step(State::retry);
                self.capture_to_file(&mut open, &[place])
            }
            true => Err(Error::new(
                Kind::NoRoom,
                "it may have half of the host buffer (host_cache_size), and there is no scratch",
            )),
        };
        let taken = captured.and_then(|()| self.complete(open));
        taken.map_err(|error| error.within(about_it(number)))
    }

    /// Gives bytes back that were taken; they stay here all the same.
    ///
    /// # Errors
    /// They are not here, or cannot be read.
    pub fn give_passing(&self, number: i32, into: &mut [u8]) -> Result<()> {
        let _background = Background::begin();
        let missing = || Error::new(Kind::NotFound, "it is not there").within(about_it(number));
        let found = self.catalog.step(|state| {
            let id = state.find(names::LOG, number)?;
            state.begin_restore(id);
            Some((id, state.regions(id).unwrap_or_default()))
        });
        let (id, regions) = found.ok_or_else(missing)?;
        let size = regions.first().map(|region| region.size);
        let (name, owner) = (names::LOG.to_owned(), Owner::Own(id));
        let restoring = Restoring { owner, name, version: number, regions, mark: None };
        let given = if size == Some(into.len() as u64) {
            let place = Place::plain(REGION, into.as_mut_ptr(), into.len());
            self.recover(&restoring, &[place]).map_err(|error| error.within(about_it(number)))
        } else {
            let what = format!("it has {size:?} bytes, and {} are wanted", into.len());
            Err(Error::invalid(what).within(about_it(number)))
        };
        self.catalog.step(|state| state.end_restore(id, given.is_ok()));
        given
    }

    /// Forgets bytes that were taken.
    ///
    /// # Errors
    /// Their file cannot be removed.
    pub fn drop_passing(&self, number: i32) -> Result<()> {
        let _background = Background::begin();
        self.catalog.step(|state| state.withdraw(names::LOG, number));
        if !self.files.has_scratch() {
            return Ok(());
        }
        // Who gives a file its name looks under this lock whether it is wanted.
        let _naming = self.naming.lock();
        self.files.remove_passing(number)
    }

    /// The job ends, and somebody may still need bytes that were taken: their file, whose path this
    /// is, is the job's no more. What is not written yet is waited for.
    ///
    /// # Errors
    /// They are in no file, and cannot be: they stay here.
    pub fn leave_passing(&self, number: i32) -> Result<PathBuf> {
        let failed = |kind, why| Error::new(kind, why).within(about_it(number));
        if !self.files.has_scratch() {
            return Err(failed(Kind::NoRoom, "there is no scratch"));
        }
        if !self.catalog.step(|state| state.want_passing(number)) {
            return Err(failed(Kind::NotFound, "it is not there"));
        }
        let written = self.catalog.wait(|state| state.is_passing_written(number))?;
        if !written {
            return Err(failed(Kind::System, "it cannot be written to scratch"));
        }
        let _naming = self.naming.lock();
        let path = self.files.own_path(names::LOG, number)?;
        let path = std::path::absolute(&path)
            .map_err(|error| Error::system(path.display().to_string(), &error))?;
        self.catalog.step(|state| state.withdraw(names::LOG, number));
        Ok(path)
    }

    /// Whether there is a place that could take anything.
    pub fn takes_passing(&self) -> bool {
        let room = |state: &State| state.host_room().0;
        !self.stopping() && (self.files.has_scratch() || self.catalog.look(room) > 0)
    }

    /// Waits until what was taken is in files, as far as that can be.
    ///
    /// # Errors
    /// A worker has ended for good.
    pub fn drain_passing(&self) -> Result<()> {
        self.catalog.wait(|state| state.passing_drained().then_some(()))
    }

    /// The file that has the bytes of a number when they are in scratch.
    #[cfg(test)]
    fn passing_file(&self, number: i32) -> std::path::PathBuf {
        self.files.own_path(names::LOG, number).unwrap()
    }
}

fn about_it(number: i32) -> String {
    format!("chunk {number} of the log of messages")
}

#[cfg(test)]
mod tests;
