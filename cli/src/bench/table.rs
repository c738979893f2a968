//! Results as a table on the terminal.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};

use super::campaign::describe;
use super::plan::{ApproachName, Compute, Configuration, Hints, Order, Plan};
use super::results::{Figures, Measurement, Results, Spread};
use crate::size;

pub mod absent;

use self::absent::Absent;

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

/// The whole text: what was measured where, a table for each setup, and what went wrong.
pub fn text(results: &Results) -> String {
    let mut text = String::new();
    if let Some(warning) = &results.warning {
        text += &format!("\n{}: {warning}\n", results.title);
    }
    let all = &results.measurements;
    for group in all.chunk_by(|one, next| heading(&one.plan) == heading(&next.plan)) {
        let mut table = new_table(&COLUMNS);
        for measurement in group {
            table.add_row(row(measurement, all));
        }
        text += &format!("\n{}\n{table}\n", heading(&group[0].plan));
        text += &causes(group);
        group.iter().for_each(|measurement| text += &details(measurement));
    }
    text += &format!("\n{}: {}\n", results.title, absent::count(all));
    for failure in absent::failures(all) {
        text += &format!("{failure}\n");
    }
    text + &notes(all)
}

/// What was said while measuring, each once, with the points that it was said of.
fn notes(all: &[Measurement]) -> String {
    let mut notes: Vec<(&String, Vec<&Measurement>)> = Vec::new();
    for (measurement, note) in all.iter().flat_map(|m| m.notes.iter().map(move |note| (m, note))) {
        match notes.iter_mut().find(|(known, _)| *known == note) {
            Some((_, of)) => of.push(measurement),
            None => notes.push((note, vec![measurement])),
        }
    }
    let line = |(note, of): (&String, Vec<&Measurement>)| match of[..] {
        [one] => format!("note: {}: {note}\n", describe(&one.plan)),
        _ => format!("note: {note} (said of {} points)\n", of.len()),
    };
    notes.into_iter().map(line).collect()
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
    let order = match plan.order {
        Order::Reverse => "in reverse",
        Order::Same => "in the same order",
        Order::Random => "in random order",
    };
    let hints = match plan.hints {
        Hints::None => "no hints",
        Hints::One => "one hint ahead",
        Hints::All => "all hints ahead",
    };
    format!(
        "{sizes} every {} ms ({compute}), processes: {}, {places}, restored {order}, {hints}; \
         blocked time per process",
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
    let blocked = match Absent::of(measurement) {
        Some(absent) => absent.text().to_owned(),
        None => milliseconds(measurement.spread(Figures::checkpoint_total)),
    };
    vec![
        name,
        blocked,
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
        parts.push(format!("touching {} at the end (changes of mind: {changes})", decisions.mode));
    }
    for hop in figures.hops.iter().filter(|hop| hop.bytes > 0 && hop.seconds > 0.0) {
        let rate = hop.bytes as f64 / hop.seconds / 1e9;
        parts.push(format!("{} {} at {rate:.2} GB/s", hop.name, size::show(hop.bytes)));
    }
    format!("{}: {}\n", describe(&measurement.plan), parts.join(", "))
}

/// Why the application waited, for those approaches that know.
fn causes(group: &[Measurement]) -> String {
    let mut table = new_table(&["waited for, ms"]);
    let mut names: Vec<&str> = Vec::new();
    let known = |measurement: &&Measurement| {
        let last = measurement.runs.last().and_then(|run| run.processes.first());
        last.is_some_and(|figures| !figures.causes.is_empty())
    };
    let measured: Vec<&Measurement> = group.iter().filter(known).collect();
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
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plot::synthetic::{point, results};
    use ApproachName::{DirectPin, Ours, Ring, Uvm};

    #[test]
    fn what_was_not_measured_is_said_with_its_reason() {
        let mut points =
            vec![point(Ours, 5.0, 1.0), point(DirectPin, 5.0, 2.0), point(Uvm, 5.0, 1.0)];
        points.push(point(Ring, 5.0, 1.0));
        points[2].runs.clear();
        points[2].failures.push("out of memory".to_owned());
        points[3].runs.clear();
        points[0].runs.pop();
        let text = text(&results(points));
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        assert!(row(" uvm ").contains(" failed "), "{text}");
        assert!(row(" ring ").contains(" not measured "), "{text}");
        let count = "2 of 4 points measured, 1 failed, 1 not begun; 2 to 3 repeats";
        assert!(text.contains(count), "{text}");
        let failure = "FAILED: uvm, 1 process, every 5 ms, host buffer 1 GiB, busy: out of memory";
        assert!(text.contains(failure), "{text}");
    }

    #[test]
    fn setups_that_differ_have_tables_and_headings_of_their_own() {
        let mut hinted = point(Ours, 5.0, 1.0);
        hinted.plan.hints = Hints::One;
        let text = text(&results(vec![point(Ours, 5.0, 1.0), hinted]));
        assert_eq!(text.matches("checkpoints ms").count(), 2, "{text}");
        assert!(text.contains("in reverse, all hints ahead"), "{text}");
        assert!(text.contains("in reverse, one hint ahead"), "{text}");
    }

    #[test]
    fn a_note_of_several_points_stands_there_once() {
        let mut points = vec![point(Ours, 5.0, 1.0), point(DirectPin, 5.0, 2.0)];
        points.iter_mut().for_each(|point| point.notes.push("no huge pages".to_owned()));
        points[1].notes.push("slow".to_owned());
        let text = text(&results(points));
        assert_eq!(text.matches("note: no huge pages (said of 2 points)").count(), 1, "{text}");
        let note = "note: direct-pin, 1 process, every 5 ms, host buffer 1 GiB, busy: slow";
        assert!(text.contains(note), "{text}");
    }
}
