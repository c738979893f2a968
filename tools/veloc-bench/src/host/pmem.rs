//! `veloc-bench pmem`: what arrays that survive a crash cost, after Yang et al., "Algorithm-directed crash consistence in
//! non-volatile memory for HPC" (figures 4, 8 and 12, and the iterations of figure 3), and the library's own calls.
//!
//! The programs are those of `examples/`, compiled here against the installed library; `pmem/ways.c` holds what only the bench
//! needs. Where the folder is in no persistent memory, files are mapped as if it were, and flushes go to DRAM.

use std::path::PathBuf;

use anyhow::{ensure, Result};
use clap::{Args, ValueEnum};
use os::interrupt;

use self::programs::Programs;
use super::{in_own_process_in, CommonOptions, Goal, GoalOptions, MeasuredFigure, ResultsFile};
use crate::options::name_of;

mod lost;
mod programs;
mod times;

/// Options of the command.
#[derive(Clone, Debug, Args)]
pub(crate) struct PmemOptions {
    /// What is measured
    #[arg(long, value_delimiter = ',', value_enum, default_values = ["marks", "cg", "multiply", "transport", "lost", "tool"])]
    parts: Vec<PmemPart>,
    /// Where the files of arrays are
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    folder: PathBuf,
    /// Where the library and its headers are [default: where this program is installed]
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// The class of the conjugate gradients
    #[arg(long, default_value = "C", value_parser = ["S", "W", "A", "B", "C"])]
    class: String,
    /// Iterations of a round of conjugate gradients
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    iterations: u32,
    /// The order of the matrices that are multiplied
    #[arg(long, default_value_t = 2048)]
    order: u32,
    /// The order of their blocks
    #[arg(long, value_delimiter = ',', default_values = ["128", "256", "512"])]
    blocks: Vec<u32>,
    /// Lookups of cross-sections
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    lookups: u32,
    /// Sizes of the simulated cache in KiB, with 16 ways
    #[arg(long, value_delimiter = ',', default_values = ["16", "32", "64", "128", "256", "512", "1024", "2048", "4096"],
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    caches: Vec<u64>,
    /// Crashes with each size of the cache
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    crashes: u32,
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    judge: GoalOptions,
    /// Measure one part in this process
    #[arg(long, hide = true)]
    here: bool,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PmemPart {
    /// A mark.
    Marks,
    /// Conjugate gradients, kept in several ways.
    Cg,
    /// Products of matrices with sums.
    Multiply,
    /// Counters that are flushed together.
    Transport,
    /// Iterations lost in a crash, by the size of the cache.
    Lost,
    /// `veloc crash` beside the program alone.
    Tool,
}

pub(crate) fn run(options: &PmemOptions) -> Result<()> {
    if options.here {
        return options.parts.iter().try_for_each(|part| measure(*part, options));
    }
    for block in &options.blocks {
        let order = options.order;
        let is_possible = order.is_multiple_of(*block) && block.is_multiple_of(4) && *block > 0;
        ensure!(is_possible, "--blocks {block}: no multiple of 4 that divides --order {order}");
    }
    interrupt::watch()?;
    let mut report = ResultsFile::new("pmem", options.common.out.as_deref())?;
    report.print_machine();
    MeasuredFigure::print_title();
    for part in &options.parts {
        let mut arguments: Vec<String> = ["pmem", "--here"].map(str::to_owned).into();
        let blocks: Vec<_> = options.blocks.iter().map(u32::to_string).collect();
        let caches: Vec<_> = options.caches.iter().map(u64::to_string).collect();
        arguments.extend([
            format!("--parts={}", name_of(part)),
            format!("--class={}", options.class),
            format!("--iterations={}", options.iterations),
            format!("--order={}", options.order),
            format!("--blocks={}", blocks.join(",")),
            format!("--lookups={}", options.lookups),
            format!("--caches={}", caches.join(",")),
            format!("--crashes={}", options.crashes),
            format!("--repeats={}", options.common.repeats),
            format!("--prefix={}", programs::prefix(options.prefix.as_deref())?.display()),
        ]);
        in_own_process_in(&options.folder, &arguments, &[], |line| {
            let figure: MeasuredFigure = serde_json::from_str(line)?;
            figure.print();
            report.points.push(figure);
            report.save()
        })?;
    }
    options.judge.judge(&report.points)
}

fn measure(part: PmemPart, options: &PmemOptions) -> Result<()> {
    let programs = Programs::new(&programs::prefix(options.prefix.as_deref())?)?;
    match part {
        PmemPart::Marks => times::marks(&programs, options),
        PmemPart::Cg => times::conjugate_gradients(&programs, options),
        PmemPart::Multiply => times::multiply(&programs, options),
        PmemPart::Transport => times::transport(&programs, options),
        PmemPart::Lost => lost::iterations(&programs, options),
        PmemPart::Tool => lost::tool(&programs, options),
    }
}

/// Prints a figure for the process that has started this one.
fn tell(what: String, unit: &str, values: Vec<f64>, goal: Option<f64>) -> Result<()> {
    let figure = MeasuredFigure::new(what, unit, values);
    let figure = match goal {
        Some(most) => figure.with_goal(Goal::AtMost(most)),
        None => figure,
    };
    println!("{}", serde_json::to_string(&figure)?);
    Ok(())
}
