//! Managed memory for everything: one allocation, which the driver's own fault handling and
//! prefetcher move between device and host (HiPC'22, section V-B).
//!
//! Where the device has room for all of it, nothing ever has to leave, and so its two levels cannot
//! be compared with those of the others. The variant with a budget keeps no more on the device than
//! the others' device cache: in the background it asks the driver to move the oldest versions to
//! the host. They come back as the driver does it.

use std::collections::VecDeque;
use std::time::Instant;

use ::trace::metrics::Cause;
use ::trace::{Activity, Recorder};
use anyhow::{ensure, Context, Result};
use device::Stream;
use os::size;

use super::store::count;
use super::trace::{self, NAME};
use super::{Approach, Insight};
use crate::cuda::{BenchDevice, CudaBuffer};
use crate::plan::{ApproachName, PointPlan};
use crate::results::{HopFigures, ManagedBytes as ManagedMemory};
use crate::waits::{WaitingTimes, ALLOCATE, MANAGED_COPY, PAGE_MOVES};

/// Device memory that managed memory leaves free, in bytes.
const SPARE: u64 = 4 << 30;
/// On a small device (the software device is one), this share of its memory instead.
const SPARE_SHARE: u64 = 16;
/// Versions begin at multiples of this many bytes, so that no page that the driver moves belongs to
/// two of them.
const PAGE: u64 = 64 << 10;

/// The versions, one behind the other.
pub(super) struct Uvm<'a> {
    memory: CudaBuffer,
    places: Vec<(u64, u64)>,
    end: u64,
    budget: Option<Budget>,
    /// Copies into and out of managed memory. Their time includes what the driver does with pages
    /// meanwhile.
    hops: [HopFigures; 2],
    waits: WaitingTimes,
    stream: &'a Stream,
    buffer: &'a CudaBuffer,
    trace: Recorder,
}

/// The versions kept on the device, within a budget.
struct Budget {
    stream: Stream,
    bytes: u64,
    resident: VecDeque<u32>,
    resident_bytes: u64,
    /// Bytes that the driver was asked to move to the host.
    sent: u64,
}

fn bytes_of(sizes: &[u64]) -> u64 {
    sizes.iter().map(|bytes| bytes.next_multiple_of(PAGE)).sum()
}

/// Bytes of all processes that share a device with this one.
fn bytes_on_device(plan: &PointPlan, process: u32, devices: u32) -> u64 {
    (0..plan.processes)
        .filter(|other| other % devices == process % devices)
        .map(|other| bytes_of(plan.sizes_of(other)))
        .sum()
}

impl<'a> Uvm<'a> {
    /// Allocates. Refuses more than the device has free: managed memory beyond that has been seen
    /// to hang whole GPUs.
    pub(super) fn start(
        plan: &PointPlan,
        process: u32,
        (device, stream, buffer): (&BenchDevice, &'a Stream, &'a CudaBuffer),
    ) -> Result<Uvm<'a>> {
        let all = bytes_on_device(plan, process, BenchDevice::count()?.max(1));
        let free = device.free_memory()?;
        let spare = SPARE.min(device.total_memory() / SPARE_SHARE);
        ensure!(
            all.saturating_add(spare) <= free,
            "{} of managed memory would be more than the device has free ({}, of which {} stay \
             free), which can hang it",
            size::show(all),
            size::show(free),
            size::show(spare)
        );
        let trace = trace::start(plan, process, device)?;
        let init = trace.span(Activity::Init);
        let bytes = bytes_of(plan.sizes_of(process));
        let mut waits = WaitingTimes::default();
        let since = Instant::now();
        let memory = CudaBuffer::managed(device, bytes).context("the checkpoints")?;
        waits.since(ALLOCATE, since);
        let budget = match plan.approach {
            ApproachName::UvmBudget => Some(Budget {
                stream: Stream::new(device)?,
                bytes: plan.device_cache,
                resident: VecDeque::new(),
                resident_bytes: 0,
                sent: 0,
            }),
            _ => None,
        };
        drop(init);
        Ok(Uvm {
            memory,
            places: Vec::new(),
            end: 0,
            budget,
            hops: ["AtoM", "MtoA"].map(HopFigures::named),
            waits,
            stream,
            buffer,
            trace,
        })
    }
}

impl Budget {
    /// Notes that a version has come to the device, and sends the oldest ones to the host until the
    /// rest is within the budget.
    fn keep(
        &mut self,
        version: u32,
        places: &[(u64, u64)],
        memory: &CudaBuffer,
        trace: &Recorder,
    ) -> Result<()> {
        let bytes_of = |version: u32| places[version as usize].1.next_multiple_of(PAGE);
        self.resident.push_back(version);
        self.resident_bytes += bytes_of(version);
        while self.resident_bytes > self.bytes {
            let Some(oldest) = self.resident.pop_front() else { break };
            let (at, bytes) = places[oldest as usize];
            memory.to_host(at, bytes, &self.stream)?;
            self.resident_bytes -= bytes_of(oldest);
            self.sent += bytes;
            trace.evicted(0, NAME, oldest as i32, bytes);
        }
        Ok(())
    }
}

