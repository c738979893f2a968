//! `host_capture = protect`: a worker copies memory that is frozen until it has done so (`frozen`).

use super::{arrived, Deferral};
use crate::deferred::BegunCapture;
use crate::frozen::Frozen;
use crate::open::Open;
use crate::run::Run;
use crate::shared::Shared;
use catalog::state::{Arrival, MoveEnd};
use errors::Result;

/// A worker copies, and before that whoever is about to write.
#[derive(Debug)]
pub(super) struct Protect;

/// The frozen runs of a checkpoint.
#[derive(Debug)]
struct FrozenRuns {
    frozen: Frozen,
    runs: Vec<Run>,
}

impl Deferral for Protect {
    fn defers(&self, run: &Run) -> bool {
        run.by_processor()
    }

    fn begin(&self, shared: &Shared, _: &Open, runs: &[Run]) -> Result<Box<dyn BegunCapture>> {
        let host = shared.host_side.host()?;
        shared.host_side.guard.count(runs.iter().map(|run| host.untouched(&run.extents)).sum());
        runs.iter().try_for_each(|run| host.ensure(&run.extents))?;
        runs.iter().for_each(|run| host.writing(&run.extents));
        let frozen = shared.captures.freezer().and_then(|freezer| {
            // SAFETY: the extents are this checkpoint's, whose deferred capture ends before they are another's.
            unsafe { freezer.freeze(host, runs) }
        });
        let frozen =
            frozen.inspect_err(|_| runs.iter().for_each(|run| host.written(&run.extents)))?;
        Ok(Box::new(FrozenRuns { frozen, runs: runs.to_vec() }))
    }
}

impl BegunCapture for FrozenRuns {
    fn runs(&self) -> &[Run] {
        &self.runs
    }

    fn finish(
        self: Box<Self>,
        shared: &Shared,
        arrival: &Arrival,
    ) -> std::result::Result<u64, MoveEnd> {
        arrived(shared, arrival, &self.runs, || self.frozen.copy())
    }
}
