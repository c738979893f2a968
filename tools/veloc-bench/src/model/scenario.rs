//! A run on a node: so many processes, each with checkpoints to take and to restore.

use anyhow::{ensure, Result};
use config::Config;
use policy::register::Pin;
use policy::touch::Touch;
use serde::Serialize;

use super::node::NodeFigures;
use crate::approach::configuration;
use crate::plan::{ApproachName, Compute, PointPlan, RestoreSequence};

/// One run of the model.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub node: NodeFigures,
    /// The way to keep checkpoints.
    pub approach: ApproachName,
    /// Processes that start together, dealt out to the GPUs in turn.
    pub processes: usize,
    /// Bytes of each checkpoint; process `p` takes `sizes[p % sizes.len()]`.
    pub sizes: Vec<Vec<u64>>,
    /// Seconds of computing before each checkpoint and before each restore.
    pub interval: f64,
    /// Bytes of the device cache of each process.
    pub device_cache: u64,
    /// Bytes that it may grow to; `None`: it does not grow.
    pub device_cache_most: Option<u64>,
    /// Bytes of the host buffer of each process; 0: the device cache holds everything.
    pub host_cache: u64,
    /// Bytes that are mapped at a time (`gpu_chunk_size`); `None`: the library chooses.
    pub map_chunk: Option<u64>,
    /// Bytes of one registration (`pin_chunk_size`).
    pub pin_chunk: u64,
    pub touch: Touch,
    pub pin: Pin,
    /// Whether registration keeps to the idle windows between the application's calls, as this
    /// library's does and the paper's does not.
    pub idle_windows: bool,
    /// Whether the device cache is allocated at once instead of mapped in chunks.
    pub direct_device: bool,
}

/// The paper's 4 GB of device cache and 32 GB of host buffer, 256 checkpoints of 128 MB.
pub(super) const DEVICE_CACHE: u64 = 4 << 30;
/// See [`DEVICE_CACHE`].
pub(super) const HOST_CACHE: u64 = 32 << 30;
/// See [`DEVICE_CACHE`].
pub(super) const CHECKPOINT: u64 = 128 << 20;

impl Scenario {
    /// The paper's configuration large-host with uniform checkpoints (V-C), as this library's
    /// defaults treat it.
    pub(super) fn large_host(
        node: NodeFigures,
        approach: ApproachName,
        processes: usize,
        interval: f64,
    ) -> Result<Self> {
        let (keys, _) = Config::from_text("mode = async\nephemeral = true\n", |_| None)?;
        Ok(Scenario {
            node,
            approach,
            processes,
            sizes: vec![vec![CHECKPOINT; (HOST_CACHE / CHECKPOINT) as usize]],
            interval,
            device_cache: DEVICE_CACHE,
            device_cache_most: None,
            host_cache: HOST_CACHE,
            map_chunk: keys.gpu_chunk_size,
            pin_chunk: keys.pin_chunk_size,
            touch: keys.touch,
            pin: keys.pin,
            idle_windows: true,
            direct_device: false,
        })
    }

    /// The paper's configuration large-device (V-C): everything stays in the device cache.
    pub(super) fn large_device(
        node: NodeFigures,
        approach: ApproachName,
        processes: usize,
        interval: f64,
    ) -> Result<Self> {
        Ok(Scenario {
            device_cache: HOST_CACHE,
            host_cache: 0,
            ..Scenario::large_host(node, approach, processes, interval)?
        })
    }

    /// A point of the bench on a node.
    ///
    /// # Errors
    /// The model has no such approach, or no such order of restores.
    pub(super) fn of(plan: &PointPlan, node: NodeFigures) -> Result<Self> {
        let PointPlan { approach, processes, interval_ms, .. } = *plan;
        ensure!(
            matches!(plan.compute, Compute::Sleep)
                && matches!(plan.order, RestoreSequence::Reverse),
            "the model restores in reverse, and knows nothing of kernels: no --compute, no --order"
        );
        let text = match approach {
            ApproachName::Ours => configuration(plan),
            _ => "mode = async\nephemeral = true\n".to_owned(),
        };
        let (keys, _) = Config::from_text(&text, |_| None)?;
        Ok(Scenario {
            sizes: plan.sizes.clone(),
            device_cache: plan.device_cache,
            device_cache_most: plan.device_cache_most,
            host_cache: plan.host_cache,
            map_chunk: keys.gpu_chunk_size,
            pin_chunk: keys.pin_chunk_size,
            touch: keys.touch,
            pin: keys.pin,
            ..Scenario::large_host(node, approach, processes as usize, interval_ms * 1e-3)?
        })
    }

