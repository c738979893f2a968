//! Beyond the paper: what the background work did to the application's computing, each checkpoint
//! for itself, and what was moved.

use veloc_client::metrics::HOPS;

use crate::bench::plan::Compute;
use crate::bench::plot::bars::{Bar, Bars};
use crate::bench::plot::group::{Group, Series};
use crate::bench::plot::lines::Lines;
use crate::bench::plot::pool::Pool;
use crate::bench::plot::scale::{unit, Axis, Scale};
use crate::bench::plot::sheet::{Key, Panel, Sheet};
use crate::bench::plot::style::Style;
use crate::bench::results::{Figures, Measurement, Run, Spread};
use crate::bench::table::absent::Absent;
use crate::bench::waits::PIN;

use super::blocked::{intervals, scale};
use super::causes;
use super::{extent, interval, key_of, median, settings_of, sheet, wrong, Album};

/// The most that background work may add to a compute interval, in percent: the project's goal.
const DISTURBANCE_GOAL: f64 = 2.0;

/// What the letters in the names of hops mean.
const HOP_LETTERS: &str = "A application, D device cache, H host buffer, F scratch file, \
                           P persistent file, M managed memory, R pinned ring";

type Make = fn(&Pool, &Group) -> Option<Sheet>;

/// All of them, for each setup.
pub fn add(pool: &Pool, album: &mut Album) {
    let found = intervals(&pool.measurements);
    // Busy ones may have one interval only, where idle ones have several.
    let is_busy = |member: &&Measurement| member.plan.compute == Compute::Kernel;
    let busy = intervals(pool.measurements.iter().filter(is_busy));
    let makers: [(&str, Make, &[Group], &str); 4] = [
        ("causes", causes::draw, &found, "no measured approach tells causes apart"),
        ("disturbance", disturbance, &busy, "no setup keeps the device busy between checkpoints"),
        ("each-checkpoint", each, &found, "there are no times of single checkpoints"),
        ("hops", hops, &found, "no measured approach counts what it moves"),
    ];
    for (name, make, found, why) in makers {
        let before = album.pictures.len();
        for group in found {
            if let Some(picture) = make(pool, group) {
                album.push(format!("{name}{}", group.slug(found)), picture);
            }
        }
        if album.pictures.len() == before {
            album.miss(name, why);
        }
    }
}

/// A sheet that says what the group is and which settings `ours` had.
pub fn begin(pool: &Pool, title: &str, group: &Group, series: &[Series]) -> Sheet {
    let mut facts = group.facts();
    facts.extend(settings_of(series));
    let mut sheet = sheet(pool, title, facts);
    let members = || series.iter().flat_map(|one| one.members.iter().copied());
    sheet.warnings.extend(wrong(members()));
    sheet.facts.extend(extent(members()));
    sheet
}

/// How much longer compute intervals are than without background work.
fn disturbance(pool: &Pool, group: &Group) -> Option<Sheet> {
    if group.plan().compute != Compute::Kernel {
        return None;
    }
    let more = |times: &[f64], f: &Figures| {
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        (mean / f.quiet_interval - 1.0) * 100.0
    };
    type Percent<'a> = &'a dyn Fn(&Figures) -> f64;
    let forward = |f: &Figures| more(&f.forward_intervals, f);
    let backward = |f: &Figures| more(&f.backward_intervals, f);
    let passes: [(&str, Percent); 2] =
        [("forward (checkpoints)", &forward), ("backward (restores)", &backward)];
    let series = group.approaches();
    let spread = |member: &Measurement, percent: Percent| {
        let all = member.runs.iter().map(|run| run.per_process(percent));
        Spread::of(all.filter(|percent| percent.is_finite()).collect())
    };
    let members = || series.iter().flat_map(|one| one.members.iter().copied());
    let values: Vec<f64> = members()
        .flat_map(|member| passes.map(|(_, percent)| spread(member, percent)))
        .flatten()
        .flat_map(|spread| [spread.least, spread.greatest])
        .collect();
    if values.is_empty() {
        return None;
    }
    let range: Vec<f64> = values.into_iter().chain([DISTURBANCE_GOAL]).collect();
    let y = Axis::values("longer than a quiet interval (%)".to_owned(), &range, Scale::Linear);
    let places = group.values(interval);
    let names: Vec<String> = places.iter().map(f64::to_string).collect();
    let mut sheet = begin(pool, "Compute intervals beside background work", group, &series);
    for (pass, percent) in passes {
        let bar = |one: &Series, place: f64| {
            let member = one.at(interval, place);
            let spread = member.and_then(|member| spread(member, percent));
            Bar { spread, note: String::new(), absent: member.and_then(Absent::of) }
        };
        let bars = |one: &Series| places.iter().map(|place| bar(one, *place)).collect();
        sheet.panels.push(Panel::Bars(Bars {
            title: pass.to_owned(),
            x: Axis::names("compute interval (ms)".to_owned(), &names),
            y: y.clone(),
            series: series.iter().map(|one| (key_of(one), bars(one))).collect(),
            floors: vec![None; places.len()],
            level: Some(DISTURBANCE_GOAL),
        }));
    }
    sheet.keys.push(Key::dashes(format!("goal: {DISTURBANCE_GOAL} %")));
    Some(sheet)
}

