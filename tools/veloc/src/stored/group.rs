//! Copies by checkpoint and version: which ranks have one, and what all ranks can restore.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Result;
use config::{Directories, ProofPolicy};
use errors::Error;
use format::identity::{common, Identity};
use format::subarray;
use serde::Serialize;

use super::scan::{self, CheckpointKey, Damaged, VersionCopies};
use super::{look, own_user, ChecksumResult, Condition, CopyPlace, StoredCopy};
use crate::{bases, output};

/// What to look at, and how closely.
#[derive(Debug)]
pub(crate) struct StoredQuestion<'a> {
    /// The directories to look in.
    pub directories: &'a Directories,
    /// Only checkpoints of this name.
    pub name: Option<&'a str>,
    /// Only this version.
    pub version: Option<i32>,
    /// The ranks of the job are 0 to this less 1; `None`: those that have any version of the name.
    pub ranks: Option<u32>,
    /// Whether to read all bytes.
    pub read_all: bool,
}

/// The answer. The field names of its JSON are part of the interface.
#[derive(Debug, Serialize)]
pub(crate) struct StoredAnswer {
    /// The directories that were looked in.
    pub directories: Looked,
    /// The stored checkpoints, by name and version.
    pub checkpoints: Vec<StoredVersion>,
    /// The sums of all checkpoints.
    pub totals: Totals,
    /// The versions that all ranks can restore, by name.
    pub restorable: BTreeMap<String, Vec<i32>>,
    /// The number of ranks of the job, if given.
    #[serde(skip)]
    pub ranks: Option<u32>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Looked {
    /// The directory of the node.
    #[serde(serialize_with = "output::optional_path")]
    pub scratch: Option<PathBuf>,
    /// The directory on the parallel file system.
    #[serde(serialize_with = "output::optional_path")]
    pub persistent: Option<PathBuf>,
    /// The directory with checksums and tables.
    #[serde(serialize_with = "output::optional_path")]
    pub meta: Option<PathBuf>,
}

/// One version of a checkpoint.
#[derive(Debug, Serialize)]
pub(crate) struct StoredVersion {
    pub name: String,
    pub version: i32,
    /// Whether every rank of the job has a good copy.
    pub restorable: bool,
    /// The ranks that have no good copy.
    pub missing_ranks: BTreeSet<u32>,
    /// The numbers of ranks in the proofs of the good copies: more than one if they are of several
    /// jobs.
    pub jobs: BTreeSet<u32>,
    /// Whether the good copies cannot all be of one job, or not of the job that was asked for.
    #[serde(skip)]
    pub is_of_others: bool,
    /// Whether a job of any number of ranks can restore it: its arrays are cut (`VELOC_Mem_decompose`).
    pub any_ranks: bool,
    /// Why not, although they are cut, and the number of ranks that can.
    #[serde(skip)]
    pub bad_cut: Option<(u32, String)>,
    /// Whether no run has made a good copy of each rank.
    pub of_several_runs: bool,
    /// The versions that copies are deltas of (`incremental = true`).
    pub delta_of: BTreeSet<i32>,
    /// The bytes of all copies.
    pub bytes: u64,
    /// The copies, by rank and place.
    pub copies: Vec<StoredCopy>,
    /// Aggregated files that cannot be read.
    pub damaged: Vec<Damaged>,
}

/// Sums.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Totals {
    pub names: usize,
    /// Versions of all names.
    pub versions: usize,
    /// Copies of all versions, parities counted in.
    pub copies: usize,
    /// The bytes of all copies.
    pub bytes: u64,
    /// The copies and aggregated files that cannot be used.
    pub bad: usize,
}

impl StoredVersion {
    /// The copies that cannot be used.
    pub(crate) fn bad(&self) -> usize {
        let bad = self.copies.iter().filter(|copy| copy.condition == Condition::Bad);
        bad.count() + self.damaged.len()
    }

    /// The ranks whose copies were read, and none of whose copies could be compared with what was
    /// written.
    pub(crate) fn unchecked_ranks(&self) -> BTreeSet<u32> {
        let restores = self.copies.iter().filter(|copy| copy.restores());
        let (known, unknown): (Vec<_>, Vec<_>) =
            restores.partition(|copy| copy.checksum != ChecksumResult::None);
        let known: BTreeSet<u32> = known.iter().map(|copy| copy.rank).collect();
        unknown.iter().map(|copy| copy.rank).filter(|rank| !known.contains(rank)).collect()
    }

    /// The ranks that have a copy of another user, by that user.
    pub(crate) fn ranks_of_others(&self) -> BTreeMap<u32, BTreeSet<u32>> {
        let mut others: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let own = own_user();
        for copy in &self.copies {
            if let Some(user) = copy.owner.filter(|user| *user != own) {
                others.entry(user).or_default().insert(copy.rank);
            }
        }
        others
    }

    pub(crate) fn ranks_in(&self, place: CopyPlace) -> BTreeSet<u32> {
        self.copies.iter().filter(|copy| copy.place == place).map(|copy| copy.rank).collect()
    }
}

