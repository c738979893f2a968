//! `veloc-bench leads`: measures what decides the library's defaults on a device, the most
//! important first:
//!
//! | file | asks |
//! | --- | --- |
//! | [`facts`] | what can the device do? |
//! | [`growth`] | is the machine given memory as it uses it? |
//! | [`works`] | for how long does registering stop copies on the device; is a pinned ring, copied out by threads, better than registering all; how long do the application's launches wait for what goes on beside them? |
//!
//! `veloc-bench pages` measures how pages are best touched, without a device.

mod beside;
mod facts;
mod growth;
mod pages;
mod works;

use std::path::PathBuf;

use anyhow::{ensure, Result};
use clap::{Args, ValueEnum};
use os::interrupt;
use os::memory;
use os::size;
use serde::Serialize;

use super::cuda::BenchDevice;
use super::host::ResultsFile;
use super::options::{distinct, name_of};
use super::processes;
use super::results::{quantile, SOFTWARE_WARNING};

/// Bytes to measure with, on a GPU.
const TOTAL: u64 = 4 << 30;

/// Bytes to measure with on the software device, which has less memory.
const TOTAL_SOFTWARE: u64 = 256 << 20;

/// Options of the command.
#[derive(Debug, Args)]
pub(crate) struct LeadsOptions {
    /// Host memory, and device memory, to measure with [default: 4G; 256M on the software device]
    #[arg(long, value_parser = size::parse)]
    total: Option<u64>,
    /// How often each thing is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Only these
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Lead>,
    /// The file of results
    #[arg(long, value_name = "FILE", default_value = "out/leads.json")]
    out: PathBuf,
}

/// The measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Lead {
    /// What the device can do
    Facts,
    /// Touching memory, which machines may be given as they use it: before others measure
    Grow,
    /// Registering by chunks, and for how long it stops copies on the device
    Registration,
    /// A pinned ring copied out by threads, against registering all
    Staging,
    /// Short kernels beside touching, registering and copies
    Launches,
}

/// One measurement.
#[derive(Debug, Serialize)]
#[serde(tag = "lead", rename_all = "kebab-case")]
enum LeadPoint {
    Facts(facts::DeviceFacts),
    Grow(growth::GrowthPoint),
    Works(works::WorkPoint),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct TimesSummary {
    count: usize,
    median: f64,
    /// The quantile 0.95.
    p95: f64,
    longest: f64,
    total: f64,
}

impl TimesSummary {
    fn of(mut seconds: Vec<f64>) -> TimesSummary {
        seconds.sort_by(f64::total_cmp);
        TimesSummary {
            count: seconds.len(),
            median: quantile(&seconds, 0.5),
            p95: quantile(&seconds, 0.95),
            longest: seconds.last().copied().unwrap_or(0.0),
            total: seconds.iter().sum(),
        }
    }
}

/// What all measurements use.
struct Bench<'a> {
    device: &'a BenchDevice,
    /// Bytes of host memory, and of device memory.
    total: u64,
    repeats: u32,
    report: ResultsFile<LeadPoint>,
}

impl Bench<'_> {
    /// Keeps a point, and writes it to the file.
    fn keep(&mut self, point: LeadPoint) -> Result<()> {
        self.report.points.push(point);
        self.report.save()
    }
}

pub(super) fn run(options: &LeadsOptions) -> Result<()> {
    distinct("--only", options.only.iter().map(name_of))?;
    interrupt::watch()?;
    let device = BenchDevice::open(0)?;
    let leads = match options.only.as_slice() {
        [] => Lead::value_variants(),
        given => given,
    };
    let total = options.total.unwrap_or(if device.is_software() { TOTAL_SOFTWARE } else { TOTAL });
    if leads.iter().any(|lead| !matches!(lead, Lead::Facts | Lead::Grow)) {
        check(total, &device)?;
    }
    let mut report = ResultsFile::new("leads", Some(&options.out))?;
    report.print_machine();
    println!("{}, {}", device.name(), size::show(device.total_memory()));
    report.on_device(processes::device()?);
    if device.is_software() {
        report.warn(SOFTWARE_WARNING);
        println!("{SOFTWARE_WARNING}");
    }
    let mut bench = Bench { device: &device, total, repeats: options.repeats, report };
    for lead in leads {
        println!();
        match lead {
            Lead::Facts => facts::run(&mut bench)?,
            Lead::Grow => growth::run(&mut bench)?,
            Lead::Registration => measure(&mut bench, works::registration)?,
            Lead::Staging => measure(&mut bench, works::staging)?,
            Lead::Launches => measure(&mut bench, works::launches)?,
        }
    }
    Ok(())
}

fn measure(bench: &mut Bench<'_>, points: fn(&Bench<'_>) -> Vec<works::WorkPoint>) -> Result<()> {
    let points = points(bench);
    works::run(bench, points)
}

/// Refuses a total that the machine or the device cannot give.
fn check(total: u64, device: &BenchDevice) -> Result<()> {
    let (host, free) = (memory::physical()?.available, device.free_memory()?);
    ensure!(total >= 16 << 20, "--total {}: at least 16 MiB are needed", size::show(total));
    ensure!(
        total <= host / 2,
        "--total {}: that is more than half of the {} of host memory that are available",
        size::show(total),
        size::show(host)
    );
    ensure!(
        total <= free / 2,
        "--total {}: that is more than half of the {} of device memory that are free; say \
         --total {}",
        size::show(total),
        size::show(free),
        size::show(free / 2)
    );
    Ok(())
}

/// The rate in GB/s.
fn rate(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / seconds / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_up() {
        let times = TimesSummary::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((times.count, times.median, times.longest, times.total), (3, 2.0, 3.0, 6.0));
        assert_eq!(TimesSummary::of(Vec::new()), TimesSummary::default());
    }
}
