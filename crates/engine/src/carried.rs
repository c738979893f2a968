//! Carried captures: a copy-on-write child of the process copies regions to the host buffer, after the
//! checkpoint call has returned, as they were at the call (`host_capture = fork`; forked checkpointing of
//! CRUM, section III-D).
//!
//! The checkpoint is committed with incomplete bytes, as for every deferred capture. Its record in the ledger
//! names the carrier, which marks there that it has copied everything: so the version survives a kill of
//! this process, once its carrier has ended.

use std::sync::atomic::AtomicU64;
use std::time::Instant;

use super::deferred::Carried;
use super::open::Open;
use super::run::{Run, Way};
use super::shared::Capturing;
use catalog::ledger::{Slot, IN_HOST};
use errors::{Error, Kind, Result};
use os::carrier::{Carrier, Piece};
use os::mapping;
use os::memory;
use os::size;
use policy::capture::Capture;

impl Capturing<'_> {
    /// Starts the carrier of a checkpoint that is about to be committed, if it has regions for one. If that
    /// is impossible, this thread copies them.
    pub(super) fn carry(&self, open: &mut Open) -> Result<()> {
        let runs = open.deferred.take(Capture::Fork);
        if runs.is_empty() {
            return Ok(());
        }
        let since = Instant::now();
        match self.start_carrier(open, &runs) {
            Ok(carrier) => {
                let (call, faults) = (since.elapsed(), memory::page_faults());
                open.deferred.carried =
                    Some(Carried { carrier: Some(carrier), runs, call, faults });
                Ok(())
            }
            Err(error) => {
                self.shared.captures.captures_in_call(&error);
                self.shared.copy(open.id, Way::In, &runs)
            }
        }
    }

    fn start_carrier(&self, open: &Open, runs: &[Run]) -> Result<Carrier> {
        // In the worst case the application writes every page before it is copied. And memory that a driver has pinned
        // is copied by the call that makes the carrier: nobody tells how much that is.
        let pinned = self.shared.device_side.attached.get().map_or(0, |_| memory::private());
        let bytes = runs.iter().map(Run::bytes).sum::<u64>().saturating_add(pinned);
        let free = memory::physical().map_or(u64::MAX, |found| found.available);
        if free < bytes {
            let of = match pinned {
                0 => "of the regions",
                _ => "of the regions and of the memory that may be registered with the device",
            };
            return Err(Error::new(
                Kind::NoRoom,
                format!("{} of memory are free, less than a copy {of}", size::show(free)),
            ));
        }
        let host = self.shared.host_side.host()?;
        if host.mapping().kind() == mapping::Kind::Private {
            return Err(Error::new(Kind::Internal, "the host buffer is no shared memory"));
        }
        let untouched = runs.iter().map(|run| host.untouched(&run.extents)).sum();
        self.shared.host_side.guard.count(untouched);
        runs.iter().try_for_each(|run| host.ensure(&run.extents))?;
        let mut pieces = Vec::new();
        for run in runs {
            let mut from = run.place.address as *const u8;
            for extent in &run.extents {
                let len = extent.len as usize;
                pieces.push(Piece { from, to: host.address(extent.offset), len });
                from = from.wrapping_add(len);
            }
        }
        runs.iter().for_each(|run| host.writing(&run.extents));
        // The mark says that the whole checkpoint is in the host buffer.
        let whole = open.deferred.runs.is_empty() && open.deferred.frozen.is_none();
        let slot = whole.then(|| self.prepare_record(open)).flatten();
        let state = slot.map(|slot| self.record_state(slot));
        let started = host.mapping().do_fork().and_then(|()| {
            let mark = state.flatten().map(|state| {
                // SAFETY: the ledger's mapping lives as long as the catalog, and its room in the ledger is
                // this checkpoint's until the carrier has ended.
                (unsafe { &*state }, IN_HOST)
            });
            // SAFETY: the regions are mapped (`Place::check`) and plain memory. The extents are within the host
            // buffer, which is shared memory, and this checkpoint's alone until the carrier has ended.
            unsafe { Carrier::start(&pieces, mark) }
        });
        if let Err(error) = host.mapping().dont_fork() {
            log::warn!("forked processes of the application get the host buffer: {error}");
        }
        match started {
            Ok(carrier) => {
                let process = carrier.process();
                self.shared
                    .catalog
                    .step(|state| state.captures().carried_by(open.id, process, slot));
                Ok(carrier)
            }
            Err(error) => {
                if let Some(slot) = slot {
                    self.shared.catalog.step(|state| state.handover().forget_record(slot));
                }
                runs.iter().for_each(|run| host.written(&run.extents));
                Err(error)
            }
        }
    }

    fn prepare_record(&self, open: &Open) -> Option<Slot> {
        let mut regions = open.regions.clone();
        regions.sort_by_key(|region| region.id);
        self.shared.catalog.step(|state| state.handover().prepare_record(open.id, &regions))
    }

    fn record_state(&self, slot: Slot) -> Option<*const AtomicU64> {
        self.shared
            .catalog
            .read(|state| state.successor().record_state(slot).map(std::ptr::from_ref))
    }
}
