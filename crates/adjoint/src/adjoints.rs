//! Stored adjoints: the newest one that every process has in its files is kept, and older ones are
//! removed.
//!
//! Files are written in the background, at a different time on each process, or not at all. So at each
//! exchange ([`progress_exchange`](super::progress_exchange)) every process reports the newest adjoint
//! that it has. The minimum becomes the candidate; at a later exchange each process reports whether it
//! has the candidate, too. Only then are older ones removed, so at any moment there is one that all
//! have.
//!
//! Parities may be made late and of few versions. Where they are made, scratch also keeps the newest
//! version that all have protected, and those that may become the next one.

use std::collections::BTreeSet;

use catalog::FileLevel;
use client::Client;
use errors::{Error, Result};

/// The file levels, by their number as a kind.
const LEVELS: [FileLevel; 2] = [FileLevel::Scratch, FileLevel::Persistent];
/// The kind after the levels: the parities of the files in scratch.
const PARITIES: usize = 2;
/// How many kinds of data a process may have of an adjoint: two files, and parities.
pub(crate) const KINDS: usize = 3;

/// A version for each kind.
pub(crate) type VersionsByKind = [Option<i32>; KINDS];

/// The adjoints of one process.
pub(crate) trait AdjointFiles {
    /// Whether it has the data of this kind of a version.
    fn has(&self, version: i32, kind: usize) -> bool;

    /// Whether it has the parities of a version, or expects to.
    fn may_protect(&self, version: i32) -> bool;

    /// Removes a version from a level unless it is in use. Returns whether it is gone.
    fn retire(&self, version: i32, level: FileLevel) -> Result<bool>;
}

/// A client's adjoints of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientFiles<'a> {
    /// The client.
    pub client: &'a Client,
    /// The name of the adjoints.
    pub name: &'a str,
}

impl AdjointFiles for ClientFiles<'_> {
    fn has(&self, version: i32, kind: usize) -> bool {
        match LEVELS.get(kind) {
            Some(level) => self.client.versions().has_file(self.name, version, *level),
            None => self.client.versions().has_parities(self.name, version),
        }
    }

    fn may_protect(&self, version: i32) -> bool {
        self.client.versions().may_have_parities(self.name, version)
    }

    fn retire(&self, version: i32, level: FileLevel) -> Result<bool> {
        self.client.versions().retire(self.name, version, level)
    }
}

/// The adjoints of a run.
#[derive(Debug)]
pub(crate) struct Adjoints {
    name: String,
    /// By level: versions that are stored or being stored. `None`: the level does not exist.
    present: [Option<BTreeSet<i32>>; 2],
    next: i32,
    /// The state that the last stored adjoint has come to.
    stored: Option<u64>,
    /// The minimum of the newest versions that the processes have.
    candidate: VersionsByKind,
    /// The newest version that all are known to have.
    common: VersionsByKind,
}

impl Adjoints {
    /// Adjoints of this name. `present`: those left from before, by level; `next`: the next version;
    /// `stored`: the state of the adjoint to go on from.
    pub(crate) fn new(
        name: String,
        present: [Option<BTreeSet<i32>>; 2],
        next: i32,
        stored: Option<u64>,
    ) -> Adjoints {
        let (candidate, common) = ([None; KINDS], [None; KINDS]);
        Adjoints { name, present, next, stored, candidate, common }
    }

    /// The name of the adjoints.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The state that the last stored adjoint has come to.
    pub(crate) fn stored(&self) -> Option<u64> {
        self.stored
    }

    /// Stores the adjoint, which has come to state `fine`.
    pub(crate) fn store(&mut self, client: &mut Client, fine: u64) -> Result<()> {
        let before = self.stored;
        let version = self.begin(fine)?;
        client.marked().take(&self.name, version, None, true).inspect_err(|_| self.stored = before)
    }

    /// The version of the next adjoint, which has come to state `fine`.
    fn begin(&mut self, fine: u64) -> Result<i32> {
        let version = self.next;
        self.next = version.checked_add(1).ok_or_else(|| {
            Error::invalid(format!(
                "\"{}\" has reached version {version}, the highest that is possible",
                self.name
            ))
        })?;
        for present in self.present.iter_mut().flatten() {
            present.insert(version);
        }
        self.stored = Some(fine);
        Ok(version)
    }

