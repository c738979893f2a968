//! The sizes of checkpoints that are not all alike (figure 3a).

use crate::bench::plot::boxes::Boxes;
use crate::bench::plot::group::{groups, uniform, Field};
use crate::bench::plot::lines::Lines;
use crate::bench::plot::pool::Pool;
use crate::bench::plot::scale::{bytes, Axis, Scale};
use crate::bench::plot::sheet::{Key, Panel};
use crate::bench::plot::style::Style;
use crate::bench::results::Spread;

use super::{sheet, Album};

/// Figure 3a.
pub fn add(pool: &Pool, album: &mut Album) {
    let variable = pool.measurements.iter().filter(|member| !uniform(&member.plan));
    let found = groups(variable, &[Field::Sizes]);
    if found.is_empty() {
        album.miss("3a", "all checkpoints that were measured have the same size");
    }
    for group in &found {
        let plan = group.plan();
        let totals: Vec<u64> = plan.sizes.iter().map(|sizes| sizes.iter().sum()).collect();
        let least = bytes(totals.iter().copied().min().unwrap_or(0));
        let greatest = bytes(totals.iter().copied().max().unwrap_or(0));
        let each = if least == greatest { least } else { format!("{least} to {greatest}") };
        let facts = vec![format!("sizes: {}", plan.workload), format!("{each} for each process")];
        let mut sheet = sheet(pool, "3a: sizes of checkpoints", facts);
        let exact = |size: &u64| *size as f64;
        let all: Vec<f64> = plan.sizes.iter().flatten().map(exact).collect();
        let y = Axis::sizes("size of a checkpoint", &all, Scale::Fitting);
        let names: Vec<String> = (0..plan.sizes.len()).map(|process| process.to_string()).collect();
        let mut values: Vec<Vec<f64>> =
            plan.sizes.iter().map(|sizes| sizes.iter().map(exact).collect()).collect();
        values.iter_mut().for_each(|values| values.sort_by(f64::total_cmp));
        sheet.panels.push(Panel::Boxes(Boxes {
            title: "distribution (least, quartiles, median, greatest)".to_owned(),
            x: Axis::names("process".to_owned(), &names),
            y: y.clone(),
            values,
        }));
        let lines = plan.sizes.iter().enumerate().map(|(process, sizes)| {
            let spread = |size: f64| Spread { median: size, least: size, greatest: size };
            let points = sizes.iter().enumerate();
            let points = points.map(|(at, size)| (at as f64, spread(exact(size)))).collect();
            (Key::line(format!("process {process}"), Style::number(process)), points)
        });
        let last = plan.sizes.iter().map(Vec::len).max().unwrap_or(1) - 1;
        sheet.panels.push(Panel::Lines(Lines {
            title: "over time".to_owned(),
            x: Axis::counts("version".to_owned(), 0.0, last as f64),
            y,
            series: lines.collect(),
            marks: false,
        }));
        album.push(format!("3a-sizes{}", group.slug(&found)), sheet);
    }
}
