//! Beginning and ending a restore: which checkpoint it is of, and what proves its file.

use std::borrow::Cow;
use std::sync::Arc;

use super::shared::Restores;
use catalog::state::{Content, State};
use catalog::{Id, Part, Region};
use errors::{Error, ErrorKind, Result};
use files::{Files, Found};
use format::delta;
use format::header::Decoded;
use format::identity::Identity;
use format::subarray;
use trace::metrics::Cause;

/// The owner of a restored checkpoint.
#[derive(Debug)]
pub(super) enum Owner {
    /// A checkpoint of this job.
    Own(Id),
    /// Another rank's, or this rank's from an earlier job: known only by its files, in these directories.
    Stored(Files),
}

/// An open restore.
#[derive(Debug)]
pub struct Restoring {
    pub(super) owner: Owner,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// The run that made it.
    pub identity: Identity,
    /// Its regions, ascending by id.
    pub regions: Arc<[Region]>,
    /// The region that is its mark ([`format::mark`]), if it has one and is this job's own.
    pub mark: Option<i32>,
    /// Memory has only what has changed since an earlier version: files have all of it.
    pub(super) is_delta: bool,
    /// Its file is good if all of it can be restored.
    is_unproven: bool,
}

/// The regions of a checkpoint that is known by its file's header.
fn stored_regions(header: Option<&Decoded>, part_of: impl Fn(i32) -> Part) -> Arc<[Region]> {
    let regions = header.map_or(&[][..], Decoded::regions).iter();
    regions
        .map(|region| Region {
            id: region.id,
            size: region.size,
            part: part_of(region.id),
            offset: 0,
            decoded: region.decoded,
        })
        .collect()
}

impl Restoring {
    /// The rank that it is of, where this is `own`.
    fn rank(&self, own: &Files) -> u32 {
        match &self.owner {
            Owner::Own(_) => own.places().rank(),
            Owner::Stored(files) => files.places().rank(),
        }
    }

    /// The directories of its files.
    pub(super) fn files<'a>(&'a self, own: &'a Files) -> Cow<'a, Files> {
        match &self.owner {
            Owner::Own(_) if self.identity.is_known() => Cow::Owned(own.of_run(self.identity)),
            Owner::Own(_) => Cow::Borrowed(own),
            Owner::Stored(files) => Cow::Borrowed(files),
        }
    }
}

impl<'a> Restores<'a> {
    /// The rank that a restored checkpoint is of.
    pub fn rank_of(&self, restoring: &Restoring) -> u32 {
        restoring.rank(&self.shared.file_side.files)
    }

    /// Whether this job has taken it.
    pub fn is_of_this_job(&self, restoring: &Restoring) -> bool {
        match &restoring.owner {
            Owner::Own(id) => self.shared.catalog.read(|state| state.checkpoints().is_taken(*id)),
            Owner::Stored(files) => {
                files.places().rank() == self.shared.file_side.files.places().rank()
                    && self.shared.checkpoints().has_taken(&restoring.name, restoring.version)
            }
        }
    }

