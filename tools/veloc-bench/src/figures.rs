//! The paper's figures, and the questions beyond them, as series of measurements. The most
//! important come first, for machines that are lent for minutes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use os::interrupt;

use super::campaign::{self, Series};
use super::options::{distinct, name_of, Amounts, RunOptions};
use super::plan::ApproachName::{DirectPin, IncrementalMemset, Ours, Ring, Uvm, UvmBudget};
use super::plan::{Compute, HintAmount, LevelConfiguration, RestoreSequence};
use super::results::{prepare, MeasuredDevice, NotBegunReason, Results};
use super::timelines::Timelines;
use super::workload::{GENERATED, LARGEST_SHOT};
use super::{growth, processes};

/// How much to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Thoroughness {
    /// The figures that say most, in minutes.
    Short,
    /// What the numbers in the paper's text are about (see `veloc-bench paper`).
    Paper,
    /// All intervals, numbers of processes and sizes of the paper.
    Full,
}

/// Which figures to measure, and how thoroughly.
#[derive(Clone, Debug, Args)]
pub(crate) struct FigureChoice {
    /// Figures by name, in this order [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    pub only: Vec<FigureSeries>,
    /// How much to measure
    #[arg(long, value_enum, default_value = "short")]
    pub extent: Thoroughness,
    #[command(flatten)]
    pub amounts: Amounts,
    /// How often each point is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,
    /// Begin no further measurement after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub budget: Option<u64>,
    /// The folder that gets one file of results for each figure
    #[arg(long, value_name = "DIR", default_value = "out/figures")]
    pub out: PathBuf,
}

/// A series of measurements. The paper's series have its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "kebab-case")]
pub(crate) enum FigureSeries {
    /// 5a and 5b: uniform checkpoints, large host buffer, by interval, all approaches
    #[value(name = "5ab")]
    Uniform,
    /// 3a to 3c: variable checkpoints, large host buffer, by interval, all approaches
    #[value(name = "3")]
    Variable,
    /// 6a and 6b: by number of processes
    #[value(name = "6ab")]
    Processes,
    /// 4b and 4c: large device cache
    #[value(name = "4bc")]
    LargeDevice,
    /// Copies in the order of the stream, and a device cache that grows
    #[value(name = "waiting")]
    Waiting,
    /// The disturbance of kernels
    Compute,
    /// 5c: ways of touching and registering
    #[value(name = "5c")]
    TouchAndPin,
    /// Bytes that one registration covers
    PinChunk,
    /// 6c: by size of the host buffer
    #[value(name = "6c")]
    HostBuffer,
    /// Bytes of device cache that are mapped at a time
    MapChunk,
    /// Managed memory, and memory set to 0 in 4 KiB pages
    #[value(name = "others")]
    Others,
    /// Orders of restores and hints
    Orders,
}

/// All intervals of the paper's figures, in ms.
const INTERVALS: [f64; 6] = [5.0, 10.0, 20.0, 40.0, 60.0, 80.0];

/// The values of the key `touch`, and of `pin`.
const TOUCHES: [&str; 3] = ["auto", "sequential", "concurrent"];
const PINS: [&str; 4] = ["serial", "parallel", "chunked", "off"];

/// All of them, the most important first.
const ALL: [FigureSeries; 12] = [
    FigureSeries::Uniform,
    FigureSeries::Waiting,
    FigureSeries::Compute,
    FigureSeries::Variable,
    FigureSeries::Processes,
    FigureSeries::LargeDevice,
    FigureSeries::PinChunk,
    FigureSeries::TouchAndPin,
    FigureSeries::Others,
    FigureSeries::HostBuffer,
    FigureSeries::MapChunk,
    FigureSeries::Orders,
];

impl FigureSeries {
    /// The name on the command line and in the file's name.
    pub(crate) fn name(self) -> String {
        name_of(&self)
    }

