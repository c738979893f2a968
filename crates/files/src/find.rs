//! Finding the copies of a checkpoint.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

mod read;

pub use read::{Target, Wanted};

use super::expected::{Checks, Evidence};
use super::opened::{Found, Opened, ProvenBy};
use super::places::Places;
use super::routed::RoutedFiles;
use super::runs::Runs;
use super::sums::Sums;
use super::warnings::Warnings;
use catalog::FileLevel;
use errors::{Error, ErrorKind, Result};
use format::aggregate::Offsets;
use format::checksum::Checksum;
use format::delta::{self, Base, DeltaTable, StoredCheckpoint};
use format::frames::FileContent;
use format::header::{Decoded, Header};
use format::identity::Identity;
use format::names;
use format::proof::{Digest, Proof};
use format::subarray;
use os::files::{self, OtherUser};

/// A copy of a checkpoint, or why it cannot be opened; and its owner, if that is another user.
pub(super) type Copy = (Result<Opened>, Option<OtherUser>);

/// The warning about a copy that is not good.
fn passed_over(error: &Error) -> String {
    format!("{error}; looking for another copy")
}

/// The copies of this process's checkpoints.
#[derive(Debug)]
pub struct Copies {
    places: Arc<Places>,
    warnings: Arc<Warnings>,
    sums: Arc<Sums>,
    checks: Arc<Checks>,
    runs: Arc<Runs>,
    routed: Arc<RoutedFiles>,
}

impl Copies {
    pub(super) fn new(
        (places, warnings, sums): (Arc<Places>, Arc<Warnings>, Arc<Sums>),
        checks: Arc<Checks>,
        runs: Arc<Runs>,
        routed: Arc<RoutedFiles>,
    ) -> Copies {
        Copies { places, warnings, sums, checks, runs, routed }
    }

    /// The same copies, of which only those that this run may have made are read.
    fn of_run(&self, identity: Identity) -> Copies {
        let Copies { places, warnings, sums, checks, .. } = self;
        let runs = Arc::new(self.runs.of_run(identity));
        let routed = Arc::new(self.routed.of_run(runs.clone()));
        let below = (places.clone(), warnings.clone(), sums.clone());
        Copies::new(below, checks.clone(), runs, routed)
    }

    /// For a file-based checkpoint, the path that the application asked to have routed.
    pub fn routed(&self, name: &str, version: i32) -> Result<Option<String>> {
        self.routed.routed(name, version)
    }

    /// This process's part of an aggregated file.
    pub(super) fn open_part(&self, name: &str, version: i32) -> Result<Opened> {
        let missing = || Error::new(ErrorKind::NotFound, "there is no aggregated file");
        let (path, table) = self.places.aggregated_paths(name, version).ok_or_else(missing)?;
        let file = files::open(&path)?;
        let len = files::len(&file, &path)?;
        let (offsets, without_table) = Offsets::find(&table, &file, len, &path)?;
        if let Some(found) = without_table {
            self.warnings.once(found);
        }
        let part: Range<u64> = offsets.part(self.places.rank() as usize).ok_or_else(missing)?;
        let content = FileContent::of(&file, part.clone(), &path)?;
        let header = Header::read(&file, &content, &path)?;
        let proven_by = ProvenBy::Table(offsets.proof(self.places.rank() as usize));
        Ok(Opened { file, path, part, content, header, proven_by })
    }

    /// The nearest good file of a checkpoint: scratch, then persistent.
    ///
    /// # Errors
    /// There is none; or why the last one is not good, with its path.
    pub fn open_nearest(&self, name: &str, version: i32) -> Result<Opened> {
        self.nearest(name, version, |opened| self.checks.checked(opened, name, version, || Ok(())))
    }

    /// Whether a copy of a checkpoint has a region itself.
    pub fn have_region(&self, name: &str, version: i32, id: i32) -> bool {
        let has = |opened: &Opened| opened.header.region(id).is_some();
        self.files_of(name, version).any(|(opened, _)| opened.is_ok_and(|opened| has(&opened)))
    }

