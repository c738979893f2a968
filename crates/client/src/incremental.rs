//! Checkpoints that have what was written since the last one of their name (`incremental = true`).
//!
//! Writes to all regions are noted from the first checkpoint that has them ([`Written`]). Each checkpoint asks what was
//! written, for all names at once, since asking begins anew; what a name has not taken yet is kept for it. A region is
//! taken whole if it was not in the last checkpoint of the name, as it was, or if nobody can tell what was written.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::regions::{Protected, Regions};
use super::Client;
use device::PAGEABLE;
use engine::place::{Capture, Place};
use format::delta::{Base, Sparse, Table, REGION};
use os::access::Mappings;
use os::error::{Error, Result};
use os::memory::page_size;
use os::network::random;
use os::written::{unnoticed, Written};
use policy::changes::{choose, Has, Ranges, REST};

/// A region with fewer bytes is always taken whole: its table would cost as much.
const LEAST: u64 = 64 << 10;

/// The most ranges whose writes are noted, the largest first: each may cost the process two more mappings, of which the
/// system allows 65,530.
const MOST: usize = 1024;

/// What is known of each name's last checkpoint, and what was written since.
#[derive(Debug)]
pub(super) struct Incremental {
    /// The most checkpoints in a row that have changes alone.
    chain: u64,
    /// Tells what was written; or why nobody does.
    written: std::result::Result<Written, String>,
    /// Ranges of whole pages to which writes are noted.
    watched: BTreeSet<(u64, u64)>,
    /// Ranges whose writes are not noted for so many checkpoints.
    resting: HashMap<(u64, u64), u32>,
    names: HashMap<String, Name>,
    /// The checkpoint that is open.
    open: Option<(String, Last)>,
}

/// One name.
#[derive(Debug, Default)]
struct Name {
    last: Option<Last>,
    /// What was written since.
    changed: Ranges,
}

/// A checkpoint.
#[derive(Debug)]
struct Last {
    version: i32,
    number: u64,
    chain: u64,
    /// Its regions to which writes are noted: address and length by id.
    regions: BTreeMap<i32, (u64, u64)>,
}

