//! The files of a job: which versions have one, how many may, and which processes know.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::succession::Succession;
use super::telemetry::Telemetry;
use crate::monitor::Catalog;
use catalog::state::State;
use catalog::{FileLevel, Id};
use config::Config;
use erasure::node::Node;
use errors::Result;
use files::{Files, Names, Naming};
use format::aggregate::AggregatePart;
use os::sync::Mutex;
use policy::interval::Interval;
use policy::retention::Retention;
use policy::rounds::{Common, FileState, KINDS};

/// The levels of files.
#[derive(Debug)]
pub struct FileSide {
    pub(super) config: Arc<Config>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) succession: Arc<Succession>,
    /// The directories.
    pub(crate) files: Files,
    /// Held while a file gets or loses its name, together with the catalog's step that records it: an older
    /// checkpoint's file must not replace a newer one's. Taken before the catalog's lock. Captures into
    /// memory never take it.
    pub(crate) naming: Names,
    /// The versions in scratch and in persistent, if they are limited; by [`FileLevel`]. Taken after
    /// `naming`.
    pub(super) retention: [Mutex<Retention>; 2],
    /// The checkpoints that all processes of the job are known to have in scratch, and in persistent, as only
    /// those count against the limits; and those whose parities all have made. Taken after `retention`, and
    /// before the locks of `erasure`.
    pub(super) common: [Mutex<Common>; KINDS],
    /// The other processes, once there is erasure coding.
    pub(crate) erasure: OnceLock<Node>,
    /// The names for which the backlog of earlier jobs was looked for.
    pub(super) asked: Mutex<HashSet<String>>,
    /// Decides which checkpoints are copied to persistent.
    interval: Mutex<Interval>,
    /// Whether an earlier job's incomplete aggregated files were looked for.
    rescued: OnceLock<()>,
    started: Instant,
}

impl FileSide {
    pub(crate) fn new(
        config: Arc<Config>,
        catalog: Arc<Catalog>,
        telemetry: Arc<Telemetry>,
        succession: Arc<Succession>,
        files: Files,
    ) -> FileSide {
        let limits = [config.scratch_versions, config.max_versions];
        FileSide {
            interval: Mutex::new(Interval::new(config.persistent_interval)),
            retention: limits.map(|limit| Mutex::new(Retention::new(limit))),
            common: std::array::from_fn(|_| Mutex::new(Common::all())),
            config,
            catalog,
            telemetry,
            succession,
            files,
            naming: Names::default(),
            erasure: OnceLock::new(),
            asked: Mutex::default(),
            rescued: OnceLock::new(),
            started: Instant::now(),
        }
    }

    /// Keeps others from giving files a name, or taking it.
    pub fn lock_names(&self) -> Naming<'_> {
        self.naming.lock()
    }

    /// The erasure coding with the other processes, if there is some.
    pub fn erasure(&self) -> Option<&Node> {
        self.erasure.get()
    }

    /// The checkpoints that all processes are known to have, of each kind.
    pub fn common(&self) -> &[Mutex<Common>; KINDS] {
        &self.common
    }

    /// Nobody waits for other processes any more.
    pub(crate) fn stop(&self) {
        if let Some(node) = self.erasure.get() {
            node.stop();
        }
    }

    /// A checkpoint's file is in scratch: its parities can be made, if they are configured.
    pub fn protect(&self, name: &str, version: i32) {
        if let Some(node) = self.erasure.get() {
            node.file_complete(name, version);
        }
    }

    /// The state of the parities that this process makes of a checkpoint.
    pub fn parity_state(&self, id: Id) -> FileState {
        let Some(node) = self.erasure.get() else {
            return FileState::Present;
        };
        // The file first: it is announced before it counts as present.
        match self.catalog.read(|state| {
            (
                state.checkpoints().file_state(id, FileLevel::Scratch),
                state.checkpoints().key_in_scratch(id),
            )
        }) {
            (FileState::Pending, _) => FileState::Pending,
            (_, Some(key)) => node.parity_state(&key),
            (_, None) => FileState::Missing,
        }
    }

    /// Whether a checkpoint that is taken now is to be copied to persistent (`persistent_interval`).
    pub fn is_to_persist(&self) -> bool {
        let mut interval = self.interval.lock();
        // The clock is only read if the decision depends on it.
        let now = interval.depends_on_time().then(|| self.started.elapsed());
        interval.passes(now.unwrap_or_default())
    }

    /// Whether the selection for persistent depends on the time when a checkpoint is taken.
    pub fn persistence_depends_on_time(&self) -> bool {
        self.interval.lock().depends_on_time()
    }

    /// Waits until all writes of an earlier job of this rank are done, before files are read or written.
    /// False: the job ends, or nothing [may be written](Succession::may_write).
    pub fn await_earlier_jobs(&self) -> bool {
        let settled = self.succession.await_predecessor();
        if settled && self.config.aggregated && !self.config.ephemeral {
            self.rescued.get_or_init(|| {
                if let Err(error) = self.files.rescue().rescue_parts() {
                    log::warn!(
                        "parts of aggregated files of earlier jobs are not rescued: {error}"
                    );
                }
            });
        }
        settled
    }

    /// It was decided that a checkpoint is copied to persistent, to its part of an aggregated file or to a
    /// file of its own.
    pub fn want_persistent(&self, id: Id, place: Option<AggregatePart>) {
        // A checkpoint that bypassed scratch is there already, and now counts among those to keep.
        let extra = self.catalog.read(|state| state.checkpoints().is_extra(id));
        let naming = extra.then(|| self.naming.lock());
        let there = self.catalog.step(|state| state.captures().want_persistent(id, place));
        if let (Some((name, version)), Some(naming)) = (there, naming) {
            self.is_extra_no_more(&naming, &name, version, id);
        }
    }

    /// Removes a name's checkpoints from memory and scratch. The backlog of earlier jobs stays.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn cleanup(&self, name: &str) -> Result<()> {
        self.await_earlier_jobs();
        self.warn_of_backlog(name);
        let _naming = self.naming.lock();
        let backlog = self.backlog(name);
        self.retention[FileLevel::Scratch as usize].lock().forget(name);
        for version in self.catalog.step(|state| state.removal().cleanup(name)) {
            if self.files.places().has_scratch() && !backlog.contains(&version) {
                self.files.removal().remove_scratch(name, version, None)?;
            }
        }
        self.files.removal().clean_scratch(name, |version| {
            self.catalog.read(|state| state.checkpoints().find(name, version)).is_some()
                || backlog.contains(&version)
        })
    }

    /// Removes from scratch what an ephemeral job has written for want of room.
    pub(super) fn remove_spilled(&self) {
        for (name, version) in self.catalog.read(State::spilled) {
            if let Err(error) = self.files.removal().remove_scratch(&name, version, None) {
                log::warn!("{error}");
            }
        }
    }
}
