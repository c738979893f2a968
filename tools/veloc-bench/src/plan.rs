//! A plan: one point of the paper's evaluation, or of one of ours.

use anyhow::{ensure, Result};
use clap::ValueEnum;
use os::size;
use serde::{Deserialize, Serialize};

/// In the library's levels a checkpoint takes a multiple of this many bytes.
const GRANULE: u64 = 512;

/// The ways to keep checkpoints that are compared (HiPC'22, section V-B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ApproachName {
    /// This library.
    Ours,
    /// All memory allocated and pinned up front: the state of the art the paper compares with.
    DirectPin,
    /// Managed memory and the driver's own prefetcher.
    Uvm,
    /// Managed memory with no more on the device than the device cache of the others.
    UvmBudget,
    /// 4 KiB pages, set to 0 in whole ranges beside the flushes, registered at the end.
    IncrementalMemset,
    /// A pinned ring of 64 MiB, synchronous copies, the application blocked until all is copied
    /// out: VELOC's own GPU branch of 2026.
    Ring,
}

impl ApproachName {
    /// The name on the command line and in results.
    pub(crate) fn text(self) -> &'static str {
        match self {
            ApproachName::Ours => "ours",
            ApproachName::DirectPin => "direct-pin",
            ApproachName::Uvm => "uvm",
            ApproachName::UvmBudget => "uvm-budget",
            ApproachName::IncrementalMemset => "incremental-memset",
            ApproachName::Ring => "ring",
        }
    }

    /// Why the approach cannot be measured in this configuration, if it cannot.
    pub(crate) fn cannot(self, configuration: LevelConfiguration) -> Option<&'static str> {
        match (self, configuration) {
            (ApproachName::Ring, LevelConfiguration::LargeDevice) => {
                Some("ring keeps everything on the host, and there is no host buffer")
            }
            _ => None,
        }
    }
}

/// What the device does between two checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Compute {
    /// Nothing: the process sleeps.
    Sleep,
    /// A kernel that reads and writes device memory all the time.
    Kernel,
}

/// In which order the versions are restored, against the order in which they were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RestoreSequence {
    /// The last first: adjoints.
    Reverse,
    /// The first first.
    Same,
    /// A random permutation, the same for all approaches.
    Random,
}

/// What the application says of the restores ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HintAmount {
    /// Nothing; only `order` is known, where it is not random.
    None,
    /// Before each restore, the one after it.
    One,
    /// All of them, before the first restore.
    All,
}

/// Which level has room for all checkpoints (HiPC'22, section V-C).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LevelConfiguration {
    /// The device cache; there is no host buffer.
    LargeDevice,
    /// The host buffer; the device cache is small.
    LargeHost,
}

impl LevelConfiguration {
    /// The name on the command line and in results.
    pub(crate) fn text(self) -> &'static str {
        match self {
            LevelConfiguration::LargeDevice => "large-device",
            LevelConfiguration::LargeHost => "large-host",
        }
    }
}

/// One point: everything that is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PointPlan {
    /// The way to keep checkpoints.
    pub approach: ApproachName,
    /// The level that has room for all checkpoints.
    pub configuration: LevelConfiguration,
    /// Processes that start together, all on the same device unless there are more.
    pub processes: u32,
    /// The sizes in bytes of the checkpoints of each process, or one list for all of them. Files of
    /// an older version may have less lists than processes; then `p` takes `sizes[p % sizes.len()]`.
    pub sizes: Vec<Vec<u64>>,
    /// Where the sizes come from: `uniform`, `generated`, or the name of a file.
    pub workload: String,
    /// Time between two checkpoints, and between two restores, in ms.
    pub interval_ms: f64,
    /// What the device does meanwhile.
    pub compute: Compute,
    /// Bytes of the device cache of each process.
    pub device_cache: u64,
    /// Bytes that the device cache of each process may grow to (`ours`); `None`: it does not grow.
    #[serde(default)]
    pub device_cache_most: Option<u64>,
    /// Bytes of the host buffer of each process; 0 in the large-device configuration.
    pub host_cache: u64,
    /// The order of restores.
    pub order: RestoreSequence,
    /// What the application says of the restores ahead.
    pub hints: HintAmount,
    /// Touching (`ours`): a value of the key `touch`.
    pub touch: String,
    /// Registration (`ours`): a value of the key `pin`.
    pub pin: String,
    /// More keys for `ours`, as `key = value`.
    pub settings: Vec<String>,
    /// Whether every restored byte is compared.
    pub verify: bool,
    /// The seed of the random order.
    pub seed: u64,
}

impl PointPlan {
    /// The sizes of the checkpoints of one process, in bytes.
    pub(crate) fn sizes_of(&self, process: u32) -> &[u64] {
        &self.sizes[process as usize % self.sizes.len()]
    }

    /// The versions of one process in the order in which they are restored.
    pub(crate) fn restores(&self, process: u32) -> Vec<u32> {
        let mut versions: Vec<u32> = (0..self.sizes_of(process).len() as u32).collect();
        match self.order {
            RestoreSequence::Same => {}
            RestoreSequence::Reverse => versions.reverse(),
            RestoreSequence::Random => {
                shuffle(&mut versions, self.seed.wrapping_add(u64::from(process)))
            }
        }
        versions
    }

    /// Refuses a plan that no approach could follow, with the value that is wrong.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.processes > 0, "--processes 0: nobody measures");
        ensure!(
            !self.sizes.is_empty() && self.sizes.iter().all(|sizes| !sizes.is_empty()),
            "{}: there is no checkpoint",
            self.workload
        );
        let largest = self.sizes.iter().flatten().copied().max().unwrap_or(0);
        ensure!(
            self.sizes.iter().flatten().all(|size| *size > 0 && size % 4 == 0),
            "{}: a checkpoint has no bytes, or no multiple of 4",
            self.workload
        );
        ensure!(
            self.device_cache >= largest,
            "--device-cache {}: a checkpoint has {}{}",
            exact(self.device_cache),
            exact(largest),
            if self.workload == "uniform" {
                String::new()
            } else {
                format!("; --scale {:.1e} makes it fit", self.device_cache as f64 / largest as f64)
            }
        );
        if let Some(most) = self.device_cache_most {
            ensure!(
                most > self.device_cache,
                "--device-cache-most {}: the device cache has {} already",
                exact(most),
                exact(self.device_cache)
            );
        }
        for process in 0..self.processes {
            let all: u64 =
                self.sizes_of(process).iter().map(|size| size.next_multiple_of(GRANULE)).sum();
            let (room, option) = match self.configuration {
                LevelConfiguration::LargeDevice => (self.device_cache, "--device-cache"),
                LevelConfiguration::LargeHost => (self.host_cache, "--host-cache"),
            };
            ensure!(
                all <= room,
                "{option} {}: in the configuration {} it holds all checkpoints, and those of \
                 process {process} come to {}",
                exact(room),
                self.configuration.text(),
                exact(all)
            );
        }
        Ok(())
    }
}

/// A size for readers, and to the byte.
fn exact(bytes: u64) -> String {
    format!("{} ({bytes} bytes)", size::show(bytes))
}

/// Fisher and Yates' shuffle with the generator "splitmix64": the same on every machine.
pub(crate) fn shuffle(versions: &mut [u32], seed: u64) {
    let mut state = seed;
    for last in (1..versions.len()).rev() {
        let other = splitmix(&mut state) % (last as u64 + 1);
        versions.swap(last, other as usize);
    }
}

/// The next number of the generator "splitmix64" (Steele, Lea and Flood 2014).
pub(crate) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
