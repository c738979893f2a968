//! Checkpoints that scratch cannot take: because it is full, read-only or broken, they are written to
//! persistent alone. A job may begin with such a scratch, as long as what is there can be read.
//!
//! One that is to have a copy there goes there at once. Another one may, too, where no other process
//! and no limit of versions would be misled by a file that is there on one process alone: see
//! [`kept_to_scratch`].

use super::shared::Shared;
use crate::catalog::entry::{FileTier, Id};
use crate::catalog::state::is_of_the_file_system;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::recovery::Process;
use crate::tier::files::{Files, Place, Written};

/// What is said once: that checkpoints go to persistent alone.
const PAST_SCRATCH: &str = "past scratch";

/// What else can be done about a checkpoint that is kept to scratch, and why it is.
const ADVICE: &str = "persistent may not take it instead, because persistent_interval asks for no copy \
                      there (yet), and under MPI max_versions, scratch_versions and aggregated go by \
                      what all processes have there: make room in scratch, or set persistent_interval \
                      = 0";

/// Why a checkpoint that is not to have a copy in persistent must not go there if scratch cannot take
/// it. `None`: it may. On one process alone it would count for [`Config::max_versions`], and older
/// versions would go that the others still need; and with aggregated files it would have a file of its
/// own before it is known that it has a part.
pub(super) fn kept_to_scratch(config: &Config, process: Process) -> Option<&'static str> {
    let limits = config.max_versions > 0 || config.scratch_versions > 0;
    (!process.is_alone() && (limits || config.aggregated)).then_some(ADVICE)
}

/// Why a job must not begin with a scratch to which nothing can be written: there would be no file that
/// its checkpoints may go to. `None`: it may.
fn needs_scratch(config: &Config, process: Process) -> Option<&'static str> {
    if config.ephemeral {
        Some("an ephemeral job (ephemeral = true) has no other directory for what memory cannot hold")
    } else if config.persistent.is_none() {
        Some("there is no other directory that checkpoints could go to (key persistent)")
    } else if config.persistent_interval.is_none() {
        kept_to_scratch(config, process)
    } else {
        None
    }
}

/// The directories of a job that begins. Where scratch can only be read, and checkpoints may go past it:
/// what it has answered as well.
///
/// # Errors
/// As [`Files::open`]; what else can be done about scratch.
pub(super) fn open_files(config: &Config, process: Process) -> Result<(Files, Option<Error>)> {
    Files::open_past_scratch(config, process.rank, |refused| match needs_scratch(config, process) {
        Some(why) => Err(refused.followed_by(why)),
        None => Ok(()),
    })
}

impl Shared {
    /// Says that the job begins with a scratch that can only be read.
    pub(super) fn begins_past_scratch(&self, refused: &Error) {
        // The same as is said when it is met later: once is enough.
        self.degrade(
            PAST_SCRATCH,
            format!(
                "{refused}: what is there can be restored; new checkpoints are written to persistent \
                 alone"
            ),
        );
    }

    /// Whether a checkpoint under way that scratch has refused may be written to persistent alone: one
    /// that is to have a copy there, which is decided now if it was not; and any that is not
    /// [`kept_to_scratch`].
    ///
    /// # Errors
    /// It may not: why scratch has `refused` it, and what can be done.
    pub(super) fn may_go_past_scratch(
        &self,
        id: Id,
        persist: &mut Option<bool>,
        refused: &Error,
    ) -> Result<()> {
        if !self.files.has_persistent() || !is_of_the_file_system(refused) {
            return Err(refused.clone());
        }
        if *persist.get_or_insert_with(|| self.is_to_persist()) {
            return Ok(());
        }
        self.catalog.look(|state| state.may_go_past_scratch(id, refused))
    }

    /// Writes to persistent what scratch has `refused`.
    pub fn past_scratch<T>(&self, refused: Error, write: impl FnOnce() -> Result<T>) -> Result<T> {
        match write() {
            Ok(written) => {
                self.goes_past_scratch(refused);
                Ok(written)
            }
            Err(error) => Err(refused.followed_by(format!("nor can persistent take it: {error}"))),
        }
    }

    /// Says, for the first of them, that checkpoints go to persistent alone.
    pub(super) fn goes_past_scratch(&self, why: impl std::fmt::Display) {
        self.degrade(
            PAST_SCRATCH,
            format!(
                "{why}: it is written to persistent alone, and so is each that scratch cannot take"
            ),
        );
    }

    /// Gives what was written past scratch its name. The caller holds the lock of names.
    pub(super) fn publish_straight(
        &self,
        written: &Written,
        name: &str,
        version: i32,
        place: Option<&Place>,
    ) -> Result<()> {
        self.files.publish_straight(written, name, version, place)?;
        self.has_left_scratch(name, version);
        Ok(())
    }

    /// What scratch had of a version has gone, as persistent has a newer one. The caller holds the lock
    /// of names.
    pub(super) fn has_left_scratch(&self, name: &str, version: i32) {
        self.left_scratch(name, version);
        self.catalog.step(|state| state.file_cleared(FileTier::Scratch));
    }
}
