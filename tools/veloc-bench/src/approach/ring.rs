//! A fixed ring of pinned memory, and the application blocked until every byte has left the device
//! through it: what VELOC's own GPU branch does in 2026. Copies by the device and by the processor
//! overlap, as they do there.

use std::time::{Duration, Instant};

use ::trace::metrics::Cause;
use ::trace::{Activity, Counter, Recorder};
use anyhow::{anyhow, ensure, Context, Result};
use device::{Event, Stream, WaitMode};
use os::mapping::Mapping;

use super::store::{count, host_bytes};
use super::trace::{self, NAME};
use super::{Approach, Insight};
use crate::cuda::{BenchDevice, CudaBuffer, Pinned};
use crate::plan::PointPlan;
use crate::results::HopFigures;
use crate::waits::{name, WaitingTimes, HOST_COPY, PIN};

/// Bytes of the ring.
const RING: u64 = 64 << 20;
/// Slots of the ring.
const SLOTS: u64 = 8;
/// Bytes of a slot.
const SLOT: u64 = RING / SLOTS;

/// The ring, and the host memory behind it.
pub(super) struct PinnedRing<'a> {
    ring: Pinned,
    copied: Vec<Event>,
    host: Mapping,
    /// Where each version is, and its bytes.
    places: Vec<(u64, u64)>,
    end: u64,
    /// Making the ring; the whole way to the host, and back; the processor's part of each, between
    /// the ring and the host memory.
    hops: [HopFigures; 5],
    waits: WaitingTimes,
    stream: &'a Stream,
    buffer: &'a CudaBuffer,
    trace: Recorder,
}

impl<'a> PinnedRing<'a> {
    /// Allocates the ring, and reserves the host memory.
    pub(super) fn start(
        plan: &PointPlan,
        process: u32,
        (device, stream, buffer): (&BenchDevice, &'a Stream, &'a CudaBuffer),
    ) -> Result<PinnedRing<'a>> {
        ensure!(
            plan.host_cache > 0,
            "ring: it keeps everything on the host, and there is no host buffer"
        );
        let trace = trace::start(plan, process, device)?;
        let init = trace.span(Activity::Init);
        let bytes = plan.host_cache.max(host_bytes(plan.sizes_of(process)));
        let host = Mapping::reserve(bytes as usize)
            .and_then(|mapping| mapping.advise_huge(true).map(|()| mapping))
            .map_err(|error| anyhow!("the host memory: {error}"))?;
        let mut hops = [PIN, "AtoH", "HtoA", "RtoH", "HtoR"].map(HopFigures::named);
        let mut waits = WaitingTimes::default();
        let mut span = trace.span(Activity::Register);
        let since = Instant::now();
        let ring = Pinned::new(device, RING).context("the ring")?;
        count(&mut hops[0], RING, waits.since(PIN, since));
        span.bytes(RING);
        drop((span, init));
        Ok(PinnedRing {
            ring,
            copied: (0..SLOTS)
                .map(|_| Event::new(device, WaitMode::Spin))
                .collect::<errors::Result<_>>()?,
            host,
            places: Vec::new(),
            end: 0,
            hops,
            waits,
            stream,
            buffer,
            trace,
        })
    }

    fn slot(&self, number: u64) -> (*mut u8, &Event) {
        (self.ring.at(number % SLOTS * SLOT), &self.copied[(number % SLOTS) as usize])
    }

    fn host(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.host.len() as u64);
        // SAFETY: the mapping has room for all versions of the plan.
        unsafe { self.host.base().as_ptr().add(offset as usize) }
    }
}

/// Counts `time` that the application has waited, `by_processor` of it while the processor copied.
fn waited(waits: &mut WaitingTimes, time: Duration, by_processor: Duration) {
    waits.add(HOST_COPY, by_processor, 1);
    waits.add(name(Cause::Copy), time.saturating_sub(by_processor), 1);
}

/// The offset and the bytes of slice `number` of a version.
fn slice(number: u64, bytes: u64) -> (u64, u64) {
    (number * SLOT, SLOT.min(bytes - number * SLOT))
}

