//! States that the schedule has done with, where there is no room for others beside them.

use super::run::Sweep;
use super::Reach;
use crate::error::Result;

impl<R: Reach> Sweep<'_, R> {
    /// A version is about to be taken again. Its old state is of no use while the new one is stored in memory
    /// that nothing outlives, and would want room beside it; and so would its file, where files are known to
    /// take no more and memory may have what they do not.
    pub(super) fn make_way(&mut self, version: u64) -> Result<()> {
        let alone = self.meetings.is_none();
        if self.failure.is_some() || !self.slots.contains_key(&version) {
            return Ok(());
        }
        if self.setbacks.cause.is_some() && (alone || !self.lasting) && !self.is_direct() {
            self.remove_version(version);
        }
        if self.lasting {
            return Ok(());
        }
        self.slots.remove(&version);
        let name = &self.settings.name;
        self.reach.with(|client| {
            client.let_go_of(name, version as i32);
            Ok(())
        })
    }

    /// Removes a state from memory and from files. Whether it could.
    pub(super) fn remove_version(&mut self, version: u64) -> bool {
        self.slots.remove(&version);
        let name = &self.settings.name;
        let removed = self.reach.with(|client| client.remove(name, version as i32));
        if let Err(error) = &removed {
            log::info!("\"{name}\" version {version} remains: {error}");
        }
        removed.is_ok()
    }

    /// Removes the states that the schedule has done with, from memory and from files, as it was room that
    /// was wanting: to take a version again wants room for both, and what could not be written for want of it
    /// fills memory. A restart could do with them. Of several processes all do so, or none.
    pub(super) fn remove_passed(&mut self) {
        let needed = self.needed();
        let is_passed = |version: &u64| needed.iter().all(|stored| stored.slot != *version);
        let passed: Vec<u64> = self.slots.keys().copied().filter(is_passed).collect();
        for version in passed {
            self.remove_version(version);
        }
    }
}
