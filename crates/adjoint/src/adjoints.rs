//! Stored adjoints: the newest that every process has in its files stays, and what is older goes.
//!
//! A file comes to its place in the background, at a time of its own in every process, or not at all. So
//! each process says when they meet ([`progress_exchange`](super::progress_exchange)) which is the newest that it has.
//! The least of these is a candidate; at a later meeting each says whether it has that one, too. Only
//! then something older goes, and at any moment there is one that all have.
//!
//! Where parities are made, which may be of few versions and late, the newest one with the parities of all
//! stays in scratch beside it, and what may be the next such one.

use std::collections::BTreeSet;

use client::Client;
use engine::catalog::entry::FileTier;
use os::error::{Error, Result};

/// The tiers of files, by number.
const TIERS: [FileTier; 2] = [FileTier::Scratch, FileTier::Persistent];
/// Behind them: the parities of the files in scratch.
const PARITIES: usize = 2;
/// How many things a process may have of an adjoint.
pub const KINDS: usize = 3;

/// A version for each of these things.
pub type Versions = [Option<i32>; KINDS];

/// Where one process has its adjoints.
pub trait AdjointFiles {
    /// Whether it has this of a version: its file in a tier, or its parities.
    fn has(&self, version: i32, kind: usize) -> bool;

    /// Whether it has its parities of a version, or will have as far as it knows.
    fn may_protect(&self, version: i32) -> bool;

    /// Removes a version from a tier, unless it is in use. Whether it is gone.
    fn retire(&self, version: i32, tier: FileTier) -> Result<bool>;
}

/// That of a client, for the adjoints of a name.
#[derive(Clone, Copy, Debug)]
pub struct ClientFiles<'a> {
    /// The client.
    pub client: &'a Client,
    /// The name of the adjoints.
    pub name: &'a str,
}

impl AdjointFiles for ClientFiles<'_> {
    fn has(&self, version: i32, kind: usize) -> bool {
        match TIERS.get(kind) {
            Some(tier) => self.client.has_file(self.name, version, *tier),
            None => self.client.has_parities(self.name, version),
        }
    }

    fn may_protect(&self, version: i32) -> bool {
        self.client.may_have_parities(self.name, version)
    }

    fn retire(&self, version: i32, tier: FileTier) -> Result<bool> {
        self.client.retire(self.name, version, tier)
    }
}

/// The adjoints of a run.
#[derive(Debug)]
pub struct Adjoints {
    name: String,
    /// Versions that are still in a tier, or on their way there, by tier. `None`: there is no such tier.
    present: [Option<BTreeSet<i32>>; 2],
    next: i32,
    /// The state that the last one stored has come to.
    stored: Option<u64>,
    /// What all have said to have, or newer ones.
    candidate: Versions,
    /// What all are known to have.
    common: Versions,
}

impl Adjoints {
    /// Of this name, of which `present` are left from before in each tier that exists; `next` is the next
    /// one's version, and `stored` the state that the one to go on from has come to.
    pub fn new(
        name: String,
        present: [Option<BTreeSet<i32>>; 2],
        next: i32,
        stored: Option<u64>,
    ) -> Adjoints {
        let (candidate, common) = ([None; KINDS], [None; KINDS]);
        Adjoints { name, present, next, stored, candidate, common }
    }

    /// Their name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The state that the last one stored has come to.
    pub fn stored(&self) -> Option<u64> {
        self.stored
    }

    /// Stores the adjoint, which has come to state `fine`.
    pub fn store(&mut self, client: &mut Client, fine: u64) -> Result<()> {
        let before = self.stored;
        let version = self.begin(fine)?;
        client.take_managed(&self.name, version, None, true).inspect_err(|_| self.stored = before)
    }

    /// The version of the next one, which comes to state `fine`.
    fn begin(&mut self, fine: u64) -> Result<i32> {
        let version = self.next;
        self.next = version.checked_add(1).ok_or_else(|| {
            Error::invalid(format!("\"{}\" has no versions behind {version}", self.name))
        })?;
        for present in self.present.iter_mut().flatten() {
            present.insert(version);
        }
        self.stored = Some(fine);
        Ok(version)
    }

    /// What this process says when all meet: the newest that it has, and which of the candidates.
    pub fn report(&self, files: &impl AdjointFiles) -> (Versions, Versions) {
        let newest = std::array::from_fn(|kind| {
            let tier = if kind == PARITIES { FileTier::Scratch as usize } else { kind };
            let present = self.present[tier].iter().flatten().rev().copied();
            present
                // What is older is of no interest.
                .take_while(|version| Some(*version) >= self.common[kind])
                .find(|version| files.has(*version, kind))
        });
        let has = |kind: usize| self.candidate[kind].filter(|version| files.has(*version, kind));
        (newest, std::array::from_fn(has))
    }