impl Approach for PinnedRing<'_> {
    fn checkpoint(&mut self, version: u32, bytes: u64) -> Result<()> {
        ensure!(version as usize == self.places.len(), "version {version} is out of order");
        let end = self.end + bytes.next_multiple_of(128);
        ensure!(
            end <= self.host.len() as u64 && bytes <= self.buffer.bytes(),
            "version {version}: {bytes} bytes, which the plan does not have"
        );
        let _span = self.trace.span(Activity::Checkpoint).of(NAME, version as i32);
        let since = Instant::now();
        let to = self.end;
        let slices = bytes.div_ceil(SLOT);
        let queue = |number: u64| {
            let (at, len) = slice(number, bytes);
            let (slot, copied) = self.slot(number);
            // SAFETY: the processor has emptied the slot; the buffer has the bytes.
            unsafe { self.stream.copy_to_host(slot, self.buffer.address() + at, len) }?;
            copied.record(self.stream)
        };
        (0..slices.min(SLOTS)).try_for_each(queue)?;
        let mut by_processor = Duration::ZERO;
        for number in 0..slices {
            let (at, len) = slice(number, bytes);
            let (slot, copied) = self.slot(number);
            copied.synchronize()?;
            let emptying = Instant::now();
            // SAFETY: the slice is complete in the slot; the place is this version's alone.
            unsafe { self.host(to + at).copy_from_nonoverlapping(slot, len as usize) };
            by_processor += emptying.elapsed();
            if number + SLOTS < slices {
                queue(number + SLOTS)?;
            }
        }
        self.places.push((to, bytes));
        self.end = end;
        let time = since.elapsed();
        self.trace.blocked(Cause::Copy, since, time);
        self.trace.spent(Activity::Capture, since, time, bytes);
        self.trace.counter(Counter::HostUsed, end);
        waited(&mut self.waits, time, by_processor);
        count(&mut self.hops[1], bytes, time);
        count(&mut self.hops[3], bytes, by_processor);
        Ok(())
    }

    fn expect(&mut self, _versions: &[u32]) -> Result<()> {
        // The ring fetches nothing ahead.
        Ok(())
    }

    fn restore(&mut self, version: u32, bytes: u64) -> Result<()> {
        let place = self.places.get(version as usize);
        let &(from, kept) = place.with_context(|| format!("version {version} was never kept"))?;
        ensure!(kept == bytes, "version {version} has {kept} bytes, not {bytes}");
        let _span = self.trace.span(Activity::Restore).of(NAME, version as i32);
        let since = Instant::now();
        let mut by_processor = Duration::ZERO;
        for number in 0..bytes.div_ceil(SLOT) {
            let (at, len) = slice(number, bytes);
            let (slot, copied) = self.slot(number);
            if number >= SLOTS {
                copied.synchronize()?;
            }
            let filling = Instant::now();
            // SAFETY: the device has emptied the slot; the version is complete on the host.
            unsafe { slot.copy_from_nonoverlapping(self.host(from + at), len as usize) };
            by_processor += filling.elapsed();
            // SAFETY: the slot stays until its event has happened; the buffer has the bytes.
            unsafe { self.stream.copy_from_host(self.buffer.address() + at, slot, len) }?;
            copied.record(self.stream)?;
        }
        self.stream.synchronize()?;
        let time = since.elapsed();
        self.trace.blocked(Cause::Copy, since, time);
        self.trace.spent(Activity::Recover, since, time, bytes);
        waited(&mut self.waits, time, by_processor);
        count(&mut self.hops[2], bytes, time);
        count(&mut self.hops[4], bytes, by_processor);
        Ok(())
    }

    fn waits(&self) -> Result<WaitingTimes> {
        Ok(self.waits.clone())
    }

    fn insight(&mut self) -> Result<Insight> {
        let hops = self.hops.iter().filter(|hop| hop.bytes > 0).cloned().collect();
        Ok(Insight { hops, device_cache: Some(0), ..Insight::default() })
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Drop for PinnedRing<'_> {
    fn drop(&mut self) {
        // After a failure copies may still use the ring. Nothing can be done about an error.
        let _ = self.stream.synchronize();
        self.trace.finish();
    }
}
