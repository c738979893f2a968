//! Scratch and persistent that are full, while files in them are about to go.
//!
//! Where the versions of a tier are limited, a process of several keeps old ones until all are known to
//! have newer ones. Who is ahead of the others then leaves them the room that they need to follow, and
//! what it has no room for waits in the host buffer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use super::shared::Shared;
use crate::catalog::entry::FileTier;
use crate::catalog::state::Short;
use crate::error::{Kind, Result};
use crate::platform::files;

/// The other processes of the job, as far as room in files depends on them.
#[derive(Debug, Default)]
pub struct Others {
    /// They tell what they have.
    agree: AtomicBool,
    /// How many processes there are that may write to the file system of each tier, this one among
    /// them.
    writers: OnceLock<[u64; 2]>,
}

impl Others {
    /// They tell from here on what they have; `writers` share the file system of each tier.
    pub fn begin(&self, writers: [u64; 2]) {
        // There is one agreement for each job.
        let _ = self.writers.set(writers);
        self.agree.store(true, Ordering::Release);
    }

    /// They tell nothing any more.
    pub fn end(&self) {
        self.agree.store(false, Ordering::Release);
    }
}

/// A file that is about to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coming<'a> {
    pub(super) tier: FileTier,
    pub(super) name: &'a str,
    pub(super) bytes: u64,
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
            let ahead = Short { since, limited, agreed: self.is_ahead(coming) };
            if ahead.agreed && !self.leaves_room(coming) && wait(ahead) {
                continue;
            }
            let written = write();
            match &written {
                Err(error) if error.kind() == Kind::NoRoom => {
                    if !wait(Short { agreed: self.is_ahead(coming), ..ahead }) {
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

    /// Whether the tier has versions that go as soon as all processes are known to have newer ones.
    fn is_ahead(&self, coming: Coming<'_>) -> bool {
        self.others.agree.load(Ordering::Acquire)
            && self.retention[coming.tier as usize].lock().has_surplus(coming.name)
    }

    /// Whether a process that is ahead of others leaves them the room for what the tier is to keep of
    /// theirs, and one more of each.
    fn leaves_room(&self, coming: Coming<'_>) -> bool {
        let writers = self.others.writers.get().map_or(1, |writers| writers[coming.tier as usize]);
        let limit = match coming.tier {
            FileTier::Scratch => self.config.scratch_versions,
            FileTier::Persistent => self.config.max_versions,
        };
        let names = self.retention[coming.tier as usize].lock().count_names() as u64;
        // One more for what several that are ahead write at a time.
        let others = writers.saturating_mul(limit as u64 + 2).saturating_mul(names.max(1));
        let free = self.files.directory(coming.tier).map(files::free_space);
        // What cannot be asked for is found out by writing.
        let free = free.and_then(Result::ok).unwrap_or(u64::MAX);
        free >= coming.bytes.saturating_mul(others.saturating_add(1))
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

fn called(tier: FileTier) -> &'static str {
    match tier {
        FileTier::Scratch => "scratch",
        FileTier::Persistent => "persistent",
    }
}