    /// What all have said at a meeting: the least of the newest, and the candidates that all have. What is
    /// of no more use is removed.
    pub fn apply(
        &mut self,
        files: &impl AdjointFiles,
        newest: Versions,
        has: Versions,
    ) -> Result<()> {
        for (common, has) in self.common.iter_mut().zip(has) {
            *common = (*common).max(has);
        }
        self.candidate = newest;
        self.retire(files)
    }

    /// The same for a process that has no others.
    pub fn apply_alone(&mut self, files: &impl AdjointFiles) -> Result<()> {
        let (newest, _) = self.report(files);
        self.apply(files, newest, newest)
    }

    /// Removes what is older than the newest one that all have, by tier.
    fn retire(&mut self, files: &impl AdjointFiles) -> Result<()> {
        let protected = self.common[PARITIES];
        let protects = |version: i32| match protected {
            Some(protected) if version <= protected => version == protected,
            _ => files.may_protect(version),
        };
        for tier in TIERS {
            let (Some(newest), Some(present)) =
                (self.common[tier as usize], &self.present[tier as usize])
            else {
                continue;
            };
            let older: Vec<i32> = present.range(..newest).copied().collect();
            for version in older {
                if tier == FileTier::Scratch && protects(version) {
                    continue;
                }
                // What is still to be copied to persistent goes with a later one.
                if !files.retire(version, tier)? {
                    continue;
                }
                for tier in TIERS {
                    // What was in scratch alone, and is not copied any more, comes to no other tier.
                    let stays = files.has(version, tier as usize);
                    if let Some(present) = self.present[tier as usize].as_mut().filter(|_| !stays) {
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

    /// What becomes of a version on one process.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum FileState {
        Pending,
        Present,
        /// It could not be written, or its parities not be made.
        Missing,
    }

    /// The scratch directory of one process.
    #[derive(Debug, Default)]
    struct Directory {
        files: RefCell<BTreeMap<i32, FileState>>,
        /// Of those that were chosen, as far as it has heard.
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
            self.parities.borrow().get(&version).is_some_and(|fate| *fate != FileState::Missing)
        }

        fn retire(&self, version: i32, _: FileTier) -> Result<bool> {
            self.files.borrow_mut().remove(&version);
            // They are of nothing then.
            self.parities.borrow_mut().insert(version, FileState::Missing);
            Ok(true)
        }
    }

    struct Process {
        adjoints: Adjoints,
        directory: Directory,
        stored: u64,
        /// What it has said at each meeting.
        reported: Vec<(Versions, Versions)>,
    }

    fn process() -> Process {
        // There is a second tier, to which nothing of all that comes.
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

    /// What all have said at a meeting.
    fn least(processes: &[Process], meeting: usize) -> (Versions, Versions) {
        let least = |of: fn(&(Versions, Versions)) -> &Versions| {
            std::array::from_fn(|kind| {
                processes.iter().map(|p| of(&p.reported[meeting])[kind]).min().flatten()
            })
        };
        (least(|reported| &reported.0), least(|reported| &reported.1))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Processes whose files come when they like, and fail as they like, and which meet one after the
        /// other. Catches one that removes what others need: its own newest, or the least of what
        /// each has last, may be one that somebody has not.
        #[test]
        fn there_is_always_one_that_all_have(
            events in prop::collection::vec((0..3_usize, 0..12_u8, any::<u8>()), 1..400),
        ) {
            let mut processes = [process(), process(), process()];
            let mut before = [false; KINDS];
            for (who, what, which) in events {
                let process = &mut processes[who];
                let directory = &process.directory;
                // Of what is open, one that is not the oldest, too.
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
                        let fate = if what == 3 { FileState::Missing } else { FileState::Present };
                        if let Some(version) = open(&directory.files) {
                            directory.files.borrow_mut().insert(version, fate);
                            // One of four is chosen, and not everybody hears of it in time.
                            if version % 4 == 1 && fate == FileState::Present && which % 8 > 0 {
                                directory.parities.borrow_mut().entry(version).or_insert(FileState::Pending);
                            }
                        }
                    }
                    7..9 => {
                        let fate = if which % 5 == 0 { FileState::Missing } else { FileState::Present };
                        if let Some(version) = open(&directory.parities) {
                            directory.parities.borrow_mut().insert(version, fate);
                        }
                    }
                    _ => {
                        // Nobody comes to a meeting before all have come to the one before.
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

    /// Catches versions that are looked at again and again, for ever more of them.
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

    /// A version that is protected stays until the next one is, of whatever age.
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
