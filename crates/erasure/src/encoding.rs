//! What one encoding covers: one version of the members' checkpoint files. Every parity file has
//! it in its header, so that any one of them says who was in the group and what to expect of whom.

use serde::{Deserialize, Serialize};

use super::layout::{Layout, MOST_MEMBERS};
use format::checksum::Checksum;
use format::names;
use os::error::{Error, Kind, Result};

/// No file that is encoded is longer, in bytes.
const LONGEST_FILE: u64 = 1 << 48;

/// One member's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Member {
    /// The process's number in file names.
    pub rank: u32,
    /// Bytes of its checkpoint file.
    pub len: u64,
    /// The checksum of that file.
    pub digest: Checksum,
    /// For a file-based checkpoint, the path that the application asked to have routed.
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
    /// The group, in the order that the stripes follow.
    pub members: Vec<Member>,
}

impl Encoding {
    /// Checks what was read from a file or a connection.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] if it cannot be an encoding.
    pub fn check(&self) -> Result<()> {
        let members = self.members.len();
        let parities = self.parities as usize;
        let distinct = (1..members)
            .all(|at| self.members[..at].iter().all(|other| other.rank != self.members[at].rank));
        let possible = (2..=MOST_MEMBERS).contains(&members)
            && (1..members).contains(&parities)
            && distinct
            && self.members.iter().all(|member| member.len <= LONGEST_FILE)
            && self.version >= 0
            && names::validate_name(&self.name).is_ok();
        if possible {
            return Ok(());
        }
        Err(Error::new(
            Kind::Corrupt,
            format!(
                "checkpoint {:?} version {}: {members} members with {parities} parities are no group, \
                 or their files are too long",
                self.name, self.version
            ),
        ))
    }

    /// What tells it from every other encoding.
    pub fn id(&self) -> Checksum {
        // Plain data: it can always be written.
        Checksum::of(&postcard::to_stdvec(self).unwrap_or_default())
    }

    /// Its stripes.
    pub fn layout(&self) -> Layout {
        let longest = self.members.iter().map(|member| member.len).max().unwrap_or(0);
        Layout::new(self.members.len(), self.parities as usize, longest)
    }

    /// The place of a process in the group.
    pub fn index_of(&self, rank: u32) -> Option<usize> {
        self.members.iter().position(|member| member.rank == rank)
    }

    /// The members' numbers.
    pub fn ranks(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.rank).collect()
    }
}
