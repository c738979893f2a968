//! A store of two levels, as the state of the art has it: captures within the device, flushes
//! behind them in the order of captures, fetches ahead of restores. The baselines differ in how the
//! memory of the levels comes to be, which is theirs ([`LevelMemory`]).

mod ledger;
mod room;
mod shared;
mod worker;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, ensure, Context, Result};
use device::Stream;

use self::ledger::RestoreSource;
use self::room::{runs, CachePiece};
use super::trace::NAME;
use super::{Approach, Insight};
use crate::cuda::{Address, BenchDevice, CudaBuffer};
use crate::plan::{PointPlan, RestoreSequence};
use crate::results::HopFigures;
use crate::waits::{name, WaitingTimes, PIN};
use ::trace::metrics::Cause;
use ::trace::{Activity, Recorder};

pub(super) use self::ledger::host_bytes;
pub(super) use self::shared::{SharedStore, StoreStep};

/// The memory of the levels, however it came to be.
pub(super) trait LevelMemory: Send + Sync {
    /// The address of the device cache.
    fn device(&self) -> Address;

    /// The address of a byte of the host buffer.
    fn host(&self, offset: u64) -> *mut u8;

    /// Waits until the host buffer may be written up to `end`.
    fn await_host(&self, end: u64) -> Result<()>;

    /// Queues a copy from or to the host buffer as soon as nothing stands in its way, in pieces
    /// that the driver accepts; `copy` is called for each with its offset and its bytes, in order.
    /// Returns how long the copy was held up.
    fn in_pieces(
        &self,
        offset: u64,
        bytes: u64,
        copy: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<Duration>;

    /// Ends what goes on in the background.
    fn stop(&self);
}

pub(super) struct TwoLevelStore<'a> {
    shared: Arc<SharedStore>,
    workers: Vec<JoinHandle<()>>,
    stream: &'a Stream,
    buffer: &'a CudaBuffer,
    /// The order of restores that is known without hints; empty once the ledger has it.
    known: Vec<u32>,
    kept: u32,
    waits: WaitingTimes,
}