    /// The series to run for this figure.
    pub(crate) fn options(self, extent: Thoroughness, amounts: &Amounts) -> Vec<RunOptions> {
        let (full, paper) = (extent == Thoroughness::Full, extent == Thoroughness::Paper);
        let by = |short: &[f64], long: &[f64]| if full { long.to_vec() } else { short.to_vec() };
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let intervals = by(&[20.0, 5.0], &INTERVALS);
        let base = RunOptions::new(amounts.clone());
        match self {
            FigureSeries::Uniform if full => vec![RunOptions {
                approach: vec![Ours, DirectPin, Uvm, IncrementalMemset, Ring],
                interval: intervals,
                ..base
            }],
            FigureSeries::Uniform => {
                let ring = (!paper).then_some(Ring);
                let approach = [Ours, DirectPin].into_iter().chain(ring).collect();
                vec![RunOptions { approach, interval: intervals, ..base }]
            }
            FigureSeries::Variable => vec![RunOptions {
                approach: if full {
                    vec![Ours, DirectPin, Uvm, IncrementalMemset]
                } else {
                    vec![Ours, DirectPin]
                },
                amounts: with_trace(amounts),
                interval: if paper { intervals } else { by(&[20.0], &INTERVALS) },
                ..base
            }],
            FigureSeries::Processes => {
                let (counts, parts): (&[u32], _) = match extent {
                    Thoroughness::Short => (&[1, 4], 2),
                    Thoroughness::Paper => (&[8, 1], 4),
                    Thoroughness::Full => (&[1, 2, 4, 8], 4),
                };
                counts.iter().map(|count| shared(*count, parts, &base)).collect()
            }
            FigureSeries::LargeDevice => {
                vec![RunOptions { interval: intervals, ..large_device(&base) }]
            }
            FigureSeries::Waiting => {
                let ordered = words(&["stream_ordered=false,true"]);
                let approach = vec![Ours, DirectPin];
                let grown = base.amounts.host_cache.first().map(|host| host / 4 * 5);
                let amounts = Amounts { device_cache_most: grown, ..base.amounts.clone() };
                vec![
                    RunOptions {
                        approach: approach.clone(),
                        interval: intervals.clone(),
                        vary: ordered.clone(),
                        ..base.clone()
                    },
                    RunOptions {
                        approach,
                        interval: vec![20.0],
                        vary: ordered,
                        ..large_device(&base)
                    },
                    RunOptions { approach: vec![Ours], interval: vec![5.0], amounts, ..base },
                ]
            }
            FigureSeries::Compute => vec![RunOptions {
                approach: if full { vec![Ours, DirectPin] } else { vec![Ours] },
                interval: by(&[20.0], &[5.0, 20.0, 80.0]),
                compute: Compute::Kernel,
                ..base
            }],
            FigureSeries::TouchAndPin if full => vec![RunOptions {
                approach: vec![Ours],
                interval: vec![5.0, 10.0, 20.0, 40.0, 80.0],
                touch: words(&TOUCHES),
                pin: words(&PINS),
                ..shared(4, 2, &base)
            }],
            FigureSeries::TouchAndPin if paper => vec![RunOptions {
                approach: vec![Ours],
                interval: intervals,
                touch: words(&["concurrent", "sequential"]),
                pin: words(&["serial", "parallel"]),
                ..shared(4, 2, &base)
            }],
            // Touching is a matter of one process, registering of several.
            FigureSeries::TouchAndPin => vec![
                RunOptions {
                    approach: vec![Ours],
                    interval: intervals,
                    touch: words(&TOUCHES),
                    ..base.clone()
                },
                RunOptions { approach: vec![Ours], pin: words(&PINS), ..shared(4, 2, &base) },
            ],
            FigureSeries::PinChunk => vec![RunOptions {
                approach: vec![Ours],
                pin: words(&["chunked"]),
                vary: words(&["pin_chunk_size=2M,8M,64M,1G"]),
                interval: by(&[20.0], &[5.0, 20.0]),
                ..base
            }],
            FigureSeries::HostBuffer => {
                // A quarter of the work, in buffers of a quarter of the chosen size up to twice
                // that size.
                let whole = amounts.host_cache.first().copied().unwrap_or(0);
                let quarters: &[u64] = match extent {
                    Thoroughness::Short => &[1, 2],
                    // The ends first.
                    Thoroughness::Paper => &[1, 8, 2, 4],
                    Thoroughness::Full => &[1, 2, 4, 8],
                };
                let amounts = Amounts {
                    host_cache: quarters.iter().map(|number| whole / 4 * number).collect(),
                    count: amounts.count.map(|count| count / 4),
                    ..base.amounts
                };
                vec![RunOptions { amounts, ..base }]
            }
            FigureSeries::MapChunk => vec![RunOptions {
                approach: vec![Ours],
                vary: words(&["gpu_chunk_size=auto,16M,64M,128M,1G"]),
                interval: by(&[5.0], &[5.0, 20.0]),
                ..large_device(&base)
            }],
            FigureSeries::Others => vec![RunOptions {
                approach: vec![Ours, IncrementalMemset, Uvm, UvmBudget],
                interval: by(&[20.0], &[5.0, 20.0, 80.0]),
                ..base
            }],
            FigureSeries::Orders => [
                (RestoreSequence::Reverse, HintAmount::None),
                (RestoreSequence::Same, HintAmount::None),
                (RestoreSequence::Random, HintAmount::None),
                (RestoreSequence::Random, HintAmount::One),
                (RestoreSequence::Random, HintAmount::All),
            ]
            .into_iter()
            .map(|(order, hints)| RunOptions { order, hints: Some(hints), ..base.clone() })
            .collect(),
        }
    }
}

