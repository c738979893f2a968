//! Removing the files of versions beyond a level's limit.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::file_side::FileSide;
use catalog::{FileLevel, Id};
use errors::{Error, ErrorKind, Result};
use files::Naming;
use format::identity::Identity;
use policy::retention::{Divided, Retention, Taken};
use policy::rounds::PARITIES;

/// How many of the oldest versions are tried to find one that can be removed. If none of them can, younger
/// ones usually cannot either, as versions are persisted in order.
const AT_A_TIME: usize = 8;

impl FileSide {
    /// A checkpoint's file has come to a level: removes the versions beyond the limit.
    pub(super) fn arrived(
        &self,
        naming: &Naming<'_>,
        level: FileLevel,
        name: &str,
        version: i32,
        id: Id,
    ) {
        if self.config.ephemeral {
            return;
        }
        if level == FileLevel::Scratch {
            self.protect(name, version);
        }
        for (name, version, was_protected) in self.files.take_made_whole() {
            match self.erasure.get().filter(|_| was_protected) {
                Some(node) => node.protect_again(&name, version),
                None => self.protect(&name, version),
            }
        }
        let (marked, extra) = self
            .catalog
            .read(|state| (state.checkpoints().is_marked(id), state.checkpoints().is_extra(id)));
        if marked {
            return;
        }
        // A file in persistent that the other processes lack must not count there, or older ones that all
        // have would be removed. It counts as the scratch file that it replaces.
        let has_others = !self.common[FileLevel::Persistent as usize].lock().is_single();
        let level = if extra && has_others { FileLevel::Scratch } else { level };
        if level == FileLevel::Persistent {
            // What was copied may go from scratch, also in a backend, to which nothing comes there.
            self.know(FileLevel::Scratch, name);
        }
        if self.know(level, name) {
            self.retention[level as usize].lock().put(name, version, id);
            self.prune_others(naming, level, name, Some(version));
        }
    }

    /// Looks for the versions of a name in a level, if their number is limited and nobody has looked. False: they are
    /// not limited.
    fn know(&self, level: FileLevel, name: &str) -> bool {
        let mut kept = self.retention[level as usize].lock();
        if !kept.is_limited() || kept.knows(name) {
            return kept.is_limited();
        }
        match self.files.listing().oldest_first(level, name) {
            Ok(mut found) => {
                // The backlog of earlier jobs is not removed by this one.
                if level == FileLevel::Scratch {
                    let backlog = self.backlog(name);
                    found.retain(|version| !backlog.contains(version));
                }
                self.files.rights().leave_other_numbers(level, name, &mut found);
                if !self.files.goes_on_for_another() {
                    kept.set_found(name, found);
                    return true;
                }
                // What the dead process has written itself is younger than what it has left to write, or older. It may
                // have written it in another order than it has taken it.
                let run = self.catalog.read(|state| state.checkpoints().run_of(name));
                let mut all: Vec<(Identity, i32)> = found
                    .iter()
                    .map(|version| (self.files.runs().identity_in(level, name, *version), *version))
                    .collect();
                all.sort_by_key(|(identity, version)| {
                    let is_own = identity.is_known() && identity.run == run;
                    is_own.then_some((identity.generation, *version))
                });
                kept.set_found(name, all.iter().map(|(_, version)| *version));
                for (identity, version) in all {
                    let before = self
                        .catalog
                        .read(|state| state.checkpoints().taken_before(name, version, identity));
                    if let Some(before) = before {
                        kept.found_after(name, version, before);
                    }
                }
                true
            }
            Err(error) => {
                // Nothing is removed that may have to stay.
                self.telemetry.degrade(
                    "prune",
                    format!(
                        "old versions are not removed (max_versions, scratch_versions): {error}"
                    ),
                );
                false
            }
        }
    }

    /// A checkpoint that is in persistent because scratch could not take it belongs there for all processes
    /// now.
    pub fn is_extra_no_more(&self, naming: &Naming<'_>, name: &str, version: i32, id: Id) {
        self.left_scratch(naming, name, version);
        self.arrived(naming, FileLevel::Persistent, name, version, id);
    }

    /// Before a file of a name comes to a level: removes the versions known to be beyond the limit. A process
    /// without others has removed them before.
    pub(super) fn make_room(&self, level: FileLevel, name: &str) {
        let limited = self.retention[level as usize].lock().is_limited();
        if limited && !self.common[level as usize].lock().is_single() {
            self.prune(&self.naming.lock(), level, name);
        }
    }

