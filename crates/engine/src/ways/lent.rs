//! Memory that the application leaves unchanged until it is released (`VELOC_READ_ONLY`): a worker copies it.

use std::time::Instant;

use super::Deferral;
use crate::deferred::BegunCapture;
use crate::lane::Direction;
use crate::open::Open;
use crate::place::check_mapped;
use crate::run::{about, Run, Way};
use crate::shared::Shared;
use crate::transfer::Queue;
use catalog::space::Extent;
use catalog::state::{Arrival, MoveEnd};
use catalog::Level;
use errors::Result;
use trace::metrics::Stop;
use trace::Activity;

/// A worker copies.
#[derive(Debug)]
pub(super) struct Lent;

/// The lent runs of a checkpoint.
#[derive(Debug)]
struct LentRuns(Vec<Run>);

impl Deferral for Lent {
    fn defers(&self, run: &Run) -> bool {
        run.level == Level::HOST
    }

    fn begin(&self, _: &Shared, _: &Open, runs: &[Run]) -> Result<Box<dyn BegunCapture>> {
        Ok(Box::new(LentRuns(runs.to_vec())))
    }
}

impl BegunCapture for LentRuns {
    fn runs(&self) -> &[Run] {
        &self.0
    }

    fn finish(
        self: Box<Self>,
        shared: &Shared,
        arrival: &Arrival,
    ) -> std::result::Result<u64, MoveEnd> {
        let failed = |error| MoveEnd::Failed(about(&arrival.name, arrival.version)(error));
        let there = check_mapped(self.0.iter().map(|run| &run.place));
        there.and_then(|()| shared.copy_and_count(Way::In, &self.0)).map_err(failed)?;
        let by_device: Vec<&Run> = self.0.iter().filter(|run| !run.by_processor()).collect();
        if by_device.is_empty() {
            return Ok(0);
        }
        let mut queue = Queue::for_arrivals(shared).map_err(failed)?;
        let end = bring_from_device(shared, &mut queue, arrival, &by_device);
        queue.arrived();
        match end {
            MoveEnd::Done => Ok(0),
            end => Err(end),
        }
    }
}

fn bring_from_device(
    shared: &Shared,
    queue: &mut Queue<'_>,
    arrival: &Arrival,
    runs: &[&Run],
) -> MoveEnd {
    let since = Instant::now();
    let mut span =
        shared.telemetry.trace.span(Activity::Capture).of(&arrival.name, arrival.version);
    let extents: Vec<Extent> = runs.iter().flat_map(|run| run.extents.iter().copied()).collect();
    let bytes = extents.iter().map(|extent| extent.len).sum();
    let what = "flushing to the host buffer";
    let whose = (&*arrival.name, arrival.version);
    let flushed = queue.flush_to(&extents, bytes, what, whose, |queue| {
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
        shared.telemetry.metrics.hop((Stop::Application, Stop::HOST)).add(bytes, since.elapsed());
        span.bytes(bytes);
        span.untouched(flushed.untouched);
    }
    flushed.end
}
