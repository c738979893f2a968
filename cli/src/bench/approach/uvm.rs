//! Managed memory for everything: one allocation, which the driver's own fault handling and
//! prefetcher move between device and host (HiPC'22, section V-B).

use anyhow::{ensure, Context, Result};

use super::{Approach, Insight};
use crate::bench::cuda::{Buffer, Device, Managed, Stream};
use crate::bench::plan::Plan;
use crate::size;

/// Device memory that managed memory leaves free, in bytes.
const SPARE: u64 = 2 << 30;
/// The same on the software device, as a share of its memory.
const SPARE_SHARE: u64 = 16;

/// The versions, one behind the other.
pub struct Uvm<'a> {
    memory: Managed,
    places: Vec<u64>,
    end: u64,
    stream: &'a Stream,
    buffer: &'a Buffer,
}

impl<'a> Uvm<'a> {
    /// Allocates. Refuses more than the device has free: managed memory beyond that has been seen
    /// to hang whole GPUs.
    pub fn start(
        plan: &Plan,
        process: u32,
        (device, stream, buffer): (&Device, &'a Stream, &'a Buffer),
    ) -> Result<Uvm<'a>> {
        let bytes: u64 = plan.sizes_of(process).iter().map(|b| b.next_multiple_of(256)).sum();
        let free = device.free()?;
        let all = bytes * u64::from(plan.processes);
        let spare = SPARE.min(device.memory() / SPARE_SHARE);
        ensure!(
            all + spare <= free,
            "{} of managed memory would be more than the device has free ({}), which can hang it",
            size::show(all),
            size::show(free)
        );
        let memory = Managed::new(device, bytes).context("the checkpoints")?;
        Ok(Uvm { memory, places: Vec::new(), end: 0, stream, buffer })
    }
}

impl Approach for Uvm<'_> {
    fn checkpoint(&mut self, version: u32, bytes: u64) -> Result<()> {
        ensure!(version as usize == self.places.len(), "version {version} is out of order");
        let at = self.end;
        // SAFETY: the allocation has room for all versions of the plan, one behind the other.
        unsafe { self.stream.copy(self.memory.address() + at, self.buffer.address(), bytes) }?;
        self.stream.wait()?;
        self.places.push(at);
        self.end += bytes.next_multiple_of(256);
        Ok(())
    }

    fn expect(&mut self, _versions: &[u32]) -> Result<()> {
        // The driver's prefetcher goes by what is accessed, and takes no hints here.
        Ok(())
    }

    fn restore(&mut self, version: u32, bytes: u64) -> Result<()> {
        let at = self.places.get(version as usize).context("the version was never kept")?;
        // SAFETY: the version is complete there.
        unsafe { self.stream.copy(self.buffer.address(), self.memory.address() + at, bytes) }?;
        self.stream.wait()
    }

    fn insight(&mut self) -> Result<Insight> {
        let note = format!(
            "uvm: {} of managed memory, all of which the device has room for: nothing had to leave it",
            size::show(self.memory.bytes())
        );
        Ok(Insight { notes: vec![note], ..Insight::default() })
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
