//! Steps up the tiers, ahead of use: fetches to the device cache, reads of files.

use std::sync::Arc;

use super::{FileJob, MoveEnd, MoveJob, Source, State};
use crate::catalog::entry::{Entry, Id, MemoryCopy, Part, Stage, Tier, PARTS};
use levels::space::Extent;
use os::error::Result;
use policy::evict::EvictionClass;
use policy::order::{self, NextUse, RestoreOrder};

/// How many of the oldest victims a fetch ahead looks at to find the one that is used last.
const VICTIMS_LOOKED_AT: usize = 64;

impl State {
    /// Fetching ahead may begin now.
    pub fn start_fetching(&mut self) {
        self.fetching = true;
        self.changes += 1;
    }

    /// The next fetch from the host buffer to the device cache.
    pub fn next_fetch(&mut self) -> Option<MoveJob> {
        let (id, when) = self.candidate(Tier::Device)?;
        let len = self.entries.get(&id)?.part(Part::Device).len;
        if !self.make_room_for_fetch(len, when, Tier::Device) {
            return None;
        }
        let device: Arc<[Extent]> = self.device.allocate(len)?.into();
        let entry = self.entries.get_mut(&id)?;
        let part = entry.part_mut(Part::Device);
        part.device = MemoryCopy { stage: Stage::Filling, extents: device.clone(), readers: 0 };
        part.host.readers += 1;
        let host = part.host.extents.clone();
        let (name, version) = (entry.name.clone(), entry.version);
        self.started(id, false);
        Some(MoveJob { id, name, version, len, device, host })
    }

    /// Ends a fetch to the device cache. One that did not succeed leaves the checkpoint where it
    /// was.
    pub fn fetch_done(&mut self, id: Id, end: &MoveEnd) {
        if let Some(entry) = self.entries.get_mut(&id) {
            let part = entry.part_mut(Part::Device);
            part.host.readers -= 1;
            match end {
                MoveEnd::Done => {
                    part.device.stage = Stage::Ready;
                    self.counts.fetches += 1;
                }
                MoveEnd::Failed(_) => {
                    let extents = std::mem::take(&mut part.device).extents;
                    entry.fetch_failed = true;
                    self.device.release(&extents);
                }
                MoveEnd::Stranded(_) => {
                    part.device = MemoryCopy::default();
                    entry.fetch_failed = true;
                    entry.stranded = true;
                }
            }
        }
        self.ended(id, false);
    }

    /// The next read of a file into the host buffer.
    pub fn next_read(&mut self) -> Option<FileJob> {
        let (id, when) = self.candidate(Tier::Host)?;
        let lens = PARTS.map(|part| self.entries.get(&id).map_or(0, |e| e.part(part).len));
        let rounded = lens.map(|len| self.host.rounded(len));
        if !self.make_room_for_fetch(rounded[0] + rounded[1], when, Tier::Host) {
            return None;
        }
        let mut memory = [None, None];
        for part in PARTS {
            if lens[part as usize] == 0 {
                continue;
            }
            let extents: Arc<[Extent]> = self.host.allocate(lens[part as usize])?.into();
            self.entries.get_mut(&id)?.part_mut(part).host =
                MemoryCopy { stage: Stage::Filling, extents: extents.clone(), readers: 0 };
            memory[part as usize] = Some(Source { tier: Tier::Host, extents });
        }
        self.started(id, false);
        let entry = self.entries.get(&id)?;
        Some(FileJob {
            id,
            name: entry.name.clone(),
            version: entry.version,
            regions: entry.regions.clone(),
            memory,
        })
    }

    /// Ends a read of a file into the host buffer.
    pub fn read_done(&mut self, job: &FileJob, result: &Result<()>) {
        if let Some(entry) = self.entries.get_mut(&job.id) {
            for part in PARTS {
                if job.memory[part as usize].is_none() {
                    continue;
                }
                if result.is_ok() {
                    entry.part_mut(part).host.stage = Stage::Ready;
                } else {
                    let extents = std::mem::take(&mut entry.part_mut(part).host).extents;
                    self.host.release(&extents);
                    entry.fetch_failed = true;
                }
            }
        }
        self.ended(job.id, false);
    }

    /// What to fetch next into `tier`, and when it will be used.
    pub(super) fn candidate(&self, tier: Tier) -> Option<(Id, NextUse)> {
        if !self.fetching {
            return None;
        }
        let hinted = match tier {
            Tier::Device => self.hinted_to_device.first(),
            Tier::Host => self.hinted_to_host.first(),
        };
        if let Some(&(position, id)) = hinted {
            return Some((id, NextUse::Hinted(position)));
        }
        let (name, current) = self.reading.as_ref()?;
        let versions = self.names.get(name)?;
        let set = match tier {
            Tier::Device => &versions.to_device,
            Tier::Host => &versions.to_host,
        };
        let bound = |v: i64| v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        let version = match self.shape.order {
            RestoreOrder::Reverse if *current > i64::from(i32::MAX) => set.last(),
            RestoreOrder::Reverse => set.range(..bound(*current)).next_back(),
            RestoreOrder::Same => set.range(bound(*current + 1)..).next(),
            RestoreOrder::Random => None,
        }?;
        let id = *versions.live.get(version)?;
        let distance = order::distance(self.shape.order, *current, i64::from(*version))?;
        Some((id, NextUse::Expected(distance)))
    }

    pub(super) fn next_use(&self, entry: &Entry) -> NextUse {
        if let Some(&position) = entry.hints.first() {
            return NextUse::Hinted(position);
        }
        match &self.reading {
            Some((name, current)) if *name == entry.name => {
                order::distance(self.shape.order, *current, i64::from(entry.version))
                    .map_or(NextUse::Never, NextUse::Expected)
            }
            _ => NextUse::Never,
        }
    }

    /// Room for something that will be used at `when`: only at the cost of what is used later.
    pub(super) fn make_room_for_fetch(&mut self, len: u64, when: NextUse, tier: Tier) -> bool {
        loop {
            let (space, victims, complete) = match tier {
                Tier::Device => (&self.device, &self.device_victims, self.device_complete),
                Tier::Host => (&self.host, &self.host_victims, true),
            };
            if space.rounded(len) <= space.free() {
                return true;
            }
            if !complete {
                return false;
            }
            let latest = victims
                .iter()
                .take(VICTIMS_LOOKED_AT)
                .filter(|(class, _)| *class != EvictionClass::Discardable)
                .filter_map(|&(_, id)| Some((self.next_use(self.entries.get(&id)?), id)))
                .filter(|(use_of_victim, _)| *use_of_victim > when)
                .max_by_key(|&(use_of_victim, id)| (use_of_victim, std::cmp::Reverse(id)));
            match latest {
                Some((_, id)) => self.evict(id, tier),
                None => return false,
            }
        }
    }
}
