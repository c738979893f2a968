//! Copies between device memory and the host buffer, and to files, in a stream of the library.
//!
//! If a chunk of the host buffer is registered, the device copies directly to it. Until then, bytes go
//! through a ring: a few MiB of memory, registered at their first use, from which the lane's thread copies them on.
//! The driver would stage copies to unregistered memory itself, at a fraction of the speed and holding its
//! context lock, so that the application's kernel launches would wait. And as the device never uses a chunk
//! before it is registered, its registration need not wait for copies.

use std::collections::VecDeque;
use std::sync::Arc;

use super::gate::Gate;
use super::telemetry::Telemetry;
use catalog::space::Extent;
use device::{Device, Event, PinnedBuffer, Stream, WaitMode};
use errors::Result;
use levels::host_buffer::HostBuffer;
use os::size;
use policy::slice::{self, DEPTH, RING_SLOT};

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the host buffer.
    Down,
    /// To the device.
    Up,
}

/// A stream with its active slices.
#[derive(Debug)]
pub(crate) struct Lane {
    device: Arc<Device>,
    telemetry: Arc<Telemetry>,
    stream: Stream,
    /// One event after each slice; those of ring slots have the slot's number. Each is made at its first use.
    events: Vec<Event>,
    waiting: WaitMode,
    ring: Option<PinnedBuffer>,
    under_way: VecDeque<Slice>,
    next: usize,
}

/// An active slice.
#[derive(Debug)]
struct Slice {
    slot: usize,
    /// Where in the host buffer the slot's bytes belong; `None`: they need no second copy.
    onward: Option<Extent>,
}

impl Lane {
    /// A lane of the device, whose thread waits in this mode.
    pub(crate) fn new(
        device: &Arc<Device>,
        telemetry: &Arc<Telemetry>,
        waiting: WaitMode,
    ) -> Result<Lane> {
        Ok(Lane {
            device: device.clone(),
            telemetry: telemetry.clone(),
            events: Vec::new(),
            waiting,
            stream: Stream::new(device)?,
            ring: None,
            under_way: VecDeque::new(),
            next: 0,
        })
    }

    /// Its stream, for copies that need no slices.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Whether no slice is active.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Copies between `device_at` and a place in the host buffer; the last slices may be active when this
    /// returns. With a gate, none begins while it is closed. After an error, [`Lane::abandon`] must follow.
    ///
    /// # Safety
    /// Both ranges stay valid, and nothing else uses what is written, until [`Lane::finish`] or
    /// [`Lane::abandon`] has returned.
    pub(crate) unsafe fn copy(
        &mut self,
        host: &HostBuffer,
        direction: Direction,
        device_at: u64,
        place: Extent,
        gate: Option<&Gate>,
    ) -> Result<()> {
        let mut done = 0;
        while done < place.len {
            let at = place.offset + done;
            if let Some(gate) = gate.filter(|gate| gate.is_closed()) {
                // The gate's owner waits for the active slices.
                self.finish(host)?;
                gate.pass();
            }
            if self.under_way.len() == DEPTH {
                self.finish_oldest(host)?;
            }
            let run = slice::next(place.len - done, host.chunks().end(at) - at);
            let slot = self.next;
            self.next = (self.next + 1) % DEPTH;
            let (device_at, straight) = (device_at + done, self.is_straight(host, at));
            let run = if straight { run } else { run.min(RING_SLOT) };
            let on_host = if straight { host.address(at) } else { self.slot(slot)? };
            let onward = Extent { offset: at, len: run };
            let is_onward = !straight && direction == Direction::Down;
            if !straight && direction == Direction::Up {
                // SAFETY: the caller's promise for the host buffer; no active slice uses the slot.
                unsafe {
                    std::ptr::copy_nonoverlapping(host.address(at), on_host, run as usize);
                }
            }
            // Waited for from now on, even if the copy fails.
            self.under_way.push_back(Slice { slot, onward: is_onward.then_some(onward) });
            // SAFETY: the caller's promise; the host's bytes are completely registered, or no part of the
            // host buffer ever is, or they are a slot that nothing else uses.
            unsafe {
                match direction {
                    Direction::Down => self.stream.copy_to_host(on_host, device_at, run)?,
                    Direction::Up => self.stream.copy_from_host(device_at, on_host, run)?,
                }
            }
            self.record(slot)?;
            done += run;
        }
        Ok(())
    }

    /// Passes the bytes at `device_at` to `put`, piece by piece in order, through the ring; with a gate, none
    /// is copied while it is closed. No slice is active when this returns, also after an error.
    ///
    /// # Safety
    /// The range stays valid, and nothing else writes to it, until this returns.
    pub(crate) unsafe fn read(
        &mut self,
        device_at: u64,
        len: u64,
        gate: Option<&Gate>,
        put: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        if !self.under_way.is_empty() {
            // After a `put` that panicked: the slots have other bytes.
            self.abandon();
        }
        // SAFETY: the caller's promise.
        let done = unsafe { self.read_slices(device_at, len, gate, put) };
        if done.is_err() {
            self.abandon();
        }
        done
    }

