//! What was measured, as it stands in the files. All times are in seconds, all sizes in bytes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use serde::{Deserialize, Serialize};

use super::interrupt;
use super::plan::Plan;

/// The version of the layout of the files.
pub const SCHEMA: u32 = 1;

/// What a run on the software device says wherever it shows times.
pub const SOFTWARE_WARNING: &str =
    "measured on the software device, which is no GPU: its times mean nothing";

/// What the library says on standard error, at the start of each job, of the same.
pub const SOFTWARE_NOTE: &str = "no figure of this run says anything about a GPU";

/// One file of results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What the file is about: a figure's name, as `5a`, or what the user called it.
    pub title: String,
    /// The program that measured.
    pub program: Program,
    /// The machine.
    pub machine: Machine,
    /// The device, if one was used.
    pub device: Option<Device>,
    /// [`SOFTWARE_WARNING`] where it applies.
    pub warning: Option<String>,
    /// The points, in the order in which they were measured.
    pub measurements: Vec<Measurement>,
    /// Cache initialisation alone (figure 4a).
    #[serde(default)]
    pub initialisation: Vec<Initialisation>,
}

/// The program that measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// The commit it was built from; `unknown` if the sources were no checkout.
    pub commit: String,
    /// When it measured: seconds since 1970.
    pub time: u64,
    /// Its command line.
    pub command: Vec<String>,
}

/// The machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
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

/// The device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its memory.
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
pub struct Measurement {
    /// What was set.
    pub plan: Plan,
    /// The repeats that worked.
    pub runs: Vec<Run>,
    /// Why a repeat did not, if one did not.
    #[serde(default)]
    pub failures: Vec<String>,
    /// What the processes said on their standard error: fallbacks, above all.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One repeat: what each process measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// By the number of the process.
    pub processes: Vec<Figures>,
}

/// What one process measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Initialising, before the first checkpoint can be taken.
    pub init: f64,
    /// How long each checkpoint kept the application waiting.
    pub checkpoints: Vec<f64>,
    /// How long each restore did, in the order of restores. The hints are in it.
    pub restores: Vec<f64>,
    /// Giving everything back.
    pub finish: f64,
    /// Bare copies on the device of the same bytes, in the order of checkpoints: the floor.
    pub bare_copies: Vec<f64>,
    /// The compute intervals between checkpoints.
    pub forward_intervals: Vec<f64>,
    /// The compute intervals between restores.
    pub backward_intervals: Vec<f64>,
    /// The same interval with nothing in the background, the median of several.
    pub quiet_interval: f64,
    /// Restored versions that had a wrong byte; 0 if `plan.verify` was off.
    pub wrong_versions: u64,
    /// The most memory of the host that the process had.
    pub peak_host: u64,
    /// Memory of the device in use when all checkpoints had been taken, less that before.
    pub device_used: u64,
    /// Time that the application waited, by cause. Only `ours` tells causes apart.
    pub causes: Vec<Cause>,
    /// Bytes moved per hop.
    pub hops: Vec<Hop>,
    /// What `touch = auto` measured and decided; `ours` alone.
    pub decisions: Option<Decisions>,
    /// What has to be known to judge these figures.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Waiting for one cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// Its name.
    pub name: String,
    /// Time.
    pub seconds: f64,
    /// How often.
    pub count: u64,
}

/// Bytes from one place to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    /// Its name, as `DtoH`; also `map`, `touch`, `register`, `turn`.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// Time.
    pub seconds: f64,
}

/// The model behind `touch = auto`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decisions {
    /// `sequential` or `concurrent`, at the end of the forward pass.
    pub mode: String,
    /// How often it changed its mind.
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

/// Making a cache usable, and nothing else (figure 4a): several processes at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Initialisation {
    /// What was done: `device: cuMemAlloc`, `device: mapped in chunks`, `host: touched`,
    /// `host: pinned after touching`, `host: allocated and pinned at once`.
    pub what: String,
    /// Processes at once.
    pub processes: u32,
    /// Bytes of each process.
    pub bytes: u64,
    /// Bytes of one step, where it goes by steps; else 0.
    pub step: u64,
    /// Time that each process took, by repeat.
    pub seconds: Vec<Vec<f64>>,
}