/// How long each checkpoint blocked, at the shortest interval, where waiting is worst.
fn each(pool: &Pool, group: &Group) -> Option<Sheet> {
    let (shortest, series) = at_shortest(group)?;
    let mut lines = Vec::new();
    for one in &series {
        let member = one.at(interval, shortest)?;
        let points = versions(&member.runs, |f| &f.checkpoints);
        if !points.is_empty() {
            lines.push((Key::line(one.approach.text(), Style::of(one.approach)), points));
        }
    }
    if lines.is_empty() {
        return None;
    }
    if let Some(floor) = series[0].at(interval, shortest).and_then(|m| pool.floor(&m.plan)) {
        let exact = |time: f64| Spread { median: time, least: time, greatest: time };
        let points = floor.copies.iter().enumerate();
        let points = points.map(|(version, time)| (version as f64, exact(*time))).collect();
        lines.push((Key::dashes("floor: bare copy"), points));
    }
    let points = || lines.iter().flat_map(|(_, points)| points);
    let times: Vec<f64> = points().map(|(_, time)| time.median).collect();
    let unit = unit(&times);
    let scaled: Vec<f64> = times.iter().map(|time| time * unit.per_second).collect();
    let last = points().map(|(version, _)| *version).fold(0.0, f64::max);
    for (_, time) in lines.iter_mut().flat_map(|(_, points)| points) {
        *time = scale(*time, unit.per_second);
    }
    let mut sheet = begin(pool, "Each checkpoint, initialisation not included", group, &series);
    sheet.facts.extend(at(group, shortest));
    sheet.panels.push(Panel::Lines(Lines {
        title: String::new(),
        x: Axis::counts("version".to_owned(), 0.0, last),
        y: Axis::values(
            format!("blocked per process ({})", unit.name),
            &scaled,
            Scale::Logarithmic,
        ),
        series: lines,
        marks: false,
    }));
    Some(sheet)
}

/// Time by version: the mean over the processes, the spread over the repeats.
fn versions(runs: &[Run], times: impl Fn(&Figures) -> &Vec<f64>) -> Vec<(f64, Spread)> {
    let count = runs.iter().flat_map(|run| &run.processes).map(|f| times(f).len()).max();
    let mean = |run: &Run, version: usize| {
        let there: Vec<f64> =
            run.processes.iter().filter_map(|f| times(f).get(version).copied()).collect();
        (!there.is_empty()).then(|| there.iter().sum::<f64>() / there.len() as f64)
    };
    let at = |version: usize| {
        let spread = Spread::of(runs.iter().filter_map(|run| mean(run, version)).collect());
        spread.map(|spread| (version as f64, spread))
    };
    (0..count.unwrap_or(0)).filter_map(at).collect()
}