    /// # Safety
    /// [`Lane::read`]; after an error slices may be active.
    unsafe fn read_slices(
        &mut self,
        device_at: u64,
        len: u64,
        gate: Option<&Gate>,
        mut put: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let run_at = |at: u64| (len - at).min(RING_SLOT);
        let (mut queued, mut handed) = (0, 0);
        while handed < len {
            while queued < len && self.under_way.len() < DEPTH {
                if let Some(gate) = gate.filter(|gate| gate.is_closed()) {
                    if !self.under_way.is_empty() {
                        break;
                    }
                    gate.pass();
                }
                let slot = self.next;
                self.next = (self.next + 1) % DEPTH;
                let (to, run) = (self.slot(slot)?, run_at(queued));
                self.under_way.push_back(Slice { slot, onward: None });
                // SAFETY: the caller's promise; nothing else uses the slot.
                unsafe { self.stream.copy_to_host(to, device_at + queued, run) }?;
                self.record(slot)?;
                queued += run;
            }
            let Some(slot) = self.under_way.front().map(|slice| slice.slot) else { continue };
            self.await_slot(slot)?;
            let (from, run) = (self.slot(slot)?, run_at(handed));
            // SAFETY: the device has written the slot, and nothing else uses it until `put` returns.
            put(unsafe { std::slice::from_raw_parts(from, run as usize) })?;
            self.under_way.pop_front();
            handed += run;
        }
        Ok(())
    }

    /// Copies bytes to `device_at` through the ring. They are not needed any more when this returns, but the last slices
    /// may be active.
    ///
    /// # Safety
    /// The range stays valid, and nothing else uses it, until [`Lane::end_writes`] has returned, also after an error.
    pub(crate) unsafe fn write(&mut self, mut device_at: u64, bytes: &[u8]) -> Result<()> {
        for run in bytes.chunks(RING_SLOT as usize) {
            if self.under_way.len() == DEPTH {
                if let Some(oldest) = self.under_way.front() {
                    self.await_slot(oldest.slot)?;
                }
                self.under_way.pop_front();
            }
            let slot = self.next;
            self.next = (self.next + 1) % DEPTH;
            let (on_host, len) = (self.slot(slot)?, run.len() as u64);
            // SAFETY: no active slice uses the slot, which has room for the run.
            unsafe { std::ptr::copy_nonoverlapping(run.as_ptr(), on_host, run.len()) };
            self.under_way.push_back(Slice { slot, onward: None });
            // SAFETY: the caller's promise; nothing else uses the slot until its event was waited for.
            unsafe { self.stream.copy_from_host(device_at, on_host, len) }?;
            self.record(slot)?;
            device_at += len;
        }
        Ok(())
    }

    /// Waits until nothing that [`Lane::write`] has begun is copied any more.
    pub(crate) fn end_writes(&mut self) -> Result<()> {
        let ended = self.stream.synchronize();
        if ended.is_err() {
            self.abandon();
        }
        self.under_way.clear();
        ended
    }

    /// Waits for all active slices, and copies their bytes to the host buffer where needed.
    pub(crate) fn finish(&mut self, host: &HostBuffer) -> Result<()> {
        while !self.under_way.is_empty() {
            self.finish_oldest(host)?;
        }
        Ok(())
    }

    /// Waits until nothing is copied any more, leaving the bytes wherever they are. False: that cannot be
    /// waited for.
    pub(crate) fn abandon(&mut self) -> bool {
        let ended = self.stream.synchronize().or_else(|_| self.device.synchronize());
        if ended.is_err() {
            // The device may write to the ring for ever.
            std::mem::forget(self.ring.take());
        }
        self.under_way.clear();
        ended.is_ok()
    }

    fn finish_oldest(&mut self, host: &HostBuffer) -> Result<()> {
        let Some(slice) = self.under_way.front() else { return Ok(()) };
        self.await_slot(slice.slot)?;
        if let (Some(to), Some(ring)) = (slice.onward, &self.ring) {
            // SAFETY: the device has written the slot, and nothing else uses it; the caller of `copy`
            // guarantees the place.
            unsafe {
                let from = ring.address(slice.slot as u64 * RING_SLOT);
                std::ptr::copy_nonoverlapping(from, host.address(to.offset), to.len as usize);
            }
        }
        self.under_way.pop_front();
        Ok(())
    }

    /// Whether the device copies directly to or from the host buffer there: the chunk is registered, or none
    /// ever will be, because the device does not need or support registration.
    pub(crate) fn is_straight(&self, host: &HostBuffer, at: u64) -> bool {
        let capabilities = self.device.capabilities();
        capabilities.pageable_access || !capabilities.host_register || host.registrations().has(at)
    }

    /// Records the event of a slot behind what is queued.
    fn record(&mut self, slot: usize) -> Result<()> {
        while self.events.len() <= slot {
            self.events.push(Event::new(&self.device, self.waiting)?);
        }
        self.events[slot].record(&self.stream)
    }

    /// Waits for what was queued last with a slot.
    fn await_slot(&self, slot: usize) -> Result<()> {
        match self.events.get(slot) {
            Some(event) => event.synchronize(),
            None => self.stream.synchronize(),
        }
    }

    /// A slot of the ring, which is made at its first use.
    fn slot(&mut self, slot: usize) -> Result<*mut u8> {
        let ring = match &mut self.ring {
            Some(ring) => ring,
            none => {
                let (ring, refused) = PinnedBuffer::new(&self.device, DEPTH as u64 * RING_SLOT)?;
                if let Some(error) = refused {
                    self.telemetry.degrade(
                        "ring",
                        format!(
                            "{} between device and host buffer stay unregistered, so transfers are \
                             slower: {error}",
                            size::show(DEPTH as u64 * RING_SLOT)
                        ),
                    );
                }
                none.insert(ring)
            }
        };
        Ok(ring.address(slot as u64 * RING_SLOT))
    }
}

impl Drop for Lane {
    /// After a panic slices may be active.
    fn drop(&mut self) {
        if !self.under_way.is_empty() {
            self.abandon();
        }
    }
}
