//! Copies between device memory and the host buffer, and to files, in a stream of the library's own.
//!
//! Where a chunk of the host buffer is registered, the device copies straight to it. Until then the
//! bytes go by way of a ring: a few MiB of memory that is registered when it is first needed, from
//! which this thread moves them on by the processor. Copies to memory that is not registered would be
//! staged by the driver, at a fraction of the speed and under its lock of the context, so that the
//! application's launches waited for them, for as long as nothing is registered. And as no copy by the
//! device ever uses a chunk before it is registered, its registration need not wait for any.

use std::collections::VecDeque;
use std::sync::Arc;

use super::gate::Gate;
use super::shared::Shared;
use device::{Device, Event, PinnedBuffer, Stream, WaitMode};
use levels::host_buffer::HostBuffer;
use levels::space::Extent;
use os::error::Result;
use os::size;
use policy::slice::{self, DEPTH, RING_SLOT};

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the host buffer.
    Down,
    /// To the device.
    Up,
}

/// A stream with the slices that are under way in it.
#[derive(Debug)]
pub struct Lane {
    device: Arc<Device>,
    stream: Stream,
    /// One behind each slice, and of the ring's slots the one of the same number.
    events: Vec<Event>,
    ring: Option<PinnedBuffer>,
    under_way: VecDeque<Slice>,
    next: usize,
}

/// A slice that the device copies.
#[derive(Debug)]
struct Slice {
    slot: usize,
    /// Where the bytes in the slot belong in the host buffer; `None`: nowhere.
    onward: Option<Extent>,
}

impl Lane {
    /// A lane of the device, whose thread waits in this way.
    pub fn new(device: &Arc<Device>, waiting: WaitMode) -> Result<Lane> {
        let events = (0..DEPTH).map(|_| Event::new(device, waiting)).collect::<Result<_>>()?;
        Ok(Lane {
            device: device.clone(),
            events,
            stream: Stream::new(device)?,
            ring: None,
            under_way: VecDeque::new(),
            next: 0,
        })
    }

    /// Its stream, for copies that need no cutting.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Copies between `device_at` and a place in the host buffer; the last slices are under way when
    /// this returns. With a gate, none begins while that is closed. After an error, [`Lane::abandon`].
    ///
    /// # Safety
    /// Both ranges must stay valid, with nobody else using what is written, until [`Lane::finish`] or
    /// [`Lane::abandon`] has returned.
    pub unsafe fn copy(
        &mut self,
        shared: &Shared,
        direction: Direction,
        device_at: u64,
        place: Extent,
        gate: Option<&Gate>,
    ) -> Result<()> {
        let host = shared.host()?;
        let mut done = 0;
        while done < place.len {
            let at = place.offset + done;
            if let Some(gate) = gate.filter(|gate| gate.is_closed()) {
                // Whoever closed it waits for what is under way.
                self.finish(host)?;
                gate.pass();
            }
            if self.under_way.len() == DEPTH {
                self.finish_oldest(host)?;
            }
            let run = slice::next(place.len - done, host.chunk_end(at) - at);
            let slot = self.next;
            self.next = (self.next + 1) % DEPTH;
            let (device_at, straight) = (device_at + done, self.is_straight(host, at));
            let run = if straight { run } else { run.min(RING_SLOT) };
            let on_host = if straight { host.address(at) } else { self.slot(shared, slot)? };
            let onward = Extent { offset: at, len: run };
            let is_onward = !straight && direction == Direction::Down;
            if !straight && direction == Direction::Up {
                // SAFETY: the caller's promise for the host buffer; no slice under way has the slot.
                unsafe {
                    std::ptr::copy_nonoverlapping(host.address(at), on_host, run as usize);
                }
            }
            // Waited for from here on, also if the copy fails.
            self.under_way.push_back(Slice { slot, onward: is_onward.then_some(onward) });
            // SAFETY: the caller's promise; the host's bytes are registered as a whole, or no part of
            // the host buffer ever is, or they are a slot, which nobody else uses.
            unsafe {
                match direction {
                    Direction::Down => self.stream.copy_to_host(on_host, device_at, run)?,
                    Direction::Up => self.stream.copy_from_host(device_at, on_host, run)?,
                }
            }
            self.events[slot].record(&self.stream)?;
            done += run;
        }
        Ok(())
    }

