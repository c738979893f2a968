//! Starting a job: its levels, and their workers.

use std::path::PathBuf;
use std::sync::Arc;

use super::both::BESIDE;
use super::buffer::host_buffer;
use super::captures::Captures;
use super::checkpoints::CheckpointView;
use super::device_side::DeviceSide;
use super::file_side::FileSide;
use super::host_side::HostSide;
use super::inherit::{self, inherit, Inherited, InheritedMemory};
use super::order::Order;
use super::shared::{Capturing, Restores};
use super::shared::{Materials, Shared};
use super::succession::Succession;
use super::telemetry::Telemetry;
use super::workers::Workers;
use super::{arrive, bypass, encode, prepare, storage, transfer};
use crate::monitor::Catalog;
use catalog::ledger::{Ledger, Left};
use catalog::level::{self, LevelSpec};
use catalog::state::{Shape, State};
use catalog::Level;
use config::{Config, GrowingSize, Mode};
use device::Device;
use erasure::node::Node;
use errors::{Error, ErrorKind, Result};
use files::{Files, Inodes};
use levels::compressed::CompressedMemory;
use levels::drive::Drive;
use levels::host_buffer::HostBuffer;
use levels::store::Store;
use once_cell::sync::OnceCell;
use os::affinity;
use os::size;
use policy::capture::Capture;
use policy::touch;
use recovery::link::Link;
use recovery::Process;
use trace::metrics::Metrics;
use trace::{Recorder, Setup, Shown};

/// One job, from `VELOC_Init` to `VELOC_Finalize`.
#[derive(Debug)]
pub struct Engine {
    pub(super) shared: Arc<Shared>,
    pub(super) workers: Workers,
    /// The worker for deferred captures, once there is one.
    arrival_worker: OnceCell<()>,
}

/// An engine for those who only end it.
#[derive(Clone, Debug)]
pub struct EngineHandle(pub(super) Arc<Shared>);

impl Engine {
    /// Reserves the levels (no memory is touched, mapped or registered) and starts the workers. `device` is
    /// the one that the application uses already, if any.
    pub fn start(config: Config, process: Process, device: Option<Device>) -> Result<Engine> {
        let mut lower: Vec<(LevelSpec, Box<dyn Store>)> = Vec::new();
        if let Some((path, bytes)) = config.drive.as_deref().zip(config.drive_size) {
            let drive = Drive::open(path, bytes)?;
            lower.push((level::of_drive(drive.len(), drive.block()), Box::new(drive)));
        }
        if let Some(bytes) = config.compressed_cache_size {
            let memory = CompressedMemory::reserve(bytes)
                .map_err(|error| error.within("compressed_cache_size"))?;
            lower.push((level::of_compressed(memory.len()), Box::new(memory)));
        }
        Engine::start_with(config, process, device, lower)
    }

