//! The copies of checkpoints that are stored: found by the names of files, and looked at.
//!
//! | file | is |
//! | --- | --- |
//! | [`places`] | the directories to look in, as the user names them |
//! | [`scan`] | the copies, by the names of files |
//! | [`look`] | the state of each copy: whole, damaged, of which size |
//! | [`group`] | copies by checkpoint and version, and what can be restored |
//! | [`ranks`] | numbers as ranges |
//! | [`show`] | both commands' tables |

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use files::read_note;
use format::delta::Base;
use format::names;
use format::proof::Proof;
use format::subarray::Subarray;
use serde::{Serialize, Serializer};

use crate::bases::IncrementalFile;
use crate::output;

pub(crate) mod group;
pub(crate) mod look;
pub(crate) mod places;
pub(crate) mod ranks;
pub(crate) mod scan;
pub(crate) mod show;

/// The place of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CopyPlace {
    /// A file in scratch.
    Scratch,
    /// A file in persistent, or a link there to the file of a file-based checkpoint.
    Persistent,
    /// A part of an aggregated file in persistent.
    Aggregated,
    /// A file in scratch with parities of other ranks' files, from which those files can be made
    /// again.
    Parity,
}

/// Whether a copy can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Condition {
    /// It can be used, as far as was looked.
    Good,
    /// It cannot be used, and [`StoredCopy::reason`] says why.
    Bad,
    /// The copy was not looked at.
    Unchecked,
}

/// The result of comparing a copy's bytes with its proof or, without a proof, with the checksum of
/// its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChecksumResult {
    /// The bytes were not read.
    Unread,
    /// The bytes are those that were written.
    Good,
    /// The bytes are not those that were written.
    Bad,
    /// There is neither proof nor checksum, so nobody can tell.
    None,
}

/// One rank's copy of a checkpoint in one place.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StoredCopy {
    pub rank: u32,
    /// The place of the copy.
    pub place: CopyPlace,
    #[serde(serialize_with = "output::path")]
    pub path: PathBuf,
    /// Where in the file the copy begins: 0 except for parts of aggregated files.
    pub offset: u64,
    /// The bytes of the copy.
    pub bytes: u64,
    /// When the file was last changed, in seconds since 1970.
    pub modified: Option<u64>,
    /// The user who owns the file or, if that is this user, the owner of the link to it.
    pub owner: Option<u32>,
    /// The file of a file-based checkpoint that this is a copy of or a link to.
    #[serde(serialize_with = "output::optional_path")]
    pub routed: Option<PathBuf>,
    /// Whether the copy can be used.
    pub condition: Condition,
    /// Why the copy cannot be used.
    pub reason: Option<String>,
    /// Whether the bytes are those that were written.
    pub checksum: ChecksumResult,
    /// The number of ranks of the copy's job, if its proof says so.
    pub job_ranks: Option<u32>,
    /// What it says about itself, if it is of an incremental job. In JSON, the version that it is a delta of.
    #[serde(rename = "delta_of", serialize_with = "delta_of")]
    pub incremental: Option<IncrementalFile>,
    /// The proof of the copy, if it has one.
    #[serde(skip)]
    pub proof: Option<Proof>,
    /// Which parts of arrays its regions are (`VELOC_Mem_decompose`).
    #[serde(skip)]
    pub parts: Vec<(i32, Subarray)>,
}

impl StoredCopy {
    /// A copy that was not looked at yet, in a file of its own or in a part of one.
    pub(crate) fn new(
        rank: u32,
        place: CopyPlace,
        path: PathBuf,
        part: Option<Range<u64>>,
    ) -> StoredCopy {
        StoredCopy {
            rank,
            place,
            path,
            offset: part.as_ref().map_or(0, |part| part.start),
            bytes: part.map_or(0, |part| part.end - part.start),
            modified: None,
            owner: None,
            routed: None,
            condition: Condition::Unchecked,
            reason: None,
            checksum: ChecksumResult::Unread,
            job_ranks: None,
            incremental: None,
            proof: None,
            parts: Vec::new(),
        }
    }

    /// The range of the copy in the file.
    pub(crate) fn part(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes
    }

    /// The file that it is a delta of.
    pub(crate) fn base(&self) -> Option<&Base> {
        self.incremental.as_ref()?.base.as_ref()
    }

    /// Notes why the copy cannot be used.
    pub(crate) fn condemn(&mut self, reason: impl Into<String>) {
        self.condition = Condition::Bad;
        self.reason = Some(reason.into());
    }

    /// Whether a restart can read this rank's checkpoint from the copy.
    pub(crate) fn restores(&self) -> bool {
        self.condition == Condition::Good && self.place != CopyPlace::Parity
    }

    /// Whether the copy can be of a job of so many ranks.
    pub(crate) fn is_of_job(&self, ranks: u32) -> bool {
        self.job_ranks.is_none_or(|of| of == ranks)
    }
}

fn delta_of<S: Serializer>(
    incremental: &Option<IncrementalFile>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let base = incremental.as_ref().and_then(|incremental| incremental.base.as_ref());
    base.map(|base| base.version).serialize(serializer)
}

/// The user whose rights this process has.
pub(crate) fn own_user() -> u32 {
    // SAFETY: geteuid takes no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// The file that a file-based checkpoint (`VELOC_Route_file`) was routed from, if the file at
/// `path` is such a checkpoint: a note beside it in scratch says so, and in persistent it is a
/// link.
pub(crate) fn routed(path: &Path) -> Option<PathBuf> {
    if let Ok(target) = fs::read_link(path) {
        return Some(target);
    }
    let file = path.file_name()?.to_str()?;
    let note = path.with_file_name(names::routed_note(file));
    read_note(&note, path).ok().flatten().map(PathBuf::from)
}
