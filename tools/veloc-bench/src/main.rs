//! The program `veloc-bench`: the evaluation of HiPC'22 (section V) as commands, and the model of a node.
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
//! | [`table`], [`output`] | results on the terminal; `python -m veloc.plot` draws them |
//! | [`paper`] | the paper's numbers beside ours |
//! | [`model`] | a node in virtual time |

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use config::VERSION;
use os::interrupt;

use self::campaign::Series;
use self::results::NotBegunReason;
use self::timelines::Timelines;

mod approach;
mod bare;
mod campaign;
mod child;
mod content;
mod cuda;
mod figures;
mod growth;
mod host;
mod init;
mod leads;
mod machine;
mod message;
mod model;
mod options;
mod output;
mod paper;
mod plan;
mod processes;
mod results;
mod table;
#[cfg(test)]
mod tests;
mod timelines;
mod waits;
mod worker;
mod workload;

/// Measure the VELOC checkpoint library beside other ways to keep checkpoints
///
/// Each command ends with exit code 1 if something could not be measured, or if a checkpoint came
/// back wrong; what was measured is in its file all the same.
#[derive(Debug, Parser)]
#[command(name = "veloc-bench", version = VERSION, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Measure a series of points: every combination of the lists given
    Run(RunArguments),
    /// Measure the paper's figures, and the questions beyond them
    Figures(figures::FigureChoice),
    /// Measure how fast caches become usable, and nothing else (figure 4a)
    Init(init::InitOptions),
    /// Measure what decides the library's defaults: registration, staging, copies, mapping
    Leads(leads::LeadsOptions),
    /// Measure how fast the pages of a host buffer come into being
    Pages(host::pages::PagesOptions),
    /// Measure what the library costs beside the copies that it is asked for
    Engine(host::engine::EngineOptions),
    /// Measure for how long checkpoints of host memory stop the application
    Snapshot(host::snapshot::SnapshotOptions),
    /// Measure a drive below the host buffer, beside bare writes and reads
    Drive(host::drive::DriveOptions),
    /// Measure what arrays in persistent memory cost, and how many iterations a crash loses
    Pmem(host::pmem::PmemOptions),
    /// Measure what `veloc run` costs a program that knows nothing of it
    RunOverhead(host::overhead::OverheadOptions),
    /// Put the numbers of HiPC'22 beside those in files of results
    Paper(paper::PaperOptions),
    /// Predict by a model of a node, or compare the model with HiPC'22
    Model(Box<model::ModelCommand>),
    /// Be one of the processes that measure
    #[command(hide = true)]
    Worker,
}

/// One series.
#[derive(Debug, Args)]
struct RunArguments {
    #[command(flatten)]
    options: options::RunOptions,
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

fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Run(arguments) => run_series(arguments),
        Bench::Figures(choice) => figures::run(&choice),
        Bench::Init(options) => init::run(&options),
        Bench::Leads(options) => leads::run(&options),
        Bench::Pages(options) => host::pages::run(&options),
        Bench::Engine(options) => host::engine::run(&options),
        Bench::Snapshot(options) => host::snapshot::run(&options),
        Bench::Drive(options) => host::drive::run(&options),
        Bench::Pmem(options) => host::pmem::run(&options),
        Bench::RunOverhead(options) => host::overhead::run(&options),
        Bench::Paper(options) => paper::run(&options),
        Bench::Model(options) => model::run(&options),
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
    let plans = options.plans(device.unwrap_or(&results::MeasuredDevice::default()))?;
    for left_out in options.left_out() {
        eprintln!("left out: {left_out}");
    }
    let (left_out, repeats) = (options.left_out(), arguments.repeats);
    let mut campaign =
        Series::new(arguments.title, plans, device, arguments.out, left_out, repeats);
    campaign.limit = arguments.limit.map(Duration::from_secs);
    campaign.timelines = Timelines::wanted(None);
    if let Err(error) = found {
        campaign.give_up(NotBegunReason::Device, &format!("{error:#}"))?;
        return Err(error);
    }
    for _ in 0..repeats {
        campaign.pass(None)?;
    }
    let results = campaign.finish();
    campaign::verdict([&results])
}

/// Ends quietly when nobody reads the output any more, as in `veloc-bench ... | head`. The system's
/// signal for that would also end a bench that loses one of its measuring processes.
fn end_with_the_reader() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if text.starts_with("failed printing to stdout") && text.contains("Broken pipe") {
            std::process::exit(0);
        }
        report(panic);
    }));
}

fn main() -> ExitCode {
    end_with_the_reader();
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be listening any more.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