impl Approach for Uvm<'_> {
    fn checkpoint(&mut self, version: u32, bytes: u64) -> Result<()> {
        ensure!(version as usize == self.places.len(), "version {version} is out of order");
        let (at, end) = (self.end, self.end + bytes.next_multiple_of(PAGE));
        ensure!(
            end <= self.memory.bytes() && bytes <= self.buffer.bytes(),
            "version {version}: {bytes} bytes, which the plan does not have"
        );
        let _span = self.trace.span(Activity::Checkpoint).of(NAME, version as i32);
        let since = Instant::now();
        // SAFETY: the allocation and the buffer have the bytes; the place is this version's alone.
        unsafe { self.stream.copy_any(self.memory.address() + at, self.buffer.address(), bytes) }?;
        self.stream.synchronize()?;
        let time = self.waits.since(MANAGED_COPY, since);
        self.trace.blocked(Cause::Copy, since, time);
        self.trace.spent(Activity::Capture, since, time, bytes);
        count(&mut self.hops[0], bytes, time);
        self.places.push((at, bytes));
        self.end = end;
        if let Some(budget) = &mut self.budget {
            let since = Instant::now();
            budget.keep(version, &self.places, &self.memory, &self.trace)?;
            self.waits.since(PAGE_MOVES, since);
        }
        Ok(())
    }

    fn expect(&mut self, _versions: &[u32]) -> Result<()> {
        // The driver's prefetcher goes by what is accessed, and takes no hints here.
        Ok(())
    }

    fn restore(&mut self, version: u32, bytes: u64) -> Result<()> {
        let place = self.places.get(version as usize);
        let &(at, kept) = place.with_context(|| format!("version {version} was never kept"))?;
        ensure!(kept == bytes, "version {version} has {kept} bytes, not {bytes}");
        let _span = self.trace.span(Activity::Restore).of(NAME, version as i32);
        let since = Instant::now();
        // SAFETY: the version is complete there, and the buffer had room for it.
        unsafe { self.stream.copy_any(self.buffer.address(), self.memory.address() + at, bytes) }?;
        self.stream.synchronize()?;
        let time = self.waits.since(MANAGED_COPY, since);
        self.trace.blocked(Cause::Copy, since, time);
        self.trace.spent(Activity::Recover, since, time, bytes);
        count(&mut self.hops[1], bytes, time);
        Ok(())
    }

    fn waits(&self) -> Result<WaitingTimes> {
        Ok(self.waits.clone())
    }

    fn insight(&mut self) -> Result<Insight> {
        let bytes = size::show(self.memory.bytes());
        let note = match &self.budget {
            None => format!(
                "uvm: {bytes} of managed memory, all of which the device has room for: nothing had \
                 to leave it"
            ),
            Some(budget) => format!(
                "uvm-budget: {bytes} of managed memory, of which the driver was asked to move all \
                 but the youngest {} to the host",
                size::show(budget.bytes)
            ),
        };
        let managed = ManagedMemory {
            allocated: self.memory.bytes(),
            asked_to_host: self.budget.as_ref().map_or(0, |budget| budget.sent),
        };
        Ok(Insight {
            hops: self.hops.iter().filter(|hop| hop.bytes > 0).cloned().collect(),
            managed: Some(managed),
            notes: vec![note],
            ..Insight::default()
        })
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Drop for Uvm<'_> {
    fn drop(&mut self) {
        self.trace.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{plan, Application};
    use super::*;
    use crate::plan::{HintAmount, RestoreSequence};
    use xtask::on_device;

    #[test]
    fn only_processes_on_the_same_device_count() {
        let mut plan = plan(ApproachName::Uvm, RestoreSequence::Reverse, HintAmount::None);
        (plan.processes, plan.sizes) = (3, vec![vec![4], vec![PAGE + 4, 4], vec![4]]);
        assert_eq!(bytes_on_device(&plan, 0, 1), 5 * PAGE);
        assert_eq!(bytes_on_device(&plan, 0, 2), 2 * PAGE);
        assert_eq!(bytes_on_device(&plan, 1, 2), 3 * PAGE);
    }

    #[test]
    fn more_than_the_device_has_free_is_refused() {
        on_device::run(|| {
            let mut plan = plan(ApproachName::Uvm, RestoreSequence::Reverse, HintAmount::None);
            // A 16th of 4 GiB stays free.
            plan.sizes = vec![vec![1 << 30; 4]];
            let application = Application::new();
            let error = application.start(&plan).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("4 GiB of managed memory"), "{error}");
        });
    }

    #[test]
    fn with_a_budget_all_but_the_youngest_are_sent_to_the_host() {
        on_device::run(|| {
            let mut plan =
                plan(ApproachName::UvmBudget, RestoreSequence::Reverse, HintAmount::None);
            (plan.sizes, plan.device_cache) = (vec![vec![PAGE; 10]], 3 * PAGE);
            let insight = Application::new().pass(&plan).unwrap();
            let asked_to_host = 7 * PAGE;
            let managed = ManagedMemory { allocated: 10 * PAGE, asked_to_host };
            assert_eq!(insight.managed, Some(managed));
            assert!(insight.notes[0].contains("192 KiB"), "{:?}", insight.notes);
        });
    }
}
