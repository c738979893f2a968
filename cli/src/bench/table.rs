//! Results as a table on the terminal.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};

use super::campaign::describe;
use super::plan::{ApproachName, Compute, Configuration, Plan};
use super::results::{Figures, Measurement, Results, Spread};
use crate::size;

/// Times are per process: median (least to greatest).
const COLUMNS: [&str; 8] = [
    "",
    "checkpoints ms",
    "+ restores ms",
    "/ bare copies",
    "faster than\ndirect-pin",
    "+ restores",
    "init ms",
    "compute\nlonger by",
];

/// The whole text: what was measured where, one table, and what went wrong.
pub fn text(results: &Results) -> String {
    let mut text = String::new();
    if let Some(warning) = &results.warning {
        text += &format!("\n{}: {warning}\n", results.title);
    }
    let mut table = new_table(&COLUMNS);
    let mut group = None;
    for measurement in &results.measurements {
        let heading = heading(&measurement.plan);
        if group.as_ref() != Some(&heading) {
            if group.is_some() {
                text += &format!("{table}\n");
                table = new_table(&COLUMNS);
            }
            text += &format!("\n{heading}\n");
            group = Some(heading);
        }
        table.add_row(row(measurement, &results.measurements));
    }
    text += &format!("{table}\n");
    text += &causes(results);
    for measurement in &results.measurements {
        text += &details(measurement);
    }
    for measurement in &results.measurements {
        for failure in &measurement.failures {
            text += &format!("FAILED: {}: {failure}\n", describe(&measurement.plan));
        }
        for note in &measurement.notes {
            text += &format!("note: {}: {note}\n", describe(&measurement.plan));
        }
    }
    text
}

fn new_table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(columns);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// What the rows of one table share.
fn heading(plan: &Plan) -> String {
    let sizes = plan.sizes_of(0);
    let sizes = match plan.workload.as_str() {
        "uniform" => format!("{} x {}", sizes.len(), size::show(sizes[0])),
        name => format!("{name}: {} checkpoints, {}", sizes.len(), size::show(sizes.iter().sum())),
    };
    let places = match plan.configuration {
        Configuration::LargeDevice => format!("device cache {}", size::show(plan.device_cache)),
        Configuration::LargeHost => format!(
            "device cache {}, host buffer {}",
            size::show(plan.device_cache),
            size::show(plan.host_cache)
        ),
    };
    let compute = match plan.compute {
        Compute::Sleep => "idle",
        Compute::Kernel => "busy",
    };
    format!(
        "{sizes} every {} ms ({compute}), processes: {}, {places}; blocked time per process",
        plan.interval_ms, plan.processes
    )
}

fn row(measurement: &Measurement, all: &[Measurement]) -> Vec<String> {
    let plan = &measurement.plan;
    let mut name = plan.approach.text().to_owned();
    if plan.approach == ApproachName::Ours {
        name += &format!(" ({}, {})", plan.touch, plan.pin);
        if !plan.settings.is_empty() {
            name += &format!(" {}", plan.settings.join(", "));
        }
    }
    let baseline = all.iter().find(|other| is_baseline(&other.plan, plan));
    let against = |figure: fn(&Figures) -> f64| {
        let (own, other) = (measurement.spread(figure), baseline.and_then(|m| m.spread(figure)));
        match (own, other) {
            (Some(own), Some(other)) if own.median > 0.0 => {
                format!("{:.2} x", other.median / own.median)
            }
            _ => "-".to_owned(),
        }
    };
    vec![
        name,
        milliseconds(measurement.spread(Figures::checkpoint_total)),
        milliseconds(measurement.spread(Figures::total)),
        ratio(measurement, Figures::checkpoint_total, Figures::bare_total),
        against(Figures::checkpoint_total),
        against(Figures::total),
        milliseconds(measurement.spread(|figures| figures.init)),
        disturbance(measurement),
    ]
}

