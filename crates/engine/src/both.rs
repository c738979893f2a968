//! `mode = sync`: the application waits for both files of a checkpoint, so they are written at the
//! same time, both from its memory.
//!
//! Nothing depends on the second file: if anything is wrong with it, it is given up. Persistent then
//! gets a copy of the scratch file, and what fails there is reported.

use std::thread::{self, Builder};

use super::open::Open;
use super::place::Place;
use super::shared::Shared;
use super::spool::append;
use catalog::FileLevel;
use device::PAGEABLE;
use errors::Result;
use files::Output;

/// From so many bytes on, two threads write a checkpoint's two files at the same time: a smaller one is written
/// before a second thread is awake.
pub(super) const BESIDE: u64 = 1 << 20;

/// The persistent file of a checkpoint whose scratch file is being written.
#[derive(Debug, Default)]
pub(crate) struct Second(Option<Output>);

impl Second {
    /// Begins the second file of an open checkpoint with the header of its scratch file. No file is
    /// begun unless it is sure by now that persistent is to have one.
    pub(crate) fn begin(shared: &Shared, open: &Open, header: &[u8]) -> Second {
        let config = &shared.config;
        let is_sure = shared.config.writes_directly()
            && config.persistent_interval == Some(0)
            && open.may_persist()
            && open.regions.is_empty()
            && !config.aggregated
            && shared.catalog.read(|state| state.writes_beside());
        if !is_sure {
            return Second(None);
        }
        shared.file_side.make_room(FileLevel::Persistent, &open.name);
        let mut second = Second(
            shared
                .file_side
                .files
                .persistent()
                .create_straight(&open.name, open.version, None)
                .ok(),
        );
        second.keep_if(|output| output.put(header));
        second
    }

    /// Appends regions to the second file while `write` appends them to the scratch file: large ones on
    /// a thread of their own.
    pub(crate) fn append_beside<R>(&mut self, places: &[Place], write: impl FnOnce() -> R) -> R {
        if places.iter().any(|place| place.kind != PAGEABLE) {
            // One copy from the device is enough.
            self.give_up();
        }
        let bytes: u64 = places.iter().map(|place| place.len).sum();
        if bytes < BESIDE || self.0.is_none() {
            let written = write();
            self.keep_if(|output| append(output, places));
            return written;
        }
        let (written, ended) = thread::scope(|scope| {
            let builder = Builder::new().name("veloc-persist".to_owned());
            let work = || self.keep_if(|output| append(output, places));
            let started = os::threads::unsignalled(|| builder.spawn_scoped(scope, work));
            (write(), started.map(|thread| thread.join()))
        });
        if !matches!(ended, Ok(Ok(()))) {
            self.give_up();
        }
        written
    }

    /// Makes a step, and gives the second file up if that fails.
    fn keep_if(&mut self, step: impl FnOnce(&mut Output) -> Result<()>) {
        let kept = self.0.as_mut().is_none_or(|output| step(output).is_ok());
        if !kept {
            self.give_up();
        }
    }

    /// Removes the second file.
    pub(crate) fn give_up(&mut self) {
        if let Some(output) = self.0.take() {
            output.finish().discard();
        }
    }

    /// Completes the second file under its temporary name, if there is one.
    pub(crate) fn complete(&mut self, shared: &Shared, open: &Open) -> Option<Output> {
        let by = (open.identity, None);
        self.keep_if(|output| {
            shared.file_side.files.persistent().seal_straight(output, &open.name, open.version, by)
        });
        self.0.take()
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        self.give_up();
    }
}
