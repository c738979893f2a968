//! The layout of stripes.
//!
//! There are as many stripes as members. Each member's file is split into as many chunks as a stripe has
//! data blocks. The parities of stripe `i` are kept by member `i` and the following ones, cyclically;
//! each other member has one chunk of its file in the stripe. So all members keep equally many parities,
//! and a lost member loses one block of each stripe.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::code::{Shard, GRAIN};
use errors::{Error, ErrorKind, Result};

pub use policy::LARGEST_GROUP;
/// The most members of a group: a group is split in two only if both halves are large enough for the
/// parities.
pub(crate) const MOST_MEMBERS: usize = 2 * LARGEST_GROUP - 1;

/// The stripes of one encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    members: usize,
    parities: usize,
    chunk: u64,
}

/// Which pieces of a member are intact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intact {
    /// Its checkpoint file.
    pub data: bool,
    /// Its parity file.
    pub parity: bool,
}

impl Layout {
    /// A layout for files of at most `longest` bytes of `members` processes, of which `parities` may be
    /// lost (at least one, and fewer than `members`).
    pub fn new(members: usize, parities: usize, longest: u64) -> Layout {
        let data = (members - parities) as u64;
        Layout { members, parities, chunk: longest.div_ceil(data).next_multiple_of(GRAIN) }
    }

    /// The number of data blocks in a stripe.
    pub fn data(&self) -> usize {
        self.members - self.parities
    }

    /// The number of parities in a stripe.
    pub fn parities(&self) -> usize {
        self.parities
    }

    /// Bytes of a chunk, a multiple of `GRAIN`.
    pub fn chunk(&self) -> u64 {
        self.chunk
    }

    /// Length in bytes of the parities that one member keeps.
    pub fn payload(&self) -> u64 {
        self.parities as u64 * self.chunk
    }

    /// The block that a member has in a stripe.
    pub(crate) fn shard(&self, stripe: usize, member: usize) -> Shard {
        let index = self.index_in_stripe(stripe, member);
        match index.checked_sub(self.parities) {
            None => Shard::Parity(index),
            Some(index) => Shard::Data(index),
        }
    }

    /// Where a member's block begins, in bytes: in its file for a data block, else in its parities.
    pub fn offset(&self, stripe: usize, member: usize) -> u64 {
        let index = self.index_in_stripe(stripe, member);
        let chunk = if index < self.parities { index } else { self.members - 1 - index };
        chunk as u64 * self.chunk
    }

    /// The stripes of which a member keeps a parity, in the order in which it stores them.
    pub(crate) fn stripes_of_parity(&self, member: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.parities).map(move |index| (member + self.members - index) % self.members)
    }

    /// The stripes that have a member's data, in the order of its file.
    pub(crate) fn stripes_of_data(&self, member: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.data()).map(move |chunk| (member + 1 + chunk) % self.members)
    }

    /// Checks that the intact pieces are enough to rebuild every file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] with the missing pieces, named by `ranks`.
    pub fn check(&self, whole: &[Intact], ranks: &[u32]) -> Result<()> {
        let short = (0..self.members).any(|stripe| {
            let has = |member: &usize| match self.shard(stripe, *member) {
                Shard::Data(_) => whole[*member].data,
                Shard::Parity(_) => whole[*member].parity,
            };
            (0..self.members).filter(has).count() < self.data()
        });
        if !short {
            return Ok(());
        }
        let mut text = String::new();
        for (whole, rank) in whole.iter().zip(ranks) {
            let what = match (whole.data, whole.parity) {
                (true, true) => continue,
                (true, false) => "the parity file",
                (false, true) => "the checkpoint file",
                (false, false) => "both files",
            };
            let comma = if text.is_empty() { "" } else { ", " };
            // Writing to a String cannot fail.
            let _ = write!(text, "{comma}{what} of rank {rank}");
        }
        Err(Error::new(
            ErrorKind::NotFound,
            format!(
                "of {} processes with {} parities too much is missing or damaged: {text}",
                self.members, self.parities
            ),
        ))
    }

    /// A member's index in a stripe, counted cyclically from the first one that keeps a parity.
    fn index_in_stripe(&self, stripe: usize, member: usize) -> usize {
        (member + self.members - stripe) % self.members
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The members of a group, fewer than `end`, and its parities.
    fn group(end: usize) -> impl Strategy<Value = (usize, usize)> {
        (2..end).prop_flat_map(|members| (Just(members), 1..members))
    }

    proptest! {
        /// Catches two members with the same block, gaps in a file, and parities kept twice.
        #[test]
        fn every_byte_has_one_place((members, parities) in group(12), longest in 0..5000u64) {
            let layout = Layout::new(members, parities, longest);
            prop_assert!(layout.chunk() * layout.data() as u64 >= longest);
            for stripe in 0..members {
                let shards: BTreeSet<Shard> = (0..members).map(|m| layout.shard(stripe, m)).collect();
                let all: BTreeSet<Shard> = (0..layout.data()).map(Shard::Data)
                    .chain((0..parities).map(Shard::Parity)).collect();
                prop_assert_eq!(shards, all);
            }
            for member in 0..members {
                for (chunk, stripe) in layout.stripes_of_data(member).enumerate() {
                    prop_assert!(matches!(layout.shard(stripe, member), Shard::Data(_)));
                    prop_assert_eq!(layout.offset(stripe, member), chunk as u64 * layout.chunk());
                }
                for (chunk, stripe) in layout.stripes_of_parity(member).enumerate() {
                    prop_assert_eq!(layout.shard(stripe, member), Shard::Parity(chunk));
                    prop_assert_eq!(layout.offset(stripe, member), chunk as u64 * layout.chunk());
                }
            }
        }

        /// As many members as parities may be lost, and not one more piece.
        #[test]
        fn what_may_be_lost((members, parities) in group(10), first in 0..10usize) {
            let layout = Layout::new(members, parities, 1000);
            let ranks: Vec<u32> = (0..members as u32).map(|rank| rank + 20).collect();
            let mut whole = vec![Intact { data: true, parity: true }; members];
            for lost in 0..parities {
                whole[(first + lost) % members] = Intact::default();
            }
            layout.check(&whole, &ranks).unwrap();
            let last = (first + parities) % members;
            whole[last].data = false;
            let error = layout.check(&whole, &ranks).unwrap_err().to_string();
            let data = format!("the checkpoint file of rank {}", ranks[last]);
            prop_assert!(error.contains(&data));
            let both = format!("both files of rank {}", ranks[first % members]);
            prop_assert!(error.contains(&both));
        }
    }
}
