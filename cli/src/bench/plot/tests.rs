//! Whole pictures, from synthetic results.

use std::fs;

use super::figures::{all, Album};
use super::pool::Pool;
use super::sheet::{Panel, Sheet};
use super::stack::Stack;
use super::synthetic::{point, results};
use super::{run, Plot};
use crate::bench::plan::ApproachName::{DirectPin, Ours, Uvm};
use crate::bench::plan::Configuration;
use crate::bench::results::{Initialisation, Measurement, NotBegun, Why, SOFTWARE_WARNING};

fn pool(measurements: Vec<Measurement>) -> Pool {
    let mut pool = Pool { device: "Synthetic".to_owned(), ..Pool::default() };
    pool.add(results(measurements));
    pool
}

fn picture<'a>(album: &'a Album, name: &str) -> &'a Sheet {
    let names: Vec<&String> = album.pictures.iter().map(|(name, _)| name).collect();
    let found = album.pictures.iter().find(|(known, _)| known == name);
    &found.unwrap_or_else(|| panic!("{name} is not among {names:?}")).1
}

/// The filled rectangles of one colour.
fn rectangles(svg: &str, colour: &str) -> usize {
    svg.lines().filter(|line| line.starts_with("<rect") && line.contains(colour)).count()
}

/// By interval: 5 and 20 ms, three approaches.
fn sweep() -> Vec<Measurement> {
    let mut points = Vec::new();
    for interval in [20.0, 5.0] {
        points.push(point(DirectPin, interval, 12.5));
        points.push(point(Uvm, interval, 5.0));
        points.push(point(Ours, interval, 1.0));
    }
    points
}

#[test]
fn a_sweep_of_intervals_makes_figures_5a_and_5b() {
    let album = all(&pool(sweep()));
    let svg = picture(&album, "5a-checkpoints").draw().unwrap();
    // A bar for each interval, and the entry of the legend.
    for colour in ["#0072B2", "#D55E00", "#009E73"] {
        assert_eq!(rectangles(&svg, colour), 3, "{colour}");
    }
    for text in ["12.5 x", "Synthetic", "compute interval (ms)", "blocked per process (s)"] {
        assert!(svg.contains(text), "{text}");
    }
    for text in ["direct-pin", "floor: bare copies", "4 checkpoints of 128 MiB", "1 process"] {
        assert!(svg.contains(text), "{text}");
    }
    let Panel::Bars(bars) = &picture(&album, "5b-checkpoints-and-restores").panels[0] else {
        panic!("no bars");
    };
    let names: Vec<&str> = bars.x.ticks.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(names, ["5", "20"]);
    assert_eq!(bars.series[0].0.label, "ours");
    let spread = bars.series[0].1[0].spread.unwrap();
    let total = |time: f64| time * (0.1 + 0.9 * 0.875 + 1.0);
    for (found, time) in [(spread.least, 0.9), (spread.median, 1.0), (spread.greatest, 1.2)] {
        assert!((found - total(time)).abs() < 1e-9, "{found}");
    }
    assert!((bars.floors[0].unwrap() - 2.0 * 4.0 * 0.0003).abs() < 1e-9);
    assert!(svg.contains("bare copies: 1.20 ms (1.20 to 1.20, 6 passes)"), "one floor for all");
}

