//! `veloc bench`: the evaluation of HiPC'22 (section V) as commands.
//!
//! | file | is |
//! | --- | --- |
//! | [`options`], [`figures`] | what the user asks for: one series, or the paper's figures |
//! | [`workload`] | the sizes of the checkpoints |
//! | [`plan`] | one point: everything that is set |
//! | [`campaign`] | measures every plan in turns, and writes the results as they come |
//! | [`processes`], [`message`] | starts the processes of one repeat together, and listens to them |
//! | [`child`] | processes that do one thing together |
//! | [`worker`] | one of these processes: the application |
//! | [`approach`], [`waits`] | the ways to keep checkpoints; why the application waited |
//! | [`cuda`], [`content`], [`bare`] | the device; what checkpoints contain; the floor |
//! | [`init`] | making caches usable, and nothing else |
//! | [`leads`] | what decides the library's defaults on a device |
//! | [`host`] | what can be measured without a GPU |
//! | [`timelines`] | where runs record their timelines |
//! | [`results`], [`machine`] | what was measured, and where, as it stands in files |
//! | [`table`] | results on the terminal; `python -m veloc.plot` draws them |

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::campaign::Campaign;
use self::results::Why;
use self::timelines::Timelines;
use crate::{interrupt, software};

pub(crate) mod approach;
mod bare;
mod campaign;
mod child;
mod content;
mod cuda;
mod figures;
mod growth;
pub(crate) mod host;
mod init;
mod leads;
mod machine;
mod message;
pub(crate) mod options;
pub(crate) mod plan;
mod processes;
pub(crate) mod results;
pub(crate) mod table;
mod timelines;
pub(crate) mod waits;
mod worker;
mod workload;

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Measure a series of points: every combination of the lists given
    Run(RunArguments),
    /// Measure the paper's figures, and the questions beyond them
    Figures(figures::Choice),
    /// Measure how fast caches become usable, and nothing else (figure 4a)
    Init(init::Options),
    /// Measure what decides the library's defaults: registration, staging, copies, mapping
    Leads(leads::Options),
    /// Measure how fast the pages of a host buffer come into being
    Pages(host::pages::Options),
    /// Measure what the library costs beside the copies that it is asked for
    Engine(host::engine::Options),
    /// Measure for how long checkpoints of host memory stop the application
    Snapshot(host::snapshot::Options),
    /// Measure what arrays in persistent memory cost, and how many iterations a crash loses
    Pmem(host::pmem::Options),
    /// Predict by a model of a node, or compare the model with HiPC'22
    Model(Box<crate::model::Model>),
    /// Be one of the processes that measure
    #[command(hide = true)]
    Worker,
}

/// One series.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    options: options::Options,
    /// The file of results
    #[arg(long, value_name = "FILE", default_value = "out/bench.json")]
    out: PathBuf,
    /// What the series is called in tables and pictures
    #[arg(long, default_value = "bench")]
    title: String,
    /// How often each point is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// End a repeat that takes longer than so many seconds [default: by its plan]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

pub(crate) fn run(bench: Bench) -> Result<()> {
    if let Bench::Run(_) | Bench::Figures(_) | Bench::Init(_) | Bench::Leads(_) = bench {
        software::instead_of_a_gpu()?;
    }
    match bench {
        Bench::Run(arguments) => run_series(arguments),
        Bench::Figures(choice) => figures::run(&choice),
        Bench::Init(options) => init::run(&options),
        Bench::Leads(options) => leads::run(&options),
        Bench::Pages(options) => host::pages::run(&options),
        Bench::Engine(options) => host::engine::run(&options),
        Bench::Snapshot(options) => host::snapshot::run(&options),
        Bench::Pmem(options) => host::pmem::run(&options),
        Bench::Model(options) => crate::model::run(&options),
        Bench::Worker => worker::run(),
    }
}

fn run_series(arguments: RunArguments) -> Result<()> {
    let options = arguments.options;
    options::check_effect(&options)?;
    interrupt::watch()?;
    results::prepare(&arguments.out)?;
    let found = processes::device();
    let device = found.as_ref().ok();
    let plans = options.plans(device.unwrap_or(&results::Device::default()))?;
    for left_out in options.left_out() {
        eprintln!("left out: {left_out}");
    }
    let (left_out, repeats) = (options.left_out(), arguments.repeats);
    let mut campaign =
        Campaign::new(arguments.title, plans, device, arguments.out, left_out, repeats);
    campaign.limit = arguments.limit.map(Duration::from_secs);
    campaign.timelines = Timelines::wanted(None);
    if let Err(error) = found {
        campaign.give_up(Why::Device, &format!("{error:#}"))?;
        return Err(error);
    }
    for _ in 0..repeats {
        campaign.pass(None)?;
    }
    let results = campaign.finish();
    campaign::verdict([&results])
}
