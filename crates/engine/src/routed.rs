//! Checkpoints that are the application's own files: where it writes them, and how they end.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::open::Open;
use super::shared::Capturing;
use catalog::state::{is_of_the_file_system, State};
use catalog::FileLevel;
use errors::{Error, Result};
use os::files::SizeLimitOutlived;
use trace::metrics::Cause;

/// The advice if scratch has no room for a file.
const ROUTED_ADVICE: &str = "the file can be written directly to its place only if every version is copied to \
                             persistent: make room in scratch, or set persistent and persistent_interval = 0";

impl Capturing<'_> {
    /// Calls `create` for an application's file of about `bytes` in scratch, or next to the file that it
    /// replaces if scratch cannot take it.
    ///
    /// # Errors
    /// Neither can take it, or only the one that must not: the reason, and what can be done.
    pub fn place_routed<T>(
        &self,
        open: &mut Open,
        bytes: u64,
        create: impl Fn(FileLevel) -> Result<T>,
    ) -> Result<T> {
        let since = Instant::now();
        let _outlived = SizeLimitOutlived::begin();
        self.shared.file_side.make_room(FileLevel::Scratch, &open.name);
        let enough = self.shared.file_side.files.places().expect_room(bytes);
        let guessed = enough.is_err();
        let in_scratch = enough.and_then(|()| create(FileLevel::Scratch));
        let mut beside = |refused: Error| {
            self.may_route_past_scratch(open, &refused)?;
            self.shared.file_side.past_scratch(refused, || create(FileLevel::Persistent))
        };
        let placed = in_scratch.or_else(|refused| match beside(refused) {
            // The file may be smaller than guessed, and nothing else can be done.
            Err(_) if guessed => create(FileLevel::Scratch).or_else(beside),
            placed => placed,
        });
        self.shared.telemetry.metrics.waited(Cause::File, since);
        placed
    }

    /// Whether an application's file that scratch has `refused` may be written next to the one that it
    /// replaces. A file that is not to be copied there must not replace that one.
    ///
    /// # Errors
    /// The file may not be written there: the error of scratch, and what can be done.
    fn may_route_past_scratch(&self, open: &mut Open, refused: &Error) -> Result<()> {
        if !is_of_the_file_system(refused) {
            return Err(refused.clone());
        }
        let (persists, id) = (open.is_to_persist(), open.id);
        let awaits = self.shared.catalog.read(|state| state.checkpoints().is_undecided(id));
        let wanted = persists || awaits && !self.shared.file_side.persistence_depends_on_time();
        if self.shared.file_side.files.places().has_persistent() && wanted {
            return Ok(());
        }
        Err(refused.clone().followed_by(ROUTED_ADVICE))
    }

    /// Ends a checkpoint that is an application's file, complete under its temporary name. First waits for
    /// the writes of an ended job of this rank: these did not matter while the application wrote the file.
    pub fn commit_routed(
        &self,
        mut open: Open,
        level: FileLevel,
        temporary: &Path,
        original: Arc<str>,
    ) -> Result<()> {
        let _outlived = SizeLimitOutlived::begin();
        let since = Instant::now();
        // These writes may give files the same names, here or at the application's path. Parts of
        // aggregated files are handled by the workers.
        self.shared.succession.await_predecessor();
        self.shared.telemetry.metrics.waited(Cause::File, since);
        let naming = self.shared.file_side.naming.lock();
        let (id, name, version) = (open.id, open.name.clone(), open.version);
        let by = (open.identity, &*original);
        let named = self.shared.succession.may_write().and_then(|()| match level {
            FileLevel::Scratch => self
                .shared
                .file_side
                .files
                .scratch()
                .publish_routed(&naming, temporary, &name, version, by),
            FileLevel::Persistent => self
                .shared
                .file_side
                .files
                .persistent()
                .publish_routed_straight(&naming, temporary, &name, version, by),
        });
        if let Err(error) = named {
            self.abort(open);
            return Err(error.within(format!("the routed file of {original}")));
        }
        let persist = open.is_to_persist();
        let own = match level {
            FileLevel::Scratch => self.commit_file(id, Vec::new(), Some(original), persist),
            FileLevel::Persistent => {
                // The file in persistent is newer.
                self.shared.file_side.left_scratch(&naming, &name, version);
                let routed = Some(original);
                let commit = |state: &mut State| {
                    state.captures().commit_persistent(id, Vec::new(), routed, persist);
                };
                self.shared.catalog.step(commit);
                None
            }
        };
        open.under_way = false;
        self.shared.file_side.arrived(&naming, level, &name, version, id);
        drop(naming);
        self.shared.host_side.pace.call_ends();
        self.shared.make_persistent(id, own, None)
    }
}