impl<'a> TwoLevelStore<'a> {
    /// A store on this memory. Its device cache has no bytes yet: [`SharedStore::grow`].
    pub(super) fn new(
        plan: &PointPlan,
        process: u32,
        memory: Arc<dyn LevelMemory>,
        trace: Recorder,
        (device, stream, buffer): (&BenchDevice, &'a Stream, &'a CudaBuffer),
    ) -> Result<TwoLevelStore<'a>> {
        let has_host = plan.host_cache > 0;
        let shared = SharedStore::new(has_host, memory, device, trace);
        let known = match plan.order {
            RestoreSequence::Random => Vec::new(),
            RestoreSequence::Reverse | RestoreSequence::Same => plan.restores(process),
        };
        let (workers, waits) = (Vec::new(), WaitingTimes::default());
        let mut store = TwoLevelStore { shared, workers, stream, buffer, known, kept: 0, waits };
        if has_host {
            store.spawn("flush", worker::flush)?;
            store.spawn("fetch", worker::fetch)?;
        }
        Ok(store)
    }

    /// Runs `work` in the background until it ends or the store does.
    pub(super) fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce(&Arc<SharedStore>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let shared = self.shared.clone();
        let owned = name.to_owned();
        let worker = std::thread::Builder::new().name(format!("bench-{name}")).spawn(move || {
            shared.trace.name_thread(&owned);
            // A panic, too, has to reach the application, which would wait for ever.
            let work = AssertUnwindSafe(|| {
                shared.device.bind().map_err(Into::into).and_then(|()| work(&shared))
            });
            let ended = catch_unwind(work).unwrap_or_else(|_| Err(anyhow!("it panicked")));
            if let Err(error) = ended {
                shared.fail(&error.context(owned));
            }
        });
        self.workers.push(worker.with_context(|| format!("starting the {name} thread"))?);
        Ok(())
    }

    /// The state that the store shares with its workers.
    pub(super) fn shared(&self) -> &Arc<SharedStore> {
        &self.shared
    }

    /// Counts what was made while the application waited, before the first checkpoint.
    pub(super) fn made_up_front(
        &mut self,
        made: &[(StoreStep, u64, Duration)],
        waits: WaitingTimes,
    ) {
        for (step, bytes, time) in made {
            self.shared.count(*step, *bytes, *time);
        }
        self.waits = waits;
    }

    fn place(&mut self, bytes: u64) -> Result<Vec<CachePiece>> {
        let TwoLevelStore { shared, waits, .. } = self;
        let mut waited: Option<(Cause, Instant)> = None;
        let mut state = shared.lock();
        loop {
            state.sound()?;
            if let Some(place) = state.ledger.place(bytes) {
                shared.record(&mut state);
                blocked(&shared.trace, waits, waited);
                return Ok(place);
            }
            // Nothing is evicted from a cache that is still to grow (HiPC'22, section III).
            if !state.growing {
                if state.ledger.evict_oldest() {
                    continue;
                }
                if !state.ledger.room_may_come() {
                    bail!(
                        "no room for {bytes} bytes in a device cache of {}",
                        state.ledger.device_bytes()
                    );
                }
            }
            let cause = if state.growing { Cause::Map } else { Cause::DeviceRoom };
            if waited.is_none_or(|(other, _)| other != cause) {
                blocked(&shared.trace, waits, waited.take());
                waited = Some((cause, Instant::now()));
            }
            state = shared.wait(state);
        }
    }

    /// Expects the order of restores that follows from the plan, from the first hint or restore on.
    fn expect_known(&mut self) {
        if !self.known.is_empty() {
            let order = std::mem::take(&mut self.known);
            self.shared.change(|state| state.ledger.expect(&order));
        }
    }

    fn restore_from_device(&self, pieces: &[CachePiece], bytes: u64) -> Result<()> {
        let (to, cache) = (self.buffer.address(), self.shared.memory.device());
        for (at, piece) in runs(pieces, bytes) {
            // SAFETY: the version is complete there and stays until `restored`; the runs cover the
            // version, for which the buffer has room.
            unsafe { self.stream.copy_on_device(to + at, cache + piece.offset, piece.len) }?;
        }
        Ok(())
    }

    /// Restores from the host buffer. Returns how long it waited for a registration.
    fn restore_from_host(&self, place: u64, bytes: u64) -> Result<Duration> {
        let (to, memory) = (self.buffer.address(), &self.shared.memory);
        memory.in_pieces(place, bytes, &mut |offset, bytes| {
            let from = memory.host(offset);
            // SAFETY: the version is complete there for good; the pieces cover the buffer.
            unsafe { self.stream.copy_from_host(to + (offset - place), from, bytes) }?;
            Ok(())
        })
    }
}

/// Adds bytes and time to a hop.
pub(super) fn count(hop: &mut HopFigures, bytes: u64, time: Duration) {
    hop.bytes += bytes;
    hop.seconds += time.as_secs_f64();
}

/// Counts the time that the application has waited, if it has: for this cause and since this
/// moment.
fn blocked(trace: &Recorder, waits: &mut WaitingTimes, waited: Option<(Cause, Instant)>) {
    if let Some((cause, since)) = waited {
        let time = waits.since(name(cause), since);
        trace.blocked(cause, since, time);
    }
}