    /// This process's report: the newest version that it has of each kind, and the candidates that it
    /// has.
    pub(crate) fn report(&self, files: &impl AdjointFiles) -> (VersionsByKind, VersionsByKind) {
        let newest = std::array::from_fn(|kind| {
            let level = if kind == PARITIES { FileLevel::Scratch as usize } else { kind };
            let present = self.present[level].iter().flatten().rev().copied();
            present
                // Older ones no longer matter.
                .take_while(|version| Some(*version) >= self.common[kind])
                .find(|version| files.has(*version, kind))
        });
        let has = |kind: usize| self.candidate[kind].filter(|version| files.has(*version, kind));
        (newest, std::array::from_fn(has))
    }

    /// Takes the minimum of all reports: the new candidates, and those that all have. Removes what is no
    /// longer needed.
    pub(crate) fn apply(
        &mut self,
        files: &impl AdjointFiles,
        newest: VersionsByKind,
        has: VersionsByKind,
    ) -> Result<()> {
        for (common, has) in self.common.iter_mut().zip(has) {
            *common = (*common).max(has);
        }
        self.candidate = newest;
        self.retire(files)
    }

    /// Applies this process's own report, for a process without others.
    pub(crate) fn apply_alone(&mut self, files: &impl AdjointFiles) -> Result<()> {
        let (newest, _) = self.report(files);
        self.apply(files, newest, newest)
    }