    /// The sizes of the checkpoints of one process.
    pub(super) fn sizes_of(&self, process: usize) -> &[u64] {
        &self.sizes[process % self.sizes.len()]
    }

    /// Refuses a scenario that cannot be run, with the value that is wrong.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(self.processes > 0, "processes: 0");
        ensure!(
            matches!(self.approach, ApproachName::Ours | ApproachName::DirectPin),
            "--approach {}: the model has none of that kind; nobody says what it costs",
            self.approach.text()
        );
        for process in 0..self.processes.min(self.sizes.len()) {
            let sizes = self.sizes_of(process);
            ensure!(
                !sizes.is_empty() && sizes.iter().all(|&bytes| bytes > 0),
                "checkpoints: process {process} has none, or one without bytes"
            );
            let largest = sizes.iter().copied().max().unwrap_or(0);
            ensure!(
                largest <= self.device_cache,
                "device cache: {} bytes, but process {process} has a checkpoint of {largest}",
                self.device_cache
            );
            let all: u64 = sizes.iter().sum();
            let room = if self.host_cache > 0 { self.host_cache } else { self.device_cache };
            ensure!(
                all <= room,
                "host cache: {room} bytes, but process {process} has {all} bytes of checkpoints"
            );
        }
        let shared = self.processes.div_ceil(self.node.gpus) as u64;
        ensure!(
            (shared * self.device_cache) as f64 <= self.node.device_memory.value,
            "processes: {shared} share a GPU, whose {:.0} GiB cannot hold {} bytes of device cache \
             for each",
            self.node.device_memory.value / (1u64 << 30) as f64,
            self.device_cache
        );
        Ok(())
    }
}

/// The outcome of one process. Times in seconds, sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ProcessOutcome {
    /// Time blocked until the caches could be used.
    pub init: f64,
    /// Time blocked by each checkpoint.
    pub checkpoints: Vec<f64>,
    /// Time blocked by each restore, in the order of restores.
    pub restores: Vec<f64>,
    /// Bytes captured, flushed, fetched and restored.
    pub captured: u64,
    /// See `captured`.
    pub flushed: u64,
    /// See `captured`.
    pub fetched: u64,
    /// See `captured`.
    pub restored: u64,
    /// Seconds that checkpoints waited for room in the device cache, and for it to be mapped or to grow.
    pub waited_for_room: f64,
    /// See `waited_for_room`.
    pub waited_for_memory: f64,
    /// Seconds during which a registration stopped this process's copies.
    pub stopped: f64,
    /// When all pages existed, and when all were registered; 0 if the run ended before.
    pub touched_at: f64,
    /// See `touched_at`.
    pub registered_at: f64,
    /// When the last restore had ended.
    pub end: f64,
    /// How often `touch = auto` changed its mode.
    pub mode_changes: u64,
    /// Whether its mode was sequential at the end.
    pub sequential: bool,
}

impl ProcessOutcome {
    /// Time blocked by checkpoints, initialisation included.
    pub(super) fn checkpointing(&self) -> f64 {
        self.init + self.checkpoints.iter().sum::<f64>()
    }

    /// Time blocked by checkpoints and restores, initialisation included.
    pub(super) fn total(&self) -> f64 {
        self.checkpointing() + self.restores.iter().sum::<f64>()
    }
}

/// The mean over all processes: the paper's "per process".
pub(super) fn per_process(
    outcomes: &[ProcessOutcome],
    figure: impl Fn(&ProcessOutcome) -> f64,
) -> f64 {
    outcomes.iter().map(figure).sum::<f64>() / outcomes.len().max(1) as f64
}
