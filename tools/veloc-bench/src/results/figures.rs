//! The figures of one process: times of calls and why they took so long, memory, bytes moved.

use serde::{Deserialize, Serialize};

/// The figures of one process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ProcessFigures {
    /// Initialising, before the first checkpoint can be taken.
    pub init: f64,
    /// How long each checkpoint kept the application waiting.
    pub checkpoints: Vec<f64>,
    /// How long each restore kept the application waiting, in the order of restores, hints
    /// included.
    pub restores: Vec<f64>,
    /// Giving everything back.
    pub finish: f64,
    /// The compute intervals between checkpoints.
    pub forward_intervals: Vec<f64>,
    /// The compute intervals between restores.
    pub backward_intervals: Vec<f64>,
    /// A compute interval with nothing in the background, the median of several.
    pub quiet_interval: f64,
    /// Restored versions that had a wrong byte; 0 if `plan.verify` was off.
    pub wrong_versions: u64,
    /// The most memory of the host that the process had.
    pub peak_host: u64,
    /// Memory of the device in use when all checkpoints had been taken, less that before, as the
    /// driver reports it for the whole device; `None` where several processes share one.
    pub device_used: Option<u64>,
    /// Bytes of the device cache that were there then; `None` where the driver decides which bytes
    /// are on the device.
    #[serde(default)]
    pub device_cache: Option<u64>,
    /// Managed memory, for the approaches that use it.
    #[serde(default)]
    pub managed: Option<ManagedBytes>,
    /// Time that the application waited, by kind of call and cause. The causes of a kind of call
    /// add up to the time of these calls.
    pub causes: Vec<CauseWait>,
    /// Bytes moved per hop, and bytes made usable.
    pub hops: Vec<HopFigures>,
    /// What `touch = auto` measured and decided; `ours` alone.
    pub decisions: Option<Decisions>,
    /// Notes that are needed to judge these figures.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Managed memory. Nobody is told how much of it was on the device at any time, and when the driver
/// moved it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ManagedBytes {
    /// Bytes that were allocated.
    pub allocated: u64,
    /// Bytes that the driver was asked to move to the host.
    pub asked_to_host: u64,
}

/// The kinds of calls of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CallKind {
    /// Everything before the first checkpoint.
    Init,
    Checkpoint,
    /// A restore, with the hints before it.
    Restore,
}

/// Waiting for one cause in the calls of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CauseWait {
    /// The name of the cause: see [`crate::waits`].
    pub name: String,
    /// The kind of call.
    pub call: CallKind,
    /// Seconds of waiting.
    pub seconds: f64,
    /// How often the application waited.
    pub count: u64,
}

/// Bytes from one place to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HopFigures {
    /// The name of the hop, as `DtoH`; also `map`, `touch`, `register`, `pin` for both in one call
    /// of the driver, `turn` for waiting for the node lock.
    pub name: String,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Seconds that this took.
    pub seconds: f64,
}

impl HopFigures {
    /// A hop that has moved nothing yet.
    pub(crate) fn named(name: &str) -> HopFigures {
        HopFigures { name: name.to_owned(), ..HopFigures::default() }
    }
}

/// The decisions of `touch = auto`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Decisions {
    /// `sequential` or `concurrent`, at the end of the forward pass.
    pub mode: String,
    /// How often the mode changed.
    pub changes: u64,
    /// Bytes per second: touching alone, touching beside a flush, flushing to touched pages, to
    /// untouched pages, beside touching; 0 where nothing was measured.
    pub rates: [f64; 5],
    /// Predicted time of a flush, sequential and concurrent; 0 without a prediction.
    pub predictions: [f64; 2],
    /// Bytes of the host buffer whose pages existed at the end of the forward pass.
    pub touched: u64,
    /// Bytes of the host buffer that were registered at the end of the forward pass.
    pub registered: u64,
}

impl ProcessFigures {
    /// Time that taking all checkpoints kept the application waiting, initialisation included.
    pub(crate) fn checkpoint_total(&self) -> f64 {
        self.init + self.checkpoints.iter().sum::<f64>()
    }

    /// Time that all checkpoints and restores kept the application waiting, initialisation
    /// included.
    pub(crate) fn total(&self) -> f64 {
        self.checkpoint_total() + self.restores.iter().sum::<f64>()
    }

    /// How much longer the compute intervals took than with nothing in the background, as a share
    /// of the latter. By the mean: a rare stop is as much of a disturbance as many small ones.
    pub(crate) fn disturbance(&self) -> f64 {
        let intervals = [&self.forward_intervals[..], &self.backward_intervals].concat();
        let mean = intervals.iter().sum::<f64>() / intervals.len().max(1) as f64;
        if self.quiet_interval > 0.0 {
            mean / self.quiet_interval - 1.0
        } else {
            0.0
        }
    }

    /// Time that the application waited for a cause in calls of these kinds.
    pub(crate) fn waited(&self, calls: &[CallKind], name: &str) -> f64 {
        let of = |cause: &&CauseWait| calls.contains(&cause.call) && cause.name == name;
        self.causes.iter().filter(of).map(|cause| cause.seconds).sum()
    }
}
