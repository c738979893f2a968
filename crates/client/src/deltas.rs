//! Puts what has changed in place of whole regions, in a checkpoint that is captured ([`Incremental`] knows what has).

use std::collections::HashMap;

use super::incremental::{DeltaPlan, Incremental, MOST};
use super::regions::{Group, Protected, Regions};
use catalog::FileLevel;
use device::PAGEABLE;
use engine::place::{check_mapped, Place};
use engine::Engine;
use errors::{Error, Result};
use format::delta::REGION;
use os::access::Mappings;
use os::written::unnoticed;
use policy::capture::Capture;

/// A region with fewer bytes is always taken whole: its table would cost as much.
const LEAST: u64 = 64 << 10;

/// What was written since the last checkpoint of each name, from the first incremental one on.
#[derive(Debug, Default)]
pub(super) struct Deltas(Option<Incremental>);

/// Why the system may not see all writes to this job's host memory.
fn unseen(engine: &Engine) -> Option<String> {
    if engine.device_side().kernels_reach_host() {
        return Some("kernels on the device may write to host memory".to_owned());
    }
    let card = unnoticed()?;
    Some(format!("{} may write to memory unnoticed", card.display()))
}

impl Deltas {
    fn begun(&mut self, engine: &Engine) -> &mut Incremental {
        let chain = engine.config().incremental_chain;
        let unseen = unseen(engine);
        self.0.get_or_insert_with(|| Incremental::new(chain, unseen))
    }

    /// The checkpoint that was planned exists, or does not.
    pub(super) fn end(&mut self, taken: bool) {
        match &mut self.0 {
            Some(incremental) if taken => incremental.taken(),
            Some(incremental) => incremental.not_taken(),
            None => {}
        }
    }

    /// The next checkpoint of a name has everything.
    pub(super) fn begin_anew(&mut self, name: &str) {
        if let Some(incremental) = &mut self.0 {
            incremental.begin_anew(name);
        }
    }

    /// Puts what has changed in place of whole regions. Returns the table, to which the first place points.
    pub(super) fn only_changes(
        &mut self,
        engine: &Engine,
        protected: &Regions,
        of: (&str, i32),
        places: &mut Vec<Place>,
        selected: &[(i32, Protected)],
    ) -> Result<Vec<u8>> {
        let incremental = self.begun(engine);
        if let Some(why) = incremental.unknown() {
            let text = format!(
                "incremental: the system does not tell what was written since the last checkpoint, so regions are \
                 captured whole, and a worker compares their blocks when it writes the file: {why}"
            );
            engine.telemetry().degrade("incremental", text);
        }
        incremental.hear_of_failures(engine.checkpoints().failed_steps());
        if incremental.may_have_deltas(of.0) && engine.checkpoints().has_taken(of.0, of.1) {
            // What was taken from the version that goes has to be in its file, where it is made whole.
            engine.settle()?;
        }
        let common = engine.config().host_capture;
        // The way of its own, or that of all.
        let way = |id: i32| {
            let found = selected.binary_search_by_key(&id, |(id, _)| *id).ok()?;
            match &selected[found].1 {
                Protected::Memory(memory) => Some(memory.terms.capture.or(common)),
                Protected::Object(_) => None,
            }
        };
        let can_be_noted = |place: &&Place| {
            place.kind == PAGEABLE
                && place.len >= LEAST
                && way(place.id).is_some_and(|way| way != Some(Capture::Protect))
        };
        let mut regions: Vec<_> = places
            .iter()
            .filter(can_be_noted)
            .map(|place| (place.id, place.address, place.len))
            .collect();
        if regions.len() > MOST {
            regions.sort_by_key(|(id, _, len)| (std::cmp::Reverse(*len), *id));
            let text = format!(
                "incremental: of {} regions only the {MOST} largest are watched for writes, as each takes mappings \
                 of the process; the others are captured whole, and their blocks compared",
                regions.len()
            );
            engine.telemetry().degrade("incremental regions", text);
            regions.truncate(MOST);
            regions.sort_unstable();
        }
        let is_frozen = |place: &&Place| way(place.id) == Some(Some(Capture::Protect));
        let frozen: Vec<_> = places.iter().filter(is_frozen).map(|p| (p.address, p.len)).collect();
        let mappings = Mappings::now();
        let is_own = |address, len| mappings.have_anonymous(address, len);
        let DeltaPlan { table, changes, unwatched } =
            incremental.plan(of, &regions, &frozen, protected, is_own)?;
        for (id, why) in unwatched {
            let text = format!("incremental: writes to region {id} cannot be noted, so it is captured whole: {why}");
            engine.files().warnings().once(text);
        }
        let mut all = vec![Place::plain(REGION, table.as_ptr(), table.len())];
        let by_id: HashMap<i32, &Place> = places.iter().map(|place| (place.id, place)).collect();
        for (id, runs) in &changes {
            let Some(&place) = by_id.get(id) else { continue };
            // Of memory that is not there any more nothing was written.
            check_mapped(std::iter::once(place))?;
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

    /// These places, of regions of their own name, were restored from a version, and nothing has changed since: the next
    /// checkpoint need not have everything.
    pub(super) fn goes_on_from(
        &mut self,
        engine: &Engine,
        protected: &Group,
        (name, version): (&str, i32),
        places: &[Place],
    ) {
        if !engine.config().incremental {
            return;
        }
        // What is in memory alone may have the number of an older file.
        let has_file = |level| engine.checkpoints().has_file(name, version, level);
        let levels = [FileLevel::Scratch, FileLevel::Persistent];
        if engine.checkpoints().known(name, version).is_some() && !levels.into_iter().any(has_file)
        {
            return;
        }
        let Some(number) = engine.files().copies().number_in_chain(name, version) else { return };
        let common = engine.config().host_capture;
        let can_be_noted = |place: &&Place| {
            let Some(Protected::Memory(memory)) = protected.get(place.id) else { return false };
            let way = memory.terms.capture.or(common);
            place.kind == PAGEABLE
                && place.len >= LEAST
                && place.len == memory.len
                && way != Some(Capture::Protect)
        };
        let regions = places.iter().filter(can_be_noted);
        let regions: Vec<_> = regions.map(|place| (place.id, place.address, place.len)).collect();
        // The checkpoint chooses the largest.
        if regions.len() > MOST {
            return;
        }
        let incremental = self.begun(engine);
        let mappings = Mappings::now();
        let is_own = |address, len| mappings.have_anonymous(address, len);
        incremental.restored((name, version), number, &regions, is_own);
    }
}

/// Refuses the id of the table, where checkpoints have one.
pub(super) fn check_id(id: i32) -> Result<()> {
    if id == REGION {
        return Err(Error::invalid(format!(
            "region {id}: the library uses this id itself with incremental = true; take another"
        )));
    }
    Ok(())
}
