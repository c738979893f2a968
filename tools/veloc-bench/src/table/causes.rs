//! Why the application waited, as a table: the causes of each row add up to its blocked time.

use super::name;
use crate::output;
use crate::results::{CallKind, Measurement, ProcessFigures};
use crate::waits;

/// The rows of each point: their names, and the calls they are about.
const ROWS: [(&str, &[CallKind]); 2] = [
    ("checkpoints", &[CallKind::Init, CallKind::Checkpoint]),
    ("+ restores", &[CallKind::Init, CallKind::Checkpoint, CallKind::Restore]),
];

/// The table of those points that have causes; empty without any. Means over the repeats and the
/// processes: unlike medians, they add up.
pub(super) fn table(group: &[Measurement]) -> String {
    let told: Vec<(&Measurement, Vec<&ProcessFigures>)> = group
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
    let names_of_columns = names.iter().map(|name| format!(">{name}"));
    let start = ["waited for, ms", "in"].into_iter().map(str::to_owned);
    let header: Vec<String> = start.chain(names_of_columns).chain([">in all".to_owned()]).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = output::table(&header);
    for (measurement, all) in &told {
        for (row, calls) in ROWS {
            let mean = |name: &str| {
                let sum: f64 = all.iter().map(|figures| figures.waited(calls, name)).sum();
                1e3 * sum / all.len() as f64
            };
            let means: Vec<f64> = names.iter().map(|name| mean(name)).collect();
            let cell = |time: f64| match time {
                0.0 => "-".to_owned(),
                time => format!("{time:.1}"),
            };
            // The name of a point stands in its first row only.
            let name = match calls.contains(&CallKind::Restore) {
                true => String::new(),
                false => name(&measurement.plan),
            };
            let start = [name, row.to_owned()].into_iter();
            let cells = means.iter().copied().chain([means.iter().sum()]).map(cell);
            table.add_row(start.chain(cells));
        }
    }
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ApproachName::{DirectPin, Ours};
    use crate::tests::synthetic::point;

    /// Catches rows of this library alone, and rows that do not add up.
    #[test]
    fn each_row_adds_up_to_its_blocked_time() {
        let points = [point(Ours, 5.0, 1.0), point(DirectPin, 5.0, 2.0)];
        let text = table(&points);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .filter(|line| line.contains("checkpoints") || line.contains("+ restores"))
            .map(|line| line.split_whitespace().filter_map(|cell| cell.parse().ok()).collect())
            .collect();
        assert_eq!(rows.len(), 4, "{text}");
        for (row, (point, restores)) in rows.iter().zip([
            (&points[0], 0.0),
            (&points[0], 1.0),
            (&points[1], 0.0),
            (&points[1], 1.0),
        ]) {
            let (all, causes) = row.split_last().unwrap();
            assert!((causes.iter().sum::<f64>() - all).abs() < 0.2, "{text}");
            let runs = point.runs.iter().map(|run| {
                let figures = &run.processes[0];
                figures.checkpoint_total() + restores * figures.restores.iter().sum::<f64>()
            });
            let mean = 1e3 * runs.sum::<f64>() / point.runs.len() as f64;
            assert!((mean - all).abs() < 0.2, "{mean}: {text}");
        }
    }
}
