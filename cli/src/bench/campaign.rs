//! A series of measurements: every plan once, then every plan again, so that noise that comes and
//! goes meets all alike. The file is written after each measurement.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};

use super::plan::{ApproachName, Configuration, Plan};
use super::results::{Device, Measurement, Results, SCHEMA, SOFTWARE_WARNING};
use super::{machine, processes, table};
use crate::size;

/// What the library says of the software device in each process.
const SOFTWARE_NOTE: &str = "no figure of this run says anything about a GPU";

/// The share of the memory that is available that all host buffers together may have.
const MEMORY_SHARE: f64 = 0.85;

/// A series under way.
#[derive(Debug)]
pub struct Campaign {
    output: PathBuf,
    limit: Option<Duration>,
    results: Results,
}

impl Campaign {
    /// Nothing measured yet, and nothing written: an older file stays until there is something to
    /// take its place. `title`: see [`Results::title`]; `limit`: the longest that one repeat
    /// may take, if not by its plan.
    pub fn new(
        title: String,
        plans: Vec<Plan>,
        device: &Device,
        output: PathBuf,
        limit: Option<Duration>,
    ) -> Campaign {
        let measurement =
            |plan| Measurement { plan, runs: Vec::new(), failures: Vec::new(), notes: Vec::new() };
        let results = Results {
            schema: SCHEMA,
            title,
            program: machine::program(),
            machine: machine::machine(),
            device: Some(device.clone()),
            warning: device.software.then(|| SOFTWARE_WARNING.to_owned()),
            measurements: plans.into_iter().map(measurement).collect(),
            initialisation: Vec::new(),
        };
        Campaign { output, limit, results }
    }

    /// Measures every plan once more, in turn; begins none after `until`. What has failed once is
    /// not tried again: it would only take its time again. False: the time is up.
    pub fn pass(&mut self, until: Option<Instant>) -> Result<bool> {
        let count = self.results.measurements.len();
        for number in 0..count {
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
            let measurement = &mut self.results.measurements[number];
            if measurement.failures.is_empty() {
                let what = format!(
                    "[{} {}/{count}] {}",
                    self.results.title,
                    number + 1,
                    describe(&measurement.plan)
                );
                measure(self.limit, &what, measurement);
                self.results.write(&self.output)?;
            }
        }
        Ok(true)
    }

    /// Prints the table, and gives what was found.
    pub fn finish(self) -> Results {
        print!("{}", table::text(&self.results));
        println!("written: {}", self.output.display());
        self.results
    }
}

/// An error if anything failed or came back wrong: what was measured has been written all the same.
pub fn verdict<'a>(results: impl IntoIterator<Item = &'a Results>) -> Result<()> {
    let all = || results.into_iter().flat_map(|results| &results.measurements);
    let (mut failed, mut wrong) = (0, 0);
    for measurement in all() {
        failed += measurement.failures.len();
        let figures = measurement.runs.iter().flat_map(|run| &run.processes);
        wrong += figures.map(|figures| figures.wrong_versions).sum::<u64>();
    }
    if failed > 0 || wrong > 0 {
        bail!("{failed} measurements failed, {wrong} versions came back wrong");
    }
    Ok(())
}

fn measure(limit: Option<Duration>, what: &str, measurement: &mut Measurement) {
    let plan = &measurement.plan;
    let steps: usize = (0..plan.processes).map(|process| 2 * plan.sizes_of(process).len()).sum();
    let bar = progress_bar(what, steps as u64);
    let timeline = timeline();
    let result = fits(plan).and_then(|()| {
        let limit = limit.unwrap_or_else(|| longest(plan));
        processes::repeat(plan, limit, timeline.as_deref(), |done| bar.set_position(done))
    });
    bar.finish_and_clear();
    if let Some(file) = &timeline {
        eprintln!("{what}: timeline in {}", file.display());
    }
    match result {
        Ok((run, notes)) => {
            let ms = |figure: f64| format!("{:.1} ms", 1e3 * figure);
            eprintln!(
                "{what}: blocked {} in checkpoints, {} in all",
                ms(run.per_process(|figures| figures.checkpoint_total())),
                ms(run.per_process(|figures| figures.total()))
            );
            measurement.runs.push(run);
            for note in notes {
                // That the device is none is said once, of all of them.
                let known = note.contains(SOFTWARE_NOTE) || measurement.notes.contains(&note);
                if !known {
                    measurement.notes.push(note);
                }
            }
        }
        Err(error) => {
            eprintln!("{what}: FAILED: {error:#}");
            measurement.failures.push(format!("{error:#}"));
        }
    }
}

/// The file for the timeline of the next repeat, if timelines are wanted: that which `VELOC_TRACE`
/// names for the first one, and with a number in its name for each further one.
fn timeline() -> Option<PathBuf> {
    static REPEATS: AtomicUsize = AtomicUsize::new(0);
    let given = std::env::var_os("VELOC_TRACE").filter(|given| !given.is_empty())?;
    Some(numbered(Path::new(&given), 1 + REPEATS.fetch_add(1, Ordering::Relaxed)))
}

fn numbered(file: &Path, number: usize) -> PathBuf {
    let (Some(stem), true) = (file.file_stem(), number > 1) else {
        return file.to_owned();
    };
    let mut name = stem.to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = file.extension() {
        name.push(".");
        name.push(extension);
    }
    file.with_file_name(name)
}

fn progress_bar(what: &str, steps: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}

/// One line that tells a plan from the others.
pub fn describe(plan: &Plan) -> String {
    let processes = match plan.processes {
        1 => "1 process".to_owned(),
        many => format!("{many} processes"),
    };
    let tiers = match plan.configuration {
        Configuration::LargeDevice => "large device".to_owned(),
        Configuration::LargeHost => format!("{} of host buffer", size::exact(plan.host_cache)),
    };
    let (order, hints) = (name(&plan.order), name(&plan.hints));
    let mut text = format!(
        "{}, {processes}, every {} ms, {tiers}, {} checkpoints, {order} order, hints: {hints}",
        plan.approach.text(),
        plan.interval_ms,
        plan.sizes_of(0).len(),
    );
    if plan.approach == ApproachName::Ours {
        text += &format!(", touch {}, pin {}", plan.touch, plan.pin);
    }
    for setting in &plan.settings {
        text += &format!(", {setting}");
    }
    text
}

/// A value as it stands on the command line.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Refuses what this machine has no memory for.
fn fits(plan: &Plan) -> Result<()> {
    let wanted = u64::from(plan.processes) * plan.host_cache;
    match machine::available_memory() {
        Some(available) if wanted as f64 > available as f64 * MEMORY_SHARE => bail!(
            "host buffers of {} are wanted, but this machine has {} available",
            size::show(wanted),
            size::show(available)
        ),
        _ => Ok(()),
    }
}

/// How long a repeat may take: many times what it should, to end what hangs.
fn longest(plan: &Plan) -> Duration {
    let steps = (0..plan.processes).map(|p| plan.sizes_of(p).len()).max().unwrap_or(0) as f64;
    let bytes = (plan.host_cache + plan.device_cache) as f64 * f64::from(plan.processes);
    Duration::from_secs_f64(60.0 + 20.0 * steps * plan.interval_ms / 1e3 + bytes / 0.5e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_timeline_takes_the_place_of_another() {
        for (given, number, file) in [
            ("a/trace.json", 1, "a/trace.json"),
            ("a/trace.json", 2, "a/trace-2.json"),
            ("trace-%r", 10, "trace-%r-10"),
        ] {
            assert_eq!(numbered(Path::new(given), number), Path::new(file));
        }
    }
}