pub(crate) fn ask(question: &StoredQuestion) -> Result<StoredAnswer> {
    let found = scan::scan(question.directories, question.name)?;
    let ranks = ranks_of(&found, question.ranks);
    let is_asked_for =
        |(_, of): &CheckpointKey| question.version.is_none_or(|version| version == *of);
    let (mut found, mut rest) = found.into_iter().partition(|(key, _)| is_asked_for(key));
    look::headers(&mut found);
    bases::add_needed(&mut found, &mut rest);
    if question.read_all {
        look::contents(&mut found, question.directories.meta.as_deref());
    }
    bases::judge(&mut found);
    found.retain(|key, _| is_asked_for(key));
    let mut checkpoints = Vec::new();
    let (mut totals, mut restorable) = (Totals::default(), BTreeMap::new());
    for ((name, version), stored) in found {
        let ranks = ranks.get(&name).cloned().unwrap_or_default();
        let version = group(name, version, stored, ranks, question);
        totals.versions += 1;
        totals.copies += version.copies.len();
        totals.bytes += version.bytes;
        totals.bad += version.bad();
        let versions: &mut Vec<i32> = restorable.entry(version.name.clone()).or_default();
        if version.restorable {
            versions.push(version.version);
        }
        checkpoints.push(version);
    }
    totals.names = restorable.len();
    let Directories { scratch, persistent, meta, .. } = question.directories.clone();
    let directories = Looked { scratch, persistent, meta };
    Ok(StoredAnswer { directories, checkpoints, totals, restorable, ranks: question.ranks })
}

/// The ranks of the job of each name: as given, or all that have any version.
fn ranks_of(
    found: &BTreeMap<CheckpointKey, VersionCopies>,
    given: Option<u32>,
) -> BTreeMap<String, BTreeSet<u32>> {
    let mut ranks: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for ((name, _), stored) in found {
        let of = ranks.entry(name.clone()).or_default();
        match given {
            Some(given) => of.extend(0..given),
            None => of.extend(stored.copies.iter().map(|copy| copy.rank)),
        }
    }
    ranks
}

fn group(
    name: String,
    version: i32,
    stored: VersionCopies,
    ranks: BTreeSet<u32>,
    question: &StoredQuestion,
) -> StoredVersion {
    let VersionCopies { mut copies, damaged } = stored;
    copies.sort_by_key(|copy| (copy.rank, copy.place));
    let (ranks, any_ranks, bad_cut) = match cut_of(&copies) {
        Some((job, Ok(()))) => ((0..job).collect(), true, None),
        Some((job, Err(why))) => (ranks, false, Some((job, why.to_string()))),
        None => (ranks, false, None),
    };
    let good = || copies.iter().filter(|copy| copy.restores() && ranks.contains(&copy.rank));
    let able: BTreeSet<u32> = good().map(|copy| copy.rank).collect();
    let missing_ranks: BTreeSet<u32> = ranks.difference(&able).copied().collect();
    let jobs: BTreeSet<u32> = good().filter_map(|copy| copy.job_ranks).collect();
    let can_be_of = |job: u32| {
        let of_job = good().filter(|copy| copy.is_of_job(job)).map(|copy| copy.rank);
        of_job.collect::<BTreeSet<u32>>() == able
    };
    // The rule of a restart.
    let is_of_others = !any_ranks
        && question.directories.proof == ProofPolicy::Check
        && match question.ranks {
            Some(job) => !can_be_of(job),
            None => !jobs.is_empty() && !jobs.iter().any(|job| can_be_of(*job)),
        };
    let runs = able.iter().map(|rank| {
        let proves = question.directories.proof != ProofPolicy::Off;
        let made_by =
            |copy: &StoredCopy| copy.proof.as_ref().filter(|_| proves).map(|proof| proof.identity);
        let own = good().filter(|copy| copy.rank == *rank);
        own.map(|copy| made_by(copy).unwrap_or(Identity::UNKNOWN)).collect()
    });
    let of_several_runs = !any_ranks && common(&runs.collect::<Vec<_>>()).is_none();
    let others = is_of_others || of_several_runs;
    StoredVersion {
        name,
        version,
        restorable: missing_ranks.is_empty() && !able.is_empty() && !others,
        of_several_runs,
        missing_ranks,
        jobs,
        is_of_others,
        any_ranks,
        bad_cut,
        delta_of: copies.iter().filter_map(|copy| Some(copy.base()?.version)).collect(),
        bytes: copies.iter().map(|copy| copy.bytes).sum(),
        copies,
        damaged,
    }
}

/// The number of ranks whose files in persistent are there, of one run, and have parts of arrays; and whether these make
/// up the arrays.
fn cut_of(copies: &[StoredCopy]) -> Option<(u32, Result<(), Error>)> {
    let mut jobs: BTreeMap<(Identity, u32), BTreeMap<u32, &StoredCopy>> = BTreeMap::new();
    for copy in copies.iter().filter(|copy| copy.restores() && !copy.parts.is_empty()) {
        let is_shared = matches!(copy.place, CopyPlace::Persistent | CopyPlace::Aggregated);
        let made = copy.proof.as_ref().map(|proof| (proof.identity, proof.ranks));
        if let Some(made) = made.filter(|(run, ranks)| is_shared && run.is_known() && *ranks > 0) {
            jobs.entry(made).or_default().insert(copy.rank, copy);
        }
    }
    let is_whole =
        |of: &(Identity, u32), files: &BTreeMap<u32, &StoredCopy>| files.len() == of.1 as usize;
    let ((_, ranks), files) = jobs.into_iter().find(|(of, files)| is_whole(of, files))?;
    let ids: BTreeSet<i32> =
        files.values().flat_map(|copy| copy.parts.iter().map(|(id, _)| *id)).collect();
    let check = |id: i32| {
        let of = |(rank, copy): (&u32, &&StoredCopy)| {
            let part = copy.parts.iter().find(|(of, _)| *of == id);
            Some((*rank, part?.1))
        };
        let parts: Vec<_> = files.iter().filter_map(of).collect();
        subarray::check_whole(&parts).map_err(|error| error.within(format!("region {id}")))
    };
    Some((ranks, ids.into_iter().try_for_each(check)))
}