    /// Completes an error of writing to a level: if there is no room, the limit of versions, which needs room
    /// for one more, may be the cause, and the error names it.
    pub(super) fn with_limit(&self, level: FileLevel, error: Error) -> Error {
        let (key, limit) = match level {
            FileLevel::Scratch => ("scratch_versions", self.config.scratch_versions),
            FileLevel::Persistent => ("max_versions", self.config.max_versions),
        };
        if error.kind() != ErrorKind::NoRoom || limit == 0 {
            return error;
        }
        let protects = level == FileLevel::Scratch && self.erasure.get().is_some();
        let also = if protects {
            ", and for those whose parities are to be made (ec_interval)"
        } else {
            ""
        };
        error.followed_by(format!(
            "{key} = {limit} needs room for {} versions of each name and process at a time{also}",
            limit + 1
        ))
    }

    /// Removes the versions of a name beyond a level's limit.
    pub(super) fn prune(&self, naming: &Naming<'_>, level: FileLevel, name: &str) {
        self.prune_others(naming, level, name, None);
    }

    /// Removes the versions of a name beyond a level's limit, except the version that has just
    /// `arrived`: the catalog does not know its file yet, and would take it for an older
    /// checkpoint's. If that came late, after younger ones, it is removed the next time.
    fn prune_others(
        &self,
        naming: &Naming<'_>,
        level: FileLevel,
        name: &str,
        arrived: Option<i32>,
    ) {
        loop {
            let excess = self.excess(level, name);
            let mut removed = 0;
            for &version in excess.iter().filter(|version| Some(**version) != arrived) {
                match self.remove_from(naming, level, name, version) {
                    Ok(true) => {}
                    // A version that is being restored or persisted is removed the next time.
                    Ok(false) => continue,
                    Err(error) => {
                        return self
                            .telemetry
                            .degrade("prune", format!("an old version was not removed: {error}"));
                    }
                }
                self.retention[level as usize].lock().remove(name, version);
                removed += 1;
            }
            if removed == 0 || excess.len() < AT_A_TIME {
                return;
            }
        }
    }

    /// Removes a version's file from a level. False: it is in use.
    fn remove_from(
        &self,
        _: &Naming<'_>,
        level: FileLevel,
        name: &str,
        version: i32,
    ) -> Result<bool> {
        let extra = self.catalog.read(|state| {
            state
                .checkpoints()
                .find(name, version)
                .is_some_and(|id| state.checkpoints().is_extra(id))
        });
        if !self.catalog.step(|state| state.removal().forget_file(name, version, level)) {
            return Ok(false);
        }
        match level {
            FileLevel::Scratch if extra => self.files.removal().remove_persistent(name, version)?,
            FileLevel::Scratch => {
                // One process removes an aggregated file for all, perhaps later.
                let persistent = FileLevel::Persistent as usize;
                let persistent = self.retention[persistent].lock().has(name, version);
                self.files.removal().remove_scratch(name, version, persistent)?;
            }
            FileLevel::Persistent => self.files.removal().remove_persistent(name, version)?,
        }
        Ok(true)
    }

    /// Removes a version that its manager does not need any more from a level. Returns whether it is gone; it
    /// stays if it is in use.
    pub fn retire(&self, level: FileLevel, name: &str, version: i32) -> Result<bool> {
        self.remove_from(&self.naming.lock(), level, name, version)
    }

    /// Removes versions of a name from all levels, after waiting for active writes. One that cannot be
    /// removed does not keep the others; the first such failure is the error.
    pub fn remove_everywhere(&self, name: &str, versions: &BTreeSet<i32>) -> Result<()> {
        self.await_earlier_jobs();
        self.succession.may_write()?;
        self.catalog.step(|state| {
            versions.iter().for_each(|version| state.removal().withdraw(name, *version));
        });
        self.catalog.wait(|state| state.checkpoints().is_withdrawn(name).then_some(()))?;
        let _naming = self.naming.lock();
        let mut removed = Ok(());
        for &version in versions {
            if self.files.places().has_persistent() {
                removed = removed.and(self.files.removal().remove_persistent(name, version));
            }
            if self.files.places().has_scratch() {
                removed =
                    removed.and(self.files.removal().remove_scratch(name, version, Some(false)));
            }
        }
        removed
    }

