//! Checkpoints that have what was written since the last one of their name (`incremental = true`).
//!
//! Writes to all regions are noted from the first checkpoint that has them ([`WriteWatch`]). Each checkpoint asks what was
//! written, for all names at once, since asking begins anew; what a name has not taken yet is kept for it. A region is
//! taken whole if it was not in the last checkpoint of the name, as it was, or if nobody can tell what was written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::regions::Regions;
use errors::Result;
use format::delta::{Base, DeltaTable, Sparse};
use os::memory::page_size;
use os::network::random;
use os::written::WriteWatch;
use policy::changes::{choose, Has, Ranges, REST};

/// The most ranges whose writes are noted, the largest first: each may cost the process two more mappings, of which the
/// system allows 65,530.
pub(super) const MOST: usize = 1024;

/// After so many numbers that were taken again, a name has no more deltas: each time, those on the version that is
/// replaced have to be made whole.
const MOST_REUSES: u32 = 2;

/// The most names of which is known what was written since: the next checkpoint of another has everything.
const MOST_NAMES: usize = 16;

/// What is known of each name's last checkpoint, and what was written since.
#[derive(Debug)]
pub(super) struct Incremental {
    /// The most checkpoints in a row that have changes alone.
    chain: u64,
    /// Tells what was written; or why nobody does.
    written: std::result::Result<WriteWatch, String>,
    /// Ranges of whole pages to which writes are noted.
    watched: BTreeSet<(u64, u64)>,
    /// Ranges whose writes are not noted for so many checkpoints.
    resting: HashMap<(u64, u64), u32>,
    /// Ranges that are protected for captures, if a capture wants it, and those that were at the last checkpoint.
    protected: [Vec<(u64, u64)>; 2],
    names: HashMap<String, Name>,
    /// The checkpoint that is open.
    open: Option<(String, LastVersion)>,
    /// Checkpoints planned so far.
    planned: u64,
    /// Steps towards files that had failed before the last one.
    failed_steps: u64,
}

/// One name.
#[derive(Debug, Default)]
struct Name {
    last: Option<LastVersion>,
    /// What was written since.
    changed: Ranges,
    /// The number of the last checkpoint that was planned.
    used: u64,
    /// How often a number was not above the last one, up to [`MOST_REUSES`].
    reuses: u32,
}

/// A checkpoint.
#[derive(Debug)]
struct LastVersion {
    version: i32,
    number: u64,
    chain: u64,
    /// Its regions to which writes are noted: address and length by id.
    regions: BTreeMap<i32, (u64, u64)>,
}

/// Regions by id, each with a reason.
type Unwatched = Vec<(i32, String)>;

/// What an incremental checkpoint has besides its whole regions.
#[derive(Debug)]
pub(super) struct DeltaPlan {
    /// The table of what has changed.
    pub table: Vec<u8>,
    /// What has changed in the regions that are not taken whole, by id: ranges of addresses.
    pub changes: BTreeMap<i32, Vec<Range<u64>>>,
    /// Regions whose writes cannot be noted, and why.
    pub unwatched: Unwatched,
}

fn pages(address: u64, len: u64) -> (u64, u64) {
    let page = page_size() as u64;
    (address / page * page, (address + len).next_multiple_of(page))
}

impl Incremental {
    /// Starts. `unseen`: why writes may come that the system does not see.
    pub(super) fn new(chain: usize, unseen: Option<String>) -> Incremental {
        let written = match unseen {
            Some(why) => Err(why),
            None => WriteWatch::open().map_err(|error| error.to_string()),
        };
        Incremental {
            chain: chain as u64,
            written,
            watched: BTreeSet::new(),
            resting: HashMap::new(),
            protected: Default::default(),
            names: HashMap::new(),
            open: None,
            planned: 0,
            failed_steps: 0,
        }
    }

    /// Why nobody tells what was written, if so.
    pub(super) fn unknown(&self) -> Option<&str> {
        self.written.as_ref().err().map(String::as_str)
    }

    /// Whether a name may have deltas that are not in their files yet.
    pub(super) fn may_have_deltas(&self, name: &str) -> bool {
        self.names.get(name).is_none_or(|own| own.reuses < MOST_REUSES)
    }