impl Approach for TwoLevelStore<'_> {
    fn checkpoint(&mut self, version: u32, bytes: u64) -> Result<()> {
        ensure!(version == self.kept, "version {version} after {} others", self.kept);
        ensure!(
            bytes <= self.buffer.bytes(),
            "a checkpoint of {bytes} bytes of a buffer of {}",
            self.buffer.bytes()
        );
        let shared = self.shared.clone();
        let trace = &shared.trace;
        let _span = trace.span(Activity::Checkpoint).of(NAME, version as i32);
        let place = self.place(bytes)?;
        let since = Instant::now();
        let (cache, from) = (self.shared.memory.device(), self.buffer.address());
        for (at, piece) in runs(&place, bytes) {
            // SAFETY: the place is this version's alone; the buffer has the bytes.
            unsafe { self.stream.copy_on_device(cache + piece.offset, from + at, piece.len) }?;
        }
        self.stream.synchronize()?;
        let time = self.waits.since(name(Cause::Copy), since);
        trace.blocked(Cause::Copy, since, time);
        trace.spent(Activity::Capture, since, time, bytes);
        self.kept += 1;
        shared.change(|state| {
            state.ledger.captured(bytes, place);
            state.count(StoreStep::Capture, bytes, time);
        });
        Ok(())
    }

    fn expect(&mut self, versions: &[u32]) -> Result<()> {
        self.expect_known();
        if !versions.is_empty() {
            self.shared.change(|state| state.ledger.expect(versions));
        }
        Ok(())
    }

    fn restore(&mut self, version: u32, bytes: u64) -> Result<()> {
        self.expect_known();
        let shared = self.shared.clone();
        let trace = &shared.trace;
        let _span = trace.span(Activity::Restore).of(NAME, version as i32);
        let mut waited = None;
        let mut state = shared.lock();
        let source = loop {
            state.sound()?;
            match state.ledger.source(version, bytes)? {
                RestoreSource::Coming => {
                    waited.get_or_insert_with(|| (Cause::Fetch, Instant::now()));
                    state = shared.wait(state);
                }
                source => break source,
            }
        };
        drop(state);
        blocked(trace, &mut self.waits, waited);
        let since = Instant::now();
        let (hop, registering) = match &source {
            RestoreSource::Device(pieces) => {
                self.restore_from_device(pieces, bytes)?;
                (StoreStep::FromDevice, Duration::ZERO)
            }
            RestoreSource::Host(place) => {
                (StoreStep::FromHost, self.restore_from_host(*place, bytes)?)
            }
            RestoreSource::Coming => return Ok(()),
        };
        self.stream.synchronize()?;
        let time = since.elapsed();
        trace.blocked(Cause::Copy, since, time);
        trace.spent(Activity::Recover, since, time, bytes);
        if registering > Duration::ZERO {
            self.waits.add(PIN, registering, 1);
        }
        self.waits.add(name(Cause::Copy), time.saturating_sub(registering), 1);
        shared.change(|state| {
            state.ledger.restored(version, &source);
            state.count(hop, bytes, time);
        });
        Ok(())
    }

    fn waits(&self) -> Result<WaitingTimes> {
        Ok(self.waits.clone())
    }

    fn insight(&mut self) -> Result<Insight> {
        let state = self.shared.lock();
        state.sound()?;
        let hops = state.hops();
        let device_cache = Some(state.ledger.device_bytes());
        Ok(Insight { hops, device_cache, ..Insight::default() })
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let result = self.shared.lock().sound();
        drop(self);
        result
    }
}

impl Drop for TwoLevelStore<'_> {
    fn drop(&mut self) {
        self.shared.change(|state| state.stopping = true);
        self.shared.memory.stop();
        for worker in self.workers.drain(..) {
            // The panic of a worker has been reported.
            let _ = worker.join();
        }
        // After a failure the application's copies may still use the memory.
        let _ = self.stream.synchronize();
        self.shared.trace.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{plan, Application};
    use super::*;
    use crate::plan::{ApproachName, HintAmount};
    use xtask::on_device;

    /// A device cache that never gets any room.
    struct Nothing;

    impl LevelMemory for Nothing {
        fn device(&self) -> Address {
            0
        }

        fn host(&self, _offset: u64) -> *mut u8 {
            std::ptr::null_mut()
        }

        fn await_host(&self, _end: u64) -> Result<()> {
            Ok(())
        }

        fn in_pieces(
            &self,
            _offset: u64,
            _bytes: u64,
            _copy: &mut dyn FnMut(u64, u64) -> Result<()>,
        ) -> Result<Duration> {
            Ok(Duration::ZERO)
        }

        fn stop(&self) {}
    }

    #[test]
    fn what_ends_in_the_background_ends_the_applications_waiting() {
        on_device::run(|| {
            let application = Application::new();
            let plan = plan(ApproachName::DirectPin, RestoreSequence::Reverse, HintAmount::None);
            let given = (&application.device, &application.stream, &application.buffer);
            for (work, said) in [
                (
                    (|_| panic!("as the test wants")) as fn(&Arc<SharedStore>) -> Result<()>,
                    "panicked",
                ),
                (|_| bail!("the 7th failure"), "the 7th failure"),
            ] {
                let mut store =
                    TwoLevelStore::new(&plan, 0, Arc::new(Nothing), Recorder::off(), given)
                        .unwrap();
                store.spawn("map", work).unwrap();
                let error = format!("{:#}", store.checkpoint(0, 4).unwrap_err());
                assert!(error.contains(said) && error.contains("map"), "{error}");
                let ended: Box<dyn Approach + '_> = Box::new(store);
                assert!(ended.finish().is_err());
            }
        });
    }
}
