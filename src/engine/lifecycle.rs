//! Starting and ending a job: the tiers it has, and the workers that serve them.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use super::shared::{DeviceSide, Shared};
use super::{encode, loan, owed, prepare, storage, transfer};
use crate::backend::link::{Estate, Link};
use crate::backend::Process;
use crate::catalog::monitor::Catalog;
use crate::catalog::state::{Shape, State};
use crate::config::{Config, Mode};
use crate::device::{Device, Event, Stream};
use crate::erasure::node::Node;
use crate::error::{Error, Kind, Result};
use crate::metrics::Cause;
use crate::platform::mapping::Mapping;
use crate::platform::shared::SharedMemory;
use crate::platform::{affinity, files, memory};
use crate::policy::{register, touch};
use crate::sync::Mutex;
use crate::tier::device_cache::{self, DeviceCache};
use crate::tier::files::Files;
use crate::tier::host_buffer::{self, HostBuffer};
use crate::tier::ledger::{Ledger, Record, Standing};
use crate::trace::{Activity, Recorder, Setup};

/// Without `gpu_cache_size`, the device cache has this share of the device's memory at the most.
const DEVICE_SHARE: u64 = 16;
/// Without `gpu_cache_size`, the most bytes of the device cache.
const DEVICE_DEFAULT: u64 = 4 << 30;
/// Without `host_cache_size`, the host buffer has this share of the available memory at the most.
const HOST_SHARE: u64 = 8;
/// Without `host_cache_size`, the most bytes of the host buffer of a job that ends in files.
const HOST_DEFAULT: u64 = 1 << 30;
/// The same of an ephemeral job, which keeps everything in it.
const HOST_DEFAULT_EPHEMERAL: u64 = 8 << 30;
/// Workers that the others can do without, as long as they end between two transfers.
const OPTIONAL: [&str; 6] = ["fetch", "read", "touch", "pin", "encode", "owed"];

/// One job, from `VELOC_Init` to `VELOC_Finalize`.
#[derive(Debug)]
pub struct Engine {
    shared: Arc<Shared>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    /// There is a worker for what the application lends.
    lending: AtomicBool,
}

impl std::ops::Deref for Engine {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Engine {
    /// Makes the tiers' places (no memory is touched, mapped or registered) and starts the
    /// workers. `device` is the one the application already uses, if it does.
    pub fn start(config: Config, process: Process, device: Option<Device>) -> Result<Engine> {
        let rank = process.rank;
        warn_of_unused(&config);
        let files = Files::open(&config, rank)?;
        let (host, estate) = host_buffer(&config)?;
        // Not before: a job that cannot start must not take the name of the one that does.
        let trace = recorder(&config, rank);
        let mut state = State::new(shape(&config, &files, host.as_ref()));
        // Of several processes, none has a copy in persistent that the others have not.
        if process.alone && config.persistent_interval.is_some() {
            state.save_anywhere();
        }
        state.record_to(trace.clone());
        let link = estate.and_then(|estate| {
            let ledger = Ledger::new(&estate.ledger);
            let opened =
                ledger.and_then(|ledger| Ok((ledger, Link::open(&config, process, estate)?)));
            opened
                .map_err(|error| {
                    log::warn!(
                        "going on without veloc-backend, so that what is not in a file yet is lost \
                         if the application is killed: {error}"
                    );
                })
                .ok()
        });
        let link = link.map(|(ledger, link)| {
            state.note_to(ledger);
            link
        });
        let shared = Arc::new(Shared::new(config, Catalog::new(state), host, files, link, trace));
        log::info!(
            "checkpoints of number {rank}: host buffer of {} bytes, scratch {:?}, persistent {:?}{}",
            shared.host.as_ref().map_or(0, HostBuffer::len),
            shared.config.scratch,
            shared.config.persistent,
            if shared.config.ephemeral { ", ephemeral" } else { "" }
        );
        let engine = Engine::of(shared);
        engine.start_workers(device)?;
        Ok(engine)
    }

