//! The copies of checkpoints that are stored: found by the names of files, and looked at.
//!
//! | file | is |
//! | --- | --- |
//! | [`places`] | the directories to look in, as the user names them |
//! | [`scan`] | which copies there are, by the names of files |
//! | [`look`] | what each of them is: whole, damaged, of which size |
//! | [`group`] | copies by checkpoint and version, and what can be restored |
//! | [`ranks`] | numbers as ranges |
//! | [`show`] | both commands' tables |

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use format::names;
use format::proof::Proof;
use levels::files::read_note;
use serde::Serialize;

use crate::output;

pub(crate) mod group;
pub(crate) mod look;
pub(crate) mod places;
pub(crate) mod ranks;
pub(crate) mod scan;
pub(crate) mod show;

/// Where a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// A file in scratch.
    Scratch,
    /// A file in persistent, or a link there to the file of a file-based checkpoint.
    Persistent,
    /// A part of an aggregated file in persistent.
    Aggregated,
    /// In scratch: parities of other ranks' files, from which those can be made again.
    Parity,
}

/// Whether a copy can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Condition {
    /// As far as was looked, it can.
    Good,
    /// It cannot, and [`Copy::reason`] says why.
    Bad,
    /// It was not looked at.
    Unchecked,
}

/// What is known of a copy's bytes by its proof or, if it has none, by the checksum of its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Checksum {
    /// Nobody has looked.
    Unread,
    /// They are those that were written.
    Good,
    /// They are not.
    Bad,
    /// There is neither, so nobody can tell.
    None,
}

/// One rank's copy of a checkpoint in one place.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Copy {
    /// The rank.
    pub rank: u32,
    /// Where it is.
    pub place: Place,
    /// The file.
    #[serde(serialize_with = "output::path")]
    pub path: PathBuf,
    /// Where in the file it begins: 0 but for parts of aggregated files.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// When it was last changed, in seconds since 1970.
    pub modified: Option<u64>,
    /// The user who owns it or, if that is this one, the link to it.
    pub owner: Option<u32>,
    /// The file of a file-based checkpoint that this is a copy of or a link to.
    #[serde(serialize_with = "output::optional_path")]
    pub routed: Option<PathBuf>,
    /// Whether it can be used.
    pub condition: Condition,
    /// What is wrong with it.
    pub reason: Option<String>,
    /// What is known of its bytes.
    pub checksum: Checksum,
    /// How many ranks the job had that it is of, if its proof says so.
    pub job_ranks: Option<u32>,
    /// Its proof, if it has one.
    #[serde(skip)]
    pub proof: Option<Proof>,
}

impl Copy {
    /// One that nobody has looked at yet, of all or a part of a file.
    fn new(rank: u32, place: Place, path: PathBuf, part: Option<Range<u64>>) -> Copy {
        Copy {
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
            checksum: Checksum::Unread,
            job_ranks: None,
            proof: None,
        }
    }

    /// Its bytes in the file.
    pub(crate) fn part(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes
    }

    /// Notes what is wrong with it.
    pub(crate) fn condemn(&mut self, reason: impl Into<String>) {
        self.condition = Condition::Bad;
        self.reason = Some(reason.into());
    }

    /// Whether a restart can read this rank's checkpoint from it.
    pub(crate) fn restores(&self) -> bool {
        self.condition == Condition::Good && self.place != Place::Parity
    }

    /// Whether it can be of a job of so many ranks.
    pub(crate) fn is_of_job(&self, ranks: u32) -> bool {
        self.job_ranks.is_none_or(|of| of == ranks)
    }
}

/// The user whose rights this process has.
pub(crate) fn own_user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Where a file-based checkpoint (`VELOC_Route_file`) was routed from, if the file at `path` is
/// one: a note beside it in scratch says so, and in persistent it is a link.
pub(crate) fn routed(path: &Path) -> Option<PathBuf> {
    if let Ok(target) = fs::read_link(path) {
        return Some(target);
    }
    let file = path.file_name()?.to_str()?;
    let note = path.with_file_name(names::routed_note(file));
    read_note(&note, path).ok().flatten().map(PathBuf::from)
}