    /// The proofs of the copies of a checkpoint that have one.
    ///
    /// # Errors
    /// None can be opened: the last one's.
    pub fn proofs(&self, name: &str, version: i32) -> Result<Vec<Proof>> {
        let (mut found, mut failed) = (Vec::new(), None);
        for (opened, _) in self.copies(name, version) {
            match opened.and_then(|opened| opened.proof()) {
                Ok(proof) => found.extend(proof),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => failed = Some(error),
            }
        }
        match failed.filter(|_| found.is_empty()) {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }

    /// The copy whose proof has this digest. Its bytes are not compared with that: another process has done so.
    ///
    /// # Errors
    /// There is none.
    pub fn open_known(&self, name: &str, version: i32, digest: Digest) -> Result<Opened> {
        let of_proof = |opened: &Opened| opened.proof().ok().flatten().and_then(|p| p.digest);
        let mut copies = self.copies(name, version).filter_map(|(opened, _)| opened.ok());
        let found = copies.find(|opened| of_proof(opened) == Some(digest));
        found.ok_or_else(|| self.places.no_file(name, version))
    }

    /// The header that all of this user's copies of a checkpoint have, without a look at checksums.
    /// `None` if they differ, or there are none.
    pub fn undisputed_header(&self, name: &str, version: i32) -> Option<Decoded> {
        if self.routed.is_routed(name, version) {
            return None;
        }
        let own = self.copies(name, version).filter(|(_, other)| other.is_none());
        let mut headers = own.filter_map(|(opened, _)| Some(opened.ok()?.header));
        let header = headers.next()?;
        headers.all(|other| other == header).then_some(header)
    }

    /// Calls `take` with the copies of a checkpoint, the nearest first, until it succeeds with one.
    pub(super) fn nearest<T>(
        &self,
        name: &str,
        version: i32,
        mut take: impl FnMut(Opened) -> Result<T>,
    ) -> Result<T> {
        let mut last: Option<(Error, bool)> = None;
        let pass_over = |last: &mut Option<(Error, bool)>| {
            if let Some((error, _)) = last.take().filter(|(_, is_said)| *is_said) {
                self.warnings.once(passed_over(&error));
            }
        };
        let copies: Box<dyn Iterator<Item = Copy>> = match self.sums.keeps_checksums() {
            true => Box::new(self.best_known_first(name, version).into_iter()),
            false => Box::new(self.copies(name, version)),
        };
        for (opened, other) in copies {
            if let (Ok(opened), Some(other)) = (&opened, other) {
                self.warnings.say_whose(&opened.path, other);
            }
            match opened.and_then(&mut take) {
                Ok(taken) => {
                    pass_over(&mut last);
                    return Ok(taken);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                // No other copy would help.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Driver(_) | ErrorKind::Internal) =>
                {
                    return Err(error);
                }
                Err(error) => {
                    // The last copy's error is returned; those before it are warnings.
                    pass_over(&mut last);
                    // An array that other ranks have cut can be put together all the same.
                    let is_said = error.kind() != ErrorKind::OtherJob
                        || !self.have_region(name, version, subarray::REGION);
                    last = Some((error, is_said));
                }
            }
        }
        Err(last.map_or_else(|| self.places.no_file(name, version), |(error, _)| error))
    }

    /// The copies of a checkpoint where checksums are kept: this user's before others', copies that
    /// can be compared with something before those that cannot, and then the nearest first.
    fn best_known_first(&self, name: &str, version: i32) -> Vec<Copy> {
        let judged = self.copies(name, version).map(|(opened, other)| {
            let expected =
                opened.as_ref().ok().map(|opened| self.checks.expected(opened, name, version));
            // A copy that cannot be read gives its error when it is its turn.
            let evidence = expected.and_then(Result::ok).map_or(Evidence::Current, |(_, e)| e);
            ((other.is_some(), evidence), (opened, other))
        });
        let mut judged: Vec<_> = judged.collect();
        judged.sort_by_key(|(rank, _)| *rank);
        judged.into_iter().map(|(_, copy)| copy).collect()
    }

    /// The copies that a checkpoint may have, each opened when it is its turn: the nearest first,
    /// and those of other users, who are named, last.
    pub(super) fn copies<'a>(
        &'a self,
        name: &'a str,
        version: i32,
    ) -> impl Iterator<Item = Copy> + 'a {
        let find = move |base: &Base| self.base_of_delta(name, base);
        let copies = self.files_of(name, version);
        copies.map(move |(opened, other)| {
            let opened = opened.and_then(|opened| self.runs.of_wanted_run(opened));
            (opened.and_then(|opened| opened.with_bases(&find)), other)
        })
    }

    /// The number of a version's file, and how many deltas lead from it to one that has everything. `None`: it has no
    /// table of changes, or cannot be read.
    pub fn number_in_chain(&self, name: &str, version: i32) -> Option<(u64, u64)> {
        let Ok(Found::Regions(opened)) = self.look(name, version) else { return None };
        let table = delta::table_of(&opened.file, opened.part.clone(), &opened.path).ok()??;
        Some((table.number, table.chain))
    }

