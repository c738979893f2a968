//! The state shared by the application's thread and the workers.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::deferred::DeferredCaptures;
use super::frozen::Freezer;
use super::gate::Gate;
use super::guard::Guard;
use super::lane::Lane;
use super::pace::{Flushing, Pace};
use super::sift::Sieve;
use super::snapshot::Snapshots;
use super::store::Store;
use crate::monitor::Catalog;
use catalog::state::State;
use catalog::{FileLevel, Id, Level};
use config::Config;
use device::{kinds, ApplicationStream, Device, Event};
use erasure::node::Node;
use errors::{Error, Kind, Result};
use levels::device_cache::DeviceCache;
use levels::files::{Files, Names};
use levels::host_buffer::HostBuffer;
use os::mapping;
use os::memory::{self, Physical};
use os::size;
use os::sync::Mutex;
use policy::interval::Interval;
use policy::retention::Retention;
use policy::rounds::{Common, FileState, KINDS};
use policy::touch::Mode;
use recovery::link::Link;
use trace::metrics::Metrics;
use trace::{Counter, Recorder};

/// The state of a job.
#[derive(Debug)]
pub struct Shared {
    /// The configuration.
    pub config: Config,
    /// The location of each checkpoint.
    pub(crate) catalog: Catalog,
    /// The host buffer.
    pub host: Option<HostBuffer>,
    /// The levels of memory below the host buffer, in the order of their rows.
    pub(crate) lower: Vec<Box<dyn Store>>,
    /// The device, once there is one.
    pub(crate) device: OnceLock<DeviceSide>,
    /// The directories.
    pub files: Files,
    /// The successor, which continues if this process is killed.
    pub link: Option<Link>,
    /// Why there is no memory of the job before (`hand_over`), if there was to be.
    pub(crate) missing: Option<String>,
    /// The other processes, once there is erasure coding.
    pub erasure: OnceLock<Node>,
    /// The counters.
    pub metrics: Metrics,
    /// The timeline.
    pub trace: Recorder,
    /// Touching and flushing.
    pub(crate) pace: Pace,
    /// Lets captures pause background copies.
    pub(crate) gate: Gate,
    /// How many threads share a large flush, in place of what policy says.
    #[cfg(test)]
    pub(crate) flush_lanes: OnceLock<usize>,
    /// The machine's memory.
    pub(crate) guard: Guard,
    /// When pages were last given back. Held while that is done.
    pub(crate) gave_back: Mutex<Instant>,
    /// The deferred captures.
    pub(crate) deferred: DeferredCaptures,
    /// Freezes memory, from the first capture on that wants it; dropped behind what is frozen.
    pub(super) freezer: OnceLock<Result<Freezer>>,
    /// Finds out what incremental checkpoints have in common.
    pub(super) sieve: Sieve,
    /// What captures of host memory have cost.
    pub(super) snapshots: Mutex<Snapshots>,
    /// Held while a file gets or loses its name, together with the catalog's step that records it: an older
    /// checkpoint's file must not replace a newer one's. Taken before the catalog's lock. Captures into
    /// memory never take it.
    pub naming: Names,
    /// The versions in scratch and in persistent, if they are limited; by [`FileLevel`]. Taken after
    /// `naming`.
    ///
    /// [`FileLevel`]: catalog::FileLevel
    pub retention: [Mutex<Retention>; 2],
    /// The checkpoints that all processes of the job are known to have in scratch, and in persistent, as only
    /// those count against the limits; and those whose parities all have made. Taken after `retention`, and
    /// before the locks of `erasure`.
    pub common: [Mutex<Common>; KINDS],
    /// The names for which the backlog of earlier jobs was looked for.
    pub(super) asked: Mutex<HashSet<String>>,
    /// The stream that the application handed over.
    pub stream: Mutex<Option<ApplicationStream>>,
    /// Decides which checkpoints are copied to persistent.
    interval: Mutex<Interval>,
    /// Whether an earlier job's incomplete aggregated files were looked for.
    rescued: OnceLock<()>,
    started: Instant,
    stopping: AtomicBool,
    pub(super) warned: Mutex<HashSet<&'static str>>,
}

