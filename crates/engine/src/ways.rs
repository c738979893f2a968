//! The ways of capturing behind the call: one file for each, and a trait for what they have in common. Which there are
//! is said by the table of [`policy::capture`]; a way without an entry here copies in the call.

mod fork;
mod lent;
mod ordered;
mod protect;

use std::fmt::Debug;
use std::time::Instant;

use super::deferred::BegunCapture;
use super::open::Open;
use super::run::{about, Run, Way};
use super::shared::{Capturing, Shared};
use catalog::state::{Arrival, MoveEnd, State};
use errors::Result;
use policy::capture::Capture;
use trace::metrics::Stop;
use trace::Activity;

/// A way of capturing behind the call.
trait Deferral: Debug {
    /// Whether it can capture such a run.
    fn defers(&self, run: &Run) -> bool;

    /// Begins to capture runs of a checkpoint that is about to be committed. The application may change them when the
    /// call returns, as far as the way allows it.
    ///
    /// # Errors
    /// It cannot, and nothing has begun: the call copies them.
    fn begin(&self, shared: &Shared, open: &Open, runs: &[Run]) -> Result<Box<dyn BegunCapture>>;
}

/// What captures in each way, in the order in which it begins and ends: frozen memory first, as the application may be
/// waiting for it.
const DEFERRALS: [(Capture, &(dyn Deferral + Sync)); 4] = [
    (Capture::Protect, &protect::Protect),
    (Capture::Fork, &fork::Fork),
    (Capture::Lent, &lent::Lent),
    (Capture::Ordered, &ordered::Ordered),
];

/// Whether a run is captured behind the call.
pub(super) fn is_deferred(run: &Run) -> bool {
    DEFERRALS.iter().any(|(way, deferral)| *way == run.place.capture && deferral.defers(run))
}

impl Capturing<'_> {
    /// Begins what an open checkpoint has deferred, before it is committed. What cannot begin is copied by this thread.
    pub(super) fn begin_deferred(&self, open: &mut Open) -> Result<()> {
        for (way, deferral) in DEFERRALS {
            let runs = open.deferred.take(way);
            if runs.is_empty() {
                continue;
            }
            match deferral.begin(self.shared, open, &runs) {
                Ok(begun) => open.deferred.begun.push(begun),
                Err(error) => {
                    let stranded = |state: &mut State| state.captures().is_stranded(open.id);
                    if self.shared.catalog.step(stranded) {
                        // What it has queued may still come.
                        return Err(error);
                    }
                    self.shared.copy(open.id, Way::In, &runs)?;
                    self.shared.captures.captures_in_call(&error);
                }
            }
        }
        Ok(())
    }
}

/// Counts the arrival of runs in the host buffer, which `bring` waits for. Returns what that does.
fn arrived(
    shared: &Shared,
    arrival: &Arrival,
    runs: &[Run],
    bring: impl FnOnce() -> Result<u64>,
) -> std::result::Result<u64, MoveEnd> {
    let since = Instant::now();
    let mut span =
        shared.telemetry.trace.span(Activity::Capture).of(&arrival.name, arrival.version);
    let brought = bring();
    let ended = shared.host_side.host().and_then(|host| {
        runs.iter().for_each(|run| host.written(&run.extents));
        brought
    });
    let ahead =
        ended.map_err(|error| MoveEnd::Failed(about(&arrival.name, arrival.version)(error)))?;
    let bytes = runs.iter().map(Run::bytes).sum();
    shared.telemetry.metrics.hop((Stop::Application, Stop::HOST)).add(bytes, since.elapsed());
    span.bytes(bytes);
    Ok(ahead)
}