    /// The oldest versions of a name beyond a level's limit.
    fn excess(&self, level: FileLevel, name: &str) -> Vec<i32> {
        let mut needed = BTreeSet::new();
        // Without the key, those that an earlier job has left alone may be deltas.
        let found = self.retention[level as usize].lock().has_found(name);
        if self.config.incremental || found {
            let divided = self.judge(level, name, |kept, youngest, counts, stays| {
                kept.divided(name, youngest, counts, stays)
            });
            // Without the locks, for which a call of the application may wait: this reads files.
            match divided.map(|divided| self.needed(level, name, divided)) {
                Some(Some(all)) => needed = all,
                Some(None) | None => return Vec::new(),
            }
        }
        self.judge(level, name, |kept, youngest, counts, stays| {
            let stays = |taken, version| stays(taken, version) || needed.contains(&version);
            kept.excess(name, AT_A_TIME, youngest, counts, stays)
        })
    }

    /// Calls `judge` with the versions of a level, the youngest that counts towards the limit, which others count, and
    /// which stay in any case.
    fn judge<T>(
        &self,
        level: FileLevel,
        name: &str,
        judge: impl FnOnce(&Retention, Taken, &dyn Fn(Taken) -> bool, &dyn Fn(Taken, i32) -> bool) -> T,
    ) -> T {
        let in_scratch = level == FileLevel::Scratch;
        let kept = self.retention[level as usize].lock();
        let common = self.common[level as usize].lock();
        // An aggregated file is complete only when all processes have written their parts.
        let also = in_scratch && self.config.aggregated;
        let too = also.then(|| self.common[FileLevel::Persistent as usize].lock());
        let youngest = common.youngest().min(too.as_ref().map_or(u64::MAX, |too| too.youngest()));
        let counts = |id| common.has(id) && too.as_ref().is_none_or(|too| too.has(id));
        let Some(node) = self.erasure.get().filter(|_| in_scratch) else {
            return judge(&kept, youngest, &counts, &|_, _| false);
        };
        // The newest version that survives the loss of a scratch directory stays, and so do those that may
        // become it.
        let protected = self.common[PARITIES].lock();
        let last = kept.youngest(name, |id| protected.has(id));
        let interned: Arc<str> = name.into();
        judge(&kept, youngest, &counts, &|id, version| {
            protected.keeps(last, id, || match id {
                0 => self.files.places().has_parities(name, version),
                _ => node.may_protect(&(interned.clone(), version)),
            })
        })
    }

    /// The versions that others, which are kept, are deltas of, however far below. `None`: that is not known.
    fn needed(&self, level: FileLevel, name: &str, divided: Divided) -> Option<BTreeSet<i32>> {
        let incremental = self.config.incremental;
        let mut needed = BTreeSet::new();
        let may_be = divided.kept.into_iter().filter(|(taken, _)| incremental || *taken == 0);
        for (_, mut version) in may_be {
            loop {
                match self.files.copies().base_in(level, name, version) {
                    Ok(Some(base)) if needed.insert(base) => version = base,
                    Ok(_) => break,
                    // What that one is a delta of is seen when it has its file.
                    Err(_)
                        if self
                            .catalog
                            .read(|state| state.checkpoints().comes_to(name, version, level)) =>
                    {
                        return None;
                    }
                    // It is of no use to anybody.
                    Err(error)
                        if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) =>
                    {
                        break
                    }
                    Err(error) => {
                        let text = format!("old versions are not removed for now (max_versions, scratch_versions): \
                                            {error}");
                        self.telemetry.degrade("prune", text);
                        return None;
                    }
                }
            }
        }
        Some(needed)
    }

    /// Removes the versions of all names beyond the limits, when nothing is active any more.
    pub fn prune_all(&self) {
        let naming = self.naming.lock();
        for level in [FileLevel::Scratch, FileLevel::Persistent] {
            let names = self.retention[level as usize].lock().names();
            for name in names {
                self.prune(&naming, level, &name);
            }
        }
    }

    /// A version's file was removed from scratch by other code.
    pub(super) fn left_scratch(&self, _: &Naming<'_>, name: &str, version: i32) {
        self.retention[FileLevel::Scratch as usize].lock().remove(name, version);
    }
}

#[cfg(test)]
#[cfg(not(feature = "model-check"))]
mod tests;
