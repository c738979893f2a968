//! Checkpoints that bypass scratch: if scratch is full, read-only or broken, they are written to persistent
//! only. A job may start with such a scratch, as long as it can be read.
//!
//! `persistent_interval` does not matter for such checkpoints. With other processes, a file that is
//! in persistent against it counts as the scratch file that it replaces (`Checkpoints::is_extra`).

use super::file_side::FileSide;
use catalog::state::is_of_the_file_system;
use config::Config;
use errors::{Error, Result};
use files::{Files, Naming, Written};
use format::aggregate::AggregatePart;

/// The topic of the warning that checkpoints go to persistent only.
const PAST_SCRATCH: &str = "past scratch";

/// Why a job must not start with a scratch directory that cannot be written: its checkpoints could
/// not go to any file. `None`: it may start.
fn needs_scratch(config: &Config) -> Option<&'static str> {
    if config.ephemeral {
        Some("an ephemeral job (ephemeral = true) has no other directory for what memory cannot hold")
    } else if config.persistent.is_none() {
        Some("there is no other directory that checkpoints could go to (key persistent)")
    } else {
        None
    }
}

/// Opens the directories of a job that starts. If scratch is read-only and checkpoints may bypass it, also
/// returns the error of scratch.
///
/// # Errors
/// As [`Files::open`]; with what else can be done about scratch.
pub(super) fn open_files(config: &Config, rank: u32) -> Result<(Files, Option<Error>)> {
    Files::open_past_scratch(config, rank, |refused| match needs_scratch(config) {
        Some(why) => Err(refused.followed_by(why)),
        None => Ok(()),
    })
}

impl FileSide {
    /// Warns that the job starts with a read-only scratch.
    pub(super) fn begins_past_scratch(&self, refused: &Error) {
        // The same topic as a later failure, so that one warning is printed.
        self.telemetry.degrade(
            PAST_SCRATCH,
            format!(
                "{refused}: what is there can be restored; new checkpoints are written to persistent \
                 alone"
            ),
        );
    }

    /// Whether an open checkpoint that scratch has refused can be written to persistent instead.
    ///
    /// # Errors
    /// The checkpoint cannot go to persistent: the error of scratch.
    pub(super) fn may_go_past_scratch(&self, refused: &Error) -> Result<()> {
        if !self.files.places().has_persistent() || !is_of_the_file_system(refused) {
            return Err(refused.clone());
        }
        Ok(())
    }

    /// Writes to persistent after scratch has `refused`.
    pub fn past_scratch<T>(&self, refused: Error, write: impl FnOnce() -> Result<T>) -> Result<T> {
        match write() {
            Ok(written) => {
                self.goes_past_scratch(refused);
                Ok(written)
            }
            Err(error) => {
                Err(refused
                    .followed_by(format!("writing it to persistent failed as well: {error}")))
            }
        }
    }

    /// Warns, for the first checkpoint that bypasses scratch, that it goes to persistent only.
    pub(super) fn goes_past_scratch(&self, why: impl std::fmt::Display) {
        self.telemetry.degrade(
            PAST_SCRATCH,
            format!(
                "{why}: it is written to persistent alone, and so is each checkpoint that scratch cannot take"
            ),
        );
    }

    /// Publishes a file that was written past scratch.
    pub(super) fn publish_straight(
        &self,
        naming: &Naming<'_>,
        written: &Written,
        name: &str,
        version: i32,
        place: Option<&AggregatePart>,
    ) -> Result<()> {
        self.files.persistent().publish_straight(naming, written, name, version, place)?;
        // The file in persistent is newer than the one in scratch.
        self.left_scratch(naming, name, version);
        Ok(())
    }
}