    /// Goes on where another process has ended: with its host buffer, and with the checkpoints in
    /// it or in scratch that have still to reach a file. Only writes them.
    ///
    /// If the process had others, it removes no old versions: it cannot know which of them those
    /// have.
    pub fn inherit(
        config: Config,
        process: Process,
        host: Option<HostBuffer>,
        left: &[(Record<'_>, Standing)],
    ) -> Result<Engine> {
        let files = Files::open_for_heir(&config, process.rank)?;
        let mut state = State::new(shape(&config, &files, host.as_ref()));
        for (record, standing) in left {
            if let Err(error) = state.inherit(record, *standing) {
                log::error!("{error}");
            }
        }
        if config.persistent_interval.is_some() {
            state.save_anywhere();
        }
        let catalog = Catalog::new(state);
        let config = match process.alone {
            true => config,
            false => Config { max_versions: 0, scratch_versions: 0, ..config },
        };
        let shared = Shared::new(config, catalog, host, files, None, Recorder::off());
        let engine = Engine::of(Arc::new(shared));
        engine.spawn("write", storage::write)?;
        engine.spawn("persist", storage::persist)?;
        Ok(engine)
    }

    fn of(shared: Arc<Shared>) -> Engine {
        Engine { shared, workers: Mutex::new(Vec::new()), lending: AtomicBool::new(false) }
    }

    /// What its workers have in common with it.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn start_workers(&self, device: Option<Device>) -> Result<()> {
        if let Some(device) = device {
            self.attach(device)?;
        }
        if self.files.has_scratch() {
            self.spawn("write", storage::write)?;
            if self.host.is_some() {
                self.spawn("read", storage::read)?;
            }
        }
        // File-based checkpoints are persisted even without a persistent directory.
        self.spawn("persist", storage::persist)?;
        if self.host.is_some() {
            let threads = touch::threads(self.config.touch_threads, affinity::usable_cpus());
            for thread in 1..=threads {
                self.spawn_as("touch", format!("touch {thread}"), prepare::touch)?;
            }
        }
        Ok(())
    }

    /// The application lends memory from here on: somebody must fetch it.
    pub fn serve_loans(&self) -> Result<()> {
        if self.host.is_none() || self.lending.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let started = self.spawn("arrive", loan::arrive);
        if started.is_err() {
            self.lending.store(false, Ordering::Release);
        }
        started
    }

    /// The application has been told that this is the newest version of a name, or `restores` it: what
    /// earlier jobs have not copied to persistent of those up to it is copied in the background.
    pub fn asks_for(&self, name: &str, newest: i32, restores: bool) {
        if self.shared.asks_for(name, newest, restores) {
            if let Err(error) = self.spawn("owed", owed::copy) {
                log::warn!("what earlier jobs have left is not copied to persistent: {error}");
                self.shared.owes_on();
            }
        }
    }

    /// Uses this device from here on: called once the application has one.
    pub fn attach(&self, device: Device) -> Result<()> {
        let device = Arc::new(device);
        self.trace.fact("device", device.name());
        if device.is_software() {
            let warning =
                format!("{}: no figure of this run says anything about a GPU", device.name());
            log::warn!("{warning}");
            self.trace.fact("warning", warning);
        }
        let own = (Stream::new(&device)?, Event::new(&device)?);
        let cache = self.device_cache(&device)?;
        let reserved = cache.as_ref().map_or(0, DeviceCache::reserved);
        let side = DeviceSide { device: device.clone(), cache, own: Mutex::new(own) };
        if self.shared.device.set(side).is_err() {
            return Err(Error::new(Kind::Internal, "there is a device already"));
        }
        log::info!(
            "device {}: {}, device cache of {reserved} bytes",
            device.ordinal(),
            device.name()
        );
        let attached = self.serve_device(&device, reserved);
        if let Err(error) = &attached {
            // Half of the workers cannot serve a capture: nobody may wait for the other half.
            self.catalog.fail(error.clone());
        }
        attached
    }

    /// Starts the workers of a device with a cache of `reserved` bytes.
    fn serve_device(&self, device: &Device, reserved: u64) -> Result<()> {
        if self.writes_directly() {
            return Ok(());
        }
        if reserved > 0 {
            self.catalog.step(|state| state.device_expected(reserved));
            self.spawn("map", prepare::map)?;
            if self.host.is_some() {
                self.spawn("flush", transfer::flush)?;
                self.spawn("fetch", transfer::fetch)?;
            }
        }
        if self.host.is_some() {
            prepare::place(&self.shared);
            let capabilities = device.capabilities();
            if !register::is_of_use(self.config.pin, capabilities.pageable_access) {
                log::info!("the host buffer is not registered: off, or the device needs it not");
            } else if !capabilities.host_register {
                self.degrade("pin", "this device's driver does not register host memory");
            } else {
                self.spawn("pin", prepare::pin)?;
            }
        }
        Ok(())
    }

    fn device_cache(&self, device: &Arc<Device>) -> Result<Option<DeviceCache>> {
        let total = device.total_memory();
        let bytes = match self.config.gpu_cache_size {
            None => DEVICE_DEFAULT.min(total / DEVICE_SHARE),
            Some(given) if given > total => {
                return Err(Error::invalid(format!(
                    "gpu_cache_size is {given} bytes, but device {} ({}) has {total}",
                    device.ordinal(),
                    device.name()
                )));
            }
            Some(given) => given,
        };
        if bytes == 0 || self.writes_directly() {
            return Ok(None);
        }
        if !device.capabilities().virtual_memory {
            self.degrade(
                "cache",
                format!(
                    "no device cache: device {} ({}) cannot map memory piecewise",
                    device.ordinal(),
                    device.name()
                ),
            );
            return Ok(None);
        }
        match DeviceCache::reserve(device, bytes) {
            Ok(cache) => Ok(Some(cache)),
            Err(error) => {
                self.degrade(
                    "cache",
                    format!("no device cache (gpu_cache_size = {bytes} bytes): {error}"),
                );
                Ok(None)
            }
        }
    }

    fn spawn(&self, name: &str, work: fn(&Shared) -> Result<()>) -> Result<()> {
        self.spawn_as(name, name.to_owned(), work)
    }

    /// The same, with a name of its own in the timeline.
    fn spawn_as(
        &self,
        name: &str,
        in_trace: String,
        work: fn(&Shared) -> Result<()>,
    ) -> Result<()> {
        let shared = self.shared.clone();
        let owned = name.to_owned();
        let worker = Builder::new().name(format!("veloc-{name}")).spawn(move || {
            files::outlive_size_limit();
            shared.trace.name_thread(&in_trace);
            let ended = catch_unwind(AssertUnwindSafe(|| work(&shared)));
            let failure = match ended {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.within(format!("the {owned} worker ended")),
                Err(_) => Error::new(Kind::Internal, format!("the {owned} worker panicked")),
            };
            if OPTIONAL.contains(&owned.as_str()) && failure.kind() != Kind::Internal {
                // Slower without it, but nothing waits for it.
                log::warn!("{failure}");
                return;
            }
            log::error!("{failure}");
            shared.catalog.fail(failure);
        });
        let worker =
            worker.map_err(|error| Error::system(format!("starting the {name} worker"), &error))?;
        let mut workers = self.workers.lock();
        // The stack of a thread that has ended stays until somebody has waited for it, or says that
        // nobody will.
        workers.retain(|worker| !worker.is_finished());
        workers.push(worker);
        Ok(())
    }

    /// Workers that have not ended, or of which that is not known yet.
    #[cfg(test)]
    pub(super) fn workers(&self) -> usize {
        self.workers.lock().len()
    }

    /// What the application's thread does while it waits for room that comes when other processes tell
    /// what they have.
    pub fn do_meanwhile(&self, what: impl Fn(&Shared) + Send + Sync + 'static) {
        let shared = Arc::downgrade(&self.shared);
        self.catalog.do_meanwhile(move || {
            if let Some(shared) = shared.upgrade() {
                what(&shared);
            }
        });
    }

    /// Waits until nothing is being flushed, written or persisted. Reports the oldest background
    /// failure that has not been reported; what failed is tried again first.
    pub fn drain(&self) -> Result<()> {
        let _span = self.trace.span(Activity::Drain);
        let since = Instant::now();
        self.catalog.step(State::retry);
        let waited = self.catalog.wait_drained();
        self.prune_all();
        self.metrics.waited(Cause::Drain, since);
        match self.catalog.step(State::take_failure) {
            Some(error) => Err(error),
            None => waited,
        }
    }

    /// Stops the workers without waiting for them, and removes what an ephemeral job has written.
    pub fn leave(&self) {
        self.shared.stop();
        self.remove_spilled();
        self.trace.finish();
    }

    fn remove_spilled(&self) {
        for (name, version) in self.catalog.look(State::spilled) {
            if let Err(error) = self.files.remove_scratch(&name, version, None) {
                log::warn!("{error}");
            }
        }
    }

    /// Waits until this process is not needed for what is still to reach a file: until it is in the
    /// hands of veloc-backend, or where there is none, until it is written.
    ///
    /// # Errors
    /// As [`Engine::drain`].
    pub fn hand_over(&self) -> Result<()> {
        let nothing_left = |state: &State| state.drained() && state.unwritten().is_none();
        if self.config.ephemeral || self.catalog.look(nothing_left) {
            return Ok(());
        }
        if self.has_heir() {
            let _span = self.trace.span(Activity::Drain);
            let since = Instant::now();
            let waited = self
                .catalog
                .wait(|state| (state.is_handed_over() || state.drained()).then_some(()));
            self.metrics.waited(Cause::Drain, since);
            waited?;
            // What has failed is tried again here, so that it can be reported.
            let handed_over = |state: &State| state.is_handed_over() && !state.drained();
            if self.catalog.look(handed_over) && self.has_heir_for_certain() {
                return Ok(());
            }
        }
        self.drain()
    }

    /// Ends the job as soon as the application may free its memory: once what it has lent is fetched.
    ///
    /// # Errors
    /// A worker has ended for good. The job is over in any case.
    pub fn finish(self) -> Result<()> {
        if !self.catalog.look(State::arriving) {
            return Ok(());
        }
        let _span = self.trace.span(Activity::Drain);
        let since = Instant::now();
        let fetched = self.catalog.wait(|state| (!state.arriving()).then_some(()));
        self.metrics.waited(Cause::Drain, since);
        fetched
    }

    /// Waits until all members of the group have made their parities, or cannot.
    pub fn await_parities(&self) {
        if let Some(node) = self.erasure.get() {
            let _span = self.trace.span(Activity::Drain);
            let since = Instant::now();
            node.finish();
            self.metrics.waited(Cause::Drain, since);
        }
    }

    /// Has the scratch files of this job protected by other processes from here on.
    pub fn join(&self, node: Node) -> Result<()> {
        if self.erasure.set(node).is_err() {
            return Err(Error::new(Kind::Internal, "there is erasure coding already"));
        }
        self.files.expect_parities();
        self.spawn("encode", encode::encode)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.stop();
        for worker in self.workers.lock().drain(..) {
            if worker.join().is_err() {
                log::error!("a worker panicked");
            }
        }
        prepare::unpin(&self.shared);
        // What an ephemeral job has written is of no use after it.
        self.remove_spilled();
        self.shared.trace.finish();
    }
}

/// The recorder that the configuration asks for. A job goes on without its timeline.
fn recorder(config: &Config, rank: u32) -> Recorder {
    let recorder = |file| Recorder::start(&Setup { file, rank });
    let trace = recorder(config.trace.clone()).or_else(|error| {
        log::warn!("going on without a trace: {error}");
        // Profilers may listen all the same; without a file nothing can fail.
        recorder(None)
    });
    let trace = trace.unwrap_or_default();
    let bytes = |bytes: Option<u64>| bytes.map_or("default".to_owned(), |b| b.to_string());
    trace.fact("touch", format!("{:?}", config.touch).to_lowercase());
    trace.fact("pin", format!("{:?}", config.pin).to_lowercase());
    trace.fact("gpu_cache_size", bytes(config.gpu_cache_size));
    trace.fact("host_cache_size", bytes(config.host_cache_size));
    trace
}

/// Says which keys the others leave without effect.
fn warn_of_unused(config: &Config) {
    if config.ephemeral && config.persistent.is_some() {
        log::warn!("persistent has no effect with ephemeral = true");
    }
    if config.ephemeral && config.ec_interval.is_some() {
        log::warn!(
            "ec_interval has no effect with ephemeral = true: there are no files to protect"
        );
    }
    if config.failure_domain.is_some() && !config.protects_scratch() {
        log::warn!("failure_domain has no effect without erasure coding (ec_interval)");
    }
    if config.ephemeral && config.mode == Mode::Sync {
        log::warn!(
            "mode = sync has no effect with ephemeral = true: there are no files to wait for"
        );
    } else if config.mode == Mode::Sync {
        for (key, given) in
            [("gpu_cache_size", config.gpu_cache_size), ("host_cache_size", config.host_cache_size)]
        {
            if given.is_some_and(|bytes| bytes > 0) {
                log::warn!(
                    "{key} has no effect with mode = sync: checkpoints go straight to files"
                );
            }
        }
    }
}

/// The tiers of a job.
fn shape(config: &Config, files: &Files, host: Option<&HostBuffer>) -> Shape {
    Shape {
        device: 0,
        host: host.map_or(0, HostBuffer::len),
        scratch: files.has_scratch(),
        persistent: files.has_persistent(),
        ephemeral: config.ephemeral,
        order: config.restore_order,
        device_granule: device_cache::GRANULE,
        host_granule: host_buffer::GRANULE,
    }
}

/// The host buffer, and what the backend is to hold of it.
fn host_buffer(config: &Config) -> Result<(Option<HostBuffer>, Option<Estate>)> {
    let physical = memory::physical()?;
    let direct = config.mode == Mode::Sync && !config.ephemeral;
    let bytes = match config.host_cache_size {
        Some(given) if given > physical.total => {
            return Err(Error::invalid(format!(
                "host_cache_size is {given} bytes, but this machine has {} bytes of memory",
                physical.total
            )));
        }
        Some(_) | None if direct => 0,
        Some(given) => given,
        None if config.ephemeral => HOST_DEFAULT_EPHEMERAL.min(physical.available / HOST_SHARE),
        None => HOST_DEFAULT.min(physical.available / HOST_SHARE),
    };
    if bytes == 0 {
        if config.ephemeral && config.scratch.is_none() && config.gpu_cache_size.unwrap_or(0) == 0 {
            return Err(Error::invalid(
                "host_cache_size is 0, and there is neither gpu_cache_size nor scratch: an \
                 ephemeral job has no place for a checkpoint",
            ));
        }
        // Copies to persistent are made in the background all the same.
        let persists = config.outlives_application() && config.persistent.is_some();
        let ledger = persists.then(|| SharedMemory::create("veloc-ledger", ledger_size(0)));
        let estate = ledger.transpose().map(|ledger| Some(Estate { ledger: ledger?, host: None }));
        return Ok((None, or_without(estate)));
    }
    let (chunk, huge) = (config.pin_chunk_size, config.huge_pages);
    if config.outlives_application() {
        let shared = SharedMemory::create("veloc-host", bytes).and_then(|host| {
            let ledger = SharedMemory::create("veloc-ledger", ledger_size(bytes))?;
            Ok(Some((Mapping::of(&host)?, Estate { ledger, host: Some(host) })))
        });
        if let Some((mapping, estate)) = or_without(shared) {
            return Ok((Some(HostBuffer::over(mapping, chunk, huge)), Some(estate)));
        }
    }
    let buffer = HostBuffer::reserve(bytes, chunk, huge)
        .map_err(|error| error.within(format!("host_cache_size = {bytes} bytes")))?;
    Ok((Some(buffer), None))
}

/// What was made of shared memory, or nothing, with a warning.
fn or_without<T>(shared: Result<Option<T>>) -> Option<T> {
    shared.unwrap_or_else(|error| {
        log::warn!(
            "no shared memory, so that what is not in a file yet is lost if the application is \
             killed: {error}"
        );
        None
    })
}

/// Bytes of a ledger for a host buffer of so many: a record for each of the smallest checkpoints.
/// No page of it exists before it is used.
fn ledger_size(host: u64) -> u64 {
    (host / 4).clamp(1 << 20, 1 << 30)
}