/// Bytes and rate per hop, at the shortest interval.
fn hops(pool: &Pool, group: &Group) -> Option<Sheet> {
    let (shortest, series) = at_shortest(group)?;
    let there: Vec<(&Series, &Measurement)> =
        series.iter().filter_map(|one| Some((one, one.at(interval, shortest)?))).collect();
    let mut names: Vec<String> = Vec::new();
    for (_, member) in &there {
        let all = member.runs.iter().flat_map(|run| &run.processes).flat_map(|f| &f.hops);
        for hop in all.filter(|hop| hop.bytes > 0) {
            if !names.contains(&hop.name) {
                names.push(hop.name.clone());
            }
        }
    }
    if names.is_empty() {
        return None;
    }
    // Copies in the order of the way down and up; then what is no copy.
    let copies = HOPS.iter().map(|(_, name)| *name).chain(["AtoM", "MtoA", "RtoH", "HtoR"]);
    let copies: Vec<&str> = copies.collect();
    let place = |name: &String| copies.iter().position(|hop| hop == name);
    names.sort_by_key(|name| place(name).unwrap_or(copies.len()));
    let sum = |f: &Figures, name: &str| {
        let all = f.hops.iter().filter(|hop| hop.name == name);
        all.fold((0.0, 0.0), |(bytes, time), hop| (bytes + hop.bytes as f64, time + hop.seconds))
    };
    let amount = |member: &Measurement, name: &str| {
        member.spread(|f| sum(f, name).0).filter(|all| all.greatest > 0.0)
    };
    let rate = |member: &Measurement, name: &str| {
        let rates = member.runs.iter().map(|run| {
            run.per_process(|f| sum(f, name).0) / run.per_process(|f| sum(f, name).1) / 1e9
        });
        Spread::of(rates.filter(|rate| rate.is_finite() && *rate > 0.0).collect())
    };
    type PerHop<'a> = &'a dyn Fn(&Measurement, &str) -> Option<Spread>;
    let bytes = |values: &[f64]| Axis::sizes("moved per process", values, Scale::Fitting);
    let rates = |values: &[f64]| {
        Axis::values("rate of each process (GB/s)".to_owned(), values, Scale::Fitting)
    };
    type AxisOf<'a> = &'a dyn Fn(&[f64]) -> Axis;
    let panels: [(AxisOf, PerHop); 2] = [(&bytes, &amount), (&rates, &rate)];
    let mut sheet = begin(pool, "Bytes and rate of each hop", group, &series);
    sheet.facts.extend(at(group, shortest));
    sheet.facts.push(HOP_LETTERS.to_owned());
    if names.iter().any(|name| name == PIN) {
        sheet.facts.push("pin: touched and registered in one call of the driver".to_owned());
    }
    let counting: Vec<&(&Series, &Measurement)> = there
        .iter()
        .filter(|(_, member)| names.iter().any(|name| amount(member, name).is_some()))
        .collect();
    for (axis, figure) in panels {
        let bar = |member: &Measurement, name: &String| Bar {
            spread: figure(member, name),
            ..Bar::default()
        };
        let bars: Vec<(Key, Vec<Bar>)> = counting
            .iter()
            .map(|(one, member)| {
                (key_of(one), names.iter().map(|name| bar(member, name)).collect())
            })
            .collect();
        let spreads = bars.iter().flat_map(|(_, bars)| bars).filter_map(|bar| bar.spread);
        let values: Vec<f64> = spreads.flat_map(|spread| [spread.least, spread.greatest]).collect();
        sheet.panels.push(Panel::Bars(Bars {
            title: String::new(),
            x: Axis::names("hop".to_owned(), &names),
            y: axis(&values),
            series: bars,
            floors: vec![None; names.len()],
            level: None,
        }));
    }
    Some(sheet)
}

/// The shortest interval at which anything was measured, and the approaches that were.
fn at_shortest<'a>(group: &Group<'a>) -> Option<(f64, Vec<Series<'a>>)> {
    let mut series = group.approaches();
    let members = series.iter().flat_map(|one| &one.members);
    let measured = members.filter(|member| Absent::of(member).is_none());
    let shortest = measured.map(|member| interval(&member.plan)).min_by(f64::total_cmp)?;
    series.retain(|one| {
        let member = one.at(interval, shortest);
        member.and_then(|member| median(member, Figures::total)).is_some()
    });
    (!series.is_empty()).then_some((shortest, series))
}

/// What a picture at one interval says of it: which, and who was not measured there.
fn at(group: &Group, place: f64) -> Vec<String> {
    let mut facts = vec![format!("{place} ms between checkpoints")];
    for one in group.approaches() {
        if let Some(absent) = one.at(interval, place).and_then(Absent::of) {
            facts.push(format!("{}: {} there", one.approach.text(), absent.text()));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_averaged_over_the_processes_that_have_it() {
        let process = |times: &[f64]| Figures { checkpoints: times.to_vec(), ..Figures::default() };
        let run = |processes| Run { processes };
        let runs =
            [run(vec![process(&[1.0, 2.0]), process(&[3.0])]), run(vec![process(&[6.0, 8.0])])];
        let points = versions(&runs, |f| &f.checkpoints);
        let medians: Vec<f64> = points.iter().map(|(_, time)| time.median).collect();
        assert_eq!(medians, [4.0, 5.0]);
    }
}
