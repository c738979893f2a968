//! Scratch that is full, while files in it are about to go.

use super::shared::Shared;
use crate::catalog::entry::FileTier;
use crate::catalog::state::{Cleared, State};
use crate::error::{Kind, Result};
use crate::tier::files::{Place, Written};

impl Shared {
    /// Has a file of a checkpoint of this name written to scratch. Where that is full, older files may
    /// go, or be about to go, because their persistent copies are being made: then it is written again
    /// when some have gone. `wait` waits for [`State::scratch_room`], and says what that gives.
    pub(super) fn with_room_in_scratch<T>(
        &self,
        name: &str,
        wait: impl Fn(Cleared, bool) -> bool,
        mut write: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        self.make_room(FileTier::Scratch, name);
        loop {
            let before = self.catalog.look(State::cleared);
            let written = write();
            match &written {
                Err(error) if error.kind() == Kind::NoRoom => {
                    let limited = self.retention[FileTier::Scratch as usize].lock().is_limited();
                    if !wait(before, limited) {
                        return written;
                    }
                    self.degrade(
                        "scratch",
                        format!("{error}: waited until old versions had left scratch"),
                    );
                }
                _ => return written,
            }
        }
    }

    /// Says, for the first of them, that checkpoints go to persistent alone.
    pub(super) fn goes_past_scratch(&self, why: impl std::fmt::Display) {
        self.degrade(
            "past scratch",
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
        self.left_scratch(name, version);
        self.catalog.step(State::scratch_cleared);
        Ok(())
    }

    /// Before a file of a name comes to a tier: removes what is known by now to be more than the tier is
    /// to keep. The other processes tell at any time what that is, and with the file it would be too
    /// late where there is no room for it. A process that has no others has removed it before.
    pub(super) fn make_room(&self, tier: FileTier, name: &str) {
        let limited = self.retention[tier as usize].lock().is_limited();
        if limited && !self.common[tier as usize].lock().is_alone() {
            let _naming = self.naming.lock();
            self.prune(tier, name);
        }
    }
}