/// Catches causes of ours alone, bars that do not add up, and shares where times could be shown.
#[test]
fn causes_of_all_approaches_add_up() {
    type Heights = Vec<(String, f64)>;
    let heights = |points: Vec<Measurement>| {
        let album = all(&pool(points));
        let panels = &picture(&album, "causes").panels;
        let [Panel::Stack(checkpoints), Panel::Stack(all)] = &panels[..] else {
            panic!("two panels of stacks");
        };
        let sums = |stack: &Stack| -> Heights {
            let columns = stack.groups[0].iter();
            columns.map(|c| (c.name.clone(), c.heights.iter().sum())).collect()
        };
        let parts: Vec<String> = all.parts.iter().map(|key| key.label.clone()).collect();
        (sums(checkpoints), sums(all), parts)
    };
    let (checkpoints, both, parts) = heights(
        [(Ours, 1.0), (DirectPin, 8.0), (Uvm, 5.0)].map(|(a, t)| point(a, 5.0, t)).to_vec(),
    );
    assert_eq!(parts, ["copy", "device room", "initialisation"]);
    let names: Vec<&str> = both.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ours", "direct-pin", "uvm"]);
    let mean = (0.9 + 1.0 + 1.2) / 3.0;
    for (at, time) in [1.0, 8.0, 5.0].into_iter().enumerate() {
        let (checkpoints, both) = (checkpoints[at].1, both[at].1);
        let blocked = time * mean * (0.1 + 0.9 * 0.875);
        assert!((checkpoints - blocked).abs() < 1e-6, "{checkpoints} of {blocked}");
        assert!((both - blocked - time * mean).abs() < 1e-6, "{both}");
    }
    let (_, both, _) = heights(vec![point(Ours, 5.0, 1.0), point(DirectPin, 5.0, 100.0)]);
    assert!(both.iter().all(|(_, height)| (height - 100.0).abs() < 1e-6), "{both:?}");
}

#[test]
fn what_cannot_be_drawn_is_named_with_its_reason() {
    let album = all(&pool(sweep()));
    for figure in ["3a:", "3b, 3c:", "4a:", "4b, 4c:", "5c:", "6a, 6b:", "6c:"] {
        assert!(album.missing.iter().any(|text| text.starts_with(figure)), "{figure}");
    }
    assert!(!album.missing.iter().any(|text| text.starts_with("5a")));
}

#[test]
fn points_of_another_sweep_make_no_picture_of_one_group() {
    let mut points = sweep();
    for (processes, approach) in [(2, Ours), (2, DirectPin), (4, Ours), (4, DirectPin)] {
        let mut more = point(approach, 20.0, 2.0);
        more.plan.processes = processes;
        points.push(more);
    }
    let album = all(&pool(points));
    picture(&album, "5a-checkpoints");
    let Panel::Bars(bars) = &picture(&album, "6a-checkpoints").panels[0] else {
        panic!("no bars");
    };
    assert_eq!(bars.x.ticks.len(), 3);
    assert_eq!(album.pictures.iter().filter(|(name, _)| name.starts_with("5a")).count(), 1);
}

#[test]
fn touch_and_pin_make_figure_5c() {
    let mut points = Vec::new();
    for (touch, pin) in [("auto", "serial"), ("sequential", "parallel"), ("auto", "parallel")] {
        for interval in [5.0, 20.0] {
            let mut one = point(Ours, interval, 1.0);
            (one.plan.touch, one.plan.pin) = (touch.to_owned(), pin.to_owned());
            points.push(one);
        }
    }
    points.push(point(Ours, 10.0, 1.0));
    let album = all(&pool(points));
    let svg = picture(&album, "5c-touch-and-pin").draw().unwrap();
    assert!(svg.contains("touch sequential, pin parallel"));
    // The colour is that of pin, and each bar that is not solid has a frame of it: serial and
    // auto; parallel and sequential (solid); parallel and auto.
    assert_eq!(rectangles(&svg, "stroke=\"#0072B2\""), 3);
    assert_eq!(rectangles(&svg, "fill=\"#D55E00\""), 3);
    assert_eq!(rectangles(&svg, "stroke=\"#D55E00\""), 3);
    let Panel::Bars(bars) = &picture(&album, "5c-touch-and-pin").panels[0] else {
        panic!("no bars");
    };
    assert_eq!(bars.series[0].0.label, "touch auto, pin serial");
    assert_eq!(bars.floors.len(), 2, "10 ms has nothing beside it");
}

#[test]
fn a_warning_is_in_every_picture_of_measurements() {
    let mut pool = pool(sweep());
    pool.warnings.push(SOFTWARE_WARNING.to_owned());
    pool.initialisation.push(Initialisation {
        what: "host: touched".to_owned(),
        processes: 1,
        bytes: 1 << 30,
        step: 0,
        seconds: vec![vec![0.5]],
    });
    let album = all(&pool);
    assert!(album.pictures.len() >= 7);
    for (name, sheet) in &album.pictures {
        assert!(sheet.draw().unwrap().contains(SOFTWARE_WARNING), "{name}");
    }
}

