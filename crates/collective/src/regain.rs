//! Rebuilds what processes have lost of marked checkpoints from what the others keep, before a run
//! looks at what it has. Collective, and on the application's thread.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::pass::{agree, gather};
use super::protect::Rebuilding;
use super::search::Search;
use errors::Result;
use format::checksum::Checksum;

/// What one process has of a version.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct HeldFiles {
    restorable: bool,
    /// This job has taken or restored it: its parities may be on their way.
    known: bool,
    /// The id of the encoding of its parity file, and the ranks whose files were encoded.
    parities: Option<(Checksum, Vec<u32>)>,
}

/// What one process has, by version.
type Holding = BTreeMap<i32, HeldFiles>;

impl Search<'_> {
    /// Rebuilds on every process the versions of a name that it lacks and the others can make up
    /// for; with `newest`, down to the first version that all have. Nothing is done without erasure
    /// coding, or unless every process is `ready`. Collective.
    ///
    /// # Errors
    /// MPI's.
    pub fn regain(&self, name: &str, newest: bool, ready: bool) -> Result<()> {
        match self.rebuilding() {
            Some(rebuilding) if agree(rebuilding.comm, ready)? => rebuilding.regain(name, newest),
            _ => Ok(()),
        }
    }
}

impl Rebuilding<'_> {
    fn regain(&self, name: &str, newest: bool) -> Result<()> {
        self.engine.file_side().await_earlier_jobs();
        let mut versions =
            self.engine.files().listing().versions_of_anybody(name).unwrap_or_else(|error| {
                // Versions that this process cannot look for may still be rebuilt.
                log::warn!("{error}");
                BTreeSet::new()
            });
        versions.extend(self.engine.checkpoints().versions(name));
        let held = |version| (version, self.held(name, version));
        let own: Holding = versions.into_iter().map(held).collect();
        let all: Vec<Holding> = gather(self.comm, &own)?;
        for (version, whole) in standing(&all).into_iter().rev() {
            let mut there = whole;
            if !whole {
                let restorable = own.get(&version).is_some_and(|held| held.restorable);
                match self.rebuild(name, version, restorable)? {
                    None => there = true,
                    Some(why) => log::info!("\"{name}\" version {version} stays lost: {why}"),
                }
            }
            if there && newest {
                break;
            }
        }
        Ok(())
    }

    fn held(&self, name: &str, version: i32) -> HeldFiles {
        let header = self.own_header(name, version);
        HeldFiles {
            restorable: self.has(name, version) && self.is_as_encoded(name, version),
            known: self.is_known(name, version),
            parities: header.map(|header| (header.encoding.id(), header.encoding.ranks())),
        }
    }
}

/// Every version that a process has, and whether all have it and the parities that belong to it.
fn standing(all: &[Holding]) -> BTreeMap<i32, bool> {
    let versions: BTreeSet<i32> = all.iter().flat_map(|holding| holding.keys().copied()).collect();
    let is_whole = |version: i32| {
        let held: Vec<Option<&HeldFiles>> =
            all.iter().map(|holding| holding.get(&version)).collect();
        let restorable = held.iter().all(|held| held.is_some_and(|held| held.restorable));
        let known = held.iter().flatten().any(|held| held.known);
        let id = |rank: u32| {
            let held = held.get(rank as usize).copied().flatten();
            held.and_then(|held| held.parities.as_ref()).map(|(id, _)| *id)
        };
        let parities: Vec<_> =
            held.iter().map(|held| held.and_then(|h| h.parities.as_ref())).collect();
        let alike = parities
            .iter()
            .flatten()
            .all(|(own, ranks)| ranks.iter().all(|rank| id(*rank) == Some(*own)));
        let there = parities.iter().flatten().count();
        restorable && (known || alike && (there == 0 || there == all.len()))
    };
    versions.into_iter().map(|version| (version, is_whole(version))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(restorable: bool, parities: Option<u8>) -> HeldFiles {
        let parities = parities.map(|id| (Checksum::from_bytes([id; 32]), vec![0, 1]));
        HeldFiles { restorable, known: false, parities }
    }

    fn is_whole(held: [Option<HeldFiles>; 2]) -> bool {
        let holding = |held: Option<HeldFiles>| held.map(|held| (4, held)).into_iter().collect();
        standing(&held.map(holding))[&4]
    }

    /// Catches a second loss that finds the parities of the first still missing, and old parities
    /// that are taken for good.
    #[test]
    fn files_and_parities_belong_to_it() {
        let good = || Some(held(true, Some(1)));
        assert!(is_whole([good(), good()]));
        assert!(is_whole([Some(held(true, None)), Some(held(true, None))]));
        assert!(!is_whole([good(), None]));
        assert!(!is_whole([good(), Some(held(false, Some(1)))]));
        assert!(!is_whole([good(), Some(held(true, None))]));
        assert!(!is_whole([good(), Some(held(true, Some(2)))]));
        // Parities of a version that this job has taken may be on their way.
        let taken = Some(HeldFiles { known: true, ..held(true, None) });
        assert!(is_whole([good(), taken]));
    }
}