/// The device and what the application's thread needs on it.
#[derive(Debug)]
pub(crate) struct DeviceSide {
    /// The device.
    pub device: Arc<Device>,
    /// The device cache; `None` if it is disabled or impossible.
    pub cache: Option<DeviceCache>,
    /// The lane and event of captures and restores.
    pub own: Mutex<Own>,
    /// The lane by which files are written from the device cache, while it is unused. A thread that finds
    /// none makes another one: no thread waits for another's file.
    pub to_files: Mutex<Option<Lane>>,
}

/// The lane and event of the application's threads on the device, for one thread at a time.
#[derive(Debug)]
pub struct Own {
    /// The lane of their copies.
    pub lane: Lane,
    /// Orders the lane after the application's queued work.
    pub after: Event,
}

impl Shared {
    /// The state of a job that is starting.
    pub(crate) fn new(
        config: Config,
        catalog: Catalog,
        host: Option<HostBuffer>,
        files: Files,
        link: Option<Link>,
        trace: Recorder,
    ) -> Self {
        let pace = Pace::new(config.touch);
        let interval = Mutex::new(Interval::new(config.persistent_interval));
        let limits = [config.scratch_versions, config.max_versions];
        let follows = config.ephemeral && config.host_cache_size.is_none();
        Shared {
            retention: limits.map(|limit| Mutex::new(Retention::new(limit))),
            common: std::array::from_fn(|_| Mutex::new(Common::all())),
            config,
            catalog,
            host,
            lower: Vec::new(),
            device: OnceLock::new(),
            files,
            link,
            missing: None,
            erasure: OnceLock::new(),
            metrics: Metrics::new(trace.clone()),
            trace,
            pace,
            gate: Gate::default(),
            #[cfg(test)]
            flush_lanes: OnceLock::new(),
            guard: Guard::new(follows),
            gave_back: Mutex::new(Instant::now()),
            deferred: DeferredCaptures::default(),
            freezer: OnceLock::new(),
            sieve: Sieve::default(),
            snapshots: Mutex::default(),
            naming: Names::default(),
            asked: Mutex::new(HashSet::new()),
            stream: Mutex::new(None),
            interval,
            rescued: OnceLock::new(),
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            warned: Mutex::new(HashSet::new()),
        }
    }

    /// The host buffer, if the catalog says that it has bytes.
    pub fn host(&self) -> Result<&HostBuffer> {
        self.host.as_ref().ok_or_else(|| Error::new(Kind::Internal, "there is no host buffer"))
    }

    /// A checkpoint may have this many bytes: pages for them should be touched.
    pub fn expect(&self, bytes: u64) {
        if let Some(host) = &self.host {
            host.expect(bytes);
        }
    }

    /// The device, if there are device pointers or bytes in the device cache.
    pub(crate) fn device_side(&self) -> Result<&DeviceSide> {
        self.device.get().ok_or_else(|| Error::new(Kind::Internal, "there is no device"))
    }

    /// The device cache, if the catalog says that it has bytes.
    pub fn cache(&self) -> Result<&DeviceCache> {
        self.device_side()?
            .cache
            .as_ref()
            .ok_or_else(|| Error::new(Kind::Internal, "there is no device cache"))
    }

