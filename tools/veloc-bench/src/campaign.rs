//! A series of measurements: every plan once, then every plan again, so that noise that comes and
//! goes meets all alike. The file is written after each measurement.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use os::{memory, size};

use super::options::name_of;
use super::plan::{
    ApproachName, Compute, HintAmount, LevelConfiguration, PointPlan, RestoreSequence,
};
use super::processes::Repeat;
use super::results::{
    Floor, MeasuredDevice, Measurement, NotBegun, NotBegunReason, Results, SCHEMA, SOFTWARE_NOTE,
    SOFTWARE_WARNING,
};
use super::timelines::Timelines;
use super::{machine, processes, table};
use crate::output;

/// The share of the memory that is available that all host buffers together may have.
const MEMORY_SHARE: f64 = 0.85;

/// Why a point has no figures as long as nothing else is known.
const NO_TURN: &str = "its turn had not come when this file was written last";

/// A series under way.
#[derive(Debug)]
pub(super) struct Series {
    output: PathBuf,
    /// The longest that one repeat of a plan may take; without it, its plan says.
    pub limit: Option<Duration>,
    /// Where runs record their timelines, if they do.
    pub timelines: Option<Timelines>,
    /// There will be so many passes.
    repeats: u32,
    /// Passes that have begun.
    passes: u32,
    results: Results,
}

impl Series {
    /// Nothing measured yet, and nothing written: an older file stays until there is something to
    /// take its place. `title`: see [`Results::title`]; `left_out`: combinations that were asked for and cannot
    /// be.
    pub(super) fn new(
        title: String,
        plans: Vec<PointPlan>,
        device: Option<&MeasuredDevice>,
        output: PathBuf,
        left_out: Vec<String>,
        repeats: u32,
    ) -> Series {
        let turn = NotBegun { why: NotBegunReason::Turn, text: NO_TURN.to_owned() };
        let measurement = |plan| Measurement {
            plan,
            runs: Vec::new(),
            failures: Vec::new(),
            not_begun: Some(turn.clone()),
            notes: Vec::new(),
        };
        let results = Results {
            schema: SCHEMA,
            title,
            program: machine::program(),
            machine: machine::machine(),
            device: device.cloned(),
            warning: device.filter(|d| d.software).map(|_| SOFTWARE_WARNING.to_owned()),
            measurements: plans.into_iter().map(measurement).collect(),
            floors: Vec::new(),
            left_out,
            initialisation: Vec::new(),
        };
        Series { output, limit: None, timelines: None, repeats, passes: 0, results }
    }

    /// Measures every plan once more, in turn; begins none after `until`. A plan that has failed
    /// once, or that there is no memory for, is not tried again. Returns false if the time is up.
    pub(super) fn pass(&mut self, until: Option<Instant>) -> Result<bool> {
        let count = self.results.measurements.len();
        self.passes += 1;
        let repeat = (self.passes, self.repeats);
        for number in 0..count {
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
            let measurement = &mut self.results.measurements[number];
            if measurement.is_open() {
                let what = format!(
                    "[{} {}/{count}] {}",
                    self.results.title,
                    number + 1,
                    describe(&measurement.plan)
                );
                let timeline = self.timelines.as_ref().map(|timelines| {
                    timelines.of((number + 1, count), measurement.plan.approach, repeat)
                });
                let floors = &mut self.results.floors;
                measure(self.limit, timeline.as_deref(), &what, measurement, floors);
                self.results.write(&self.output)?;
            }
        }
        Ok(true)
    }

    /// Ends the series, and writes why for each point that has not been begun. A series without a
    /// single begun point leaves an older file as it is.
    pub(super) fn give_up(&mut self, why: NotBegunReason, text: &str) -> Result<()> {
        let waiting = |point: &NotBegun| point.why == NotBegunReason::Turn;
        let points = self.results.measurements.iter_mut().filter_map(|m| m.not_begun.as_mut());
        for point in points.filter(|point| waiting(point)) {
            *point = NotBegun { why, text: text.to_owned() };
        }
        match self.is_begun() || !self.output.exists() {
            true => self.results.write(&self.output),
            false => Ok(()),
        }
    }

    fn is_begun(&self) -> bool {
        self.results.measurements.iter().any(|m| m.not_begun.is_none())
    }

    /// Prints the table, and returns the results.
    pub(super) fn finish(self) -> Results {
        if !self.is_begun() {
            println!("{}: not begun", self.results.title);
            table::absent::reasons(&self.results.measurements).iter().for_each(|r| println!("{r}"));
            return self.results;
        }
        print!("{}", table::text(&self.results));
        println!("written: {}", self.output.display());
        if let Some(timelines) = &self.timelines {
            let runs = self.results.measurements.len() * self.repeats as usize;
            println!("timelines: {}", timelines.names(runs));
        }
        self.results
    }
}

