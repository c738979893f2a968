//! Results as a table on the terminal.

use os::size;

use super::campaign::describe;
use super::plan::{
    ApproachName, Compute, HintAmount, LevelConfiguration, PointPlan, RestoreSequence,
};
use super::results::{Floor, Measurement, ProcessFigures, Results, Spread};
use crate::output;

pub(super) mod absent;
mod causes;

use self::absent::Absent;

/// Times are per process: median (least to greatest).
const COLUMNS: [&str; 8] = [
    "",
    ">checkpoints ms",
    ">+ restores ms",
    ">/ floor",
    ">faster than\ndirect-pin",
    ">+ restores",
    ">init ms",
    ">compute\nlonger by",
];

/// The whole text: what was measured where, a table for each setup, and what went wrong.
pub(super) fn text(results: &Results) -> String {
    let mut text = String::new();
    if let Some(warning) = &results.warning {
        text += &format!("\n{}: {warning}\n", results.title);
    }
    let all = &results.measurements;
    for group in all.chunk_by(|one, next| heading(&one.plan) == heading(&next.plan)) {
        let mut table = output::table(&COLUMNS);
        for measurement in group {
            table.add_row(row(measurement, results));
        }
        text += &format!("\n{}\n{table}\n", heading(&group[0].plan));
        text += &floor(results.floor(&group[0].plan));
        text += &causes::table(group);
        group.iter().for_each(|measurement| text += &details(measurement));
    }
    text += &format!("\n{}: {}\n", results.title, absent::count(all));
    let left_out = results.left_out.iter().map(|reason| format!("left out: {reason}"));
    for line in absent::failures(all).into_iter().chain(absent::reasons(all)).chain(left_out) {
        text += &format!("{line}\n");
    }
    text + &notes(all)
}

/// The notes of all points, each once, with the points that it is of.
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

/// The settings that the rows of one table share.
fn heading(plan: &PointPlan) -> String {
    let sizes = plan.sizes_of(0);
    let sizes = match plan.workload.as_str() {
        "uniform" => format!("{} x {}", sizes.len(), size::show(sizes[0])),
        name => format!("{name}: {} checkpoints, {}", sizes.len(), size::show(sizes.iter().sum())),
    };
    let places = match plan.configuration {
        LevelConfiguration::LargeDevice => {
            format!("device cache {}", size::show(plan.device_cache))
        }
        LevelConfiguration::LargeHost => format!(
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
        RestoreSequence::Reverse => "in reverse",
        RestoreSequence::Same => "in the same order",
        RestoreSequence::Random => "in random order",
    };
    let hints = match plan.hints {
        HintAmount::None => "no hints",
        HintAmount::One => "one hint ahead",
        HintAmount::All => "all hints ahead",
    };
    format!(
        "{sizes} every {} ms ({compute}), processes: {}, {places}, restored {order}, {hints}; \
         blocked time per process",
        plan.interval_ms, plan.processes
    )
}

/// The floor of a table, once for all its rows.
fn floor(floor: Option<&Floor>) -> String {
    let Some(floor) = floor else { return String::new() };
    let ms = |seconds: f64| format!("{:.2}", 1e3 * seconds);
    format!(
        "floor: {} ms ({} to {}) for bare copies of these checkpoints on the device, one by one; {} \
         passes\n",
        ms(floor.median),
        ms(floor.least),
        ms(floor.greatest),
        floor.passes.len()
    )
}

/// The settings that tell the rows of a table apart.
pub(crate) fn name(plan: &PointPlan) -> String {
    let mut name = plan.approach.text().to_owned();
    if plan.approach == ApproachName::Ours {
        name += &format!(" ({}, {})", plan.touch, plan.pin);
        if let Some(most) = plan.device_cache_most {
            name += &format!(" up to {}", size::show(most));
        }
        if !plan.settings.is_empty() {
            name += &format!(" {}", plan.settings.join(", "));
        }
    }
    name
}

fn row(measurement: &Measurement, results: &Results) -> Vec<String> {
    let plan = &measurement.plan;
    let baseline = results.measurements.iter().find(|other| is_baseline(&other.plan, plan));
    let against = |figure: fn(&ProcessFigures) -> f64| {
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
        None => milliseconds(measurement.spread(ProcessFigures::checkpoint_total)),
    };
    vec![
        name(plan),
        blocked,
        milliseconds(measurement.spread(ProcessFigures::total)),
        ratio(measurement, results.floor(plan)),
        against(ProcessFigures::checkpoint_total),
        against(ProcessFigures::total),
        milliseconds(measurement.spread(|figures| figures.init)),
        disturbance(measurement),
    ]
}

/// Whether `other` is `direct-pin` with otherwise the same settings as `plan`.
pub(super) fn is_baseline(other: &PointPlan, plan: &PointPlan) -> bool {
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

/// Time blocked by checkpoints, as a multiple of the floor.
fn ratio(measurement: &Measurement, floor: Option<&Floor>) -> String {
    match (measurement.spread(ProcessFigures::checkpoint_total), floor) {
        (Some(spread), Some(floor)) if floor.median > 0.0 => {
            format!("{:.2}", spread.median / floor.median)
        }
        _ => "-".to_owned(),
    }
}

/// How much longer the median compute interval took than with nothing in the background.
fn disturbance(measurement: &Measurement) -> String {
    if measurement.plan.compute == Compute::Sleep {
        return "-".to_owned();
    }
    match measurement.spread(ProcessFigures::disturbance) {
        None => "-".to_owned(),
        Some(spread) => format!("{:+.1} %", 100.0 * spread.median),
    }
}

/// What one process of the last repeat used and moved: memory, hops, decisions.
fn details(measurement: &Measurement) -> String {
    let Some(figures) = measurement.runs.last().and_then(|run| run.processes.first()) else {
        return String::new();
    };
    let mut parts = vec![
        format!("{} of host memory at the most", size::show(figures.peak_host)),
        match figures.device_used {
            Some(bytes) => format!("{} of device memory", size::show(bytes)),
            None => "device memory not told by process".to_owned(),
        },
    ];
    if let Some(bytes) = figures.device_cache {
        parts.push(format!("device cache of {}", size::show(bytes)));
    }
    if let Some(managed) = figures.managed {
        parts.push(format!(
            "{} of managed memory, {} of it asked to the host",
            size::show(managed.allocated),
            size::show(managed.asked_to_host)
        ));
    }
    if let Some(decisions) = &figures.decisions {
        let changes = decisions.changes;
        parts.push(format!("touching {} at the end (changes of mode: {changes})", decisions.mode));
    }
    for hop in figures.hops.iter().filter(|hop| hop.bytes > 0 && hop.seconds > 0.0) {
        let rate = hop.bytes as f64 / hop.seconds / 1e9;
        parts.push(format!("{} {} at {rate:.2} GB/s", hop.name, size::show(hop.bytes)));
    }
    format!("{}: {}\n", describe(&measurement.plan), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::synthetic::{point, results};
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
        hinted.plan.hints = HintAmount::One;
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
