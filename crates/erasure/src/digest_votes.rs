//! Decides by the votes of parity files which files of a version are right. A file with the right name
//! may be an old one: copied from elsewhere, or in a directory that was unavailable for a while.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::encoding::{Encoding, Member};
use format::checksum::Checksum;

/// A file's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Its length in bytes.
    pub len: u64,
    /// Its checksum.
    pub digest: Checksum,
}

impl FileIdentity {
    /// A member's file, as in a parity file.
    pub fn of(member: &Member) -> FileIdentity {
        FileIdentity { len: member.len, digest: member.digest }
    }
}

/// How many parity files have the same digest: in the directories of the processes that keep them, and
/// elsewhere, where they may be outdated.
#[derive(Clone, Copy, Debug, Default)]
struct VoteCount {
    at_home: usize,
    elsewhere: usize,
}

/// The votes of all parity files, by rank.
#[derive(Debug, Default)]
pub struct DigestVotes(BTreeMap<u32, BTreeMap<FileIdentity, VoteCount>>);

/// Whether a file is the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileVerdict {
    /// No parity file disagrees.
    Right,
    /// More parity files have another digest.
    Wrong,
    /// As many parity files have another digest.
    Disputed,
}

impl DigestVotes {
    /// Adds the votes of one parity file; `at_home`: it is in the directory of the process that keeps
    /// it.
    pub fn add(&mut self, encoding: &Encoding, at_home: bool) {
        for member in &encoding.members {
            let of_rank = self.0.entry(member.rank).or_default();
            let votes = of_rank.entry(FileIdentity::of(member)).or_default();
            *(if at_home { &mut votes.at_home } else { &mut votes.elsewhere }) += 1;
        }
    }

    /// Whether a file of a process is the right one. Without votes, any file is right; votes at home
    /// take precedence.
    pub fn verdict(&self, rank: u32, content: FileIdentity) -> FileVerdict {
        let Some(votes) = self.0.get(&rank) else { return FileVerdict::Right };
        let at_home = votes.values().any(|votes| votes.at_home > 0);
        let count = |votes: &VoteCount| if at_home { votes.at_home } else { votes.elsewhere };
        let own = votes.get(&content).map_or(0, count);
        let others = votes.iter().filter(|(other, _)| **other != content);
        match others.map(|(_, votes)| count(votes)).max() {
            Some(most) if most > own => FileVerdict::Wrong,
            Some(most) if most == own => FileVerdict::Disputed,
            None if own == 0 => FileVerdict::Wrong,
            _ => FileVerdict::Right,
        }
    }

    /// Whether all files of this encoding may be right.
    pub fn admits(&self, encoding: &Encoding) -> bool {
        let of = |member: &Member| self.verdict(member.rank, FileIdentity::of(member));
        encoding.members.iter().all(|member| of(member) != FileVerdict::Wrong)
    }
}

/// The first of candidates that may all be right, if they are all the same: otherwise nobody can tell
/// which is.
///
/// # Errors
/// The first candidate, and one that differs.
pub fn undisputed<T>(
    candidates: &[T],
    is_same: impl Fn(&T, &T) -> bool,
) -> Result<Option<&T>, (&T, &T)> {
    let Some(first) = candidates.first() else { return Ok(None) };
    match candidates.iter().find(|other| !is_same(first, other)) {
        Some(other) => Err((first, other)),
        None => Ok(Some(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(byte: u8) -> FileIdentity {
        FileIdentity { len: 10, digest: Checksum::from_bytes([byte; 32]) }
    }

    /// An encoding of ranks 0 to 2 with these files.
    fn encoding(contents: [u8; 3]) -> Encoding {
        let member = |(rank, byte)| {
            let FileIdentity { len, digest } = content(byte);
            Member {
                rank,
                len,
                digest,
                identity: format::identity::Identity::UNKNOWN,
                routed: None,
            }
        };
        let members = (0..).zip(contents).map(member).collect();
        Encoding { name: "x".to_owned(), version: 1, parities: 1, members }
    }

    /// Catches the refusal of a file without votes, the use of a file that was outvoted, and a choice
    /// between two with equal votes.
    #[test]
    fn most_parity_files_are_right() {
        let mut votes = DigestVotes::default();
        assert_eq!(votes.verdict(1, content(9)), FileVerdict::Right);
        votes.add(&encoding([1, 1, 1]), true);
        votes.add(&encoding([1, 2, 1]), true);
        assert_eq!(votes.verdict(1, content(1)), FileVerdict::Disputed);
        assert_eq!(votes.verdict(1, content(2)), FileVerdict::Disputed);
        assert_eq!(votes.verdict(1, content(3)), FileVerdict::Wrong);
        assert_eq!(votes.verdict(0, content(1)), FileVerdict::Right);
        assert_eq!(votes.verdict(0, content(2)), FileVerdict::Wrong);
        votes.add(&encoding([1, 2, 1]), true);
        assert_eq!(votes.verdict(1, content(1)), FileVerdict::Wrong);
        assert_eq!(votes.verdict(1, content(2)), FileVerdict::Right);
        assert!(!votes.admits(&encoding([1, 1, 1])) && votes.admits(&encoding([1, 2, 1])));
        assert_eq!(votes.verdict(7, content(3)), FileVerdict::Right);
    }

    /// Catches outdated parity files that outvote newer ones.
    #[test]
    fn what_is_at_home_counts_before_what_is_elsewhere() {
        let mut votes = DigestVotes::default();
        for _ in 0..3 {
            votes.add(&encoding([1, 1, 1]), false);
        }
        assert_eq!(votes.verdict(2, content(1)), FileVerdict::Right);
        votes.add(&encoding([1, 1, 2]), true);
        assert_eq!(votes.verdict(2, content(1)), FileVerdict::Wrong);
        assert_eq!(votes.verdict(2, content(2)), FileVerdict::Right);
    }

    #[test]
    fn two_that_differ_are_not_chosen_from() {
        let same = |a: &u8, b: &u8| a == b;
        assert_eq!(undisputed(&[], same), Ok(None));
        assert_eq!(undisputed(&[3, 3], same), Ok(Some(&3)));
        assert_eq!(undisputed(&[3, 3, 4], same), Err((&3, &4)));
    }
}