    /// The job ends: everything that can stop early does.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.catalog.stop();
        self.pace.finish();
        if let Some(host) = &self.host {
            host.stop();
        }
        if let Some(link) = &self.link {
            link.stop_waiting();
        }
        if let Some(node) = self.erasure.get() {
            node.stop();
        }
    }

    /// A checkpoint's file is in scratch: its parities can be made, if they are configured.
    pub fn protect(&self, name: &str, version: i32) {
        if let Some(node) = self.erasure.get() {
            node.file_complete(name, version);
        }
    }

    /// The state of the parities that this process makes of a checkpoint.
    pub fn parity_state(&self, id: Id) -> FileState {
        let Some(node) = self.erasure.get() else {
            return FileState::Present;
        };
        // The file first: it is announced before it counts as present.
        match self.catalog.read(|state| {
            (
                state.checkpoints().file_state(id, FileLevel::Scratch),
                state.checkpoints().key_in_scratch(id),
            )
        }) {
            (FileState::Pending, _) => FileState::Pending,
            (_, Some(key)) => node.parity_state(&key),
            (_, None) => FileState::Missing,
        }
    }

    /// Whether a checkpoint that is taken now is to be copied to persistent (`persistent_interval`).
    pub fn is_to_persist(&self) -> bool {
        let mut interval = self.interval.lock();
        // The clock is only read if the decision depends on it.
        let now = interval.depends_on_time().then(|| self.started.elapsed());
        interval.passes(now.unwrap_or_default())
    }

    /// Whether the selection for persistent depends on the time when a checkpoint is taken.
    pub fn persistence_depends_on_time(&self) -> bool {
        self.interval.lock().depends_on_time()
    }

    /// Whether the job is ending.
    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// # Errors
    /// The job is ending, and what is not in a file yet is its successor's, if it has one.
    pub fn go_on(&self) -> Result<()> {
        match self.stopping() {
            true => Err(Error::new(Kind::Internal, "the job is ending")),
            false => Ok(()),
        }
    }

    /// Waits until the backend has finished writing for an earlier job of this rank, before files get their
    /// names. False: the job ends, or nothing [may be written](Self::may_write).
    pub(crate) fn await_predecessor(&self) -> bool {
        self.link.as_ref().is_none_or(Link::wait_for_predecessors)
    }

    /// # Errors
    /// A backend that does not answer may still be writing for an earlier job of this rank.
    pub fn may_write(&self) -> Result<()> {
        self.link.as_ref().map_or(Ok(()), Link::may_write)
    }

    /// Waits until all writes of an earlier job of this rank are done, before files are read or written.
    /// False: the job ends, or nothing [may be written](Self::may_write).
    pub fn await_earlier_jobs(&self) -> bool {
        let settled = self.await_predecessor();
        if settled && self.config.aggregated && !self.config.ephemeral {
            self.rescued.get_or_init(|| {
                if let Err(error) = self.files.rescue_parts() {
                    log::warn!(
                        "parts of aggregated files of earlier jobs are not rescued: {error}"
                    );
                }
            });
        }
        settled
    }

    /// Whether a successor writes the content of the host buffer when this process ends.
    pub fn has_successor(&self) -> bool {
        self.link.as_ref().is_some_and(Link::is_connected)
    }

    /// Whether a successor has just answered: it will write what it gets now.
    pub(crate) fn successor_answers(&self) -> bool {
        self.link.as_ref().is_some_and(Link::answers_in_time)
    }

    /// Counts `bytes` of new pages of the host buffer. True: memory is short, and the buffer is limited to
    /// its pages until that changes.
    pub(crate) fn memory_is_short(&self, bytes: u64) -> bool {
        // Pages that were set aside cannot be used by others.
        let host =
            self.host.as_ref().filter(|host| host.mapping().kind() != mapping::Kind::SharedHuge);
        if let (true, Some(host)) = (self.guard.is_due(bytes), host) {
            if let Ok(physical) = memory::physical() {
                self.follow_memory_pressure(host, physical);
            }
        }
        self.guard.is_short()
    }

    /// Keeps the host buffer limited to its pages after some have gone, while memory is short.
    pub(super) fn limit_again(&self, host: &HostBuffer) {
        self.catalog.step(|state| {
            if self.guard.is_short() {
                state.growth().limit(Level::HOST, host.front());
            }
        });
    }

    /// Limits the host buffer if memory has become short, and removes the limit when it is not any more.
    fn follow_memory_pressure(&self, host: &HostBuffer, physical: Physical) {
        // Judged within the step, so that concurrent checks do not undo each other's result.
        let changed = self.catalog.step(|state| {
            let short = self.guard.judge(physical, host.touched_bytes())?;
            host.rest(short);
            match short {
                true => state.growth().limit(Level::HOST, host.front()),
                false => state.growth().lift_limit(Level::HOST),
            }
            Some((short, state.levels().room(Level::HOST).0))
        });
        let Some((short, room)) = changed else { return };
        let [room, available, total] = [room, physical.available, physical.total].map(size::show);
        if short {
            self.degrade(
                "memory",
                format!(
                    "the host buffer is limited to {room} (host_cache_size) until more memory is \
                     available: {available} of {total} are"
                ),
            );
        } else {
            log::info!("the host buffer has its {room} again: {available} are available");
        }
    }

    /// Makes a step of the catalog that changes how many bytes of the device cache or the host buffer are
    /// used, and records the number. It is recorded within the step, or records could be out of order.
    pub(crate) fn step_counted<R>(&self, step: impl FnOnce(&mut State) -> R) -> R {
        self.catalog.step(|state| {
            let result = step(state);
            if self.trace.is_on() {
                let used = [Level::DEVICE, Level::HOST].map(|level| state.levels().used(level));
                self.trace.counters([Counter::DeviceUsed, Counter::HostUsed], used);
            }
            result
        })
    }

    /// Ends a flush of `bytes`, `untouched` of them to new pages.
    pub fn flushed(&self, flushing: Flushing<'_>, bytes: u64, untouched: u64) {
        if let Some((mode, prediction)) = flushing.finish(bytes, untouched) {
            let predicted = [prediction.sequential, prediction.concurrent];
            self.trace.touch_mode(mode == Mode::Concurrent, predicted);
        }
    }

    /// Warns, once per `topic`, that something works less well than it could.
    pub fn degrade(&self, topic: &'static str, what: impl std::fmt::Display) {
        if kinds::has_ended() {
            log::debug!("{what}");
        } else if self.warned.lock().insert(topic) {
            log::warn!("{what}");
        }
    }
}