/// An error if anything failed or came back wrong: what was measured has been written all the same.
pub(super) fn verdict<'a>(results: impl IntoIterator<Item = &'a Results>) -> Result<()> {
    let all = || results.into_iter().flat_map(|results| &results.measurements);
    let (mut failed, mut wrong, mut impossible) = (0, 0, 0);
    for measurement in all() {
        failed += measurement.failures.len();
        // A point that was left out because the time was up has not failed.
        let hindered = |point: &NotBegun| point.why != NotBegunReason::Budget;
        impossible += usize::from(measurement.not_begun.as_ref().is_some_and(hindered));
        let figures = measurement.runs.iter().flat_map(|run| &run.processes);
        wrong += figures.map(|figures| figures.wrong_versions).sum::<u64>();
    }
    if impossible > 0 {
        bail!(
            "{impossible} points could not be begun, {failed} measurements failed, {wrong} versions \
             came back wrong"
        );
    }
    if failed > 0 || wrong > 0 {
        bail!("{failed} measurements failed, {wrong} versions came back wrong");
    }
    Ok(())
}

fn measure(
    limit: Option<Duration>,
    timeline: Option<&Path>,
    what: &str,
    measurement: &mut Measurement,
    floors: &mut Vec<Floor>,
) {
    let plan = &measurement.plan;
    if let Some(text) = lacks(plan) {
        eprintln!("{what}: not begun: {text}");
        measurement.not_begun = Some(NotBegun { why: NotBegunReason::Memory, text });
        return;
    }
    measurement.not_begun = None;
    let steps: usize = (0..plan.processes).map(|process| 2 * plan.sizes_of(process).len()).sum();
    let bar = output::steps_bar(what, steps as u64);
    let limit = limit.unwrap_or_else(|| longest(plan));
    let result = processes::repeat(plan, limit, timeline, |done| bar.set_position(done));
    bar.finish_and_clear();
    match result {
        Ok(Repeat { run, copies, notes }) => {
            let ms = |figure: f64| format!("{:.1} ms", 1e3 * figure);
            eprintln!(
                "{what}: blocked {} in checkpoints, {} in all",
                ms(run.per_process(|figures| figures.checkpoint_total())),
                ms(run.per_process(|figures| figures.total()))
            );
            Floor::add(floors, plan, &copies);
            measurement.runs.push(run);
            for note in notes {
                // A warning of the whole file is not repeated for each plan.
                if !note.contains(SOFTWARE_NOTE) && !measurement.notes.contains(&note) {
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

/// One line that tells a plan from the others of any series; defaults are left out.
pub(super) fn describe(plan: &PointPlan) -> String {
    let processes = match plan.processes {
        1 => "1 process".to_owned(),
        many => format!("{many} processes"),
    };
    let mut text = format!("{}, {processes}, every {} ms", plan.approach.text(), plan.interval_ms);
    match plan.configuration {
        LevelConfiguration::LargeDevice => text += ", large device",
        LevelConfiguration::LargeHost => {
            text += &format!(", host buffer {}", size::show(plan.host_cache));
        }
    }
    if plan.compute == Compute::Kernel {
        text += ", busy";
    }
    if plan.order != RestoreSequence::Reverse {
        text += &format!(", {} order", name_of(&plan.order));
    }
    if plan.hints != HintAmount::All {
        text += &format!(", hints: {}", name_of(&plan.hints));
    }
    if plan.approach == ApproachName::Ours {
        text += &format!(", touch {}, pin {}", plan.touch, plan.pin);
    }
    for setting in &plan.settings {
        text += &format!(", {setting}");
    }
    text
}

/// In words, the memory that a plan needs and this machine lacks; none if there is enough.
fn lacks(plan: &PointPlan) -> Option<String> {
    let wanted = u64::from(plan.processes) * plan.host_cache;
    let available = machine::available_memory()?;
    (wanted as f64 > available as f64 * MEMORY_SHARE).then(|| {
        // What is available changes from point to point, and points of one reason share a line.
        let all = memory::machine_total().map_or("memory".to_owned(), size::show);
        format!(
            "--host-cache {} for each of {} processes: more than is available of this machine's {all}",
            size::show(plan.host_cache),
            plan.processes,
        )
    })
}

/// How long a repeat may take: many times what it should, to end one that hangs.
fn longest(plan: &PointPlan) -> Duration {
    let steps = (0..plan.processes).map(|p| plan.sizes_of(p).len()).max().unwrap_or(0) as f64;
    let bytes = (plan.host_cache + plan.device_cache) as f64 * f64::from(plan.processes);
    Duration::from_secs_f64(60.0 + 20.0 * steps * plan.interval_ms / 1e3 + bytes / 0.5e9)
}
