//! Everything allocated and pinned before the first checkpoint: the state of the art that the paper
//! compares with (HiPC'22, section V-B). From then on the two levels work at full speed.

use std::time::{Duration, Instant};

use ::trace::metrics::Cause;
use ::trace::{Activity, Counter};
use anyhow::{Context, Result};
use device::Stream;

use super::store::{host_bytes, LevelMemory, StoreStep, TwoLevelStore};
use super::trace;
use crate::cuda::{Address, BenchDevice, CudaBuffer, Pinned};
use crate::plan::PointPlan;
use crate::waits::{name, WaitingTimes, PIN};

struct Allocated {
    device: CudaBuffer,
    host: Option<Pinned>,
}

impl LevelMemory for Allocated {
    fn device(&self) -> Address {
        self.device.address()
    }

    fn host(&self, offset: u64) -> *mut u8 {
        self.host.as_ref().map_or(std::ptr::null_mut(), |host| host.at(offset))
    }

    fn await_host(&self, _end: u64) -> Result<()> {
        Ok(())
    }

    fn in_pieces(
        &self,
        offset: u64,
        bytes: u64,
        copy: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<Duration> {
        copy(offset, bytes).map(|()| Duration::ZERO)
    }

    fn stop(&self) {}
}

pub(super) fn start<'a>(
    plan: &PointPlan,
    process: u32,
    (device, stream, buffer): (&BenchDevice, &'a Stream, &'a CudaBuffer),
) -> Result<TwoLevelStore<'a>> {
    let trace = trace::start(plan, process, device)?;
    let init = trace.span(Activity::Init);
    let mut waits = WaitingTimes::default();
    let mut made = Vec::new();
    let mut span = trace.span(Activity::Map);
    let since = Instant::now();
    let cache = CudaBuffer::new(device, plan.device_cache).context("the device cache")?;
    made.push((StoreStep::Map, plan.device_cache, waits.since(name(Cause::Map), since)));
    span.bytes(plan.device_cache);
    drop(span);
    let host = match plan.host_cache {
        0 => None,
        bytes => {
            let bytes = bytes.max(host_bytes(plan.sizes_of(process)));
            let mut span = trace.span(Activity::Register);
            let since = Instant::now();
            let host = Pinned::new(device, bytes).context("the host buffer")?;
            made.push((StoreStep::Pin, bytes, waits.since(PIN, since)));
            span.bytes(bytes);
            trace.counters([Counter::HostTouched, Counter::HostRegistered], [bytes; 2]);
            Some(host)
        }
    };
    let memory = std::sync::Arc::new(Allocated { device: cache, host });
    drop(init);
    let mut store = TwoLevelStore::new(plan, process, memory, trace, (device, stream, buffer))?;
    store.made_up_front(&made, waits);
    store.shared().grow(plan.device_cache, true);
    Ok(store)
}
