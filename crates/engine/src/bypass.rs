//! Checkpoints that scratch cannot take: because it is full, read-only or broken, they are written to
//! persistent alone. A job may begin with such a scratch, as long as what is there can be read.
//!
//! That is so whatever `persistent_interval` says. Where there are other processes, a file that is there
//! against the interval counts as the one in scratch, which it stands for (`State::is_extra`).

use super::shared::Shared;
use crate::catalog::state::is_of_the_file_system;
use config::Config;
use levels::files::{AggregatePart, Files, Written};
use os::error::{Error, Result};

/// What is said once: that checkpoints go to persistent alone.
const PAST_SCRATCH: &str = "past scratch";

/// Why a job must not begin with a scratch to which nothing can be written: there would be no file that
/// its checkpoints may go to. `None`: it may.
fn needs_scratch(config: &Config) -> Option<&'static str> {
    if config.ephemeral {
        Some("an ephemeral job (ephemeral = true) has no other directory for what memory cannot hold")
    } else if config.persistent.is_none() {
        Some("there is no other directory that checkpoints could go to (key persistent)")
    } else {
        None
    }
}

/// The directories of a job that begins. Where scratch can only be read, and checkpoints may go past it:
/// what it has answered as well.
///
/// # Errors
/// As [`Files::open`]; what else can be done about scratch.
pub(super) fn open_files(config: &Config, rank: u32) -> Result<(Files, Option<Error>)> {
    Files::open_past_scratch(config, rank, |refused| match needs_scratch(config) {
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

    /// Whether a checkpoint under way that scratch has refused can be written to persistent instead.
    ///
    /// # Errors
    /// It cannot: why scratch has `refused` it.
    pub(super) fn may_go_past_scratch(&self, refused: &Error) -> Result<()> {
        if !self.files.has_persistent() || !is_of_the_file_system(refused) {
            return Err(refused.clone());
        }
        Ok(())
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
        place: Option<&AggregatePart>,
    ) -> Result<()> {
        self.files.publish_straight(written, name, version, place)?;
        // It has a newer one.
        self.left_scratch(name, version);
        Ok(())
    }
}
