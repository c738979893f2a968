//! The table of the paper's numbers beside ours, in Markdown.

use anyhow::{ensure, Result};

use super::beside::{OurNumber, Points, ROWS};
use super::numbers::{PaperNumber, Unit};
use super::Source;
use crate::host::number;
use crate::results::{MeasuredDevice, SOFTWARE_WARNING};
use crate::table::absent;

/// What stands in the place of a number of ours.
const ABSENT: &str = "not yet measured on a GPU";

/// The text: the table, what its units are, where our numbers come from, and what is missing in those files.
///
/// # Errors
/// Some files are of the software device, and others are not.
pub(super) fn text(sources: &[Source]) -> Result<String> {
    let software = |source: &&Source| {
        source.results.device.as_ref().is_some_and(|device: &MeasuredDevice| device.software)
    };
    let (stand_in, gpu): (Vec<&Source>, Vec<&Source>) = sources.iter().partition(software);
    if let (Some(stand_in), Some(gpu)) = (stand_in.first(), gpu.first()) {
        let (stand_in, gpu) = (&stand_in.file, &gpu.file);
        let why = "they do not stand in one table";
        ensure!(false, "{stand_in} is of the software device, and {gpu} is not: {why}");
    }
    let software = !stand_in.is_empty();
    let points: Vec<Points> = sources.iter().map(|source| Points::of(&source.results)).collect();
    let mut used: Vec<Vec<&str>> = vec![Vec::new(); sources.len()];
    let mut rows = String::new();
    let mut measured = 0;
    for (paper, find) in ROWS {
        let found = points.iter().enumerate().filter_map(|(at, points)| Some((find(points)?, at)));
        // The nearest to the paper, then the newest.
        let best = found.max_by_key(|(ours, at)| (ours.bytes, sources[*at].results.program.time));
        if let Some((_, at)) = &best {
            measured += 1;
            if !used[*at].contains(&paper.figure) {
                used[*at].push(paper.figure);
            }
        }
        rows += &row(&paper, best.map(|(ours, _)| ours), software);
    }
    let mut text = String::new();
    if software {
        text += &format!("**{SOFTWARE_WARNING}.**\n\n");
    }
    text += "| figure | setting | the paper | ours | ratio |\n| --- | --- | --- | --- | --- |\n";
    text += &rows;
    let partial = if measured < ROWS.len() { "Partial: " } else { "" };
    text += &format!(
        "\n{partial}{measured} of {} numbers. x: blocked time with all memory allocated and pinned up front over ours\n\
         (5c: one way of ours over the other, of checkpoints and restores). In brackets the medians behind it, the\n\
         checkpoints of each process, in a larger host buffer where it says so. Ratio: ours over the paper's.\n\n",
        ROWS.len()
    );
    for (source, figures) in sources.iter().zip(&used).filter(|(_, figures)| !figures.is_empty()) {
        text += &format!("- {}: {}\n", figures.join(", "), source.origin());
    }
    for source in sources {
        let all = &source.results.measurements;
        if all.iter().any(|point| absent::Absent::of(point).is_some()) {
            let why = absent::reasons(all).into_iter().chain(absent::failures(all));
            let why: String = why.map(|line| format!("; {line}")).collect();
            text += &format!("- partial: {}: {}{why}\n", source.file, absent::count(all));
        }
    }
    Ok(text)
}

fn row(paper: &PaperNumber, ours: Option<OurNumber>, software: bool) -> String {
    let unit = paper.unit.text();
    let (of_paper, unit_of_ours) = match paper.unit {
        Unit::PercentLess => {
            (format!("{} {unit}: {} x", paper.value, number(paper.factor())), Unit::Times.text())
        }
        Unit::Times | Unit::GigabytesPerSecond => (format!("{} {unit}", paper.value), unit),
    };
    let setting = match &ours {
        Some(ours) if paper.processes().is_some_and(|number| number != ours.processes) => {
            format!("paper: {}; here {}", paper.setting, ours.processes)
        }
        _ => paper.setting.to_owned(),
    };
    let (ours, ratio) = match ours {
        None => (ABSENT.to_owned(), "-".to_owned()),
        Some(OurNumber { value, how, .. }) => {
            let mark = if software { "software device, no GPU: " } else { "" };
            let ratio = if software { "-".to_owned() } else { number(value / paper.factor()) };
            (format!("{mark}{} {unit_of_ours} ({how})", number(value)), ratio)
        }
    };
    format!("| {} | {} | {of_paper} | {ours} | {ratio} |\n", paper.what(), setting)
}