    /// Starts a job with more levels of memory below the host buffer, in the order of their rows.
    pub(crate) fn start_with(
        config: Config,
        process: Process,
        device: Option<Device>,
        lower: Vec<(LevelSpec, Box<dyn Store>)>,
    ) -> Result<Engine> {
        let rank = process.rank;
        warn_of_unused(&config);
        if let Some((row, _)) = lower.first().filter(|_| !config.ephemeral) {
            return Err(Error::invalid(format!(
                "{} is for a job with ephemeral = true: what is in the {} alone is lost if the process is killed",
                row.key, row.name
            )));
        }
        let (files, refused) = bypass::open_files(&config, rank)?;
        let files = files.of_job(process.ranks);
        let Inherited { memory, missing, asked } = inherit(&config, process, &files);
        let (host, hand_off, inherited) = match memory {
            Some(InheritedMemory { host, hand_off, ledger, left }) => {
                (Some(host), Some(hand_off), Some((ledger, left)))
            }
            None => {
                let (host, hand_off) = host_buffer(&config)?;
                (host, hand_off, None)
            }
        };
        // Not earlier: a job that cannot start must not replace the file of a running one.
        let trace = recorder(&config, process);
        let mut shape = shape(&config, &files, host.as_ref());
        let (rows, lower): (Vec<LevelSpec>, Vec<_>) = lower.into_iter().unzip();
        for row in rows {
            // Whole units of the level below are copied, whatever is behind the last byte.
            let host = &mut shape.memory[Level::HOST.index()];
            host.granule = host.granule.max(row.granule);
            shape.memory.push(row);
        }
        show_levels(&trace, &shape.memory);
        let mut state = State::new(shape);
        let recorder = trace.clone();
        state.tell_evictions(move |level, name, version, bytes| {
            recorder.evicted(level.index() as u8, name, version, bytes);
        });
        state.captures().in_run(process.run);
        state.growth().pack(Level::HOST, true);
        let hands_over = config.hand_over.is_some();
        let ledger = match inherited {
            Some((ledger, left)) => {
                state.handover().hand_over_to(ledger);
                inherit::take(&mut state, &files, host.as_ref(), &left);
                None
            }
            None => hand_off
                .as_ref()
                .map(|hand_off| hand_off.ledger.words().and_then(|words| Ledger::new(words))),
        };
        let is_handed_off = hand_off.is_some();
        let link = match hand_off {
            None => Err(Error::invalid("there is no memory that could be handed over")),
            Some(hand_off) => ledger.transpose().and_then(|ledger| {
                let directories = files.places().inodes();
                Ok((ledger, Link::open(&config, process, directories, hand_off, asked)?))
            }),
        };
        if let (Err(error), Some(name), true) = (&link, &config.hand_over, config.ephemeral) {
            // Its checkpoints would end with it, and nobody would hear of that before.
            return Err(error.clone().within(format!(
                "hand_over = {name}: the memory of this ephemeral job needs veloc-backend"
            )));
        }
        if let (Err(error), true) = (&link, is_handed_off) {
            log::warn!(
                "going on without veloc-backend, so data that is not in files yet is lost if the application is \
                 killed: {error}"
            );
        }
        let link = link.ok();
        let link = link.map(|(ledger, link)| {
            match ledger {
                Some(ledger) if hands_over => state.handover().hand_over_to(ledger),
                Some(ledger) => state.handover().note_to(ledger),
                None => {}
            }
            link
        });
        let catalog = Catalog::new(state);
        let host = (host, lower);
        let shared = Shared::new(Materials { config, catalog, host, files, link, missing, trace });
        let shared = Arc::new(shared);
        let path = |path: &Option<PathBuf>| {
            path.as_ref().map_or("none".to_owned(), |path| path.display().to_string())
        };
        log::info!(
            "checkpoints of rank {rank}: host buffer of {}, scratch {}, persistent {}{}",
            size::show(shared.host_side.buffer.as_ref().map_or(0, HostBuffer::len)),
            path(&shared.config.scratch),
            path(&shared.config.persistent),
            if shared.config.ephemeral { ", ephemeral" } else { "" }
        );
        if let Some(refused) = refused {
            shared.file_side.begins_past_scratch(&refused);
        }
        let engine = Engine::of(shared);
        engine.start_workers(device)?;
        Ok(engine)
    }

