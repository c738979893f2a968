//! What the application's thread and the workers of a store share: the ledger under its lock, the
//! figures of what was moved and made, the timeline.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::trace::{Counter, Recorder};
use anyhow::{anyhow, Result};

use super::ledger::StoreLedger;
use super::{count, LevelMemory};
use crate::approach::trace::NAME;
use crate::cuda::BenchDevice;
use crate::results::HopFigures;
use crate::waits::PIN;

/// A way to move bytes or to make memory usable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoreStep {
    /// A copy into the device cache.
    Capture,
    /// A copy from the device cache to the host buffer.
    Flush,
    /// A copy from the host buffer to the device cache.
    Fetch,
    /// A restore from the device cache.
    FromDevice,
    /// A restore from the host buffer.
    FromHost,
    /// Memory for the device cache.
    Map,
    /// Pages for the host buffer.
    Touch,
    /// Registering of pages of the host buffer.
    Register,
    /// Touching and registering in one call of the driver.
    Pin,
}

/// The names of the steps in results, in the order of their numbers.
const STEPS: [&str; 9] = ["AtoD", "DtoH", "HtoD", "DtoA", "HtoA", "map", "touch", "register", PIN];

/// The state under the lock.
pub(crate) struct StoreState {
    /// Where each version is.
    pub ledger: StoreLedger,
    /// The device cache is still to get more memory.
    pub growing: bool,
    /// Why the background failed.
    pub failed: Option<String>,
    /// The store ends.
    pub stopping: bool,
    /// The figures of each [`StoreStep`], by its number.
    hops: [HopFigures; STEPS.len()],
    /// Bytes taken in each level, as last told to the timeline.
    recorded: [u64; 2],
}

/// What the application's thread and the workers share.
pub(crate) struct SharedStore {
    state: Mutex<StoreState>,
    changed: Condvar,
    /// The memory of the levels.
    pub memory: Arc<dyn LevelMemory>,
    pub device: BenchDevice,
    pub trace: Recorder,
}

pub(super) type Locked<'a> = MutexGuard<'a, StoreState>;

impl SharedStore {
    /// A store that has kept nothing and made nothing yet.
    pub(crate) fn new(
        has_host: bool,
        memory: Arc<dyn LevelMemory>,
        device: &BenchDevice,
        trace: Recorder,
    ) -> Arc<SharedStore> {
        let state = StoreState {
            ledger: StoreLedger::new(has_host),
            growing: true,
            failed: None,
            stopping: false,
            hops: STEPS.map(HopFigures::named),
            recorded: [0; 2],
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Arc::new(SharedStore { state, changed, memory, device: device.clone(), trace })
    }

    /// Waits for the lock.
    pub(crate) fn lock(&self) -> Locked<'_> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has changed.
    pub(crate) fn wait<'a>(&self, state: Locked<'a>) -> Locked<'a> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something, and lets all look again.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut StoreState) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        self.record(&mut state);
        drop(state);
        self.changed.notify_all();
        result
    }

    /// Tells the timeline which versions have left the device cache and how much is taken: after
    /// each change of the ledger and before anybody else sees it, so that the curves are in order.
    pub(crate) fn record(&self, state: &mut StoreState) {
        let evicted = state.ledger.take_evicted();
        if !self.trace.is_on() {
            return;
        }
        for (version, bytes) in evicted {
            self.trace.evicted(0, NAME, version as i32, bytes);
        }
        let used = state.ledger.used();
        if used != state.recorded {
            state.recorded = used;
            self.trace.counters([Counter::DeviceUsed, Counter::HostUsed], used);
        }
    }

    /// Gives the device cache `bytes` more; with `last`, it gets no more after that.
    pub(crate) fn grow(&self, bytes: u64, last: bool) {
        let mapped = self.change(|state| {
            state.ledger.grow(bytes);
            state.growing = !last;
            state.ledger.device_bytes()
        });
        self.trace.counter(Counter::DeviceMapped, mapped);
    }

    /// Counts bytes that were moved or made usable.
    pub(crate) fn count(&self, step: StoreStep, bytes: u64, time: Duration) {
        self.lock().count(step, bytes, time);
    }

    /// Notes that something in the background failed: the application's next call says so.
    pub(crate) fn fail(&self, error: &anyhow::Error) {
        self.change(|state| {
            state.failed.get_or_insert_with(|| format!("{error:#}"));
        });
    }

    /// Whether the store is about to end.
    pub(crate) fn stopping(&self) -> bool {
        self.lock().stopping
    }
}

impl StoreState {
    /// Counts bytes that were moved or made usable.
    pub(crate) fn count(&mut self, step: StoreStep, bytes: u64, time: Duration) {
        count(&mut self.hops[step as usize], bytes, time);
    }

    /// The hops that moved or made any bytes.
    pub(crate) fn hops(&self) -> Vec<HopFigures> {
        self.hops.iter().filter(|hop| hop.bytes > 0).cloned().collect()
    }

    /// An error if the background has failed.
    pub(crate) fn sound(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(why) => Err(anyhow!("in the background: {why}")),
        }
    }
}
