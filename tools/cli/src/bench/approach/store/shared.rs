//! What the application's thread and the workers of a store share: the ledger under its lock, what
//! was moved and made, the timeline.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::trace::{Counter, Recorder};
use anyhow::{anyhow, Result};

use super::ledger::Ledger;
use super::{count, Memory};
use crate::bench::approach::trace::NAME;
use crate::bench::cuda::Device;
use crate::bench::results::Hop;
use crate::bench::waits::PIN;

/// What moves bytes, or makes memory usable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A copy into the device cache.
    Capture,
    /// A copy from there to the host buffer.
    Flush,
    /// A copy back up.
    Fetch,
    /// A restore from the device cache.
    FromDevice,
    /// A restore from the host buffer.
    FromHost,
    /// Memory for the device cache.
    Map,
    /// Pages for the host buffer.
    Touch,
    /// Locking of these pages.
    Register,
    /// Both in one call of the driver.
    Pin,
}

/// What they are called in results, in the order of their numbers.
const STEPS: [&str; 9] = ["AtoD", "DtoH", "HtoD", "DtoA", "HtoA", "map", "touch", "register", PIN];

/// What is under the lock.
pub(crate) struct State {
    /// What is where.
    pub ledger: Ledger,
    /// The device cache is still to get more memory.
    pub growing: bool,
    /// What failed in the background.
    pub failed: Option<String>,
    /// The store ends.
    pub stopping: bool,
    /// By the number of the [`Step`].
    hops: [Hop; STEPS.len()],
    /// What the timeline has been told of the bytes that are taken, by tier.
    recorded: [u64; 2],
}

/// What the application's thread and the workers share.
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The memory of the tiers.
    pub memory: Arc<dyn Memory>,
    /// The device.
    pub device: Device,
    /// The timeline.
    pub trace: Recorder,
}

/// The state, as long as nobody else has it.
pub(super) type Locked<'a> = MutexGuard<'a, State>;

impl Shared {
    /// Nothing kept, and nothing made yet.
    pub(crate) fn new(
        has_host: bool,
        memory: Arc<dyn Memory>,
        device: &Device,
        trace: Recorder,
    ) -> Arc<Shared> {
        let state = State {
            ledger: Ledger::new(has_host),
            growing: true,
            failed: None,
            stopping: false,
            hops: STEPS.map(Hop::named),
            recorded: [0; 2],
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Arc::new(Shared { state, changed, memory, device: device.clone(), trace })
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
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        self.record(&mut state);
        drop(state);
        self.changed.notify_all();
        result
    }

    /// Tells the timeline what has left the device cache and how much is taken: after each change
    /// of the ledger and before anybody else sees it, so that the curves are in order.
    pub(crate) fn record(&self, state: &mut State) {
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

    /// The device cache has so many bytes more; `last`: and will have no more.
    pub(crate) fn grow(&self, bytes: u64, last: bool) {
        let mapped = self.change(|state| {
            state.ledger.grow(bytes);
            state.growing = !last;
            state.ledger.device_bytes()
        });
        self.trace.counter(Counter::DeviceMapped, mapped);
    }

    /// Something was moved or made.
    pub(crate) fn count(&self, step: Step, bytes: u64, time: Duration) {
        self.lock().count(step, bytes, time);
    }

    /// Something in the background failed: the application's next call says so.
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

impl State {
    /// Something was moved or made.
    pub(crate) fn count(&mut self, step: Step, bytes: u64, time: Duration) {
        count(&mut self.hops[step as usize], bytes, time);
    }

    /// All that was.
    pub(crate) fn hops(&self) -> Vec<Hop> {
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