/// Amounts with shots of the paper's totals, or as much smaller as the host buffer is.
fn with_trace(amounts: &Amounts) -> Amounts {
    let host = amounts.host_cache.first().copied().unwrap_or(0) as f64;
    let (trace, scale) = match &amounts.trace {
        Some(trace) => (trace.clone(), amounts.scale),
        None => (GENERATED.to_owned(), Some((host / (1.1 * LARGEST_SHOT)).min(1.0))),
    };
    Amounts { trace: Some(trace), scale, ..amounts.clone() }
}

/// The options of the configuration in which the device cache has room for all checkpoints; cache
/// sizes that the user asked for are meant for the other configuration.
fn large_device(base: &RunOptions) -> RunOptions {
    let amounts = Amounts { device_cache: None, ..base.amounts.clone() };
    RunOptions { configuration: vec![LevelConfiguration::LargeDevice], amounts, ..base.clone() }
}

/// Options for several processes at once, each with one of so many parts of the work: one card and
/// the memory of one machine have to do for all.
fn shared(processes: u32, parts: usize, base: &RunOptions) -> RunOptions {
    let amounts = Amounts {
        count: base.amounts.count.map(|count| count / parts),
        host_cache: base.amounts.host_cache.iter().map(|bytes| bytes / parts as u64).collect(),
        ..base.amounts.clone()
    };
    RunOptions { processes: vec![processes], amounts, ..base.clone() }
}

