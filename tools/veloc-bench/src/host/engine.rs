//! `veloc-bench engine`: the library's own cost beside the copies that it is asked for.
//!
//! Each part runs in a process of its own: what a part leaves behind, in the heap as in the driver,
//! does not change another's figures. Device memory is that of the software device, whose copies
//! are made to take no time: what is left is the library's own cost, the only figure that such a
//! device can give.

mod aggregated;
mod awake;
mod both;
mod cold;
mod device;
mod host;
mod init;
pub(super) mod job;
mod memory;
mod software;
mod storage;
mod sweep;
mod timeline;
mod versions;

use std::path::PathBuf;

use anyhow::{bail, Result};
use clap::{Args, ValueEnum};
use os::interrupt;

use super::{in_own_process, CommonOptions, GoalOptions, MeasuredFigure, ResultsFile};
use crate::options::{distinct, name_of};

/// Options of the command.
#[derive(Debug, Args)]
pub(crate) struct EngineOptions {
    /// Only these parts
    #[arg(long, value_delimiter = ',', value_enum)]
    parts: Vec<EnginePart>,
    /// Where the software device's libcuda.so.1 is [default: where a checkout or a bundle has it]
    #[arg(long, value_name = "FOLDER")]
    softcuda: Option<PathBuf>,
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    judge: GoalOptions,
    /// Measure one part in this process, with this detail
    #[arg(long, hide = true)]
    detail: Option<u64>,
    /// The rank of this process among those that measure the part together
    #[arg(long, hide = true, requires_all = ["detail", "folder"])]
    rank: Option<u32>,
    /// The folder of these processes
    #[arg(long, hide = true)]
    folder: Option<PathBuf>,
}

/// The parts that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EnginePart {
    /// Initialising with large caches
    Init,
    /// A checkpoint of device memory beside its copy (software device)
    Device,
    /// Small checkpoints of host memory beside their copies, and how many there are in a second
    Small,
    /// The same after pauses, in which the application computes
    Cold,
    /// Large checkpoints of host memory beside their copies
    Large,
    /// Host memory held beside host memory asked for
    Memory,
    /// Device memory held beside device memory asked for (software device)
    DeviceMemory,
    /// 1,000 to 100,000 checkpoints in memory
    Versions,
    /// 1,000 to 10,000 checkpoints in files
    Files,
    /// Checkpoints in files with mode = sync, and restarts, beside system calls on the same bytes
    Sync,
    /// Checkpoints in files with mode = sync and checksums, and restarts, beside system calls and
    /// hashing
    Checksums,
    /// Checkpoints in files with mode = async beside copies of the same bytes
    Behind,
    /// How long it takes until a checkpoint is persistent, beside bare writes of its two files
    Both,
    /// How many small checkpoints there are in a second in files, with limits of versions
    SmallFiles,
    /// An aggregated file that four processes write beside one process that writes as much
    Aggregated,
    /// Checkpoints of host memory with a timeline beside those without
    Timeline,
    /// An adjoint computation that the library drives beside a loop over its schedule
    Sweep,
}

impl EnginePart {
    fn name(self) -> String {
        name_of(&self)
    }

    /// Whether this part uses the software device.
    fn on_device(self) -> bool {
        matches!(self, EnginePart::Device | EnginePart::DeviceMemory)
    }

    /// The runs of this part: a number that says what to measure in each.
    fn details(self) -> &'static [u64] {
        match self {
            EnginePart::Memory => memory::SIZES,
            EnginePart::Aggregated => aggregated::SIZES,
            _ => &[0],
        }
    }
}

pub(crate) fn run(options: &EngineOptions) -> Result<()> {
    let parts = match options.parts.as_slice() {
        [] => EnginePart::value_variants(),
        given => given,
    };
    if let (Some(detail), Some(rank), Some(folder)) =
        (options.detail, options.rank, &options.folder)
    {
        return aggregated::member(folder, rank, detail, options.common.repeats);
    }
    if let (Some(detail), [part]) = (options.detail, parts) {
        return measure(*part, detail, options.common.repeats);
    }
    distinct("--parts", options.parts.iter().map(|part| part.name()))?;
    interrupt::watch()?;
    let mut report = ResultsFile::new("engine", options.common.out.as_deref())?;
    report.print_machine();
    if parts.iter().any(|part| part.on_device()) {
        report.warn(software::WARNING);
        println!("{}", software::WARNING);
    }
    MeasuredFigure::print_title();
    let mut failures = Vec::new();
    for part in parts {
        for detail in part.details() {
            if let Err(error) = measure_apart(*part, *detail, options, &mut report) {
                eprintln!("{}: {error:#}", part.name());
                failures.push(part.name());
            }
        }
    }
    if !failures.is_empty() {
        bail!("not measured: {}", failures.join(", "));
    }
    options.judge.judge(&report.points)
}

/// Measures a part in a process of its own.
fn measure_apart(
    part: EnginePart,
    detail: u64,
    options: &EngineOptions,
    report: &mut ResultsFile<MeasuredFigure>,
) -> Result<()> {
    let settings = if part.on_device() {
        software::settings(options.softcuda.as_deref())?
    } else {
        Vec::new()
    };
    let arguments = [
        "engine".to_owned(),
        format!("--parts={}", part.name()),
        format!("--detail={detail}"),
        format!("--repeats={}", options.common.repeats),
    ];
    in_own_process(&arguments, &settings, |line| {
        let figure: MeasuredFigure = serde_json::from_str(line)?;
        figure.print();
        report.points.push(figure);
        report.save()
    })
}

/// Measures a part here.
fn measure(part: EnginePart, detail: u64, repeats: u32) -> Result<()> {
    match part {
        EnginePart::Init => init::run(repeats),
        EnginePart::Device => device::run(repeats),
        EnginePart::Small => host::small(repeats),
        EnginePart::Cold => cold::run(repeats),
        EnginePart::Large => host::large(repeats),
        EnginePart::Memory => memory::host(detail, repeats),
        EnginePart::DeviceMemory => memory::device(),
        EnginePart::Versions => versions::in_memory(repeats),
        EnginePart::Files => versions::in_files(repeats),
        EnginePart::Sync => storage::sync(repeats),
        EnginePart::Checksums => storage::checksums(repeats),
        EnginePart::Behind => storage::behind(repeats),
        EnginePart::Both => both::run(repeats),
        EnginePart::SmallFiles => storage::small(repeats),
        EnginePart::Aggregated => aggregated::run(detail, repeats),
        EnginePart::Timeline => timeline::run(repeats),
        EnginePart::Sweep => sweep::run(repeats),
    }
}

/// Hands a figure to the process that asked for it.
fn tell(figure: &MeasuredFigure) -> Result<()> {
    println!("{}", serde_json::to_string(figure)?);
    Ok(())
}

/// The median of some times in seconds.
pub(super) fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    crate::results::quantile(&seconds, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_found_by_its_name() {
        for part in EnginePart::value_variants() {
            assert_eq!(EnginePart::from_str(&part.name(), false), Ok(*part));
        }
    }
}
