//! Memory in steps, but without the paper's care for pages: 4 KiB pages, each range set to 0 in
//! whole beside the flushes, which follow behind; registered when all pages exist, whatever other
//! processes do (HiPC'22, section V-B). The device cache is mapped in the background, as the
//! paper's prototype does for all its strategies.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ::trace::{Activity, Counter};
use anyhow::{anyhow, bail, Context, Result};
use device::{DeviceRange, Stream};
use os::mapping::Mapping;

use super::store::{host_bytes, LevelMemory, SharedStore, StoreStep, TwoLevelStore};
use super::trace;
use crate::cuda::{register, unregister, Address, BenchDevice, CudaBuffer};
use crate::plan::PointPlan;

/// Device memory that is mapped at a time: the paper's figure.
const MAP_STEP: u64 = 1 << 30;
/// Bytes set to 0 in one step: what flushes wait for at a time.
const TOUCH_STEP: u64 = 4 << 20;
/// Bytes of one registration: some kernels pin less than 2 GiB at once. Copies are cut there.
const REGISTRATION: u64 = 1 << 30;

struct HostPages {
    mapping: Mapping,
    bytes: u64,
    front: Mutex<Front>,
    moved: Condvar,
    /// Copies hold this for reading, the registration for writing, which stops all copies.
    copying: RwLock<u64>,
}

#[derive(Default)]
struct Front {
    touched: u64,
    stopping: bool,
}

struct IncrementalMemset {
    device: Address,
    range: Mutex<DeviceRange>,
    host: Option<Arc<HostPages>>,
}

impl HostPages {
    fn lock(&self) -> MutexGuard<'_, Front> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, offset: u64) -> *mut u8 {
        assert!(offset <= self.bytes, "offset {offset} of {}", self.bytes);
        // SAFETY: within the mapping, or just behind it.
        unsafe { self.mapping.base().as_ptr().add(offset as usize) }
    }

    fn touch_all(&self, shared: &SharedStore) {
        let trace = &shared.trace;
        let mut at = 0;
        while at < self.bytes {
            let step = TOUCH_STEP.min(self.bytes - at);
            let mut span = trace.span(Activity::Touch);
            let since = Instant::now();
            // SAFETY: flushes keep behind `touched`, so nobody else uses these bytes.
            unsafe { self.at(at).write_bytes(0, step as usize) };
            shared.count(StoreStep::Touch, step, since.elapsed());
            at += step;
            span.bytes(step);
            drop(span);
            trace.counter(Counter::HostTouched, at);
            let mut front = self.lock();
            front.touched = at;
            let stopping = front.stopping;
            drop(front);
            self.moved.notify_all();
            if stopping {
                return;
            }
        }
    }

    fn register_all(&self, shared: &SharedStore) -> Result<()> {
        let trace = &shared.trace;
        let mut at = 0;
        while at < self.bytes && !shared.stopping() {
            let bytes = REGISTRATION.min(self.bytes - at);
            let mut registered = self.copying.write().unwrap_or_else(PoisonError::into_inner);
            let mut span = trace.span(Activity::Register);
            let since = Instant::now();
            // SAFETY: the mapping lives until `drop` has unregistered it; no copy is under way.
            unsafe { register(self.at(at), bytes) }.context("the host buffer")?;
            shared.count(StoreStep::Register, bytes, since.elapsed());
            at += bytes;
            span.bytes(bytes);
            drop(span);
            trace.counter(Counter::HostRegistered, at);
            *registered = at;
        }
        Ok(())
    }
}

/// A range of the host buffer, cut at the borders of registrations: offset and bytes of each piece.
fn between_borders(offset: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = offset + bytes;
    let mut at = offset;
    std::iter::from_fn(move || {
        let border = (at / REGISTRATION + 1) * REGISTRATION;
        let piece = (at, border.min(end) - at);
        at += piece.1;
        (piece.1 > 0).then_some(piece)
    })
}

impl Drop for HostPages {
    fn drop(&mut self) {
        let registered = *self.copying.get_mut().unwrap_or_else(PoisonError::into_inner);
        for at in (0..registered).step_by(REGISTRATION as usize) {
            // SAFETY: registered in `register_all`, and nobody copies any more. Nothing can be
            // done about an error.
            let _ = unsafe { unregister(self.at(at)) };
        }
    }
}

