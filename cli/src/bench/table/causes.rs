//! Why the application waited, as a table: the causes of each row add up to its blocked time.

use super::{name, new_table};
use crate::bench::results::{Call, Figures, Measurement};
use crate::bench::waits;

/// The rows of each point: what they are called, and the calls they are about.
const ROWS: [(&str, &[Call]); 2] = [
    ("checkpoints", &[Call::Init, Call::Checkpoint]),
    ("+ restores", &[Call::Init, Call::Checkpoint, Call::Restore]),
];

/// The table of those points that tell causes; empty without any. Means over the repeats and the
/// processes: unlike medians, they add up.
pub fn table(group: &[Measurement]) -> String {
    let told: Vec<(&Measurement, Vec<&Figures>)> = group
        .iter()
        .map(|m| (m, m.runs.iter().flat_map(|run| &run.processes).collect::<Vec<_>>()))
        .filter(|(_, all)| all.iter().any(|figures| !figures.causes.is_empty()))
        .collect();
    let mut names: Vec<&str> = Vec::new();
    for cause in told.iter().flat_map(|(_, all)| all).flat_map(|figures| &figures.causes) {
        if cause.seconds > 0.0 && !names.contains(&cause.name.as_str()) {
            names.push(&cause.name);
        }
    }
    if names.is_empty() {
        return String::new();
    }
    names.sort_by_key(|name| waits::order(name));
    let start = ["waited for, ms", "in"].into_iter();
    let header: Vec<&str> = start.chain(names.iter().copied()).chain(["in all"]).collect();
    let mut table = new_table(&header);
    for (measurement, all) in &told {
        // Of an older version, which did not tell the calls apart.
        let whole = all.iter().flat_map(|f| &f.causes).all(|cause| cause.call.is_none());
        for (row, calls) in ROWS.into_iter().skip(usize::from(whole)) {
            let mean = |name: &str| {
                let sum: f64 = all.iter().map(|figures| figures.waited(calls, name)).sum();
                1e3 * sum / all.len() as f64
            };
            let means: Vec<f64> = names.iter().map(|name| mean(name)).collect();
            let cell = |time: f64| match time {
                0.0 => "-".to_owned(),
                time => format!("{time:.1}"),
            };
            let start = [name(&measurement.plan), row.to_owned()].into_iter();
            let cells = means.iter().copied().chain([means.iter().sum()]).map(cell);
            table.add_row(start.chain(cells));
        }
    }
    format!("{table}\n")
}