/// Whether `other` is `direct-pin` in the circumstances of `plan`.
pub fn is_baseline(other: &Plan, plan: &Plan) -> bool {
    other.approach == ApproachName::DirectPin
        && other.configuration == plan.configuration
        && other.processes == plan.processes
        && other.sizes == plan.sizes
        && other.interval_ms == plan.interval_ms
        && other.compute == plan.compute
        && other.host_cache == plan.host_cache
        && (other.order, other.hints) == (plan.order, plan.hints)
}

/// `median (least to greatest)`, in ms.
fn milliseconds(spread: Option<Spread>) -> String {
    match spread {
        None => "-".to_owned(),
        Some(Spread { median, least, greatest }) if least == greatest => {
            format!("{:.1}", 1e3 * median)
        }
        Some(Spread { median, least, greatest }) => {
            format!("{:.1}\n({:.1} to {:.1})", 1e3 * median, 1e3 * least, 1e3 * greatest)
        }
    }
}

fn ratio(
    measurement: &Measurement,
    what: fn(&Figures) -> f64,
    floor: fn(&Figures) -> f64,
) -> String {
    let ratios = measurement.runs.iter().map(|run| run.per_process(what) / run.per_process(floor));
    match Spread::of(ratios.filter(|ratio| ratio.is_finite()).collect()) {
        None => "-".to_owned(),
        Some(spread) => format!("{:.2}", spread.median),
    }
}

/// How much longer the median compute interval took than with nothing in the background.
fn disturbance(measurement: &Measurement) -> String {
    if measurement.plan.compute == Compute::Sleep {
        return "-".to_owned();
    }
    match measurement.spread(Figures::disturbance) {
        None => "-".to_owned(),
        Some(spread) => format!("{:+.1} %", 100.0 * spread.median),
    }
}

/// What one process of the last repeat had and moved: memory, hops, decisions.
fn details(measurement: &Measurement) -> String {
    let Some(figures) = measurement.runs.last().and_then(|run| run.processes.first()) else {
        return String::new();
    };
    let mut parts = vec![
        format!("{} of host memory at the most", size::show(figures.peak_host)),
        format!("{} of device memory", size::show(figures.device_used)),
    ];
    if let Some(decisions) = &figures.decisions {
        let changes = decisions.changes;
        parts.push(format!("touching {} at the end ({changes} changes of mind)", decisions.mode));
    }
    for hop in figures.hops.iter().filter(|hop| hop.bytes > 0 && hop.seconds > 0.0) {
        let rate = hop.bytes as f64 / hop.seconds / 1e9;
        parts.push(format!("{} {} at {rate:.2} GB/s", hop.name, size::show(hop.bytes)));
    }
    format!("{}: {}\n", describe(&measurement.plan), parts.join(", "))
}

/// Why the application waited, for those approaches that know.
fn causes(results: &Results) -> String {
    let mut table = new_table(&["waited for, ms"]);
    let mut names: Vec<&str> = Vec::new();
    let known = |measurement: &&Measurement| {
        let last = measurement.runs.last().and_then(|run| run.processes.first());
        last.is_some_and(|figures| !figures.causes.is_empty())
    };
    let measured: Vec<&Measurement> = results.measurements.iter().filter(known).collect();
    let all = measured.iter().flat_map(|m| &m.runs).flat_map(|run| &run.processes);
    for cause in all.flat_map(|figures| &figures.causes).filter(|cause| cause.count > 0) {
        if !names.contains(&cause.name.as_str()) {
            names.push(&cause.name);
        }
    }
    if names.is_empty() {
        return String::new();
    }
    table.set_header(std::iter::once("waited for, ms").chain(names.iter().copied()));
    for measurement in measured {
        let seconds = |name: &str| {
            let of = |figures: &Figures| {
                figures.causes.iter().filter(|c| c.name == name).map(|c| c.seconds).sum::<f64>()
            };
            milliseconds(measurement.spread(of).map(|s| Spread {
                least: s.median,
                greatest: s.median,
                ..s
            }))
        };
        let cells = names.iter().map(|name| seconds(name));
        table.add_row(std::iter::once(describe(&measurement.plan)).chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("\n{table}\n")
}