    /// Removes what is older than the newest version that all have, by level.
    fn retire(&mut self, files: &impl AdjointFiles) -> Result<()> {
        let protected = self.common[PARITIES];
        let protects = |version: i32| match protected {
            Some(protected) if version <= protected => version == protected,
            _ => files.may_protect(version),
        };
        for level in LEVELS {
            let (Some(newest), Some(present)) =
                (self.common[level as usize], &self.present[level as usize])
            else {
                continue;
            };
            let older: Vec<i32> = present.range(..newest).copied().collect();
            for version in older {
                if level == FileLevel::Scratch && protects(version) {
                    continue;
                }
                // A version that is still to be persisted is removed later.
                if !files.retire(version, level)? {
                    continue;
                }
                for level in LEVELS {
                    // A version that is removed from scratch before it was persisted never comes to
                    // persistent.
                    let stays = files.has(version, level as usize);
                    if let Some(present) = self.present[level as usize].as_mut().filter(|_| !stays)
                    {
                        present.remove(&version);
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;

    /// The state of a version's file or parities on one process.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum FileState {
        Pending,
        Present,
        /// Writing the file or making the parities failed.
        Missing,
    }

    /// The scratch directory of one process.
    #[derive(Debug, Default)]
    struct Directory {
        files: RefCell<BTreeMap<i32, FileState>>,
        /// The parities of the selected versions, as far as this process knows.
        parities: RefCell<BTreeMap<i32, FileState>>,
        checks: Cell<u64>,
    }

    impl AdjointFiles for Directory {
        fn has(&self, version: i32, kind: usize) -> bool {
            self.checks.set(self.checks.get() + 1);
            let of = match kind {
                0 => &self.files,
                PARITIES => &self.parities,
                _ => return false,
            };
            of.borrow().get(&version) == Some(&FileState::Present)
        }

        fn may_protect(&self, version: i32) -> bool {
            self.parities.borrow().get(&version).is_some_and(|state| *state != FileState::Missing)
        }

        fn retire(&self, version: i32, _: FileLevel) -> Result<bool> {
            self.files.borrow_mut().remove(&version);
            // Without the file, its parities are useless.
            self.parities.borrow_mut().insert(version, FileState::Missing);
            Ok(true)
        }
    }

    struct Process {
        adjoints: Adjoints,
        directory: Directory,
        stored: u64,
        /// Its report at each exchange.
        reported: Vec<(VersionsByKind, VersionsByKind)>,
    }

    fn process() -> Process {
        // A second level, in which no file ever arrives.
        let present = [Some(BTreeSet::new()), Some(BTreeSet::new())];
        let adjoints = Adjoints::new("x".into(), present, 0, None);
        Process { adjoints, directory: Directory::default(), stored: 0, reported: Vec::new() }
    }

    /// The versions that all have.
    fn all_have(processes: &[Process], kind: usize) -> Vec<i32> {
        let has = |version: i32| processes.iter().all(|p| p.directory.has(version, kind));
        let stored = processes.iter().map(|p| p.stored as i32).max().unwrap_or(0);
        (0..stored).filter(|version| has(*version)).collect()
    }

    /// The minimum of all processes' reports at an exchange.
    fn least(processes: &[Process], meeting: usize) -> (VersionsByKind, VersionsByKind) {
        let least = |of: fn(&(VersionsByKind, VersionsByKind)) -> &VersionsByKind| {
            std::array::from_fn(|kind| {
                processes.iter().map(|p| of(&p.reported[meeting])[kind]).min().flatten()
            })
        };
        (least(|reported| &reported.0), least(|reported| &reported.1))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Processes whose files are written at any time or fail, and which exchange their reports
        /// one after the other. Catches a process that removes what others need: its own newest
        /// version, or the minimum of the newest versions, may be missing elsewhere.
        #[test]
        fn there_is_always_one_that_all_have(
            events in prop::collection::vec((0..3_usize, 0..12_u8, any::<u8>()), 1..400),
        ) {
            let mut processes = [process(), process(), process()];
            let mut before = [false; KINDS];
            for (who, what, which) in events {
                let process = &mut processes[who];
                let directory = &process.directory;
                // Any of the pending ones, not only the oldest.
                let open = |of: &RefCell<BTreeMap<i32, FileState>>| {
                    let of = of.borrow();
                    let open: Vec<i32> =
                        of.iter().filter(|(_, f)| **f == FileState::Pending).map(|(v, _)| *v).collect();
                    open.get(usize::from(which) % open.len().max(1)).copied()
                };
                match what {
                    0..3 => {
                        let version = process.adjoints.begin(process.stored).unwrap();
                        directory.files.borrow_mut().insert(version, FileState::Pending);
                        process.stored += 1;
                    }
                    3..7 => {
                        let state = if what == 3 { FileState::Missing } else { FileState::Present };
                        if let Some(version) = open(&directory.files) {
                            directory.files.borrow_mut().insert(version, state);
                            // One of four versions is selected for parities, and not every process knows
                            // in time.
                            if version % 4 == 1 && state == FileState::Present && which % 8 > 0 {
                                directory.parities.borrow_mut().entry(version).or_insert(FileState::Pending);
                            }
                        }
                    }
                    7..9 => {
                        let state = if which % 5 == 0 { FileState::Missing } else { FileState::Present };
                        if let Some(version) = open(&directory.parities) {
                            directory.parities.borrow_mut().insert(version, state);
                        }
                    }
                    _ => {
                        // No process begins an exchange before all have taken part in the previous one.
                        let meeting = process.reported.len();
                        if processes.iter().any(|other| other.reported.len() < meeting) {
                            continue;
                        }
                        let process = &mut processes[who];
                        process.reported.push(process.adjoints.report(&process.directory));
                        if meeting > 0 {
                            let (newest, has) = least(&processes, meeting - 1);
                            let process = &mut processes[who];
                            process.adjoints.apply(&process.directory, newest, has).unwrap();
                        }
                    }
                }
                for kind in [0, PARITIES] {
                    let present = !all_have(&processes, kind).is_empty();
                    prop_assert!(present || !before[kind], "{}", kind);
                    before[kind] = present;
                }
            }
        }
    }

    /// Catches versions that are checked again and again.
    #[test]
    fn what_is_gone_is_not_looked_at() {
        let mut process = process();
        for version in 0..10_000 {
            process.adjoints.begin(1).unwrap();
            process.directory.files.borrow_mut().insert(version, FileState::Present);
            process.adjoints.apply_alone(&process.directory).unwrap();
        }
        assert_eq!(process.directory.files.borrow().len(), 1);
        assert!(process.directory.checks.get() < 100_000);
    }

    /// A protected version stays until the next one is protected, whatever its age.
    #[test]
    fn what_is_protected_stays() {
        let mut process = process();
        for version in 0..40 {
            process.adjoints.begin(1).unwrap();
            process.directory.files.borrow_mut().insert(version, FileState::Present);
            if version % 10 == 3 {
                process.directory.parities.borrow_mut().insert(version, FileState::Pending);
            }
            if version % 10 == 6 {
                process.directory.parities.borrow_mut().insert(version - 3, FileState::Present);
            }
            process.adjoints.apply_alone(&process.directory).unwrap();
            let left: Vec<i32> = process.directory.files.borrow().keys().copied().collect();
            let last = version - (version - 6).rem_euclid(10) - 3;
            let mut expected = vec![last, version];
            if (3..6).contains(&(version % 10)) {
                expected.insert(1, version - version % 10 + 3);
            }
            expected.retain(|version| *version >= 0);
            expected.dedup();
            assert_eq!(left, expected, "at version {version}");
        }
    }
}
