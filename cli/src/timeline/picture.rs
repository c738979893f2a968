//! The picture: for each process its lanes and the lines of occupancy, over one axis of time.

use std::collections::HashMap;

use super::colours::{self, Look, COMPUTE, EVICTION, OTHER};
use super::job::{Mark, Process, Span};
use super::lanes::{self, Lane};
use super::occupancy;
use crate::draw::sizes;
use crate::draw::svg::{text_width, Anchor, Svg};

const WIDTH: f64 = 1180.0;
const LEFT: f64 = 118.0;
const RIGHT: f64 = 22.0;
const TITLE: f64 = 30.0;
const ROW: f64 = 15.0;
const APPLICATION_ROW: f64 = 24.0;
const LANE_GAP: f64 = 7.0;
const OCCUPANCY: f64 = 120.0;
const SMALL: f64 = 10.0;
const INK: &str = "#1f2933";
const PALE: &str = "#7b8794";
const GRID: &str = "#eef0f2";
/// Spans of one colour that are this near to each other are one shape.
const NEAR: f64 = 0.4;
/// What is shorter is drawn so wide, so that it is seen at all.
const LEAST: f64 = 0.6;

/// What is drawn, in ms: from and to count from the origin.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The first event, since the machine's start.
    pub origin: f64,
    /// The left end.
    pub from: f64,
    /// The right end.
    pub to: f64,
}

impl Window {
    /// Both ends, since the machine's start.
    fn ends(&self) -> (f64, f64) {
        (self.origin + self.from, self.origin + self.to)
    }

    /// The place on the page of a time since the machine's start, kept within the axis.
    fn x(&self, at: f64) -> f64 {
        let share = (at - self.origin - self.from) / (self.to - self.from);
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }
}

/// Draws.
pub fn draw(processes: &[Process], window: Window, title: Option<&str>) -> String {
    let mut page = Page { svg: Svg::default(), window, y: 12.0, looks: Vec::new() };
    page.heading(processes, title);
    for process in processes {
        if processes.len() > 1 {
            page.y += 14.0;
            page.svg.text(12.0, page.y, 11.0, INK, Anchor::Start, &process.title());
            page.y += 6.0;
        }
        page.process(process);
    }
    page.legend();
    let height = page.y + 10.0;
    page.svg.finish(WIDTH, height)
}

/// How far each look has come in a row, on the page.
type Drawn = HashMap<Look, f64>;

struct Page {
    svg: Svg,
    window: Window,
    y: f64,
    /// Those used so far.
    looks: Vec<Look>,
}

impl Page {
    fn heading(&mut self, processes: &[Process], title: Option<&str>) {
        let first = processes.first();
        let fact = |key: &str| first.and_then(|p| p.facts.get(key)).map(String::as_str);
        let made = || {
            let mut parts = vec![fact("device").unwrap_or("no device").to_owned()];
            if first.is_some_and(|process| process.compared_as.is_none()) {
                for key in ["approach", "touch", "pin"] {
                    parts.extend(fact(key).map(|value| format!("{key} = {value}")));
                }
            }
            parts.join(", ")
        };
        let title = title.map_or_else(made, str::to_owned);
        self.svg.text(12.0, self.y + 8.0, 14.0, INK, Anchor::Start, &title);
        self.y += TITLE - 6.0;
        if let Some(warning) = processes.iter().find_map(|p| p.facts.get("warning")) {
            self.svg.text(12.0, self.y, SMALL, "#b42318", Anchor::Start, warning);
            self.y += 14.0;
        }
    }

    fn process(&mut self, process: &Process) {
        let (from, to) = self.window.ends();
        let lanes = lanes::of(process, from, to);
        let heights: Vec<f64> = lanes.iter().map(height).collect();
        let all: f64 = heights.iter().map(|height| height + LANE_GAP).sum();
        let ticks = ticks(self.window.from, self.window.to, 10.0);
        let memory = occupancy::most(process, from, to);
        let below = if memory > 0.0 { OCCUPANCY + 14.0 } else { 0.0 };
        for &tick in &ticks {
            let x = self.window.x(self.window.origin + tick);
            self.svg.line([x, self.y, x, self.y + all + below], GRID, 1.0, false);
        }
        for (lane, height) in lanes.iter().zip(heights) {
            self.lane(process, lane, height);
            self.y += height + LANE_GAP;
        }
        if memory > 0.0 {
            self.occupancy(process, memory);
        }
        self.axis(&ticks);
    }

