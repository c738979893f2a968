//! Why the application was blocked, approach beside approach.

use crate::bench::plot::group::{Group, Series};
use crate::bench::plot::pool::Pool;
use crate::bench::plot::scale::{self, digits, Axis, Scale, Unit, ORDERS};
use crate::bench::plot::sheet::{Key, Panel, Sheet};
use crate::bench::plot::stack::{Column, Stack};
use crate::bench::plot::style::{Fill, Style};
use crate::bench::results::{Call, Figures, Measurement};
use crate::bench::table::absent::Absent;
use crate::bench::waits;

use super::detail::begin;
use super::interval;

/// Blocked time of which a file of an older version tells no cause.
const UNTOLD: &str = "no cause told";

/// Less than this share of a time is what rounding leaves of it.
const ROUNDING: f64 = 1e-6;

/// The panels: a title, and the calls that it is about.
const PANELS: [(&str, &[Call]); 2] = [
    ("initialisation and checkpoints", &[Call::Init, Call::Checkpoint]),
    ("initialisation, checkpoints and restores", &[Call::Init, Call::Checkpoint, Call::Restore]),
];

/// Blocked time by cause; none if nothing tells causes. The bars are times, or shares of them where
/// the times differ by so much that the parts of the least could not be seen.
pub fn draw(pool: &Pool, group: &Group) -> Option<Sheet> {
    let series = group.approaches();
    let members = || series.iter().flat_map(|one| one.members.iter().copied());
    let mut names: Vec<&str> = Vec::new();
    for cause in members().flat_map(all_figures).flat_map(|figures| &figures.causes) {
        if cause.seconds > 0.0 && !names.contains(&cause.name.as_str()) {
            names.push(&cause.name);
        }
    }
    if names.is_empty() {
        return None;
    }
    names.sort_by_key(|name| waits::order(name));
    let times = |member: &Measurement, calls: &[Call]| -> Vec<f64> {
        let told = names.iter().map(|name| mean(member, |f| f.waited(calls, name)));
        let mut times: Vec<f64> = told.collect();
        let all = mean(member, |f| blocked(f, calls));
        let rest = all - times.iter().sum::<f64>();
        times.push(if rest > all * ROUNDING { rest } else { 0.0 });
        times
    };
    let measured = || members().filter(|member| Absent::of(member).is_none());
    let sums: Vec<f64> = PANELS
        .iter()
        .flat_map(|(_, calls)| measured().map(|member| times(member, calls).iter().sum()))
        .collect();
    let greatest = sums.iter().copied().fold(0.0, f64::max);
    let least = sums.iter().copied().fold(f64::INFINITY, f64::min);
    let (shares, unit) = (greatest >= ORDERS * least, scale::unit(&sums));
    let places = group.values(interval);
    let place_names: Vec<String> = places.iter().map(f64::to_string).collect();
    let mut sheet = begin(pool, "Blocked by checkpoints and restores, by cause", group, &series);
    sheet.facts.push("means over processes and repeats".to_owned());
    if shares {
        sheet.facts.push("above each bar: the time that it shows the shares of".to_owned());
    }
    let style = |name: &str| match name {
        waits::REST => Style::rest(),
        name => Style::number(waits::order(name)),
    };
    let untold = Style { fill: Fill::Empty, ..Style::rest() };
    let keys: Vec<Key> = names
        .iter()
        .map(|name| Key::area(*name, style(name)))
        .chain([Key::area(UNTOLD, untold)])
        .collect();
    let seen = |part: usize| measured().any(|member| times(member, PANELS[1].1)[part] > 0.0);
    let parts: Vec<usize> = (0..keys.len()).filter(|part| seen(*part)).collect();
    for (title, calls) in PANELS {
        let column = |one: &Series, place: f64| {
            let name = one.approach.text().to_owned();
            let Some(member) = one.at(interval, place) else {
                return Column { name, ..Column::default() };
            };
            let times = times(member, calls);
            let times: Vec<f64> = parts.iter().map(|part| times[*part]).collect();
            let absent = Absent::of(member);
            Column { name, absent, ..stacked(&times, shares, unit) }
        };
        let of_place = |place: &f64| series.iter().map(|one| column(one, *place)).collect();
        let groups: Vec<Vec<Column>> = places.iter().map(of_place).collect();
        let heights = groups.iter().flatten().map(|column| column.heights.iter().sum::<f64>());
        let y = match shares {
            true => "share of the blocked time (%)".to_owned(),
            false => format!("blocked per process ({})", unit.name),
        };
        sheet.panels.push(Panel::Stack(Stack {
            title: title.to_owned(),
            x: Axis::names("compute interval (ms)".to_owned(), &place_names),
            y: Axis::values(y, &heights.collect::<Vec<_>>(), Scale::Linear),
            parts: parts.iter().map(|part| keys[*part].clone()).collect(),
            groups,
        }));
    }
    Some(sheet)
}

/// A bar of these times, or of their shares.
fn stacked(times: &[f64], shares: bool, unit: Unit) -> Column {
    let sum: f64 = times.iter().sum();
    let (factor, note) = match shares {
        true => {
            let own = scale::unit(&[sum]);
            let note = format!("{} {}", digits(sum * own.per_second), own.name);
            (if sum > 0.0 { 100.0 / sum } else { 0.0 }, note)
        }
        false => (unit.per_second, digits(sum * unit.per_second)),
    };
    Column { heights: times.iter().map(|time| time * factor).collect(), note, ..Column::default() }
}

fn all_figures(member: &Measurement) -> impl Iterator<Item = &Figures> {
    member.runs.iter().flat_map(|run| &run.processes)
}

/// The mean over the processes and the repeats: unlike medians, they add up.
fn mean(member: &Measurement, figure: impl Fn(&Figures) -> f64) -> f64 {
    let sum: f64 = member.runs.iter().map(|run| run.per_process(&figure)).sum();
    sum / member.runs.len().max(1) as f64
}

/// How long these calls blocked.
fn blocked(figures: &Figures, calls: &[Call]) -> f64 {
    let of = |call: &Call| match call {
        Call::Init => figures.init,
        Call::Checkpoint => figures.checkpoints.iter().sum(),
        Call::Restore => figures.restores.iter().sum(),
    };
    calls.iter().map(of).sum()
}
