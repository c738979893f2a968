//! The table of the paper's numbers, with made-up results and with those of the project.

use super::*;
use crate::figures::{FigureSeries, Thoroughness};
use crate::options::Amounts;
use crate::plan::ApproachName::{DirectPin, Ours};
use crate::plan::{Compute, PointPlan};
use crate::results::{
    Initialisation, MeasuredDevice, Measurement, NotBegun, NotBegunReason, SOFTWARE_WARNING,
};
use crate::tests::synthetic::{device, point, results};

const ABSENT: &str = "not yet measured on a GPU";

fn source(file: &str, measurements: Vec<Measurement>) -> Source {
    Source { file: file.to_owned(), results: results(measurements) }
}

/// A point of figure 5a.
fn idle(approach: crate::plan::ApproachName, interval: f64, time: f64) -> Measurement {
    let mut point = point(approach, interval, time);
    point.plan.compute = Compute::Sleep;
    if approach == DirectPin {
        (point.plan.touch, point.plan.pin) = (String::new(), String::new());
    }
    point
}

/// Made-up figures for a plan.
fn measured(plan: PointPlan) -> Measurement {
    let time = if plan.approach == Ours { 1.0 } else { 8.0 };
    Measurement { plan, ..point(Ours, 20.0, time) }
}

fn row<'a>(text: &'a str, figure: &str) -> &'a str {
    text.lines().find(|line| line.starts_with(&format!("| {figure}"))).unwrap()
}

/// Catches a number of the paper that the extent `paper` measures nothing for, with its sizes or with less.
#[test]
fn the_extent_measures_what_each_number_is_about() {
    use FigureSeries::{HostBuffer, LargeDevice, Processes, TouchAndPin, Uniform, Variable};
    let amounts = |count, size, device, host| Amounts {
        count: Some(count),
        size: Some(size),
        device_cache: Some(device),
        host_cache: vec![host],
        ..Amounts::default()
    };
    for amounts in [
        amounts(256, 128 << 20, 4 << 30, 32 << 30),
        amounts(32, 128 << 20, 512 << 20, 4 << 30),
        amounts(16, 256 << 10, 512 << 10, 4 << 20),
    ] {
        let gpu = MeasuredDevice { memory: 140 << 30, ..MeasuredDevice::default() };
        let mut sources = Vec::new();
        for figure in [Uniform, Variable, LargeDevice, Processes, HostBuffer, TouchAndPin] {
            let options = figure.options(Thoroughness::Paper, &amounts);
            let plans = options.iter().flat_map(|options| options.plans(&gpu).unwrap());
            sources.push(source(&figure.name(), plans.map(measured).collect()));
        }
        let initialisation = |processes| Initialisation {
            what: Initialisation::ALLOCATED.to_owned(),
            processes,
            bytes: 8 << 30,
            step: 0,
            seconds: vec![vec![0.01; processes as usize]],
        };
        let mut init = results(Vec::new());
        init.initialisation = vec![initialisation(1), initialisation(8)];
        sources.push(Source { file: "4a".to_owned(), results: init });
        let text = table::text(&sources).unwrap();
        assert!(!text.contains(ABSENT) && text.contains("\n19 of 19 numbers"), "{text}");
        let used: Vec<_> = text.lines().filter(|line| line.starts_with("- ")).collect();
        assert_eq!(used.len(), sources.len(), "{text}");
    }
}

/// Catches a ratio upside down, one of a smaller run or of an older one, and points of another question.
#[test]
fn ours_is_the_nearest_to_the_paper_then_the_newest() {
    let mut small = [idle(Ours, 20.0, 1.0), idle(DirectPin, 20.0, 99.0)];
    small.iter_mut().for_each(|point| point.plan.sizes = vec![vec![128 << 20; 3]]);
    let mut sources = vec![
        source("old", vec![idle(Ours, 20.0, 1.0), idle(DirectPin, 20.0, 3.0)]),
        source("new", vec![idle(Ours, 20.0, 2.0), idle(DirectPin, 20.0, 30.4)]),
        source("small", small.to_vec()),
        source("busy", vec![point(Ours, 20.0, 1.0), point(DirectPin, 20.0, 77.0)]),
    ];
    sources[1].results.program.time = 1;
    let text = table::text(&sources).unwrap();
    let row = row(&text, "6a, checkpoints | 1 process");
    assert!(row.contains("| 7.6 x | 15.2 x (") && row.ends_with("| 2.00 |"), "{row}");
    assert!(text.contains("- 5a, 5b, 6a, 6b: new, Synthetic"), "{text}");
    // The large device's numbers are shares.
    for source in &mut sources {
        source.results.measurements.iter_mut().for_each(|m| {
            m.plan.configuration = crate::plan::LevelConfiguration::LargeDevice;
            m.plan.host_cache = 0;
        });
    }
    let text = table::text(&sources).unwrap();
    let share = "| 4b, checkpoints, less than with direct allocation |  | 76 %: 4.17 x | 15.2 x";
    assert!(text.contains(share) && text.contains("| 3.65 |"), "{text}");
}