    fn lane(&mut self, process: &Process, lane: &Lane, height: f64) {
        let middle = self.y + height / 2.0 + 4.0;
        self.svg.text(LEFT - 10.0, middle, 11.0, INK, Anchor::End, lane.label);
        if lane.application {
            let mut drawn = Drawn::default();
            for (start, end) in lanes::computing(process) {
                self.shape(start, end, self.y, APPLICATION_ROW, COMPUTE, &mut drawn);
            }
        }
        let row_height = if lane.application { APPLICATION_ROW } else { height_of_row(lane) };
        for (i, row) in lane.rows.iter().enumerate() {
            self.row(row, self.y + i as f64 * row_height, row_height, lane.application);
        }
        let left: Vec<&Mark> = process
            .evictions()
            .filter(|mark| mark.detail == lane.place && self.sees(mark.at))
            .collect();
        let mut last = f64::NEG_INFINITY;
        for mark in left {
            let x = self.window.x(mark.at);
            if x - last >= NEAR {
                self.svg.triangle(x, self.y + 1.0, INK);
                self.uses(EVICTION);
                last = x;
            }
        }
        let bottom = self.y + height + LANE_GAP / 2.0;
        self.svg.line([LEFT, bottom, WIDTH - RIGHT, bottom], GRID, 1.0, false);
    }

    /// The spans of a row; those that touch and look alike are one shape.
    fn row(&mut self, row: &[&Span], y: f64, height: f64, application: bool) {
        let (from, to) = self.window.ends();
        let scale = (WIDTH - LEFT - RIGHT) / (to - from);
        let mut pending: Option<(f64, f64, Look)> = None;
        let mut drawn = Drawn::default();
        let spans = row.iter().filter(|span| span.end >= from && span.start <= to);
        for span in spans {
            let look = colours::of(span);
            // A call is drawn, then what it waited for on top of it.
            let joins = pending.is_some_and(|(start, end, before)| {
                before == look && span.start >= start && (span.start - end) * scale < NEAR
            });
            match &mut pending {
                Some((_, end, _)) if joins && !labelled(span, scale) => *end = end.max(span.end),
                _ => {
                    if let Some((start, end, look)) = pending.take() {
                        self.shape(start, end, y, height, look, &mut drawn);
                    }
                    pending = Some((span.start, span.end, look));
                }
            }
        }
        if let Some((start, end, look)) = pending {
            self.shape(start, end, y, height, look, &mut drawn);
        }
        for span in row.iter().filter(|span| span.end >= from && span.start <= to) {
            if !span.blocked && (labelled(span, scale) || application) {
                self.label(span, y, height);
            }
        }
    }

    /// A span, unless the row has `drawn` one of its look in this very place: a picture of a
    /// million spans has no more shapes than one of a few thousand.
    fn shape(&mut self, start: f64, end: f64, y: f64, height: f64, look: Look, drawn: &mut Drawn) {
        let (from, to) = self.window.ends();
        if end < from || start > to {
            return;
        }
        let (left, right) = (self.window.x(start), self.window.x(end));
        let width = (right - left).max(LEAST);
        let reached = drawn.entry(look).or_insert(f64::NEG_INFINITY);
        if left + width < *reached + NEAR {
            return;
        }
        *reached = left + width;
        self.svg.rectangle([left, y, width, height - 1.0], look.0);
        self.uses(look);
    }

    fn label(&mut self, span: &Span, y: f64, height: f64) {
        let Some(text) = text_of(span) else { return };
        let (left, right) = (self.window.x(span.start), self.window.x(span.end));
        if right - left < text_width(&text, SMALL) + 3.0 {
            return;
        }
        let dark = colours::is_dark(colours::of(span).0);
        let colour = if dark { "#ffffff" } else { INK };
        let (x, y) = ((left + right) / 2.0, y + height / 2.0 + 3.2);
        self.svg.text(x, y, SMALL, colour, Anchor::Middle, &text);
    }