/// Measures the chosen figures, each into a file of its own: all of them once, then all of them
/// again, so that a run that is cut short has something of each.
pub(super) fn run(choice: &FigureChoice) -> Result<()> {
    distinct("--only", choice.only.iter().map(|figure| figure.name()))?;
    interrupt::watch()?;
    std::fs::create_dir_all(&choice.out)
        .with_context(|| format!("making the folder {}", choice.out.display()))?;
    let until = choice.budget.map(|budget| Instant::now() + Duration::from_secs(budget));
    let found = processes::device();
    let device = found.as_ref().ok();
    let planned_for = device.cloned().unwrap_or_default();
    let amounts = fitting(&choice.amounts, &planned_for);
    let figures = if choice.only.is_empty() { &ALL[..] } else { &choice.only };
    let mut campaigns = Vec::new();
    for figure in figures {
        let (mut plans, mut left_out) = (Vec::new(), Vec::new());
        for options in figure.options(choice.extent, &amounts) {
            plans.extend(options.plans(&planned_for)?);
            left_out.extend(options.left_out());
        }
        let output = choice.out.join(format!("figure-{}.json", figure.name()));
        prepare(&output)?;
        let mut campaign =
            Series::new(figure.name(), plans, device, output, left_out, choice.repeats);
        campaign.timelines = Timelines::wanted(Some(figure.name()));
        campaigns.push(campaign);
    }
    if let Err(error) = found {
        let why = format!("{error:#}");
        campaigns.iter_mut().try_for_each(|c| c.give_up(NotBegunReason::Device, &why))?;
        return Err(error);
    }
    'measuring: for _ in 0..choice.repeats {
        for number in 0..campaigns.len() {
            if !campaigns[number].pass(until)? {
                let budget = choice.budget.unwrap_or(0);
                let why = format!("the time was up: --budget {budget} seconds");
                println!("{why}; what is missing was not measured");
                campaigns.iter_mut().try_for_each(|c| c.give_up(NotBegunReason::Budget, &why))?;
                break 'measuring;
            }
        }
    }
    let all: Vec<Results> = campaigns.into_iter().map(Series::finish).collect();
    campaign::verdict(&all)
}

/// The paper's amounts, or less where this machine has no memory for them.
fn fitting(given: &Amounts, device: &MeasuredDevice) -> Amounts {
    let (mut count, mut host) = if device.software { (48, 64 << 20) } else { (256, 32 << 30) };
    if !device.software && (given.count.is_none() || given.host_cache.is_empty()) {
        // Four processes need twice as much as one.
        let wanted = |host: u64| host / 2 * 5;
        let available = growth::memory_for(wanted(host));
        while wanted(host) > available && count > 8 {
            (count, host) = (count / 2, host / 2);
        }
    }
    let host_cache =
        if given.host_cache.is_empty() { vec![host] } else { given.host_cache.clone() };
    Amounts { count: Some(given.count.unwrap_or(count)), host_cache, ..given.clone() }
}

#[cfg(test)]
mod tests {
    use super::super::plan::PointPlan;
    use super::*;

    fn all(software: bool, extent: Thoroughness) -> Vec<PointPlan> {
        let device = MeasuredDevice { software, memory: 140 << 30, ..MeasuredDevice::default() };
        let amounts = if software {
            fitting(&Amounts::default(), &device)
        } else {
            Amounts { count: Some(256), host_cache: vec![32 << 30], ..Amounts::default() }
        };
        let options = ALL.into_iter().flat_map(|figure| figure.options(extent, &amounts));
        options.flat_map(|options| options.plans(&device).unwrap()).collect()
    }

    #[test]
    fn every_figure_can_be_planned_on_a_gpu_and_on_the_software_device() {
        for software in [false, true] {
            for extent in Thoroughness::value_variants() {
                assert!(all(software, *extent).len() > 30);
            }
        }
    }

    #[test]
    fn names_are_files_and_none_is_missing() {
        assert_eq!(FigureSeries::value_variants().len(), ALL.len());
        let mut names: Vec<String> = ALL.into_iter().map(FigureSeries::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn the_papers_rows_are_among_the_short_ones() {
        let plans = all(false, Thoroughness::Short);
        let has = |wanted: &dyn Fn(&PointPlan) -> bool| plans.iter().any(wanted);
        for interval in [20.0, 5.0] {
            for approach in [Ours, DirectPin, Ring] {
                assert!(has(&|plan| plan.approach == approach
                    && plan.interval_ms == interval
                    && plan.sizes == [vec![128 << 20; 256]]
                    && (plan.device_cache, plan.host_cache) == (4 << 30, 32 << 30)));
            }
        }
        assert!(has(&|plan| plan.processes == 4 && plan.approach == DirectPin));
        assert!(has(&|plan| plan.workload == "generated"));
        assert!(has(&|plan| plan.configuration == LevelConfiguration::LargeDevice));
    }
}