    /// Plans a checkpoint of these regions (id, address, length), of which `is_own` says whether nobody but this
    /// process writes to them. From here on, writes belong to the next one. What is `frozen` (address, length) may be
    /// protected instead.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn plan(
        &mut self,
        (name, version): (&str, i32),
        regions: &[(i32, u64, u64)],
        frozen: &[(u64, u64)],
        protected: &Regions,
        is_own: impl Fn(u64, u64) -> bool,
    ) -> Result<DeltaPlan> {
        let frozen = frozen.iter().map(|(at, len)| pages(*at, *len)).collect();
        self.protected = [frozen, std::mem::take(&mut self.protected[0])];
        self.forget_unneeded(protected);
        let mut told = self.ask();
        let (new, unwatched) = self.watch(regions, is_own, &mut told);
        for name in self.names.values_mut() {
            name.changed.add(&told);
        }
        self.make_room_for(name);
        let own = self.names.entry(name.to_owned()).or_default();
        self.planned += 1;
        own.used = self.planned;
        let last = own.last.as_ref();
        if last.is_some_and(|last| last.version >= version) {
            own.reuses = (own.reuses + 1).min(MOST_REUSES);
        }
        let is_base = |last: &&LastVersion| last.version < version && last.chain < self.chain;
        let base = last.filter(is_base).filter(|_| own.reuses < MOST_REUSES);
        let (mut noted, mut changes, mut sparse) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for &(id, address, len) in regions {
            let range = pages(address, len);
            if !self.watched.contains(&range) {
                continue;
            }
            let was_there = last.is_some_and(|last| last.regions.get(&id) == Some(&(address, len)));
            if was_there && !new.contains(&range) {
                let runs = own.changed.within(&(address..address + len));
                let changed = runs.iter().map(|run| run.end - run.start).sum();
                match choose(len, changed) {
                    Has::Changes if base.is_some() => {
                        let of_region = |run: &Range<u64>| run.start - address..run.end - address;
                        let of_region = runs.iter().map(of_region).collect();
                        sparse.push(Sparse { id, size: len, runs: of_region });
                        changes.insert(id, runs);
                    }
                    Has::Changes => {}
                    Has::Everything => {
                        if let Ok(written) = &self.written {
                            written.forget(&(range.0..range.1));
                        }
                        self.watched.remove(&range);
                        self.resting.insert(range, REST);
                        continue;
                    }
                }
            }
            noted.insert(id, (address, len));
        }
        // In the order of `changes`, in which their bytes follow the table.
        sparse.sort_by_key(|region: &Sparse| region.id);
        let number = u64::from_le_bytes(random()?);
        let chain = base.map_or(0, |base| base.chain + 1);
        let base = base.map(|base| Base { version: base.version, number: base.number });
        let table = DeltaTable { number, chain, base, regions: sparse }.encode();
        self.open = Some((name.to_owned(), LastVersion { version, number, chain, regions: noted }));
        Ok(DeltaPlan { table, changes, unwatched })
    }

    /// These regions (id, address, length) are as they are in a version, whose file has this number, so far in a chain: the
    /// next checkpoint of the name is taken from it.
    pub(super) fn restored(
        &mut self,
        (name, version): (&str, i32),
        (number, chain): (u64, u64),
        regions: &[(i32, u64, u64)],
        is_own: impl Fn(u64, u64) -> bool,
    ) {
        let mut told = self.ask();
        self.watch(regions, is_own, &mut told);
        for name in self.names.values_mut() {
            name.changed.add(&told);
        }
        self.make_room_for(name);
        let is_noted =
            |(_, address, len): &&(i32, u64, u64)| self.watched.contains(&pages(*address, *len));
        let noted = regions.iter().filter(is_noted);
        let noted = noted.map(|&(id, address, len)| (id, (address, len))).collect();
        self.planned += 1;
        let own = self.names.entry(name.to_owned()).or_default();
        own.used = self.planned;
        own.last = Some(LastVersion { version, number, chain, regions: noted });
        own.changed.clear();
    }

    /// The checkpoint that was planned exists: the next one of its name is taken from it.
    pub(super) fn taken(&mut self) {
        if let Some((name, last)) = self.open.take() {
            let own = self.names.entry(name).or_default();
            own.last = Some(last);
            own.changed.clear();
        }
    }

    /// The checkpoint that was planned does not exist.
    pub(super) fn not_taken(&mut self) {
        self.open = None;
    }

    /// The next checkpoint of a name has everything.
    pub(super) fn begin_anew(&mut self, name: &str) {
        self.names.remove(name);
    }

    /// So many steps towards files have failed by now: if there are new ones, a checkpoint that the next would need may
    /// be missing, and that one has everything.
    pub(super) fn hear_of_failures(&mut self, failed_steps: u64) {
        if std::mem::replace(&mut self.failed_steps, failed_steps) != failed_steps {
            self.names.clear();
        }
    }

    /// Forgets the name that was used longest ago, if there are too many.
    fn make_room_for(&mut self, name: &str) {
        if self.names.len() < MOST_NAMES || self.names.contains_key(name) {
            return;
        }
        let oldest = self.names.iter().min_by_key(|(_, name)| name.used);
        if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
            self.names.remove(&oldest);
        }
    }

    /// Asks what was written since.
    fn ask(&mut self) -> Vec<Range<u64>> {
        let mut told = Vec::new();
        let Ok(written) = &self.written else { return told };
        self.watched.retain(|&(start, end)| match written.take(&(start..end), &mut told) {
            Ok(()) => true,
            Err(error) => {
                log::debug!("{} bytes at {start:#x} are taken whole: {error}", end - start);
                // Whatever is there now may be of another kind: it is judged anew.
                written.forget(&(start..end));
                told.push(start..end);
                false
            }
        });
        told
    }

    /// Has writes to regions noted that are not yet. Returns their ranges, which count as written, and the regions of
    /// which that cannot be done.
    fn watch(
        &mut self,
        regions: &[(i32, u64, u64)],
        is_own: impl Fn(u64, u64) -> bool,
        told: &mut Vec<Range<u64>>,
    ) -> (BTreeSet<(u64, u64)>, Unwatched) {
        let (mut new, mut unwatched) = (BTreeSet::new(), Vec::new());
        let Ok(written) = &self.written else { return (new, unwatched) };
        for &(id, address, len) in regions {
            let range = pages(address, len);
            let mut rests = || is_resting(&mut self.resting, range);
            let is_full = self.watched.len() >= MOST;
            // What was protected may be so still.
            let is_frozen = self.protected.iter().any(|frozen| overlaps(&range, frozen));
            if self.watched.contains(&range) || is_full || is_frozen || rests() {
                continue;
            }
            if !is_own(address, len) {
                let why = "it is shared memory, or memory of a file, such as static data with initial values";
                unwatched.push((id, why.to_owned()));
                continue;
            }
            let whole = range.0..range.1;
            // It fails where another has registered it, or some of it was unmapped, which the capture finds out. What
            // it shares with regions that are watched already must be told, too.
            match written.watch(&whole).and_then(|()| written.take(&whole, told)) {
                Ok(()) => {
                    self.watched.insert(range);
                    new.insert(range);
                }
                Err(error) => unwatched.push((id, error.to_string())),
            }
            told.push(whole);
        }
        (new, unwatched)
    }

    fn forget_unneeded(&mut self, protected: &Regions) {
        let Ok(written) = &self.written else { return };
        let there: BTreeSet<_> = protected.memories().map(|(at, len)| pages(at, len)).collect();
        let frozen = &self.protected[0];
        self.watched.retain(|range| {
            let stays = there.contains(range) && !overlaps(range, frozen);
            if !stays {
                written.forget(&(range.0..range.1));
            }
            stays
        });
        self.resting.retain(|range, _| there.contains(range));
    }
}

