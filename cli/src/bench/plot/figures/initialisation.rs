//! The rate at which caches become usable (figure 4a).

use crate::bench::plot::lines::Lines;
use crate::bench::plot::pool::Pool;
use crate::bench::plot::scale::{bytes, Axis, Scale};
use crate::bench::plot::sheet::{Key, Panel};
use crate::bench::plot::style::Style;
use crate::bench::results::{Initialisation, Spread};

use super::{sheet, Album};

/// Figure 4a.
pub fn add(pool: &Pool, album: &mut Album) {
    let mut series: Vec<(String, Vec<(f64, Spread)>)> = Vec::new();
    for one in &pool.initialisation {
        let Some(rate) = rate(one) else {
            continue;
        };
        let label = label(one, &pool.initialisation);
        let point = (f64::from(one.processes), rate);
        match series.iter_mut().find(|(known, _)| *known == label) {
            Some((_, points)) => points.push(point),
            None => series.push((label, vec![point])),
        }
    }
    if series.is_empty() {
        album.miss("4a", "cache initialisation alone was not measured");
        return;
    }
    series.iter_mut().for_each(|(_, points)| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let points = || series.iter().flat_map(|(_, points)| points);
    let mut processes: Vec<f64> = points().map(|(processes, _)| *processes).collect();
    processes.sort_by(f64::total_cmp);
    processes.dedup();
    let rates: Vec<f64> = points().flat_map(|(_, rate)| [rate.least, rate.greatest]).collect();
    let mut sizes: Vec<u64> = pool.initialisation.iter().map(|one| one.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let facts = match sizes[..] {
        [size] => vec![format!("{} for each process", bytes(size))],
        _ => Vec::new(),
    };
    let mut sheet = sheet(pool, "4a: initialisation of caches", facts);
    sheet.panels.push(Panel::Lines(Lines {
        title: String::new(),
        x: Axis::doubling("processes at once".to_owned(), &processes),
        y: Axis::values("rate of each process (GB/s)".to_owned(), &rates, Scale::Logarithmic),
        series: series
            .into_iter()
            .enumerate()
            .map(|(number, (label, points))| (Key::line(label, Style::number(number)), points))
            .collect(),
        marks: true,
    }));
    album.push("4a-initialisation".to_owned(), sheet);
}

/// Bytes by the mean time of a process, in GB/s. `None` if nothing was measured.
fn rate(one: &Initialisation) -> Option<Spread> {
    let means = one.seconds.iter().filter(|repeat| !repeat.is_empty()).map(|repeat| {
        let mean = repeat.iter().sum::<f64>() / repeat.len() as f64;
        one.bytes as f64 / mean / 1e9
    });
    Spread::of(means.filter(|rate| rate.is_finite()).collect())
}

/// What was done, in which steps, and with how many bytes where that is not the same for all.
fn label(one: &Initialisation, all: &[Initialisation]) -> String {
    let mut label = one.what.clone();
    if one.step > 0 {
        label.push_str(&format!(", steps of {}", bytes(one.step)));
    }
    if all.iter().any(|other| other.bytes != one.bytes) {
        label.push_str(&format!(", {}", bytes(one.bytes)));
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_a_process() {
        let seconds = vec![vec![1.0, 3.0], vec![4.0, 4.0], Vec::new()];
        let (what, step) = ("host: touched".to_owned(), 0);
        let one = Initialisation { what, processes: 2, bytes: 8_000_000_000, step, seconds };
        let rate = rate(&one).unwrap();
        assert_eq!((rate.least, rate.median, rate.greatest), (2.0, 3.0, 4.0));
    }
}
