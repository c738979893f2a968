//! `host_capture = fork`: a copy-on-write child of the process copies regions to the host buffer, after the
//! checkpoint call has returned, as they were at the call (forked checkpointing of CRUM,
//! section III-D).
//!
//! The checkpoint is committed with incomplete bytes, as for every deferred capture. Its record in the ledger
//! names the carrier, which marks there that it has copied everything: so the version survives a kill of
//! this process, once its carrier has ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{arrived, Deferral};
use crate::deferred::BegunCapture;
use crate::open::Open;
use crate::run::Run;
use crate::shared::Shared;
use catalog::ledger::{Slot, IN_HOST};
use catalog::state::{Arrival, MoveEnd};
use errors::{Error, ErrorKind, Result};
use os::carrier::{CarriedBytes, Carrier};
use os::mapping;
use os::memory;
use os::size;

/// A child of the process copies.
#[derive(Debug)]
pub(super) struct Fork;

impl Deferral for Fork {
    fn defers(&self, run: &Run) -> bool {
        run.by_processor()
    }

    fn begin(&self, shared: &Shared, open: &Open, runs: &[Run]) -> Result<Box<dyn BegunCapture>> {
        let since = Instant::now();
        let carrier = Some(start_carrier(shared, open, runs)?);
        let (call, faults) = (since.elapsed(), memory::page_faults());
        Ok(Box::new(Carried { carrier, runs: runs.to_vec(), call, faults }))
    }
}

/// Runs that a carrier is copying.
#[derive(Debug)]
struct Carried {
    carrier: Option<Carrier>,
    runs: Vec<Run>,
    /// How long the call took that made the carrier.
    call: Duration,
    /// The process's page faults until then.
    faults: u64,
}

impl Drop for Carried {
    fn drop(&mut self) {
        // A carrier that nobody waits for stays a zombie. Its error is that of a checkpoint nobody wants.
        let _ = self.carrier.take().map(Carrier::wait);
    }
}

impl BegunCapture for Carried {
    fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Waits until the carrier has copied everything.
    fn finish(
        mut self: Box<Self>,
        shared: &Shared,
        arrival: &Arrival,
    ) -> std::result::Result<u64, MoveEnd> {
        let (carrier, call, faults) = (self.carrier.take(), self.call, self.faults);
        arrived(shared, arrival, &self.runs, || {
            let ended = carrier.map_or(Ok(()), Carrier::wait);
            let bytes = self.runs.iter().map(Run::bytes).sum();
            shared.captures.count_forked(call, memory::page_faults() - faults, bytes);
            ended.map(|()| 0).inspect_err(|_| {
                shared.captures.deferred.failed_carriers.fetch_add(1, Ordering::Relaxed);
            })
        })
    }
}

/// Starts the carrier of a checkpoint that is about to be committed.
fn start_carrier(shared: &Shared, open: &Open, runs: &[Run]) -> Result<Carrier> {
    // In the worst case the application writes every page before it is copied. And memory that a driver has pinned
    // is copied by the call that makes the carrier: nobody tells how much that is.
    let pinned = shared.device_side.attached.get().map_or(0, |_| memory::private());
    let bytes = runs.iter().map(Run::bytes).sum::<u64>().saturating_add(pinned);
    let free = memory::physical().map_or(u64::MAX, |found| found.available);
    if free < bytes {
        let of = match pinned {
            0 => "of the regions",
            _ => "of the regions and of the memory that may be registered with the device",
        };
        return Err(Error::new(
            ErrorKind::NoRoom,
            format!("{} of memory are free, less than a copy {of} needs", size::show(free)),
        ));
    }
    let host = shared.host_side.host()?;
    if host.mapping().kind() == mapping::MappingKind::Private {
        return Err(Error::new(ErrorKind::Internal, "the host buffer is no shared memory"));
    }
    let untouched = runs.iter().map(|run| host.untouched(&run.extents)).sum();
    shared.host_side.guard.count(untouched);
    runs.iter().try_for_each(|run| host.ensure(&run.extents))?;
    let mut pieces = Vec::new();
    for run in runs {
        let mut from = run.place.address as *const u8;
        for extent in &run.extents {
            let len = extent.len as usize;
            pieces.push(CarriedBytes { from, to: host.address(extent.offset), len });
            from = from.wrapping_add(len);
        }
    }
    runs.iter().for_each(|run| host.writing(&run.extents));
    // The mark says that the whole checkpoint is in the host buffer.
    let whole = open.deferred.is_empty();
    let slot = whole.then(|| prepare_record(shared, open)).flatten();
    let state = slot.map(|slot| record_state(shared, slot));
    let started = host.mapping().do_fork().and_then(|()| {
        let mark = state.flatten().map(|state| {
            // SAFETY: the ledger's mapping lives as long as the catalog, and its room in the ledger is
            // this checkpoint's until the carrier has ended.
            (unsafe { &*state }, IN_HOST)
        });
        // SAFETY: the regions are mapped (`check_mapped`) and plain memory. The extents are within the host
        // buffer, which is shared memory, and this checkpoint's alone until the carrier has ended.
        unsafe { Carrier::start(&pieces, mark) }
    });
    if let Err(error) = host.mapping().dont_fork() {
        log::warn!("forked processes of the application get the host buffer: {error}");
    }
    match started {
        Ok(carrier) => {
            let process = carrier.process();
            shared.catalog.step(|state| state.captures().carried_by(open.id, process, slot));
            Ok(carrier)
        }
        Err(error) => {
            if let Some(slot) = slot {
                shared.catalog.step(|state| state.handover().forget_record(slot));
            }
            runs.iter().for_each(|run| host.written(&run.extents));
            Err(error)
        }
    }
}

fn prepare_record(shared: &Shared, open: &Open) -> Option<Slot> {
    let mut regions = open.regions.clone();
    regions.sort_by_key(|region| region.id);
    shared.catalog.step(|state| state.handover().prepare_record(open.id, &regions))
}

fn record_state(shared: &Shared, slot: Slot) -> Option<*const AtomicU64> {
    shared.catalog.read(|state| state.successor().record_state(slot).map(std::ptr::from_ref))
}
