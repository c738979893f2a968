//! Warnings, each of which is said once.

use std::collections::HashSet;
use std::path::Path;

use os::files::OtherUser;
use os::sync::Mutex;

/// How many warnings are remembered; then all are forgotten.
const MOST_TOLD: usize = 1024;

/// The warnings that were said.
#[derive(Debug, Default)]
pub struct Warnings {
    told: Mutex<HashSet<String>>,
}

impl Warnings {
    /// Warns that a copy which is about to be restored is another user's.
    pub(super) fn say_whose(&self, path: &Path, other: OtherUser) {
        self.once(format!(
            "{} belongs to {other}; there is no other copy to restore",
            path.display()
        ));
    }

    /// Warns once about a file, with a text that is the same each time that the file is looked at.
    pub fn once(&self, text: String) {
        let mut told = self.told.lock();
        if told.contains(&text) {
            return;
        }
        log::warn!("{text}");
        if told.len() >= MOST_TOLD {
            told.clear();
        }
        told.insert(text);
    }

    /// Whether [`Warnings::once`] has said this.
    #[cfg(test)]
    pub(super) fn was_told(&self, text: &str) -> bool {
        self.told.lock().contains(text)
    }
}