impl Figures {
    /// Time that taking all checkpoints kept the application waiting, initialisation included.
    pub fn checkpoint_total(&self) -> f64 {
        self.init + self.checkpoints.iter().sum::<f64>()
    }

    /// The same and all restores.
    pub fn total(&self) -> f64 {
        self.checkpoint_total() + self.restores.iter().sum::<f64>()
    }

    /// How much longer the compute intervals took than with nothing in the background, as a share of
    /// that. By the mean: a rare stop is as much of a disturbance as many small ones.
    pub fn disturbance(&self) -> f64 {
        let intervals = [&self.forward_intervals[..], &self.backward_intervals].concat();
        let mean = intervals.iter().sum::<f64>() / intervals.len().max(1) as f64;
        if self.quiet_interval > 0.0 {
            mean / self.quiet_interval - 1.0
        } else {
            0.0
        }
    }

    /// All bare copies.
    pub fn bare_total(&self) -> f64 {
        self.bare_copies.iter().sum()
    }
}

impl Run {
    /// The mean over the processes of what `figure` gives (the paper's "per process").
    pub fn per_process(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        let sum: f64 = self.processes.iter().map(figure).sum();
        sum / self.processes.len().max(1) as f64
    }
}

impl Measurement {
    /// Median, least and greatest over the repeats of a figure per process. `None` without runs.
    pub fn spread(&self, figure: impl Fn(&Figures) -> f64) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|run| run.per_process(&figure)).collect())
    }
}

/// A figure over repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

impl Spread {
    /// `None` of nothing.
    pub fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let (least, greatest) = (*values.first()?, *values.last()?);
        Some(Spread { median: quantile(&values, 0.5), least, greatest })
    }
}

/// The quantile of sorted values, interpolated; 0 of nothing.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = share * last as f64;
    let (low, high) = (sorted[at as usize], sorted[(at as usize + 1).min(last)]);
    low + (high - low) * at.fract()
}

impl Results {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Results> {
        let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let results: Results = serde_json::from_slice(&text)
            .with_context(|| format!("{} holds no results", path.display()))?;
        let found = results.schema;
        ensure!(found == SCHEMA, "{}: schema {found}, not {SCHEMA}", path.display());
        Ok(results)
    }

    /// Writes a file, whole or not at all: results are written again after each measurement, and
    /// whoever cuts a run short keeps what it has.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_json(path, self)
    }
}

/// Refuses a file of results that cannot be written, before anything is measured for it; makes the
/// folder that it is to be in. What the file has in it stays.
pub fn prepare(path: &Path) -> Result<()> {
    let what = || format!("--out {}", path.display());
    ensure!(!path.is_dir(), "{}: a file is wanted, and this is a folder", what());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(what)?;
    }
    let temporary = beside(path);
    fs::write(&temporary, "").and_then(|()| fs::remove_file(&temporary)).with_context(what)
}

/// Where a file is before it is whole. Always the same name: what a killed run has left is replaced.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// Writes a file, whole or not at all.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(value)?;
    let temporary = beside(path);
    let written = interrupt::writing(path, || {
        fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path))
    });
    if written.is_err() {
        // The reason is that of the writing.
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(|| format!("writing {}", path.display()))
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

    #[test]
    fn what_cannot_be_written_is_refused_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (taken, file) = (folder.path().join("taken"), folder.path().join("new/r.json"));
        fs::create_dir(&taken).unwrap();
        let error = prepare(&taken).unwrap_err().to_string();
        assert!(error.contains("--out") && error.contains("taken"), "{error}");
        assert!(write_json(&taken, &1).is_err());
        prepare(&file).unwrap();
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 0);
        write_json(&file, &1).unwrap();
        prepare(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "1");
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["new", "taken"]);
    }
}