    fn occupancy(&mut self, process: &Process, most: f64) {
        let (from, to) = self.window.ends();
        let sizes::Unit { name, bytes: unit } = sizes::unit(most);
        let top = self.y + 10.0;
        let scale = sizes::ticks(most / unit, 5.0);
        let highest = scale.last().copied().unwrap_or(1.0).max(most / unit) * 1.04;
        let y_of = |bytes: f64| top + (OCCUPANCY - 10.0) * (1.0 - bytes / unit / highest);
        for tick in scale {
            let y = y_of(tick * unit);
            self.svg.line([LEFT, y, WIDTH - RIGHT, y], GRID, 1.0, false);
            let text = format!("{tick}");
            self.svg.text(LEFT - 6.0, y + 3.5, SMALL, PALE, Anchor::End, &text);
        }
        self.svg.text(LEFT - 40.0, top + OCCUPANCY / 2.0, 11.0, INK, Anchor::End, name);
        for (counter, colour, legend) in occupancy::LINES {
            let Some(values) = process.counters.get(counter) else { continue };
            if values.iter().all(|(_, bytes)| *bytes == 0.0) {
                continue;
            }
            let corners = thin(&occupancy::steps(values, from, to), |at| self.window.x(at), y_of);
            self.svg.path(&corners, colour, 1.6);
            self.uses((colour, legend));
        }
        self.y = top + OCCUPANCY - 10.0;
    }

    fn axis(&mut self, ticks: &[f64]) {
        self.svg.line([LEFT, self.y, WIDTH - RIGHT, self.y], INK, 1.0, false);
        for &tick in ticks {
            let x = self.window.x(self.window.origin + tick);
            self.svg.line([x, self.y, x, self.y + 4.0], INK, 1.0, false);
            let text = format!("{tick}");
            self.svg.text(x, self.y + 15.0, SMALL, INK, Anchor::Middle, &text);
        }
        // The first text may reach to the left of the axis.
        let first = ticks.first().map_or(LEFT, |tick| {
            self.window.x(self.window.origin + tick) - text_width(&format!("{tick}"), SMALL) / 2.0
        });
        let end = (LEFT - 10.0).min(first - 6.0);
        self.svg.text(end, self.y + 15.0, 11.0, INK, Anchor::End, "time in ms");
        self.y += 22.0;
    }

    fn legend(&mut self) {
        let mut looks = std::mem::take(&mut self.looks);
        let line = |look: &Look| occupancy::LINES.iter().position(|l| (l.1, l.2) == *look);
        looks.sort_by_key(|look| match line(look) {
            Some(place) => (2, place),
            None => (usize::from(*look != COMPUTE), colours::order(*look)),
        });
        let (mut x, mut row) = (LEFT, self.y + 12.0);
        for look in &looks {
            let width = 16.0 + text_width(look.1, SMALL) + 14.0;
            if x + width > WIDTH - RIGHT {
                (x, row) = (LEFT, row + 15.0);
            }
            match line(look) {
                Some(_) => self.svg.line([x, row - 3.5, x + 12.0, row - 3.5], look.0, 2.0, false),
                None if *look == EVICTION => self.svg.triangle(x + 6.0, row - 1.0, look.0),
                None => self.svg.rectangle([x, row - 8.0, 12.0, 9.0], look.0),
            }
            self.svg.text(x + 16.0, row, SMALL, INK, Anchor::Start, look.1);
            x += width;
        }
        self.y = row;
    }

    fn sees(&self, at: f64) -> bool {
        let (from, to) = self.window.ends();
        (from..=to).contains(&at)
    }

    fn uses(&mut self, look: Look) {
        if !self.looks.contains(&look) {
            self.looks.push(look);
        }
    }
}

/// What is written in a span: its version, or its name if there is no colour for it.
fn text_of(span: &Span) -> Option<String> {
    let name = || (colours::of(span) == OTHER).then(|| span.name.clone());
    span.version.map(|version| version.to_string()).or_else(name)
}

/// Whether a span has a text and is wide enough to be told from its neighbours.
fn labelled(span: &Span, scale: f64) -> bool {
    let room = (span.end - span.start) * scale;
    text_of(span).is_some_and(|text| room >= text_width(&text, SMALL) + 3.0)
}

fn height_of_row(lane: &Lane) -> f64 {
    // Many threads share the room of a few.
    if lane.rows.len() > 4 {
        4.0 * ROW / lane.rows.len() as f64
    } else {
        ROW
    }
}

fn height(lane: &Lane) -> f64 {
    match lane.application {
        true => APPLICATION_ROW,
        false => height_of_row(lane) * lane.rows.len() as f64,
    }
}

