//! The results, as they stand in files. All times are in seconds, all sizes in bytes.

use serde::{Deserialize, Serialize};

use super::plan::PointPlan;

mod figures;
mod file;
mod floor;

pub(crate) use self::figures::{
    CallKind, CauseWait, Decisions, HopFigures, ManagedBytes, ProcessFigures,
};
pub(crate) use self::file::{prepare, write_json, write_text};
pub(crate) use self::floor::Floor;

/// The version of the layout of the files.
pub(crate) const SCHEMA: u32 = 2;

/// The warning wherever times of the software device are shown.
pub(crate) const SOFTWARE_WARNING: &str =
    "measured on the software device, which is no GPU: its times mean nothing";

/// The library's warning about the software device, on standard error at the start of each job.
pub(crate) const SOFTWARE_NOTE: &str = "no figure of this run says anything about a GPU";

/// One file of results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    pub schema: u32,
    /// What the file is about: a figure's name, as `5a`, or what the user called it.
    pub title: String,
    /// The program that measured.
    pub program: MeasuringProgram,
    pub machine: MeasuredMachine,
    /// The device, if one was used.
    pub device: Option<MeasuredDevice>,
    /// [`SOFTWARE_WARNING`] where it applies.
    pub warning: Option<String>,
    /// The points, in the order in which they were measured.
    pub measurements: Vec<Measurement>,
    /// Bare copies, once for all points that keep the same bytes.
    #[serde(default)]
    pub floors: Vec<Floor>,
    /// Combinations that were asked for and are impossible, each with the reason.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Cache initialisation alone (figure 4a).
    #[serde(default)]
    pub initialisation: Vec<Initialisation>,
}

/// The program that measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MeasuringProgram {
    pub version: String,
    /// The commit the program was built from; `unknown` if the sources were no checkout.
    pub commit: String,
    /// The time of the measurement: seconds since 1970.
    pub time: u64,
    pub command: Vec<String>,
}

/// The machine that was measured on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MeasuredMachine {
    /// The processor's name.
    pub processor: String,
    /// Processors that this program may use.
    pub processors: u32,
    /// Nodes of memory.
    pub memory_nodes: u32,
    /// Physical memory.
    pub memory: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The setting of transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MeasuredDevice {
    pub name: String,
    pub memory: u64,
    /// The driver's version as the kernel module gives it; empty if it gives none.
    pub driver: String,
    /// The version of CUDA that the driver serves, as 12080.
    pub cuda: i32,
    /// Whether it is the software device.
    pub software: bool,
}

/// One point with all its repeats.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// The settings of the point.
    pub plan: PointPlan,
    /// The repeats that worked.
    pub runs: Vec<RepeatFigures>,
    /// Why repeats did not work.
    #[serde(default)]
    pub failures: Vec<String>,
    /// Why no repeat was begun, if none was.
    #[serde(default)]
    pub not_begun: Option<NotBegun>,
    /// Messages of the processes on standard error: fallbacks, above all.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Why a point was not begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotBegun {
    /// The reason in a word.
    pub why: NotBegunReason,
    /// The reason in a sentence, with the values behind it.
    pub text: String,
}

/// The reason why a point was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum NotBegunReason {
    /// The time that was given was up.
    Budget,
    /// The machine lacks the memory.
    Memory,
    /// There is no device.
    Device,
    /// The series had not come to the point when the file was written last.
    Turn,
}

/// One repeat: the figures of each process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RepeatFigures {
    /// The figures by the number of the process.
    pub processes: Vec<ProcessFigures>,
}

/// One way to make a cache usable, and nothing else (figure 4a), in several processes at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Initialisation {
    /// The way: `device: cuMemAlloc`, `device: mapped in chunks`, `host: touched`, `host: pinned
    /// after touching`, `host: allocated and pinned at once`.
    pub what: String,
    /// Processes that did it at once.
    pub processes: u32,
    /// Bytes of each process.
    pub bytes: u64,
    /// Bytes of one step, for ways that go by steps; else 0.
    pub step: u64,
    /// Time that each process took, by repeat.
    pub seconds: Vec<Vec<f64>>,
}

impl Initialisation {
    /// The way of the paper's figure 4a.
    pub(crate) const ALLOCATED: &str = "device: cuMemAlloc";
}

impl RepeatFigures {
    /// The mean of a figure over the processes (the paper's "per process").
    pub(crate) fn per_process(&self, figure: impl Fn(&ProcessFigures) -> f64) -> f64 {
        let sum: f64 = self.processes.iter().map(figure).sum();
        sum / self.processes.len().max(1) as f64
    }
}

impl Measurement {
    /// Whether another repeat of the point makes sense: none has failed, and memory was not short.
    pub(crate) fn is_open(&self) -> bool {
        let waits = |point: &NotBegun| point.why == NotBegunReason::Turn;
        self.failures.is_empty() && self.not_begun.as_ref().is_none_or(waits)
    }

    /// Median, least and greatest over the repeats of a figure per process. `None` without runs.
    pub(crate) fn spread(&self, figure: impl Fn(&ProcessFigures) -> f64) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|run| run.per_process(&figure)).collect())
    }
}

/// A figure over repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub median: f64,
    pub least: f64,
    pub greatest: f64,
}

impl Spread {
    /// The spread of values; `None` without any.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let (least, greatest) = (*values.first()?, *values.last()?);
        Some(Spread { median: quantile(&values, 0.5), least, greatest })
    }
}

/// The quantile of sorted values, interpolated; 0 without values.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = share * last as f64;
    let (low, high) = (sorted[at as usize], sorted[(at as usize + 1).min(last)]);
    low + (high - low) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.5), 1.5);
        assert_eq!(quantile(&[1.0], 0.95), 1.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
