//! Scratch and persistent that are full, while files in them are about to go.

use super::shared::Shared;
use crate::catalog::entry::FileTier;
use crate::catalog::state::Short;
use crate::error::{Kind, Result};

/// A file that is about to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coming<'a> {
    pub(super) tier: FileTier,
    pub(super) name: &'a str,
}

impl Shared {
    /// Has a file of a checkpoint written. Where its tier is full, older files may go, or be about to
    /// go: then it is written again when some have gone. `wait` waits for
    /// `State::await_room_in`, and says what that gives.
    pub(super) fn with_room<T>(
        &self,
        coming: Coming<'_>,
        wait: impl Fn(Short) -> bool,
        mut write: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let tier = coming.tier;
        loop {
            self.make_room(tier, coming.name);
            let since = self.catalog.look(|state| state.cleared(tier));
            let limited = self.retention[tier as usize].lock().is_limited();
            let written = write();
            match &written {
                Err(error) if error.kind() == Kind::NoRoom => {
                    if !wait(Short { since, limited }) {
                        return written;
                    }
                    self.degrade(
                        "room",
                        format!("{error}: waited until old versions had left {}", called(tier)),
                    );
                }
                _ => return written,
            }
        }
    }

    /// Before a file of a name comes to a tier: removes what is known by now to be more than the tier is
    /// to keep. Where
    /// there is no room for the file it would be too late after it. A process that has no others has removed
    /// it before.
    pub(super) fn make_room(&self, tier: FileTier, name: &str) {
        let limited = self.retention[tier as usize].lock().is_limited();
        if limited && !self.common[tier as usize].lock().is_alone() {
            let _naming = self.naming.lock();
            self.prune(tier, name);
        }
    }
}

fn called(tier: FileTier) -> &'static str {
    match tier {
        FileTier::Scratch => "scratch",
        FileTier::Persistent => "persistent",
    }
}