/// The corners on the page, without those that cannot be told from their neighbours.
fn thin(
    corners: &[(f64, f64)],
    x_of: impl Fn(f64) -> f64,
    y_of: impl Fn(f64) -> f64,
) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for &(at, bytes) in corners {
        let point = (x_of(at), y_of(bytes));
        let near = |other: &(f64, f64)| {
            (other.0 - point.0).abs() < 0.05 && (other.1 - point.1).abs() < 0.05
        };
        if !kept.last().is_some_and(near) {
            kept.push(point);
        }
    }
    kept
}

/// Round numbers from `from` to `to`, about so many.
fn ticks(from: f64, to: f64, count: f64) -> Vec<f64> {
    let rough = (to - from) / count;
    if rough <= 0.0 || !rough.is_finite() {
        return Vec::new();
    }
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (from / step).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    // Through the step's decimals, so that 0.30000000000000004 is 0.3.
    let scale = (1.0 / power).max(1.0);
    (first..=last).map(|i| (i as f64 * step * scale).round() / scale).collect()
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::small;
    use super::*;

    fn drawn(from: f64, to: f64) -> String {
        draw(&small(), Window { origin: 1.0, from, to }, None)
    }

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks(0.0, 1.0, 10.0), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]);
        assert_eq!(
            ticks(95.0, 250.0, 10.0),
            [100.0, 120.0, 140.0, 160.0, 180.0, 200.0, 220.0, 240.0]
        );
        assert_eq!(ticks(1.0, 1.0, 10.0), [0.0; 0]);
    }

    #[test]
    fn the_picture_says_what_the_trace_does() {
        let picture = drawn(0.0, 2.5);
        for text in [
            "application",
            "flush (D2H)",
            "touch",
            "compute",
            "blocked: device room",
            "flush to untouched pages",
            "host buffer touched",
            "time in ms",
            "it is software &lt;no GPU&gt;",
        ] {
            assert!(picture.contains(&format!(">{text}<")), "{text}");
        }
    }

    /// Catches a picture that grows with the job: here calls, waits and evictions in turns.
    #[test]
    fn what_cannot_be_told_apart_is_drawn_once() {
        let mut jobs = small();
        let mut spans = Vec::new();
        for number in 0..50_000 {
            let start = f64::from(number);
            for (name, blocked, time) in [("checkpoint", false, 0.5), ("copy", true, 0.3)] {
                let (name, end) = (name.to_owned(), start + time);
                spans.push(Span { name, blocked, start, end, ..jobs[0].spans[0].clone() });
            }
        }
        let evicted = |span: &Span| Mark { at: span.start, ..jobs[0].marks[0].clone() };
        jobs[0].marks = spans.iter().map(evicted).collect();
        jobs[0].spans = spans;
        let window = Window { origin: 0.0, from: 0.0, to: 50_000.0 };
        let picture = draw(&jobs, window, None);
        assert!(picture.lines().count() < 15_000, "{} shapes", picture.lines().count());
        // What can be told apart is there.
        let picture = draw(&jobs, Window { origin: 0.0, from: 0.0, to: 100.0 }, None);
        let copies = picture.lines().filter(|line| line.contains("#2b6cb0")).count();
        assert_eq!(copies, 101 + 1, "and the legend's");
    }

    /// The flush is from 0.5 to 2.4 ms of 2.5, in a picture whose axis is 1040 wide.
    #[test]
    fn a_span_is_where_it_belongs_and_no_further_than_the_window() {
        let rectangles = |picture: &str| -> Vec<(f64, f64)> {
            let lines = picture.lines().filter(|line| line.contains("#a3d9a5"));
            let number = |line: &str, key: &str| -> f64 {
                let rest = line.split(&format!(" {key}=\"")).nth(1).unwrap();
                rest.split('"').next().unwrap().parse().unwrap()
            };
            lines.map(|line| (number(line, "x"), number(line, "width"))).collect()
        };
        let axis = WIDTH - LEFT - RIGHT;
        let [(x, width), _legend] = rectangles(&drawn(0.0, 2.5))[..] else { panic!() };
        assert!((x - LEFT - 0.2 * axis).abs() < 0.1 && (width - 0.76 * axis).abs() < 0.1);
        let [(x, width), _legend] = rectangles(&drawn(1.0, 2.0))[..] else { panic!() };
        assert!((x - LEFT).abs() < 0.1 && (width - axis).abs() < 0.1);
    }
}
