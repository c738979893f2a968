//! Scratch that is full, while files in it are about to go.

use super::shared::Shared;
use crate::catalog::entry::FileTier;
use crate::catalog::state::{Cleared, State};
use crate::error::{Kind, Result};

impl Shared {
    /// Has a file written to scratch. Where that is full, older files may be about to go, because their
    /// persistent copies are being made: then it is written again when some have gone. `wait` waits for
    /// [`State::scratch_room`], and says what that gives.
    pub(super) fn with_room_in_scratch<T>(
        &self,
        wait: impl Fn(Cleared, bool) -> bool,
        mut write: impl FnMut() -> Result<T>,
    ) -> Result<T> {
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
}
