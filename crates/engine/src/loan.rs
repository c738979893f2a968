//! Memory that the application lends: it leaves a region as it is until it is released, so that its
//! copy to the host buffer can be made by a worker, after the checkpoint call has returned.
//!
//! The catalog knows such a checkpoint as one whose bytes are still to come. Whatever becomes of
//! it, its loan ends: by the worker, by the call that gave the checkpoint up, or with the job.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use super::capture::Open;
use super::copy::{Run, Way};
use super::lane::Direction;
use super::shared::Shared;
use super::spool::about;
use super::transfer::Queue;
use crate::catalog::entry::{Id, Tier};
use crate::catalog::monitor::Worker;
use crate::catalog::state::{Arrival, MoveEnd, State};
use device::PAGEABLE;
use levels::space::Extent;
use os::error::{Error, Result};
use os::sync::Mutex;
use trace::metrics::Hop;
use trace::Activity;

/// Tells the application that a region's bytes are not needed any more.
pub trait Release: Debug + Send + Sync {
    /// The library needs the bytes no more: the application may change its memory.
    ///
    /// # Errors
    /// The application's routine has failed, which changes nothing of that.
    fn release(&self) -> Result<()>;
}

/// What a checkpoint has still to fetch from the application's memory. Its end releases the
/// regions, on every path.
#[derive(Debug, Default)]
pub struct Loan {
    runs: Vec<Run>,
    releases: Vec<(i32, Arc<dyn Release>)>,
}

impl Loan {
    /// Whether a region of this id is lent.
    pub fn has(&self, id: i32) -> bool {
        self.runs.iter().any(|run| run.place.id == id)
    }

    /// The routine to call for a region when the loan ends.
    pub fn until(&mut self, region: i32, release: Arc<dyn Release>) {
        self.releases.push((region, release));
    }

    /// Releases the regions. What has failed in that.
    fn release(&mut self) -> Vec<Error> {
        let failed = |(region, release): (i32, Arc<dyn Release>)| {
            release.release().err().map(|error| error.within(format!("region {region}")))
        };
        self.releases.drain(..).filter_map(failed).collect()
    }

    /// The parts of the checkpoint that have bytes in it, indexed by `Part`.
    fn parts(&self) -> [bool; 2] {
        let mut parts = [false; 2];
        for run in &self.runs {
            parts[run.place.part() as usize] = true;
        }
        parts
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        for error in self.release() {
            // There is no call any more that it could be reported by.
            log::error!("{error}");
        }
    }
}

/// The loans of checkpoints that are committed.
#[derive(Debug, Default)]
pub struct Loans(Mutex<HashMap<Id, Loan>>);

impl Loans {
    fn take(&self, id: Id) -> Option<Loan> {
        self.0.lock().remove(&id)
    }
}

impl Shared {
    /// Room for device memory that is lent, in the host buffer, if it has some now: else a copy in
    /// the device cache keeps the application waiting for less.
    pub(super) fn room_for_loan(
        &self,
        open: &Open,
        len: u64,
        both: [u64; 2],
    ) -> Option<(Tier, u64, Vec<Extent>)> {
        let room = self.catalog.step(|state| state.reserve_for_loan(open.id, len, both));
        room.map(|(base, extents)| (Tier::Host, base, extents))
    }

    /// Takes these runs into a checkpoint's loan, once the application's own queued work on them is
    /// done.
    pub(super) fn lend(&self, open: &mut Open, mut runs: Vec<Run>) -> Result<()> {
        if runs.iter().any(|run| run.place.kind != PAGEABLE) {
            let side = self.device_side()?;
            let own = side.own.lock();
            let _current = side.device.enter()?;
            drop(side.after_application(self, &own)?);
            own.lane.stream().synchronize()?;
        }
        open.loan.runs.append(&mut runs);
        Ok(())
    }

    /// Copies at once what a checkpoint under way was to fetch later.
    pub(super) fn end_loan(&self, open: &mut Open) -> Result<()> {
        let loan = std::mem::take(&mut open.loan);
        let copied = self.copy(open.id, Way::In, &loan.runs);
        self.end(loan);
        copied
    }

    /// Releases the regions of a loan. A routine that fails is reported as what fails in the
    /// background is, by whichever thread it was called.
    pub(super) fn end(&self, mut loan: Loan) {
        for error in loan.release() {
            self.catalog.step(|state| state.report(error));
        }
    }

    /// Commits a checkpoint whose loan, if it has one, is left to the worker.
    pub(super) fn commit_with_loan(&self, open: &mut Open, persist: bool) {
        let arriving = open.loan.parts();
        if !open.loan.runs.is_empty() {
            self.loans.0.lock().insert(open.id, std::mem::take(&mut open.loan));
        }
        let (id, regions) = (open.id, std::mem::take(&mut open.regions));
        self.step_counted(|state| state.commit_lent(id, regions, arriving, persist));
    }
}

/// Copies what was lent until the engine stops.
pub fn arrive(shared: &Shared) -> Result<()> {
    let mut queue = None;
    while let Some(arrival) = shared.catalog.next(Worker::Arrive, State::next_arrival) {
        let Some(loan) = shared.loans.take(arrival.id) else { continue };
        let end = bring(shared, &mut queue, &arrival, &loan);
        // Before anybody hears that all is done.
        shared.end(loan);
        shared.catalog.step(|state| state.arrived(arrival.id, end));
    }
    Ok(())
}

fn bring<'a>(
    shared: &'a Shared,
    queue: &mut Option<Queue<'a>>,
    arrival: &Arrival,
    loan: &Loan,
) -> MoveEnd {
    let there = loan.runs.iter().try_for_each(|run| run.place.check());
    let by_processor = there.and_then(|()| shared.copy_and_count(Way::In, &loan.runs));
    let by_device: Vec<&Run> = loan.runs.iter().filter(|run| !run.by_processor()).collect();
    let ready = by_processor.and_then(|()| match queue {
        _ if by_device.is_empty() => Ok(None),
        Some(queue) => Ok(Some(queue)),
        None => Ok(Some(queue.insert(Queue::new(shared)?))),
    });
    match ready {
        Ok(None) => MoveEnd::Done,
        Ok(Some(queue)) => bring_from_device(shared, queue, arrival, &by_device),
        Err(error) => MoveEnd::Failed(about(&arrival.name, arrival.version)(error)),
    }
}

fn bring_from_device(
    shared: &Shared,
    queue: &mut Queue<'_>,
    arrival: &Arrival,
    runs: &[&Run],
) -> MoveEnd {
    let since = Instant::now();
    let mut span = shared.trace.span(Activity::Capture).of(&arrival.name, arrival.version);
    let extents: Vec<Extent> = runs.iter().flat_map(|run| run.extents.iter().copied()).collect();
    let bytes = extents.iter().map(|extent| extent.len).sum();
    let flushed = queue.flush_to(&extents, bytes, &arrival.name, arrival.version, |queue| {
        runs.iter().try_for_each(|run| {
            let mut from = run.place.address;
            run.extents.iter().try_for_each(|extent| {
                queue.stretch(from, *extent, Direction::Down)?;
                from += extent.len;
                Ok(())
            })
        })
    });
    if flushed.end == MoveEnd::Done {
        shared.metrics.hop(Hop::AtoH).add(bytes, since.elapsed());
        span.bytes(bytes);
        span.untouched(flushed.untouched);
    }
    flushed.end
}