fn overlaps(range: &(u64, u64), others: &[(u64, u64)]) -> bool {
    others.iter().any(|other| other.0 < range.1 && range.0 < other.1)
}

/// Whether a range rests, for one more checkpoint.
fn is_resting(resting: &mut HashMap<(u64, u64), u32>, range: (u64, u64)) -> bool {
    let Some(left) = resting.get_mut(&range) else { return false };
    *left -= 1;
    if *left == 0 {
        resting.remove(&range);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches names that are kept for ever, and the wrong one that goes.
    #[test]
    fn names_that_are_not_used_any_more_are_forgotten() {
        let mut incremental = Incremental::new(8, Some("a test".to_owned()));
        let mut take = |name: &str, version| {
            let plan =
                incremental.plan((name, version), &[], &[], &Regions::default(), |_, _| true);
            incremental.taken();
            let table = plan.unwrap().table;
            DeltaTable::read(table.len() as u64, |bytes, at| {
                bytes.copy_from_slice(&table[at as usize..at as usize + bytes.len()]);
                Ok(())
            })
            .unwrap()
            .0
        };
        for version in 0..3 {
            for number in 0..MOST_NAMES as i32 {
                let table = take(&format!("dump{number}"), version);
                assert_eq!(table.chain, version as u64);
            }
        }
        assert_eq!(take("dump0", 3).chain, 3);
        assert_eq!(take("another", 0).chain, 0);
        // It took the place of the one that was used longest ago.
        assert_eq!(take("dump0", 4).chain, 4);
        assert_eq!(take("dump2", 3).chain, 3);
        assert_eq!(take("dump1", 3).chain, 0);
        assert!(incremental.names.len() <= MOST_NAMES);
    }

    /// Catches a checkpoint that is taken from one which could not be written.
    #[test]
    fn after_a_failure_the_next_has_everything() {
        let mut incremental = Incremental::new(8, Some("a test".to_owned()));
        let mut chain = |version, failed_steps| {
            incremental.hear_of_failures(failed_steps);
            let planned =
                incremental.plan(("x", version), &[], &[], &Regions::default(), |_, _| true);
            planned.unwrap();
            let chain = incremental.open.as_ref().map(|(_, open)| open.chain);
            incremental.taken();
            chain.unwrap()
        };
        let found = [chain(1, 0), chain(2, 0), chain(3, 2), chain(4, 2), chain(5, 3), chain(6, 3)];
        assert_eq!(found, [0, 1, 0, 1, 0, 1]);
    }
}