impl LevelMemory for IncrementalMemset {
    fn device(&self) -> Address {
        self.device
    }

    fn host(&self, offset: u64) -> *mut u8 {
        self.host.as_ref().map_or(std::ptr::null_mut(), |host| host.at(offset))
    }

    fn await_host(&self, end: u64) -> Result<()> {
        let Some(host) = &self.host else { bail!("there is no host buffer") };
        let mut front = host.lock();
        while front.touched < end {
            if front.stopping {
                return Err(anyhow!("the store ends"));
            }
            front = host.moved.wait(front).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    fn in_pieces(
        &self,
        offset: u64,
        bytes: u64,
        copy: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<Duration> {
        let Some(host) = &self.host else { bail!("there is no host buffer") };
        let mut waited = Duration::ZERO;
        for (at, piece) in between_borders(offset, bytes) {
            let since = Instant::now();
            // The read lock is released once the call returns. Memory that is not registered yet
            // has been copied by the driver by then; registered memory is not registered again.
            let _held = host.copying.read().unwrap_or_else(PoisonError::into_inner);
            waited += since.elapsed();
            copy(at, piece)?;
        }
        Ok(waited)
    }

    fn stop(&self) {
        if let Some(host) = &self.host {
            host.lock().stopping = true;
            host.moved.notify_all();
        }
    }
}

pub(super) fn start<'a>(
    plan: &PointPlan,
    process: u32,
    (device, stream, buffer): (&BenchDevice, &'a Stream, &'a CudaBuffer),
) -> Result<TwoLevelStore<'a>> {
    let range = DeviceRange::reserve(device, plan.device_cache).context("the device cache")?;
    let host = match plan.host_cache {
        0 => None,
        bytes => {
            let bytes = bytes.max(host_bytes(plan.sizes_of(process)));
            let mapping = Mapping::reserve(bytes as usize)
                .and_then(|mapping| mapping.advise_huge(false).map(|()| mapping))
                .map_err(|error| anyhow!("the host buffer: {error}"))?;
            Some(Arc::new(HostPages {
                bytes: mapping.len() as u64,
                mapping,
                front: Mutex::default(),
                moved: Condvar::new(),
                copying: RwLock::new(0),
            }))
        }
    };
    let memory = Arc::new(IncrementalMemset {
        device: range.base(),
        range: Mutex::new(range),
        host: host.clone(),
    });
    let trace = trace::start(plan, process, device)?;
    let mut store =
        TwoLevelStore::new(plan, process, memory.clone(), trace, (device, stream, buffer))?;
    let wanted = plan.device_cache;
    store.spawn("map", move |shared: &Arc<SharedStore>| {
        let mut mapped: u64 = 0;
        while mapped < wanted && !shared.stopping() {
            // The last step may be more than is wanted: memory is mapped in whole granules.
            let mut span = shared.trace.span(Activity::Map);
            let since = Instant::now();
            let mut range = memory.range.lock().unwrap_or_else(PoisonError::into_inner);
            let bytes = range.map_next(MAP_STEP)?.min(wanted - mapped);
            shared.count(StoreStep::Map, bytes, since.elapsed());
            span.bytes(bytes);
            drop(span);
            mapped += bytes;
            shared.grow(bytes, mapped == wanted);
        }
        Ok(())
    })?;
    if let Some(host) = host {
        store.spawn("touch", move |shared: &Arc<SharedStore>| {
            host.touch_all(shared);
            host.register_all(shared)
        })?;
    }
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_copy_crosses_a_border_of_registrations() {
        let pieces = |offset, bytes| between_borders(offset, bytes).collect::<Vec<_>>();
        let border = REGISTRATION;
        assert_eq!(pieces(0, border), [(0, border)]);
        assert_eq!(pieces(border - 4, 8), [(border - 4, 4), (border, 4)]);
        let three = [(border - 4, 4), (border, border), (2 * border, 4)];
        assert_eq!(pieces(border - 4, border + 8), three);
        assert_eq!(pieces(border, 0), []);
    }
}
