//! The ways to keep checkpoints that are compared (HiPC'22, section V-B), each behind the same few
//! calls. Every baseline is written as well as we know how: none pays for anything that its method
//! does not demand.

mod direct_pin;
mod incremental_memset;
mod ours;
mod ring;
mod store;
#[cfg(test)]
mod tests;
mod trace;
mod uvm;

pub(crate) use self::ours::{configuration, NamelessFile};

use anyhow::Result;
use device::Stream;

use super::cuda::{BenchDevice, CudaBuffer};
use super::plan::{ApproachName, PointPlan};
use super::results::{Decisions, HopFigures, ManagedBytes};
use super::waits::WaitingTimes;

/// Starts an approach for one process of a plan. The time that this takes is its initialisation.
pub(super) fn start<'a>(
    plan: &PointPlan,
    process: u32,
    device: &BenchDevice,
    stream: &'a Stream,
    buffer: &'a CudaBuffer,
) -> Result<Box<dyn Approach + 'a>> {
    let given = (device, stream, buffer);
    Ok(match plan.approach {
        ApproachName::Ours => Box::new(ours::Ours::start(plan, process, stream, buffer)?),
        ApproachName::DirectPin => Box::new(direct_pin::start(plan, process, given)?),
        ApproachName::IncrementalMemset => {
            Box::new(incremental_memset::start(plan, process, given)?)
        }
        ApproachName::Uvm | ApproachName::UvmBudget => {
            Box::new(uvm::Uvm::start(plan, process, given)?)
        }
        ApproachName::Ring => Box::new(ring::PinnedRing::start(plan, process, given)?),
    })
}

/// A way to keep checkpoints. The application's one buffer, its stream and the plan were given when
/// it was made, and the time of making it was counted as initialisation.
pub(super) trait Approach {
    /// Keeps the first `bytes` of the buffer under `version`. Ordered after the work that the
    /// application has queued in its stream; the buffer may change once this returns.
    fn checkpoint(&mut self, version: u32, bytes: u64) -> Result<()>;

    /// Says that these versions will be restored next, in this order.
    fn expect(&mut self, versions: &[u32]) -> Result<()>;

    /// Brings a version back into the buffer; its bytes are there when this returns.
    fn restore(&mut self, version: u32, bytes: u64) -> Result<()>;

    /// Why the application has waited since the start of this approach, the start included: in
    /// calls of the approach and nowhere else, and no time twice. Asked after each call.
    fn waits(&self) -> Result<WaitingTimes>;

    /// What the approach knows of itself, at the end of the forward pass and again at the end.
    fn insight(&mut self) -> Result<Insight>;

    /// Gives everything back.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// What an approach knows of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Insight {
    /// See [`super::results::ProcessFigures::hops`].
    pub hops: Vec<HopFigures>,
    /// See [`super::results::ProcessFigures::device_cache`].
    pub device_cache: Option<u64>,
    /// See [`super::results::ProcessFigures::managed`].
    pub managed: Option<ManagedBytes>,
    /// See [`super::results::ProcessFigures::decisions`].
    pub decisions: Option<Decisions>,
    /// See [`super::results::ProcessFigures::notes`].
    pub notes: Vec<String>,
}
