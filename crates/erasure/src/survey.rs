//! Decides before a rebuild which files of a version each process has, and whether these are
//! enough. All processes have the same input, so they reach the same result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::digest_votes::{DigestVotes, FileIdentity, FileVerdict};
use super::encoding::Encoding;
use super::layout::Intact;
use super::parity::ParityHeader;
use errors::{Error, ErrorKind, Result};
use format::checksum::Checksum;

/// One process's files of a version, before anything is verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// The process has a copy that can be restored.
    pub restorable: bool,
    /// This job has taken the version here, so the copy is right.
    pub known: bool,
    /// The header of the process's parity file, if any.
    pub parity: Option<ParityHeader>,
}

/// All processes' files of a version, by rank.
#[derive(Clone, Debug)]
pub struct Survey {
    inventories: Vec<Inventory>,
    /// The encodings by which lost files may be rebuilt.
    chosen: Vec<Encoding>,
    /// For each rank without a file, the index of its encoding in `chosen`.
    lost: BTreeMap<u32, usize>,
}

/// The file that one process has to rebuild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuild {
    /// The encoding to rebuild it by.
    pub encoding: Encoding,
    /// The process's index in that encoding.
    pub own: usize,
    /// The intact pieces of each member.
    pub whole: Vec<Intact>,
    /// The digests of the members' parities.
    pub parities: Vec<Option<Checksum>>,
}

impl Survey {
    /// Chooses, for each process without a file, the encoding with most parity files. A file also counts
    /// as missing if most parity files have another digest for it: its directory was unavailable for a
    /// while.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if a process has no encoding; [`ErrorKind::Corrupt`] if it cannot be decided which
    /// of two files of a process is right.
    pub fn new(inventories: Vec<Inventory>) -> Result<Survey> {
        let mut count: BTreeMap<&Encoding, usize> = BTreeMap::new();
        let mut votes = DigestVotes::default();
        for header in inventories.iter().filter_map(|inventory| inventory.parity.as_ref()) {
            *count.entry(&header.encoding).or_default() += 1;
            votes.add(&header.encoding, true);
        }
        let mut chosen: Vec<Encoding> = Vec::new();
        let mut lost = BTreeMap::new();
        for (rank, inventory) in (0..).zip(&inventories) {
            if inventory.restorable && !is_outdated(rank, inventory, &votes)? {
                continue;
            }
            let best = count
                .iter()
                .filter(|(encoding, _)| encoding.index_of(rank).is_some() && votes.admits(encoding))
                .max_by_key(|(encoding, count)| (**count, **encoding));
            let Some((&best, _)) = best else {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!("rank {rank} has no file of it, and nobody has parities of that file"),
                ));
            };
            let at = chosen.iter().position(|known| known == best).unwrap_or_else(|| {
                chosen.push(best.clone());
                chosen.len() - 1
            });
            lost.insert(rank, at);
        }
        Ok(Survey { inventories, chosen, lost })
    }

    /// The encodings of which every member must report its intact pieces.
    pub fn chosen(&self) -> &[Encoding] {
        &self.chosen
    }

    /// Whether a process keeps parities of this encoding.
    pub fn keeps(&self, rank: u32, encoding: &Encoding) -> bool {
        self.header(rank, encoding).is_some()
    }

    fn header(&self, rank: u32, encoding: &Encoding) -> Option<&ParityHeader> {
        let parity = self.inventories.get(rank as usize)?.parity.as_ref()?;
        (parity.encoding == *encoding).then_some(parity)
    }

    /// The ranks without a parity file.
    pub fn without_parities(&self) -> Vec<u32> {
        let missing = |rank: &u32| self.inventories[*rank as usize].parity.is_none();
        (0..self.inventories.len() as u32).filter(missing).collect()
    }

    /// Plans each process's rebuild, given the intact pieces of each process for each chosen
    /// encoding. A file that does not match its own process's parity file is damaged, and rebuilt
    /// like a lost one.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], naming the missing pieces, if a file cannot be rebuilt.
    pub fn plan(&self, verified: &[Vec<Intact>]) -> Result<BTreeMap<u32, Rebuild>> {
        let mut plan = BTreeMap::new();
        for (at, encoding) in self.chosen.iter().enumerate() {
            let votes = |rank: u32| verified.get(rank as usize).and_then(|votes| votes.get(at));
            let ranks = encoding.ranks();
            let whole: Vec<Intact> =
                ranks.iter().map(|rank| votes(*rank).copied().unwrap_or_default()).collect();
            encoding.layout().check(&whole, &ranks)?;
            let parities: Vec<Option<Checksum>> = ranks
                .iter()
                .map(|rank| self.header(*rank, encoding).map(|header| header.payload))
                .collect();
            for (own, &rank) in ranks.iter().enumerate().filter(|(own, _)| !whole[*own].data) {
                let lost = match self.lost.get(&rank) {
                    Some(by) => *by == at,
                    None => self.keeps(rank, encoding),
                };
                if lost {
                    let (encoding, whole, parities) =
                        (encoding.clone(), whole.clone(), parities.clone());
                    plan.insert(rank, Rebuild { encoding, own, whole, parities });
                }
            }
        }
        Ok(plan)
    }
}

