//! Which spans go to which row of the picture.

use super::job::{Process, Span, CONCURRENT, SEQUENTIAL};

/// Rows that belong together.
#[derive(Debug)]
pub struct Lane<'a> {
    /// What stands beside it.
    pub label: &'static str,
    /// Spans of one row do not overlap, unless they lie within each other.
    pub rows: Vec<Vec<&'a Span>>,
    /// The application's own.
    pub application: bool,
    /// The place whose evictions are marked here.
    pub place: &'static str,
}

/// A lane: its label, the place whose evictions it shows, and groups of activities. No row has
/// activities of two groups.
type Plan = (&'static str, &'static str, &'static [&'static [&'static str]]);

/// The lanes from top to bottom.
const LANES: [Plan; 9] = [
    ("device cache", "device", &[&["map"]]),
    ("copies", "", &[&["capture", "recover"]]),
    ("flush (D2H)", "", &[&["flush"]]),
    ("host buffer", "host", &[&["touch"]]),
    ("touch mode", "", &[&[SEQUENTIAL, CONCURRENT]]),
    ("register", "", &[&["register", "turn", "lull"]]),
    ("prefetch (H2D)", "", &[&["fetch"]]),
    ("files", "", &[&["write"], &["persist"], &["encode"]]),
    ("read ahead", "", &[&["read"]]),
];

/// The lane of what other programs have recorded, and this one does not know.
const OTHER: &str = "other";

/// The lanes of a process that have anything between `from` and `to`.
pub fn of(process: &Process, from: f64, to: f64) -> Vec<Lane<'_>> {
    let seen = |span: &&Span| span.end >= from && span.start <= to;
    let own = |span: &&Span| span.blocked || span.is_call();
    let application: Vec<&Span> = process.spans.iter().filter(own).filter(seen).collect();
    let mut lanes =
        vec![Lane { label: "application", rows: vec![application], application: true, place: "" }];
    for (label, place, groups) in LANES {
        let mut rows = Vec::new();
        for activities in groups {
            let wanted = |span: &&Span| !own(span) && activities.contains(&span.name.as_str());
            rows.extend(pack(process.spans.iter().filter(wanted).filter(seen)));
        }
        lanes.push(Lane { label, rows, application: false, place });
    }
    let unknown = |span: &&Span| !own(span) && !is_planned(&span.name);
    let rows = pack(process.spans.iter().filter(unknown).filter(seen));
    lanes.push(Lane { label: OTHER, rows, application: false, place: "" });
    let evicts = |place: &str| {
        let within = |at: f64| (from..=to).contains(&at);
        !place.is_empty() && process.evictions().any(|mark| mark.detail == place && within(mark.at))
    };
    lanes.retain(|lane| lane.rows.iter().any(|row| !row.is_empty()) || evicts(lane.place));
    lanes
}

/// Whether an activity has a lane.
fn is_planned(name: &str) -> bool {
    LANES.iter().flat_map(|(_, _, groups)| *groups).any(|group| group.contains(&name))
}

/// Puts each span into the first row that is free. They ascend by their starts.
fn pack<'a>(spans: impl Iterator<Item = &'a Span>) -> Vec<Vec<&'a Span>> {
    let mut rows: Vec<Vec<&Span>> = Vec::new();
    for span in spans {
        let free = |row: &&mut Vec<&Span>| row.last().is_none_or(|last| last.end <= span.start);
        match rows.iter_mut().find(free) {
            Some(row) => row.push(span),
            None => rows.push(vec![span]),
        }
    }
    rows
}

/// The time between the application's calls, from the first call to the last.
pub fn computing(process: &Process) -> Vec<(f64, f64)> {
    let calls = process.spans.iter().filter(|span| span.is_call());
    let mut gaps = Vec::new();
    let mut end: Option<f64> = None;
    for call in calls {
        if let Some(end) = end.filter(|&end| end < call.start) {
            gaps.push((end, call.start));
        }
        end = Some(end.map_or(call.end, |end| end.max(call.end)));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::small;
    use super::*;

    #[test]
    fn spans_that_overlap_get_rows_of_their_own_and_those_after_go_back_up() {
        let span = |start: f64, end: f64| Span { start, end, ..small()[0].spans[0].clone() };
        let spans =
            [span(0.0, 2.0), span(1.0, 3.0), span(2.0, 4.0), span(2.5, 9.0), span(3.0, 5.0)];
        let rows = pack(spans.iter());
        let starts: Vec<Vec<f64>> =
            rows.iter().map(|row| row.iter().map(|span| span.start).collect()).collect();
        assert_eq!(starts, [vec![0.0, 2.0], vec![1.0, 3.0], vec![2.5]]);
    }

    #[test]
    fn each_lane_has_its_own_and_empty_ones_are_left_out() {
        let jobs = small();
        let lanes = of(&jobs[0], 0.0, 10.0);
        let labels: Vec<&str> = lanes.iter().map(|lane| lane.label).collect();
        assert_eq!(labels, ["application", "device cache", "flush (D2H)", "host buffer"]);
        assert_eq!(lanes[0].rows[0].len(), 4, "two calls and two waits");
        assert!(lanes[1].rows.is_empty(), "nothing is mapped, but something evicted");
        assert_eq!(lanes[3].rows.len(), 2, "two threads touch at once");
        let later = of(&jobs[0], 2.0, 10.0);
        assert!(later.iter().all(|lane| lane.label != "host buffer"), "it is over by then");
    }

    #[test]
    fn every_activity_of_the_library_has_a_lane_and_what_is_unknown_too() {
        let base = Span { blocked: false, ..small()[0].spans[0].clone() };
        let named = |name: &str| Process {
            spans: vec![Span { name: name.to_owned(), ..base.clone() }],
            ..Process::default()
        };
        for (_, name) in veloc_client::trace::activity::ACTIVITIES {
            let process = named(name.to_str().unwrap());
            let lanes = of(&process, 0.0, 10.0);
            assert!(lanes.len() == 1 && lanes[0].label != OTHER, "{name:?}: {lanes:?}");
        }
        let process = named("solve");
        assert_eq!(of(&process, 0.0, 10.0)[0].label, OTHER);
    }

    #[test]
    fn evictions_alone_make_a_lane() {
        let mut jobs = small();
        jobs[0].marks[0].detail = "host".to_owned();
        let labels = |from| of(&jobs[0], from, 10.0).iter().map(|l| l.label).collect::<Vec<_>>();
        assert!(labels(3.3).contains(&"host buffer"), "{:?}", labels(3.3));
        assert!(!labels(3.45).contains(&"host buffer"), "it is over");
    }

    #[test]
    fn computing_is_what_is_between_the_calls() {
        assert_eq!(computing(&small()[0]), [(1.5, 3.0)]);
    }
}