impl DeviceSide {
    /// Orders the library's stream after all work that the application has queued: in its stream if it gave
    /// one, otherwise in the whole context. Returns a guard that pauses background copies until the
    /// application's copy is done.
    pub(crate) fn after_application<'a>(
        &self,
        shared: &'a Shared,
        own: &Own,
    ) -> Result<Option<super::gate::Closed<'a>>> {
        let given = *shared.stream.lock();
        if let Some(application) = given {
            own.after.record_in(application)?;
            own.lane.stream().wait(&own.after)?;
            return Ok(None);
        }
        let closed = shared.gate.close();
        self.device.synchronize()?;
        Ok(Some(closed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;
    use crate::Engine;
    use recovery::Process;

    /// Catches counters that are recorded after the lock was released under which their values were read: a
    /// growing value would sometimes go back in the timeline.
    #[test]
    fn counters_stand_in_the_order_of_what_they_count() {
        const THREADS: i32 = 4;
        const CHECKPOINTS: i32 = 5000;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("timeline");
        let text = format!(
            "mode = async\nephemeral = true\nhost_cache_size = 64M\ntouch_threads = 4\ntrace = {}\n",
            path.display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let engine = Engine::start(config, Process::single(0), None).unwrap();
        let bytes = vec![7u8; 512];
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (engine, bytes) = (&engine, &bytes);
                scope.spawn(move || {
                    for version in 0..CHECKPOINTS {
                        let mut open = engine.begin("x", thread * CHECKPOINTS + version).unwrap();
                        let place = Place::plain(1, bytes.as_ptr(), bytes.len());
                        engine.capture(&mut open, &[place], Vec::new()).unwrap();
                        engine.commit(open).unwrap();
                    }
                });
            }
        });
        let host = engine.host.as_ref().unwrap();
        host.want_all();
        while host.touched_bytes() < host.len() {
            std::thread::yield_now();
        }
        drop(engine);
        let text = std::fs::read(path).unwrap();
        let events: Vec<serde_json::Value> = serde_json::from_slice(&text).unwrap();
        for counter in ["host used", "host touched"] {
            let mut values: Vec<(f64, u64)> = events
                .iter()
                .filter(|event| event["name"] == counter)
                .map(|e| (e["ts"].as_f64().unwrap(), e["args"]["bytes"].as_u64().unwrap()))
                .collect();
            values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            assert!(values.len() > 8, "{counter}: {values:?}");
            let back = values.windows(2).find(|pair| pair[0].1 > pair[1].1);
            assert_eq!(back, None, "{counter}");
        }
    }
}