/// Catches a row that passes one process for eight, and a mean or a maximum of a single interval.
#[test]
fn a_row_says_where_ours_is_of_less() {
    let mut shots = vec![idle(Ours, 20.0, 1.0), idle(DirectPin, 20.0, 9.0)];
    shots.iter_mut().for_each(|point| point.plan.workload = crate::workload::GENERATED.to_owned());
    let pinned = |interval, pin: &str, time| {
        let mut point = idle(Ours, interval, time);
        (point.plan.processes, point.plan.pin) = (2, pin.to_owned());
        point
    };
    let mut one = vec![pinned(20.0, "serial", 1.0), pinned(20.0, "parallel", 2.0)];
    let text = table::text(&[source("3", shots.clone()), source("5c", one.clone())]).unwrap();
    assert!(
        text.contains("| 3b, RTM, checkpoints | paper: 8 processes; here 1 | 16.7 x |"),
        "{text}"
    );
    let which =
        ["5c, parallel over serial pinning, mean", "5c, parallel over serial pinning, most"];
    for which in which {
        assert!(row(&text, which).contains("every 20 ms, the only interval) |"), "{text}");
    }
    one.extend([pinned(5.0, "serial", 1.0), pinned(5.0, "parallel", 3.0)]);
    shots.iter_mut().for_each(|point| point.plan.processes = 8);
    let text = table::text(&[source("3", shots), source("5c", one)]).unwrap();
    assert!(text.contains("| 3b, RTM, checkpoints | 8 processes | 16.7 x |"), "{text}");
    for which in which {
        assert!(!row(&text, which).contains("only interval"), "{text}");
    }
}

/// Catches a table that hides what a run that was cut off has not measured, or loses what it has.
#[test]
fn a_partial_result_has_what_it_has_and_names_the_rest() {
    let mut cut = vec![idle(Ours, 20.0, 1.0), idle(DirectPin, 20.0, 7.6), idle(Ours, 5.0, 1.0)];
    cut[2].runs.clear();
    let text = "its turn had not come".to_owned();
    cut[2].not_begun = Some(NotBegun { why: NotBegunReason::Turn, text });
    let mut failed = vec![idle(Ours, 5.0, 1.0)];
    failed[0].runs.clear();
    failed[0].failures.push("out of memory".to_owned());
    let sources = [source("figure-5ab.json", cut), source("figure-3.json", failed)];
    let text = table::text(&sources).unwrap();
    assert!(row(&text, "5a").contains("| 7.60 x ("), "{text}");
    assert!(row(&text, "3b").contains(&format!("| {ABSENT} | - |")), "{text}");
    assert!(text.contains("\nPartial: 4 of 19 numbers."), "{text}");
    let cut = "- partial: figure-5ab.json: 2 of 3 points measured, 1 not begun; 3 repeats; NOT BEGUN: ours";
    assert!(text.contains(cut) && text.contains("its turn had not come\n"), "{text}");
    let failed = "- partial: figure-3.json: 0 of 1 points measured, 1 failed; FAILED: ours";
    assert!(text.contains(failed) && text.contains(": out of memory\n"), "{text}");
    let nothing = table::text(&[]).unwrap();
    assert_eq!(nothing.matches(ABSENT).count(), 19, "{nothing}");
}

/// Catches a time of the software device that could be taken for a GPU's.
#[test]
fn the_software_device_is_named_in_each_row_and_compared_with_nothing() {
    let gpu = source("gpu", vec![idle(Ours, 20.0, 1.0), idle(DirectPin, 20.0, 7.6)]);
    let mut software = source("software", gpu.results.measurements.clone());
    software.results.device = Some(device("softcuda", true));
    let error = table::text(&[gpu, software]).unwrap_err().to_string();
    assert!(error.contains("software is of the software device, and gpu is not"), "{error}");
    let mut software = source("software", vec![idle(Ours, 20.0, 1.0), idle(DirectPin, 20.0, 7.6)]);
    software.results.device = Some(device("softcuda", true));
    let text = table::text(&[software]).unwrap();
    assert!(text.starts_with(&format!("**{SOFTWARE_WARNING}.**\n")), "{text}");
    let row = row(&text, "5a");
    assert!(row.contains("| software device, no GPU: 7.60 x") && row.ends_with("| - |"), "{row}");
}

/// Catches a figure in the documents that no file has.
#[test]
fn the_table_in_the_documents_is_that_of_the_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    let text = table::text(&read_all(std::slice::from_ref(&folder)).unwrap()).unwrap();
    let document = fs::read_to_string(folder.join("README.md")).unwrap();
    let what =
        "docs/results/README.md wants this table, of `cargo xtask veloc-bench paper docs/results`";
    assert!(document.contains(&text), "{what}:\n{text}");
}