    /// Continues where another process has ended: takes its host buffer and the checkpoints in it or in
    /// scratch that have still to reach a file, and only writes them. If it goes on with their `ledger`, that
    /// stays true, and another process can go on where this one is stopped.
    ///
    /// If the job had other processes, old versions are not removed: it is unknown which of them the others
    /// have.
    pub fn take_over(
        config: Config,
        process: Process,
        directories: &Inodes,
        host: Option<HostBuffer>,
        left: &[Left],
        ledger: Option<Ledger>,
    ) -> Result<Engine> {
        let files =
            Files::open_for_successor(&config, process.rank, directories)?.of_job(process.ranks);
        let shape = shape(&config, &files, host.as_ref());
        let shown = Some(Shown { ranks: process.ranks });
        // Without a file nothing can fail.
        let trace = Recorder::start(&Setup { file: None, rank: process.rank, shown })?;
        show_levels(&trace, &shape.memory);
        let mut state = State::new(shape);
        if let Some(ledger) = ledger {
            state.handover().hand_over_to(ledger);
        }
        inherit::take(&mut state, &files, None, left);
        let catalog = Catalog::new(state);
        let config = match process.is_single() {
            true => config,
            false => Config { max_versions: 0, scratch_versions: 0, ..config },
        };
        let shared = Shared::new(Materials {
            config,
            catalog,
            host: (host, Vec::new()),
            files,
            link: None,
            missing: None,
            trace,
        });
        let engine = Engine::of(Arc::new(shared));
        engine.workers.spawn("write", storage::write)?;
        engine.workers.spawn("persist", storage::persist)?;
        Ok(engine)
    }

    fn of(shared: Arc<Shared>) -> Engine {
        Engine { workers: Workers::of(shared.clone()), shared, arrival_worker: OnceCell::new() }
    }

    fn start_workers(&self, device: Option<Device>) -> Result<()> {
        if let Some(device) = device {
            self.attach(device)?;
        }
        if self.shared.file_side.files.places().has_scratch() {
            self.workers.spawn("write", storage::write)?;
            if self.shared.host_side.buffer.is_some() {
                self.workers.spawn("read", storage::read)?;
            }
        }
        for level in
            (0..self.shared.host_side.lower.len()).map(|row| Level::new(Level::HOST.index() + row))
        {
            self.workers.spawn("flush", move |shared| transfer::flush(shared, level))?;
            self.workers.spawn("fetch", move |shared| transfer::fetch(shared, level))?;
        }
        // File-based checkpoints are persisted even without a persistent directory, but not without any.
        if !self.shared.config.ephemeral || self.shared.file_side.files.places().has_scratch() {
            self.workers.spawn("persist", storage::persist)?;
        }
        if self.shared.host_side.buffer.is_some() {
            // Only one of them is started by the application.
            let workers = self.workers.clone();
            self.workers.spawn_as("touch", "touch 1".to_owned(), move |shared| {
                let threads = touch::threads(shared.config.touch_threads, affinity::usable_cpus());
                for thread in 2..=threads {
                    let started =
                        workers.spawn_as("touch", format!("touch {thread}"), prepare::touch);
                    if let Err(error) = started {
                        shared.telemetry.degrade("touch threads", error);
                        break;
                    }
                }
                prepare::touch(shared)
            })?;
        }
        Ok(())
    }

    /// Starts the worker for deferred captures, before the application's first one.
    pub fn start_deferred_captures(&self) -> Result<()> {
        if self.shared.host_side.buffer.is_none() {
            return Ok(());
        }
        self.arrival_worker
            .get_or_try_init(|| self.workers.spawn("arrive", arrive::arrive))
            .copied()
    }

    /// For those who end the engine while another thread has it.
    pub fn handle(&self) -> EngineHandle {
        EngineHandle(self.shared.clone())
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The checkpoints that the job knows.
    pub fn checkpoints(&self) -> CheckpointView<'_> {
        self.shared.checkpoints()
    }