#[test]
fn wrong_bytes_and_failures_are_shown() {
    let mut points = sweep();
    points[0].runs[0].processes[0].wrong_versions = 3;
    points[1].runs.clear();
    points[1].failures.push("out of memory".to_owned());
    let album = all(&pool(points));
    let svg = picture(&album, "5a-checkpoints").draw().unwrap();
    assert!(svg.contains("3 restored versions had wrong bytes"));
    assert!(svg.contains("failed"));
}

/// Of what was planned at 5 and 20 ms, direct-pin failed at 5 ms, and nothing else began there.
#[test]
fn what_was_not_measured_is_marked_in_every_picture() {
    let mut points = sweep();
    for point in points.iter_mut().filter(|point| point.plan.interval_ms == 5.0) {
        point.runs.clear();
        if point.plan.approach == DirectPin {
            point.failures.push("out of memory".to_owned());
        } else {
            let text = "the time was up: --budget 60 seconds".to_owned();
            point.not_begun = Some(NotBegun { why: Why::Budget, text });
        }
    }
    let album = all(&pool(points));
    for (name, marks) in [("5a-checkpoints", 2), ("causes", 4), ("disturbance", 4)] {
        let svg = picture(&album, name).draw().unwrap();
        let lines: Vec<&str> = svg.lines().map(str::trim).collect();
        assert_eq!(lines.iter().filter(|line| **line == "not measured").count(), marks, "{name}");
        assert!(svg.contains("3 of 6 points measured, 1 failed, 2 not begun; 3 repeats"), "{name}");
        for said in ["FAILED: direct-pin, 1 process, every", "NOT BEGUN: 2 points: the time was up"]
        {
            assert!(svg.contains(said), "{name}: {said}");
        }
    }
    for name in ["each-checkpoint", "hops"] {
        let svg = picture(&album, name).draw().unwrap();
        assert!(svg.contains("20 ms between checkpoints"), "{name}: the shortest that there is");
    }
}

/// Several numbers of checkpoints, in buffers of several sizes.
#[test]
fn no_figure_6c_mixes_numbers_of_checkpoints() {
    let mut points = Vec::new();
    for (gib, count) in [(1, 4), (2, 4), (2, 16), (4, 8), (8, 16)] {
        let mut one = point(Ours, 20.0, 1.0);
        one.plan.host_cache = gib << 30;
        one.plan.sizes = vec![vec![128 << 20; count]];
        points.push(one);
    }
    let texts = |name: &str, album: &Album| {
        let Panel::Bars(bars) = &picture(album, name).panels[0] else { panic!("no bars") };
        bars.x.ticks.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>()
    };
    let album = all(&pool(points.clone()));
    let same = "6c-checkpoints-and-restores-4x128-mib";
    assert_eq!(texts(same, &album), ["1 GiB", "2 GiB"]);
    let same = "6c-checkpoints-and-restores-16x128-mib";
    assert_eq!(texts(same, &album), ["2 GiB", "8 GiB"]);
    points.remove(2);
    points.remove(1);
    let album = all(&pool(points));
    let following = ["1 GiB, 4 checkpoints", "4 GiB, 8 checkpoints", "8 GiB, 16 checkpoints"];
    assert_eq!(texts("6c-checkpoints-and-restores", &album), following);
}

/// A host buffer that only a setting of ours was measured in, which the picture does not show: with
/// the defaults there is one size.
#[test]
fn no_figure_6c_has_a_single_size() {
    let mut points = vec![point(Ours, 20.0, 1.0), point(DirectPin, 20.0, 1.0)];
    points.push(point(Ours, 20.0, 1.0));
    points[2].plan.host_cache *= 2;
    points[2].plan.pin = "parallel".to_owned();
    let drawn = |points: &Vec<Measurement>| {
        let album = all(&pool(points.clone()));
        album.pictures.iter().any(|(name, _)| name.starts_with("6c"))
    };
    assert!(!drawn(&points));
    points[1].plan.host_cache *= 2;
    assert!(drawn(&points), "two sizes, of two approaches");
}

