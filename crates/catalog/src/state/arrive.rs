//! Steps of deferred captures: a checkpoint is committed while bytes are still being copied from the
//! application's memory to the staging level.

use super::{Arrival, MoveEnd, Reserve, State};
use crate::entry::{Life, MemoryCopy, Stage};
use crate::space::Extent;
use crate::{Id, Part, Region, PARTS};

impl State {
    /// Whether the staging level, if it were empty, could hold `lens` bytes of each part.
    pub fn fits_staging(&self, lens: [u64; 2]) -> bool {
        let staging = self.level(self.staging);
        let [device, host] = lens.map(|len| staging.space.rounded(len));
        device.saturating_add(host) <= staging.spec.capacity
    }

    /// Takes room in the staging level for `len` more bytes of deferred device memory, if that needs no wait
    /// and discards nothing. `both` are the total sizes of the checkpoint's parts.
    pub fn reserve_for_deferred(
        &mut self,
        id: Id,
        len: u64,
        both: [u64; 2],
    ) -> Option<(u64, Vec<Extent>)> {
        let staging = self.staging;
        let elsewhere = self.building_in(id, Part::Device).is_some_and(|level| level != staging);
        if elsewhere || !self.fits_staging(both) || !self.make_room(staging, len, false) {
            return None;
        }
        match self.reserve(id, Part::Device, len, staging) {
            Reserve::Got { base, extents } => Some((base, extents)),
            Reserve::Wait(_) | Reserve::Never(_) => None,
        }
    }

    /// Ends a checkpoint like [`State::commit`], but bytes of the parts in `arriving` have still to be copied
    /// to the host buffer.
    pub fn commit_deferred(
        &mut self,
        id: Id,
        regions: Vec<Region>,
        arriving: [bool; 2],
        persist: bool,
    ) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.arriving = arriving;
        }
        self.commit(id, regions, persist);
        if arriving.contains(&true) && self.entries.contains_key(&id) {
            self.arrivals.push_back(id);
            self.incomplete.insert(id);
            self.changes += 1;
            // The memory is read until the deferred capture ends, whatever becomes of the checkpoint.
            self.started(id, true);
        }
    }

    /// The next deferred capture to copy, oldest first.
    pub fn next_arrival(&mut self) -> Option<Arrival> {
        let id = self.arrivals.pop_front()?;
        let entry = self.entries.get(&id)?;
        Some(Arrival { id, name: entry.name.clone(), version: entry.version })
    }

    /// Whether deferred captures are not complete yet.
    pub fn arriving(&self) -> bool {
        !self.incomplete.is_empty()
    }

    /// Whether a checkpoint was taken before all whose deferred captures are not complete. Others get no file before
    /// these: after a kill, what is in files counts as older than what is not.
    pub(super) fn is_in_turn(&self, id: Id) -> bool {
        self.incomplete.first().is_none_or(|first| id < *first)
    }

    /// Ends a deferred capture. If it failed, the checkpoint does not exist.
    pub fn arrived(&mut self, id: Id, end: MoveEnd) {
        let mut lost = false;
        self.incomplete.remove(&id);
        let staging = self.staging;
        if let Some(entry) = self.entries.get_mut(&id) {
            let arriving = std::mem::take(&mut entry.arriving);
            entry.carrier = 0;
            let live = entry.life == Life::Live;
            let space = &mut self.levels[staging.index()].space;
            for part in PARTS.into_iter().filter(|&part| arriving[part as usize]) {
                let copy = entry.part_mut(part).copy_mut(staging);
                match end {
                    MoveEnd::Done => copy.stage = Stage::Ready,
                    MoveEnd::Failed(_) => space.release(&std::mem::take(copy).extents),
                    MoveEnd::Stranded(_) => *copy = MemoryCopy::default(),
                }
            }
            if let MoveEnd::Failed(error) | MoveEnd::Stranded(error) = end {
                lost = true;
                if live {
                    self.has_failed(id, error);
                }
            }
        }
        if lost {
            self.undo_replace(id);
        }
        self.ended(id, true);
    }
}
