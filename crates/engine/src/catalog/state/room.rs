//! Room in the memory tiers: taking it, making it by eviction, and telling whether it can come.

use super::lists::has_bytes;
use super::{Reserve, Starved, State, WaitFor};
use crate::catalog::entry::{Id, Part, Stage, Tier, PARTS};
use levels::space::Extent;
use os::error::{Error, Kind};
use policy::evict::EvictionClass;
use trace::MemoryTier;

impl State {
    pub(super) fn take_room(
        &mut self,
        len: u64,
        tier: Tier,
    ) -> std::result::Result<Vec<Extent>, Reserve> {
        loop {
            let space = match tier {
                Tier::Device => &mut self.device,
                Tier::Host => &mut self.host,
            };
            if let Some(extents) = space.allocate(len) {
                self.starved[Starved::Application as usize] = false;
                return Ok(extents);
            }
            if tier == Tier::Device && !self.device_complete {
                return Err(Reserve::Wait(WaitFor::Map));
            }
            let (victims, capacity) = match tier {
                Tier::Device => (&self.device_victims, self.device.capacity()),
                Tier::Host => (&self.host_victims, self.host.capacity()),
            };
            let victim = victims.first().copied();
            if let Some((_, id)) = victim.filter(|(class, _)| *class < EvictionClass::Discardable) {
                self.evict(id, tier);
                continue;
            }
            self.press(Starved::Application);
            let may_come = match tier {
                Tier::Device => self.device_room_can_come(),
                Tier::Host => self.host_room_can_come(),
            };
            if may_come {
                return Err(Reserve::Wait(match tier {
                    Tier::Device => WaitFor::DeviceRoom,
                    Tier::Host => WaitFor::HostRoom,
                }));
            }
            if tier == Tier::Host && self.let_go_of_oldest() {
                continue;
            }
            let Some((_, id)) = victim else {
                // Nobody waits any more.
                self.starved[Starved::Application as usize] = false;
                return Err(Reserve::Never(self.no_room(len, tier, capacity)));
            };
            self.evict(id, tier);
        }
    }

    pub(super) fn no_room(&self, len: u64, tier: Tier, capacity: u64) -> Error {
        let (what, key) = match tier {
            Tier::Device => ("device cache", "gpu_cache_size"),
            Tier::Host => ("host buffer", "host_cache_size"),
        };
        let cause = self.last_failure.as_ref().filter(|_| self.anything_failed());
        let why = if let Some(cause) = cause {
            format!("what it holds could not be moved on: {cause}")
        } else if self.shape.ephemeral && !self.shape.scratch {
            "nothing in it has been consumed yet, and an ephemeral job without scratch writes no files"
                .to_owned()
        } else {
            "nothing in it can move on".to_owned()
        };
        Error::new(
            Kind::NoRoom,
            format!("no room for {len} bytes in the {what} ({key}, {capacity} bytes): {why}"),
        )
    }

    /// Room in the host buffer for `len` bytes, at the cost of others.
    pub(super) fn make_host_room(&mut self, len: u64, discard: bool) -> bool {
        while self.host.rounded(len) > self.host.free() {
            match self.host_victims.first().copied() {
                Some((class, id)) if discard || class < EvictionClass::Discardable => {
                    self.evict(id, Tier::Host);
                }
                _ => return false,
            }
        }
        true
    }

    pub(super) fn flush_can_come(&self) -> bool {
        self.flush.first().is_some_and(|&(consumed, id)| {
            self.entries.get(&id).is_some_and(|entry| {
                self.host.rounded(entry.part(Part::Device).len) <= self.host.free()
                    || self
                        .host_victims
                        .first()
                        .is_some_and(|(class, _)| *class < EvictionClass::Discardable || !consumed)
                    || !self.held.is_empty()
                    || self.host_room_can_come()
            })
        })
    }

    pub(super) fn device_room_can_come(&self) -> bool {
        self.in_flight > 0
            || self.flush_can_come()
            || !self.write.is_empty()
            || !self.persist.is_empty()
            || (self.shape.scratch && !self.spill.is_empty())
    }

    pub(super) fn host_room_can_come(&self) -> bool {
        self.in_flight > 0
            || !self.write.is_empty()
            // What scratch could not take leaves memory for persistent.
            || !self.persist.is_empty()
            || (self.shape.scratch && !self.spill.is_empty())
    }

    pub(super) fn evict(&mut self, id: Id, tier: Tier) {
        self.delist(id);
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let mut bytes = 0;
        for part in &mut entry.parts {
            let len = part.len;
            let copy = part.copy_mut(tier);
            if copy.stage == Stage::Ready {
                bytes += len;
                let extents = std::mem::take(copy).extents;
                match tier {
                    Tier::Device => self.device.release(&extents),
                    Tier::Host => self.host.release(&extents),
                }
            }
        }
        let from = match tier {
            Tier::Device => {
                self.counts.device_evictions += 1;
                MemoryTier::Device
            }
            Tier::Host => {
                self.counts.host_evictions += 1;
                MemoryTier::Host
            }
        };
        self.trace.evicted(from, &entry.name, entry.version, bytes);
        let whole = PARTS.iter().all(|&part| has_bytes(entry, part));
        if whole {
            self.reindex(id);
        } else {
            self.discard(id, true);
        }
    }
}