    /// Hands the bytes at `device_at` on to `put`, piece by piece in order, by way of the ring; with a gate,
    /// none is copied while that is closed. None is under way when this returns, also after an error.
    ///
    /// # Safety
    /// The range must stay valid, with nobody else writing to it, until then.
    pub unsafe fn read(
        &mut self,
        shared: &Shared,
        device_at: u64,
        len: u64,
        gate: Option<&Gate>,
        put: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        if !self.under_way.is_empty() {
            // Of a `put` that has panicked: the slots are not what is wanted here.
            self.abandon();
        }
        // SAFETY: the caller's promise.
        let done = unsafe { self.read_slices(shared, device_at, len, gate, put) };
        if done.is_err() {
            self.abandon();
        }
        done
    }

    /// # Safety
    /// As for [`Lane::read`]; after an error slices are under way.
    unsafe fn read_slices(
        &mut self,
        shared: &Shared,
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
                let (to, run) = (self.slot(shared, slot)?, run_at(queued));
                self.under_way.push_back(Slice { slot, onward: None });
                // SAFETY: the caller's promise; nobody else uses the slot.
                unsafe { self.stream.copy_to_host(to, device_at + queued, run) }?;
                self.events[slot].record(&self.stream)?;
                queued += run;
            }
            let Some(slot) = self.under_way.front().map(|slice| slice.slot) else { continue };
            self.events[slot].synchronize()?;
            let (from, run) = (self.slot(shared, slot)?, run_at(handed));
            // SAFETY: the device has written the slot, and nobody else uses it until it is handed on.
            put(unsafe { std::slice::from_raw_parts(from, run as usize) })?;
            self.under_way.pop_front();
            handed += run;
        }
        Ok(())
    }

    /// Waits for all slices under way, and moves on what belongs elsewhere.
    pub fn finish(&mut self, host: &HostBuffer) -> Result<()> {
        while !self.under_way.is_empty() {
            self.finish_oldest(host)?;
        }
        Ok(())
    }

    /// Waits until nothing is copied any more, wherever the bytes are then. False: that cannot be
    /// waited for.
    pub(crate) fn abandon(&mut self) -> bool {
        let ended = self.stream.synchronize().or_else(|_| self.device.synchronize());
        if ended.is_err() {
            // The device may write to it for ever.
            std::mem::forget(self.ring.take());
        }
        self.under_way.clear();
        ended.is_ok()
    }

    fn finish_oldest(&mut self, host: &HostBuffer) -> Result<()> {
        let Some(slice) = self.under_way.front() else { return Ok(()) };
        self.events[slice.slot].synchronize()?;
        if let (Some(to), Some(ring)) = (slice.onward, &self.ring) {
            // SAFETY: the device has written the slot, and nobody else uses it; the caller of `copy`
            // has promised the place.
            unsafe {
                let from = ring.address(slice.slot as u64 * RING_SLOT);
                std::ptr::copy_nonoverlapping(from, host.address(to.offset), to.len as usize);
            }
        }
        self.under_way.pop_front();
        Ok(())
    }

    /// Whether the device copies straight to or from the host buffer there: the chunk is registered, or
    /// none ever will be, as the device needs or knows no registrations.
    fn is_straight(&self, host: &HostBuffer, at: u64) -> bool {
        let capabilities = self.device.capabilities();
        capabilities.pageable_access || !capabilities.host_register || host.is_registered(at)
    }

    /// A slot of the ring, which is made when it is first needed.
    fn slot(&mut self, shared: &Shared, slot: usize) -> Result<*mut u8> {
        let ring = match &mut self.ring {
            Some(ring) => ring,
            none => {
                let (ring, refused) = PinnedBuffer::new(&self.device, DEPTH as u64 * RING_SLOT)?;
                if let Some(error) = refused {
                    shared.degrade(
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
    /// After a panic slices may be under way.
    fn drop(&mut self) {
        if !self.under_way.is_empty() {
            self.abandon();
        }
    }
}