/// Whether most parity files have another digest for a process's file than its own parity file.
fn is_outdated(rank: u32, inventory: &Inventory, votes: &DigestVotes) -> Result<bool> {
    let own = inventory.parity.as_ref().filter(|_| !inventory.known);
    let Some(own) = own.and_then(|own| own.encoding.members.get(own.own as usize)) else {
        // Without a parity file, the file may be newer than the others' parities.
        return Ok(false);
    };
    match votes.verdict(rank, FileIdentity::of(own)) {
        FileVerdict::Right => Ok(false),
        FileVerdict::Wrong => Ok(true),
        FileVerdict::Disputed => Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "the parity file of rank {rank} has its file as {}, and as many others as another one: it was taken \
                 again while its directory was away, and the library cannot tell which is right",
                own.digest
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Member;

    fn encoding(ranks: &[u32], content: u8) -> Encoding {
        let member = |rank: &u32| Member {
            rank: *rank,
            len: 10,
            digest: Checksum::from_bytes([content; 32]),
            identity: format::identity::Identity::UNKNOWN,
            routed: None,
        };
        let members = ranks.iter().map(member).collect();
        Encoding { name: "x".to_owned(), version: 1, parities: 1, members }
    }

    fn inventory(restorable: bool, parity: Option<(&Encoding, u32)>) -> Inventory {
        let header = |(encoding, own): (&Encoding, u32)| ParityHeader {
            encoding: encoding.clone(),
            own,
            payload: Checksum::from_bytes([own as u8; 32]),
        };
        Inventory { restorable, known: false, parity: parity.map(header) }
    }

    const WHOLE: Intact = Intact { data: true, parity: true };
    const NOTHING: Intact = Intact { data: false, parity: false };

    #[test]
    fn the_lost_are_rebuilt_by_their_groups() {
        let (a, b) = (encoding(&[0, 1, 2], 0), encoding(&[3, 4, 5], 0));
        let mut inventories: Vec<Inventory> = [&a, &a, &a, &b, &b, &b]
            .iter()
            .enumerate()
            .map(|(rank, encoding)| inventory(true, Some((*encoding, rank as u32 % 3))))
            .collect();
        inventories[1] = inventory(false, None);
        let survey = Survey::new(inventories.clone()).unwrap();
        assert_eq!(survey.chosen(), std::slice::from_ref(&a));
        assert_eq!(survey.without_parities(), [1]);
        let mut verified = vec![vec![WHOLE]; 6];
        verified[1] = vec![NOTHING];
        let plan = survey.plan(&verified).unwrap();
        assert_eq!(plan.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(plan[&1].own, 1);
        assert_eq!(plan[&1].whole, [WHOLE, NOTHING, WHOLE]);
        assert_eq!(
            plan[&1].parities,
            [Some(Checksum::from_bytes([0; 32])), None, Some(Checksum::from_bytes([2; 32]))]
        );

        // A second loss in the same group is too much; one in another group is not.
        inventories[4] = inventory(false, None);
        let survey = Survey::new(inventories.clone()).unwrap();
        let mut verified = vec![vec![WHOLE; 2]; 6];
        (verified[1], verified[4]) = (vec![NOTHING; 2], vec![NOTHING; 2]);
        assert_eq!(survey.plan(&verified).unwrap().len(), 2);
        verified[2] = vec![Intact { data: true, parity: false }; 2];
        let error = survey.plan(&verified).unwrap_err().to_string();
        assert!(error.contains("both files of rank 1, the parity file of rank 2"), "{error}");

        inventories.iter_mut().take(3).for_each(|inventory| inventory.parity = None);
        let error = Survey::new(inventories).unwrap_err().to_string();
        assert!(error.contains("rank 1 has no file"), "{error}");
    }

    /// A file that differs from its own parity file is damaged; one that differs from other members'
    /// parity files is not used for the rebuild.
    #[test]
    fn damaged_files_are_rebuilt_and_newer_ones_left() {
        let encoding = Encoding { parities: 2, ..encoding(&[0, 1, 2, 3], 0) };
        let mut inventories: Vec<Inventory> =
            (0..4).map(|rank| inventory(rank != 0, Some((&encoding, rank)))).collect();
        let verified =
            [NOTHING, Intact { data: false, parity: true }, WHOLE, WHOLE].map(|whole| vec![whole]);
        let survey = Survey::new(inventories.clone()).unwrap();
        let plan = survey.plan(&verified).unwrap();
        assert_eq!(plan.keys().collect::<Vec<_>>(), [&0, &1]);
        inventories[1].parity = None;
        let verified = [NOTHING, NOTHING, WHOLE, WHOLE].map(|whole| vec![whole]);
        let survey = Survey::new(inventories).unwrap();
        assert_eq!(survey.plan(&verified).unwrap().keys().collect::<Vec<_>>(), [&0]);
    }

    /// Catches an old file that is restored because it matches its own old parity file.
    #[test]
    fn a_file_that_the_others_know_as_another_is_lost() {
        let (old, new) = (encoding(&[0, 1, 2], 1), encoding(&[0, 1, 2], 0));
        let mut inventories = vec![
            inventory(true, Some((&old, 0))),
            inventory(true, Some((&new, 1))),
            inventory(true, Some((&new, 2))),
        ];
        let survey = Survey::new(inventories.clone()).unwrap();
        let verified = [NOTHING, WHOLE, WHOLE].map(|whole| vec![whole]);
        assert_eq!(survey.plan(&verified).unwrap().keys().collect::<Vec<_>>(), [&0]);
        // A file that this job has taken is right, even if it was not encoded again yet.
        inventories[0].known = true;
        assert_eq!(Survey::new(inventories.clone()).unwrap().chosen(), []);
        inventories[0].known = false;
        inventories.truncate(2);
        let error = Survey::new(inventories).unwrap_err().to_string();
        assert!(error.contains("rank 0") && error.contains(&"01".repeat(32)), "{error}");
    }

    /// Killed processes leave parity files of an older encoding.
    #[test]
    fn the_encoding_with_most_parities_counts() {
        let (old, new) = (encoding(&[0, 1, 2], 1), encoding(&[0, 1, 2], 0));
        let inventories = vec![
            inventory(false, None),
            inventory(true, Some((&new, 1))),
            inventory(true, Some((&new, 2))),
            inventory(true, Some((&old, 0))),
        ];
        assert_eq!(Survey::new(inventories).unwrap().chosen(), [new]);
    }

    /// The processes were grouped otherwise before. Catches a file that is rebuilt from files which their own groups
    /// know as other ones.
    #[test]
    fn an_encoding_with_a_file_that_is_another_now_does_not_count() {
        let (old, new) = (encoding(&[0, 1, 2, 3], 1), encoding(&[3, 4, 5], 0));
        let mut inventories: Vec<Inventory> =
            (0..3).map(|rank| inventory(rank != 0, Some((&old, rank)))).collect();
        inventories[0].parity = None;
        inventories.extend((0..3).map(|own| inventory(true, Some((&new, own)))));
        let error = Survey::new(inventories.clone()).unwrap_err().to_string();
        assert!(error.contains("rank 0 has no file"), "{error}");
        inventories.truncate(3);
        assert_eq!(Survey::new(inventories).unwrap().chosen(), [old]);
    }
}