    /// The file that a delta needs: the nearest good one that it was taken from.
    pub(super) fn base_of_delta(&self, name: &str, base: &Base) -> Result<StoredCheckpoint> {
        let mut another = None;
        for (opened, other) in self.files_of(name, base.version) {
            let found = opened.and_then(|opened| {
                let table = delta::table_of(&opened.file, opened.part.clone(), &opened.path)?;
                if table.is_some_and(|table| table.number == base.number) {
                    return self.checks.checked(opened, name, base.version, || Ok(()));
                }
                let what = "it is another checkpoint than its deltas were taken from";
                Err(Error::new(ErrorKind::Corrupt, what).within(opened.path.display()))
            });
            match found {
                Ok(Opened { file, part, path, .. }) => {
                    if let Some(other) = other {
                        self.warnings.say_whose(&path, other);
                    }
                    return Ok(StoredCheckpoint { file, part, path });
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => another = Some(error),
            }
        }
        // The delta is there, and of no use: that is no absence.
        let missing =
            || Error::new(ErrorKind::Corrupt, self.places.no_file(name, base.version).to_string());
        Err(another.unwrap_or_else(missing))
    }

    /// The first version below a delta of which there is no file, or only another checkpoint's. `None`: all are there.
    pub fn missing_base(&self, name: &str, version: i32) -> Option<i32> {
        let mut next = Base { version, number: 0 };
        loop {
            let tables = self.files_of(name, next.version).filter_map(|(opened, _)| {
                let opened = opened.ok()?;
                delta::table_of(&opened.file, opened.part.clone(), &opened.path).ok()?
            });
            let is_one =
                |table: &DeltaTable| next.version == version || table.number == next.number;
            match tables.into_iter().find(is_one) {
                Some(table) => next = table.needed().filter(|base| base.version < next.version)?,
                None if next.version == version => return None,
                None => return Some(next.version),
            }
        }
    }

    /// The version that this process's file of a checkpoint in a level is a delta of.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`], [`ErrorKind::NotFound`], or the system's; with the path.
    pub fn base_in(&self, level: FileLevel, name: &str, version: i32) -> Result<Option<i32>> {
        let own = match level {
            FileLevel::Scratch => Some(self.places.scratch_path(name, version)?),
            FileLevel::Persistent => self.places.persistent_path(name, version),
        };
        let own = own.filter(|path| path.exists()).map(|path| Opened::read(&path));
        let opened = own.unwrap_or_else(|| self.open_part(name, version))?;
        let table = delta::table_of(&opened.file, opened.part.clone(), &opened.path)?;
        Ok(table.and_then(|table| table.needed()).map(|base| base.version))
    }

    /// The files of a checkpoint, in the same order, each with the regions that it has itself.
    fn files_of<'a>(&'a self, name: &'a str, version: i32) -> impl Iterator<Item = Copy> + 'a {
        let scratch = self.places.scratch().map(|_| {
            [self.places.own_path(name, version), self.places.scratch_path(name, version)]
        });
        let mut scratch: Vec<PathBuf> =
            scratch.into_iter().flatten().filter_map(Result::ok).collect();
        scratch.dedup();
        // A link there is nobody's version.
        scratch.retain(|path| !path.is_symlink());
        let files = scratch.into_iter().chain(self.places.persistent_path(name, version));
        let files = files.map(|path| Opened::read(&path));
        // The part of an aggregated file is looked for last, and only if it is needed.
        let mut all = files.chain(std::iter::once_with(move || self.open_part(name, version)));
        let mut of_others = VecDeque::new();
        std::iter::from_fn(move || {
            for copy in all.by_ref() {
                let whose = |opened: &Opened| files::other_owner_of(&opened.file, &opened.path);
                match copy.as_ref().ok().and_then(whose) {
                    None => return Some((copy, None)),
                    other => of_others.push_back((copy, other)),
                }
            }
            of_others.pop_front()
        })
    }

    /// The checksum that was kept of a checkpoint's file, if this job compares checksums.
    pub fn kept_checksum(&self, name: &str, version: i32) -> Result<Option<Checksum>> {
        let file = names::checkpoint_file(name, self.places.rank(), version);
        let kept = self.sums.kept();
        kept.map_or(Ok(None), |sums| sums.get(&file))
    }

    /// Finds a checkpoint's file that can be restored: one with regions, or a routed one.
    pub fn look(&self, name: &str, version: i32) -> Result<Found> {
        // Upstream leaves a link but no note, and no copy has a header.
        let routed = self.routed.is_routed(name, version)
            || (self.places.is_linked(name, version)
                && !self.copies(name, version).any(|(opened, _)| opened.is_ok()));
        if routed {
            return self.routed.routed_copy(name, version).map(Found::Routed);
        }
        self.open_nearest(name, version).map(Found::Regions)
    }

    /// The runs of the good copies of a version, the nearest first.
    pub fn identities(&self, name: &str, version: i32) -> Vec<Identity> {
        let mut made: Vec<Identity> = Vec::new();
        if self.routed.is_routed(name, version) || self.places.is_linked(name, version) {
            let paths = self.places.scratch_path(name, version).ok();
            for path in paths.into_iter().chain(self.places.persistent_path(name, version)) {
                if let Ok(file) = files::open(&path) {
                    made.push(self.runs.identity_of(&file, &path));
                }
            }
        } else {
            let opened = self.copies(name, version).filter_map(|(opened, _)| opened.ok());
            made.extend(opened.map(|opened| self.runs.identity_of_copy(&opened)));
        }
        let mut good = Vec::new();
        for one in made {
            if !good.contains(&one) && self.of_run(one).look(name, version).is_ok() {
                good.push(one);
            }
        }
        good
    }
}