/// What an incremental checkpoint has besides its whole regions.
#[derive(Debug)]
pub(super) struct Plan {
    /// The table of what has changed.
    pub table: Vec<u8>,
    /// What has changed in the regions that are not taken whole, by id: ranges of addresses.
    pub changes: BTreeMap<i32, Vec<Range<u64>>>,
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
            None => Written::open().map_err(|error| error.to_string()),
        };
        Incremental {
            chain: chain as u64,
            written,
            watched: BTreeSet::new(),
            resting: HashMap::new(),
            names: HashMap::new(),
            open: None,
        }
    }

    /// Why nobody tells what was written, if so.
    pub(super) fn unknown(&self) -> Option<&str> {
        self.written.as_ref().err().map(String::as_str)
    }

    /// Plans a checkpoint of these regions (id, address, length), of which `is_own` says whether nobody but this
    /// process writes to them. From here on, writes belong to the next one. What is `frozen` (address, length) is about
    /// to be protected.
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
    ) -> Result<Plan> {
        self.forget_unneeded(protected, frozen);
        let mut told = self.ask();
        let new = self.watch(regions, is_own, &mut told);
        for name in self.names.values_mut() {
            name.changed.add(&told);
        }
        let own = self.names.entry(name.to_owned()).or_default();
        let last = own.last.as_ref();
        let base = last.filter(|last| last.version < version && last.chain < self.chain);
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
        let table = Table { number, chain, base, regions: sparse }.encode();
        self.open = Some((name.to_owned(), Last { version, number, chain, regions: noted }));
        Ok(Plan { table, changes })
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

    /// The next checkpoint of a name, or of each, has everything.
    pub(super) fn begin_anew(&mut self, name: Option<&str>) {
        let of_name = |own: &str| name.is_none_or(|name| name == own);
        self.names.iter_mut().filter(|(own, _)| of_name(own)).for_each(|(_, own)| own.last = None);
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

    /// Has writes to regions noted that are not yet. Returns their ranges, which count as written.
    fn watch(
        &mut self,
        regions: &[(i32, u64, u64)],
        is_own: impl Fn(u64, u64) -> bool,
        told: &mut Vec<Range<u64>>,
    ) -> BTreeSet<(u64, u64)> {
        let mut new = BTreeSet::new();
        let Ok(written) = &self.written else { return new };
        for &(_, address, len) in regions {
            let range = pages(address, len);
            let mut rests = || is_resting(&mut self.resting, range);
            let is_full = self.watched.len() >= MOST;
            if self.watched.contains(&range) || is_full || rests() || !is_own(address, len) {
                continue;
            }
            let whole = range.0..range.1;
            // It fails where another has registered it, or some of it was unmapped, which the capture finds out. What
            // it shares with regions that are watched already must be told, too.
            if written.watch(&whole).and_then(|()| written.take(&whole, told)).is_ok() {
                self.watched.insert(range);
                new.insert(range);
            }
            told.push(whole);
        }
        new
    }

    fn forget_unneeded(&mut self, protected: &Regions, frozen: &[(u64, u64)]) {
        let Ok(written) = &self.written else { return };
        let there: BTreeSet<_> = protected.memories().map(|(at, len)| pages(at, len)).collect();
        let frozen: Vec<_> = frozen.iter().map(|(at, len)| pages(*at, *len)).collect();
        self.watched.retain(|range| {
            let overlaps = |frozen: &(u64, u64)| frozen.0 < range.1 && range.0 < frozen.1;
            let stays = there.contains(range) && !frozen.iter().any(overlaps);
            if !stays {
                written.forget(&(range.0..range.1));
            }
            stays
        });
        self.resting.retain(|range, _| there.contains(range));
    }
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

impl Client {
    /// Why the system may not see all writes to this job's host memory.
    fn unseen(&self) -> Option<String> {
        if self.engine.kernels_reach_host() {
            return Some("kernels on the device may write to host memory".to_owned());
        }
        let card = unnoticed()?;
        Some(format!("{} may write to memory unnoticed", card.display()))
    }

    /// Puts what has changed in place of whole regions. Returns the table, to which the first place points.
    pub(super) fn only_changes(
        &mut self,
        of: (&str, i32),
        places: &mut Vec<Place>,
        selected: &[(i32, Protected)],
    ) -> Result<Vec<u8>> {
        let chain = self.engine.config.incremental_chain;
        let unseen = self.unseen();
        let incremental = self.incremental.get_or_insert_with(|| Incremental::new(chain, unseen));
        if let Some(why) = incremental.unknown() {
            let text = format!(
                "incremental: what was written since the last checkpoint cannot be asked, and each has \
                 everything: {why}"
            );
            self.engine.degrade("incremental", text);
        }
        let is_memory = |id: i32| {
            let found = selected.binary_search_by_key(&id, |(id, _)| *id).ok();
            found.is_some_and(|at| matches!(selected[at].1, Protected::Memory(_)))
        };
        let can_be_noted = |place: &&Place| {
            place.kind == PAGEABLE
                && place.len >= LEAST
                && place.capture != Capture::Protect
                && is_memory(place.id)
        };
        let mut regions: Vec<_> = places
            .iter()
            .filter(can_be_noted)
            .map(|place| (place.id, place.address, place.len))
            .collect();
        if regions.len() > MOST {
            regions.sort_by_key(|(id, _, len)| (std::cmp::Reverse(*len), *id));
            let text = format!(
                "incremental: of {} regions the {MOST} largest are watched, as each takes mappings of the process; \
                 the others are taken whole, and their blocks compared",
                regions.len()
            );
            self.engine.degrade("incremental regions", text);
            regions.truncate(MOST);
            regions.sort_unstable();
        }
        let is_frozen = |place: &&Place| place.capture == Capture::Protect;
        let frozen: Vec<_> = places.iter().filter(is_frozen).map(|p| (p.address, p.len)).collect();
        let mappings = LazyCell::new(Mappings::now);
        let is_own = |address, len| mappings.have_anonymous(address, len);
        let Plan { table, changes } =
            incremental.plan(of, &regions, &frozen, &self.regions, is_own)?;
        let mut all = vec![Place::plain(REGION, table.as_ptr(), table.len())];
        for (id, runs) in &changes {
            let Some(place) = places.iter().find(|place| place.id == *id) else { continue };
            // Of memory that is not there any more nothing was written.
            place.check()?;
            all.extend(runs.iter().map(|run| Place {
                id: REGION,
                address: run.start,
                len: run.end - run.start,
                capture: Capture::Copy,
                ..*place
            }));
        }
        all.extend(places.iter().filter(|place| !changes.contains_key(&place.id)));
        *places = all;
        Ok(table)
    }

    /// Refuses the id of the table.
    pub(super) fn check_no_table(&self, id: i32) -> Result<()> {
        if self.engine.config.incremental && id == REGION {
            return Err(Error::invalid(format!(
                "the id {id} is the library's: with incremental = true that region has what has changed"
            )));
        }
        Ok(())
    }
}