    /// The order in which they will be read.
    pub fn order(&self) -> Order<'_> {
        self.shared.order()
    }

    /// Captures of the application's memory.
    pub fn capturing(&self) -> Capturing<'_> {
        self.shared.capturing()
    }

    /// What captures have cost.
    pub fn captures(&self) -> &Captures {
        &self.shared.captures
    }

    /// Restores to the application's memory.
    pub fn restores(&self) -> Restores<'_> {
        self.shared.restores()
    }

    /// The device, once there is one.
    pub fn device_side(&self) -> &DeviceSide {
        &self.shared.device_side
    }

    /// The host buffer.
    pub fn host_side(&self) -> &HostSide {
        &self.shared.host_side
    }

    /// Which versions have files, and may.
    pub fn file_side(&self) -> &FileSide {
        &self.shared.file_side
    }

    /// The directories.
    pub fn files(&self) -> &Files {
        &self.shared.file_side.files
    }

    /// The processes before this one and behind it.
    pub fn succession(&self) -> &Succession {
        &self.shared.succession
    }

    /// What the job tells of itself.
    pub fn telemetry(&self) -> &Telemetry {
        &self.shared.telemetry
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.telemetry.metrics
    }

    /// The timeline.
    pub fn trace(&self) -> &Recorder {
        &self.shared.telemetry.trace
    }

    /// Lets other processes protect the scratch files of this job from now on.
    pub fn join(&self, node: Node) -> Result<()> {
        if self.shared.file_side.erasure.set(node).is_err() {
            return Err(Error::new(ErrorKind::Internal, "there is erasure coding already"));
        }
        self.shared.file_side.files.expect_parities();
        self.workers.spawn("encode", encode::encode)
    }
}

/// The recorder of the configuration. A job continues without its timeline if it cannot be written.
fn recorder(config: &Config, process: Process) -> Recorder {
    let shown = Some(Shown { ranks: process.ranks });
    let recorder = |file| Recorder::start(&Setup { file, rank: process.rank, shown });
    let trace = recorder(config.trace.clone()).or_else(|error| {
        log::warn!("going on without a trace: {error}");
        // Profilers and veloc top may listen all the same; without a file nothing can fail.
        recorder(None)
    });
    let trace = trace.unwrap_or_default();
    let bytes = |bytes: Option<u64>| bytes.map_or("default".to_owned(), |b| b.to_string());
    trace.metadata("touch", format!("{:?}", config.touch).to_lowercase());
    trace.metadata("pin", format!("{:?}", config.pin).to_lowercase());
    let device = config.gpu_cache_size.map_or(
        "default".to_owned(),
        |GrowingSize { first, most }| match most > first {
            true => format!("{first}..{most}"),
            false => first.to_string(),
        },
    );
    trace.metadata("gpu_cache_size", device);
    trace.metadata("host_cache_size", bytes(config.host_cache_size));
    trace
}

/// Tells `veloc top` of the levels of memory.
fn show_levels(trace: &Recorder, levels: &[LevelSpec]) {
    for (row, level) in levels.iter().enumerate() {
        trace.level(row, level.name, level.capacity, row <= Level::HOST.index());
    }
}

/// Warns of keys that have no effect because of others.
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
    let waits = [
        ("mode = sync", config.writes_directly()),
        ("incremental = true", config.incremental),
        ("verify_captures = true", config.verify_captures),
    ];
    if let Some((other, _)) = waits.iter().find(|(_, set)| config.stream_ordered && *set) {
        log::warn!("stream_ordered has no effect with {other}: calls wait for their copies");
    }
    if config.ephemeral && config.mode == Mode::Sync {
        log::warn!(
            "mode = sync has no effect with ephemeral = true: there are no files to wait for"
        );
    } else if config.mode == Mode::Sync {
        if config.host_capture != Some(Capture::Copy) {
            log::warn!("host_capture has no effect with mode = sync: the call writes the file");
        }
        let device = config.gpu_cache_size.map(|size| size.most);
        for (key, given) in
            [("gpu_cache_size", device), ("host_cache_size", config.host_cache_size)]
        {
            if given.is_some_and(|bytes| bytes > 0) {
                log::warn!(
                    "{key} has no effect with mode = sync: checkpoints go straight to files"
                );
            }
        }
    }
}

/// The levels of a job.
fn shape(config: &Config, files: &Files, host: Option<&HostBuffer>) -> Shape {
    Shape {
        memory: level::of_node(0, host.map_or(0, HostBuffer::len)),
        scratch: files.places().has_scratch(),
        persistent: files.places().has_persistent(),
        ephemeral: config.ephemeral,
        order: config.restore_order,
        beside: files.persistent().may_write_beside().then_some(BESIDE),
    }
}