    /// The directories of its files.
    pub fn files_of<'b>(self, restoring: &'b Restoring) -> Cow<'b, Files>
    where
        'a: 'b,
    {
        restoring.files(&self.shared.file_side.files)
    }

    /// The checkpoint of this name and version, known already or found on disk. `part_of` tells which regions
    /// the application has in device memory.
    pub fn find(&self, name: &str, version: i32, part_of: impl Fn(i32) -> Part) -> Result<Id> {
        self.find_of_run(Identity::UNKNOWN, name, version, part_of)
    }

    /// The same, where only a `wanted` run may have made what is found on disk.
    fn find_of_run(
        &self,
        wanted: Identity,
        name: &str,
        version: i32,
        part_of: impl Fn(i32) -> Part,
    ) -> Result<Id> {
        if let Some(id) = self.shared.catalog.read(|state| state.checkpoints().find(name, version))
        {
            return Ok(id);
        }
        self.shared.succession.warn_of_nothing_inherited();
        self.shared.file_side.await_earlier_jobs();
        let files = self.shared.file_side.files.of_run(wanted);
        let found = files.copies().look(name, version).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::new(ErrorKind::NotFound, self.no_such(name, version)),
            _ => error,
        })?;
        let identity = self.shared.file_side.files.runs().identity_found(&found);
        let there = [
            self.shared
                .file_side
                .files
                .places()
                .scratch_path(name, version)
                .is_ok_and(|path| path.exists()),
            self.shared.file_side.files.listing().is_persistent(name, version),
        ];
        let content = match &found {
            Found::Regions(opened) => {
                Content::Regions { header: opened.header(), mark: opened.mark()? }
            }
            Found::Routed(_) => Content::Routed,
        };
        let made = (version, identity);
        Ok(self
            .shared
            .catalog
            .step(|state| state.captures().adopt(name, made, content, part_of, there)))
    }

    /// Whether a checkpoint can be restored: it is in memory, or in a valid file.
    ///
    /// # Errors
    /// The reason why it cannot be restored.
    pub fn can_restore(&self, name: &str, version: i32) -> Result<()> {
        if let Some(id) = self.shared.catalog.read(|state| state.checkpoints().find(name, version))
        {
            if self.is_delta(id) {
                self.await_file(id)?;
            } else if !self.shared.catalog.read(|state| state.checkpoints().is_read_from_file(id)) {
                return Ok(());
            }
        }
        self.shared.file_side.await_earlier_jobs();
        self.shared.file_side.files.copies().look(name, version).map(drop)
    }

    /// Checks the file that a restore will read, if it does: it may have been removed or changed since it was
    /// written or found.
    ///
    /// # Errors
    /// The file cannot be restored.
    pub fn look_ahead(&self, restoring: &Restoring) -> Result<()> {
        let Owner::Own(id) = restoring.owner else { return Ok(()) };
        if !restoring.is_delta
            && !self.shared.catalog.read(|state| state.checkpoints().is_read_from_file(id))
        {
            return Ok(());
        }
        match restoring
            .files(&self.shared.file_side.files)
            .copies()
            .look(&restoring.name, restoring.version)?
        {
            Found::Regions(opened) => {
                restoring.regions.iter().try_for_each(|region| opened.offset_of(region).map(drop))
            }
            Found::Routed(_) => Ok(()),
        }
    }

    fn no_such(&self, name: &str, version: i32) -> String {
        let discarded = self.shared.catalog.read(|state| state.counts().discards);
        let mut text = format!(
            "there is no checkpoint \"{name}\" version {version} of rank {} in memory{}",
            self.shared.file_side.files.places().rank(),
            self.shared.file_side.files.places().looked_in()
        );
        if discarded > 0 {
            text += &format!(
                " (this ephemeral job has discarded {discarded} restored checkpoints to make room)"
            );
        }
        if let Some(why) = self.shared.succession.nothing_inherited() {
            text += &format!("; {why}");
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
        self.begin_restore_of_run(Identity::UNKNOWN, name, version, part_of)
    }

    /// The same, of a version that a `wanted` run has made: if memory has another one, from a file.
    pub fn begin_restore_of_run(
        &self,
        wanted: Identity,
        name: &str,
        version: i32,
        part_of: impl Fn(i32) -> Part,
    ) -> Result<Restoring> {
        let begin = |state: &mut State, id: Id| {
            state.up().begin_restore(id);
            let known = state.checkpoints();
            (id, known.identity(id), known.mark_of(id), known.regions(id))
        };
        let known = self.shared.catalog.step(|state| {
            let id = state.checkpoints().find(name, version)?;
            let may_be = state.checkpoints().identity(id).may_be(wanted);
            Some(may_be.then(|| begin(state, id)))
        });
        let (id, identity, mark, regions) = match known {
            Some(Some(begun)) => begun,
            Some(None) => {
                let rank = self.shared.file_side.files.places().rank();
                return self.begin_restore_of((rank, wanted), name, version, part_of);
            }
            None => {
                let id = self.find_of_run(wanted, name, version, &part_of)?;
                self.shared.catalog.step(|state| begin(state, id))
            }
        };
        let regions = match regions.filter(|_| !self.shared.config.incremental) {
            Some(regions) => Ok(regions),
            None => self.regions_to_restore(id, name, version, part_of),
        };
        let regions = regions.inspect_err(|_| {
            self.shared.catalog.step(|state| state.up().end_restore(id, false));
        })?;
        self.shared.host_side.pace.restore_begins();
        let (owner, is_delta, name) = (Owner::Own(id), self.is_delta(id), name.to_owned());
        let is_unproven = false;
        Ok(Restoring { owner, name, version, identity, regions, mark, is_delta, is_unproven })
    }

    /// The regions of a checkpoint, ascending by id. A delta's are those of its file, for which this waits.
    pub fn regions_to_restore(
        &self,
        id: Id,
        name: &str,
        version: i32,
        part_of: impl Fn(i32) -> Part,
    ) -> Result<Arc<[Region]>> {
        if self.is_delta(id) {
            self.await_file(id)?;
            return match self.shared.file_side.files.copies().look(name, version)? {
                Found::Regions(opened) => Ok(stored_regions(Some(opened.header()), part_of)),
                Found::Routed(_) => Ok(Arc::from([])),
            };
        }
        let regions =
            self.shared.catalog.read(|state| state.checkpoints().regions(id)).ok_or_else(|| {
                Error::new(ErrorKind::NotFound, "it was removed")
                    .within(format!("\"{name}\" {version}"))
            })?;
        // The table of changes is not the application's.
        let has_table = self.shared.config.incremental
            && self.shared.catalog.read(|state| state.checkpoints().has_table(id));
        Ok(if has_table { regions[1..].into() } else { regions })
    }

    /// Whether memory has only what has changed since an earlier version.
    fn is_delta(&self, id: Id) -> bool {
        let is_one = |state: &State| {
            let regions =
                state.checkpoints().regions(id).filter(|_| state.checkpoints().has_table(id));
            let first = regions.as_ref().and_then(|regions| regions.first());
            first.is_some_and(|table| table.size > delta::LEN_WITHOUT_BASE)
        };
        self.shared.config.incremental && self.shared.catalog.read(is_one)
    }

    /// Waits until a checkpoint is in a file.
    ///
    /// # Errors
    /// It could not be written.
    fn await_file(&self, id: Id) -> Result<()> {
        let waiting = self.shared.telemetry.metrics.wait(Cause::File);
        let is_there = self.shared.catalog.wait(|state| state.checkpoints().file_settled(id))?;
        drop(waiting);
        let never = "it has only what has changed since an earlier version, and could not be written to a file";
        is_there.then_some(()).ok_or_else(|| Error::new(ErrorKind::NotFound, never))
    }

    /// Starts a restore of all of this rank's checkpoint of an earlier job without reading its file first:
    /// the bytes are compared with their checksum when they are restored, and its success proves them. `None` if
    /// there is no checksum, or the regions cannot be known without reading the file.
    pub fn begin_restore_unproven(
        &self,
        name: &str,
        version: i32,
        part_of: impl Fn(i32) -> Part,
    ) -> Option<Restoring> {
        let known =
            || self.shared.catalog.read(|state| state.checkpoints().find(name, version)).is_some();
        if self.shared.file_side.files.proofs().digest().is_none() || known() {
            return None;
        }
        self.shared.file_side.await_earlier_jobs();
        let header = self.shared.file_side.files.copies().undisputed_header(name, version)?;
        // It may be another part of an array than the application wants.
        if header.region(subarray::REGION).is_some() {
            return None;
        }
        let files = self.shared.file_side.files.clone();
        let stored = self.begin_restore_stored(files, name, version, Some(&header), part_of);
        Some(Restoring { is_unproven: true, ..stored })
    }

    /// Starts a restore of another rank's checkpoint, which is known only by its files, made by a `wanted` run.
    pub fn begin_restore_of(
        &self,
        (rank, wanted): (u32, Identity),
        name: &str,
        version: i32,
        part_of: impl Fn(i32) -> Part,
    ) -> Result<Restoring> {
        let files = self.shared.file_side.files.of_rank(rank).of_run(wanted);
        let found = files.copies().look(name, version)?;
        let header = match &found {
            Found::Routed(_) => None,
            Found::Regions(opened) => Some(opened.header()),
        };
        let files = files.of_run(files.runs().identity_found(&found));
        Ok(self.begin_restore_stored(files, name, version, header, part_of))
    }

    /// Starts a restore of a checkpoint that is known only by these files, of which one has this header.
    pub fn begin_restore_stored(
        &self,
        files: Files,
        name: &str,
        version: i32,
        header: Option<&Decoded>,
        part_of: impl Fn(i32) -> Part,
    ) -> Restoring {
        let regions = stored_regions(header, part_of);
        self.shared.host_side.pace.restore_begins();
        let (identity, name) = (files.runs().wanted(), name.to_owned());
        let (owner, mark, is_delta) = (Owner::Stored(files), None, false);
        Restoring { owner, name, version, identity, regions, mark, is_delta, is_unproven: false }
    }

    /// Ends a restore.
    pub fn end_restore(&self, restoring: Restoring, success: bool) {
        match restoring.owner {
            Owner::Own(id) => {
                self.shared.catalog.step(|state| state.up().end_restore(id, success));
            }
            Owner::Stored(_) if success && restoring.is_unproven => self.has_proven(&restoring),
            Owner::Stored(_) => {}
        }
        self.shared.host_side.pace.call_ends();
    }

    /// From here on the job knows a checkpoint that was unproven, as one that was restored.
    fn has_proven(&self, restoring: &Restoring) {
        let part_of = |id| {
            let found = restoring.regions.binary_search_by_key(&id, |region| region.id);
            found.map_or(Part::Host, |at| restoring.regions[at].part)
        };
        // If its file has gone meanwhile, the job does without.
        if let Ok(id) = self.find(&restoring.name, restoring.version, part_of) {
            self.shared.catalog.step(|state| {
                state.up().begin_restore(id);
                state.up().end_restore(id, true);
            });
        }
    }

    /// Ends a restore of this job's own checkpoint. `next` is the position in the order of hints at which it
    /// will be read again.
    pub fn end_restore_expecting(&self, restoring: Restoring, success: bool, next: Option<u64>) {
        if let Owner::Own(id) = restoring.owner {
            self.shared.catalog.step(|state| state.up().end_restore_expecting(id, success, next));
        }
        self.shared.host_side.pace.call_ends();
    }
}
