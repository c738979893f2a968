//! An encoding: one version of the members' checkpoint files. Every parity file has it in its header, so
//! that each one tells the members and their files.

use serde::{Deserialize, Serialize};

use super::layout::{Layout, MOST_MEMBERS};
use errors::{Error, ErrorKind, Result};
use format::checksum::Checksum;
use format::identity::{common, Identity};
use format::names;

/// The longest file that can be encoded, in bytes.
const LONGEST_FILE: u64 = 1 << 48;

/// One member's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Member {
    /// The process's rank in file names.
    pub rank: u32,
    /// Length of the member's checkpoint file in bytes.
    pub len: u64,
    /// The checksum of that file.
    pub digest: Checksum,
    /// The run that made it.
    pub identity: Identity,
    /// For a file-based checkpoint, the routed path of the application.
    pub routed: Option<String>,
}

/// One encoding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Encoding {
    /// The checkpoint's name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// How many members may be lost.
    pub parities: u32,
    /// The members, in stripe order.
    pub members: Vec<Member>,
}

impl Encoding {
    /// Validates what was read from a file or a connection.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it is not a possible encoding.
    pub fn check(&self) -> Result<()> {
        let members = self.members.len();
        let parities = self.parities as usize;
        let distinct = (1..members)
            .all(|at| self.members[..at].iter().all(|other| other.rank != self.members[at].rank));
        let runs: Vec<_> = self.members.iter().map(|member| vec![member.identity]).collect();
        let of_one_run = common(&runs).is_some();
        let possible = (2..=MOST_MEMBERS).contains(&members)
            && (1..members).contains(&parities)
            && distinct
            && of_one_run
            && self.members.iter().all(|member| member.len <= LONGEST_FILE)
            && self.version >= 0
            && names::validate_name(&self.name).is_ok();
        if possible {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "checkpoint {:?} version {}: {members} members with {parities} parities are no group, \
                 or their files are too long, or of different runs",
                self.name, self.version
            ),
        ))
    }

    /// A checksum that identifies the encoding.
    pub fn id(&self) -> Checksum {
        // Plain data can always be serialized.
        Checksum::of(&postcard::to_stdvec(self).unwrap_or_default())
    }

    /// The layout of its stripes.
    pub fn layout(&self) -> Layout {
        let longest = self.members.iter().map(|member| member.len).max().unwrap_or(0);
        Layout::new(self.members.len(), self.parities as usize, longest)
    }

    /// The index of a rank among the members.
    pub fn index_of(&self, rank: u32) -> Option<usize> {
        self.members.iter().position(|member| member.rank == rank)
    }

    /// The members' ranks.
    pub fn ranks(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.rank).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches parities of files that several runs have made, also where one between them does not say.
    #[test]
    fn members_are_of_one_run() {
        let of = |runs: &[u64]| {
            let members = (0..).zip(runs).map(|(rank, run)| {
                let identity = Identity { run: *run, generation: 0 };
                Member { rank, len: 9, digest: Checksum::of(b"file"), identity, routed: None }
            });
            let members = members.collect();
            Encoding { name: "x".to_owned(), version: 1, parities: 1, members }.check()
        };
        of(&[3, 3, 0]).unwrap();
        of(&[0, 0]).unwrap();
        for runs in [&[3, 4][..], &[3, 0, 4]] {
            assert!(of(runs).unwrap_err().to_string().contains("different runs"), "{runs:?}");
        }
    }
}