#[test]
fn the_heading_and_the_foot_have_the_whole_setup() {
    let mut pool = pool(sweep());
    pool.drivers.push("driver 550.54, CUDA 12.8".to_owned());
    let svg = picture(&all(&pool), "5a-checkpoints").draw().unwrap();
    for text in [
        "large-host",
        "device busy between",
        "device cache 256 MiB",
        "host buffer 1 GiB",
        "restored in reverse, all hints ahead",
        "ours: touch auto, pin chunked",
        "6 points measured; 3 repeats",
        "huge pages:",
        "driver 550.54, CUDA 12.8",
        "commit 0123456",
    ] {
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn times_of_0_do_not_break_a_logarithmic_axis() {
    let points = vec![point(Ours, 5.0, 0.0), point(DirectPin, 5.0, 30.0), point(Uvm, 5.0, 0.01)];
    let album = all(&pool(points));
    for (name, sheet) in &album.pictures {
        let svg = sheet.draw().unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
        // Coordinates that overflowed are far away.
        assert!(!svg.contains("21474836"), "{name}");
    }
    let svg = picture(&album, "5a-checkpoints").draw().unwrap();
    assert!(!svg.contains(" x\n"), "a ratio to nothing");
}

#[test]
fn variable_sizes_make_figures_3a_to_3c() {
    let mut points = sweep();
    for point in &mut points {
        point.plan.sizes = vec![vec![4 << 20, 64 << 20, 8 << 20, 8 << 20], vec![12 << 20; 4]];
        point.plan.workload = "shots.csv".to_owned();
    }
    let album = all(&pool(points));
    let svg = picture(&album, "3a-sizes").draw().unwrap();
    assert!(svg.contains("process 1") && svg.contains("sizes: shots.csv"));
    picture(&album, "3b-checkpoints");
    picture(&album, "3c-checkpoints-and-restores");
}

#[test]
fn no_picture_takes_the_place_of_another() {
    let mut points = sweep();
    for point in &mut points {
        point.plan.workload = "shots.csv".to_owned();
        point.plan.sizes = vec![vec![4 << 20, 64 << 20, 8 << 20, 8 << 20]];
    }
    let mut others = points.clone();
    others.iter_mut().for_each(|point| point.plan.sizes[0][0] = 8 << 20);
    points.extend(others);
    let album = all(&pool(points));
    picture(&album, "3b-checkpoints-4xshots.csv");
    picture(&album, "3b-checkpoints-4xshots.csv-2");
}

#[test]
fn large_device_makes_figures_4b_and_4c() {
    let mut points = sweep();
    for point in &mut points {
        point.plan.configuration = Configuration::LargeDevice;
        point.plan.host_cache = 0;
    }
    let album = all(&pool(points));
    picture(&album, "4b-checkpoints");
    picture(&album, "4c-checkpoints-and-restores");
    assert!(!album.pictures.iter().any(|(name, _)| name.starts_with('5')));
}

#[test]
fn the_command_writes_both_forms() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sweep.json");
    results(sweep()).write(&path).unwrap();
    let out = folder.path().join("new/plots");
    run(&Plot { results: vec![path.clone()], out: out.clone() }).unwrap();
    for name in ["5a-checkpoints.svg", "5a-checkpoints.png", "causes.png", "hops.svg"] {
        assert!(fs::metadata(out.join(name)).unwrap().len() > 1000, "{name}");
    }
    let foreign = folder.path().join("package.json");
    fs::write(&foreign, r#"{"name": "of another program"}"#).unwrap();
    run(&Plot { results: vec![folder.path().into()], out: out.clone() }).unwrap();
    let error = run(&Plot { results: vec![foreign], out: out.clone() }).unwrap_err();
    assert!(error.to_string().contains("could not be read"), "it was named: {error}");
    let damaged = folder.path().join("zero.json");
    fs::write(&damaged, "").unwrap();
    let again = folder.path().join("again");
    let error = run(&Plot { results: vec![folder.path().into()], out: again.clone() }).unwrap_err();
    assert!(error.to_string().contains("1 of the files could not be read"), "{error}");
    assert!(again.join("5a-checkpoints.png").exists(), "the others are drawn");
    results(Vec::new()).write(&path).unwrap();
    let error = run(&Plot { results: vec![path], out }).unwrap_err();
    assert!(error.to_string().contains("nothing to draw"), "{error}");
}
