//! How the model's answers are said.

use std::fmt::Write;

use super::claims::Claim;
use super::node::Node;
use super::paper::Row;
use super::predict::{Prediction, TITLE};

/// The title of the comparison.
pub(super) const COMPARISON: &str = "a model of the DGX A100 beside the text of HiPC'22";

/// A table: each column as wide as its widest cell, the first to the left, the others to the right.
fn table(head: &[&str], rows: &[Vec<String>], left: usize) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let mut text = String::new();
        for (column, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            // Writing to a string cannot fail.
            let _ = if column < left {
                write!(text, "{gap}{cell:<width$}")
            } else {
                write!(text, "{gap}{cell:>width$}")
            };
        }
        text.trim_end().to_owned() + "\n"
    };
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    let mut text = line(&head) + &line(&rule);
    text.extend(rows.iter().map(|row| line(row)));
    text
}

/// The model beside the paper.
pub(super) fn comparison(rows: &[Row], claims: &[Claim]) -> String {
    let mut notes: Vec<&str> = Vec::new();
    let mut number = |note: &'static str, wanted: bool| {
        if note.is_empty() || !wanted {
            return String::new();
        }
        let at = notes.iter().position(|&known| known == note).unwrap_or_else(|| {
            notes.push(note);
            notes.len() - 1
        });
        format!("({})", at + 1)
    };
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let read = row.agrees() && !row.setting.contains('[');
            vec![
                row.what.to_owned(),
                row.setting.to_owned(),
                format!("{} {}", row.paper, row.unit),
                format!("{} {}", Rounded(row.model), row.unit),
                format!("{:.2}", row.ratio()),
                if row.agrees() { "yes" } else { "NO" }.to_owned(),
                number(row.note, !read || row.is_input()),
            ]
        })
        .collect();
    let said: Vec<Vec<String>> = claims
        .iter()
        .map(|claim| {
            let holds = claim.holds();
            let mut cells = vec![claim.what.to_owned()];
            for (holds, [less, than]) in holds.into_iter().zip(claim.times) {
                cells.push(if holds { "yes" } else { "NO" }.to_owned());
                cells.push(format!("{less:.2} < {than:.2} s"));
            }
            cells.push(number(claim.note, holds.contains(&false)));
            cells
        })
        .collect();
    let head = ["figure", "setting", "paper", "model", "model/paper", "within 25 %", "note"];
    let claims_head = ["figure 5, in words", "1 process", "", "8 processes", "", "note"];
    let compared: Vec<&Row> = rows.iter().filter(|row| !row.is_input()).collect();
    let agree = compared.iter().filter(|row| row.agrees()).count();
    let fitted = super::node::dgx_a100()
        .figures()
        .iter()
        .filter(|(_, figure)| figure.trust == super::node::Trust::Fitted)
        .count();
    let mut text = format!("{COMPARISON}; nothing here was measured\n\n");
    text += &table(&head, &cells, 2);
    text += &format!(
        "\n{agree} of {} within 25 %, with {fitted} fitted figures. A setting in [brackets] is our \
         reading: the text gives none.\n\n",
        compared.len()
    );
    text += &table(&claims_head, &said, 1);
    text += "\n";
    for (at, note) in notes.iter().enumerate() {
        text += &format!("({}) {note}\n", at + 1);
    }
    text
}

/// A number with about three digits that count.
struct Rounded(f64);

impl std::fmt::Display for Rounded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = if self.0 >= 100.0 {
            0
        } else if self.0 >= 10.0 {
            1
        } else {
            2
        };
        write!(f, "{:.digits$}", self.0)
    }
}

/// Predictions.
pub(super) fn predictions(predictions: &[Prediction]) -> String {
    let head = [
        "approach",
        "touch",
        "pin",
        "staging",
        "chunk",
        "processes",
        "interval",
        "checkpoints",
        "in all",
        "floor",
        "over floor",
        "longest",
        "stopped",
        "held",
        "touched",
        "registered",
    ];
    let seconds = |value: f64| format!("{value:.3} s");
    let moment = |value: f64| if value > 0.0 { format!("{value:.1} s") } else { "-".to_owned() };
    let rows: Vec<Vec<String>> = predictions
        .iter()
        .map(|p| {
            let ours = p.approach == crate::bench::plan::ApproachName::Ours;
            let own = |value: &str| if ours { value.to_owned() } else { "-".to_owned() };
            vec![
                p.approach.text().to_owned(),
                own(&p.touch),
                own(&p.pin),
                own(&p.staging),
                own(&format!("{} MiB", p.pin_chunk >> 20)),
                p.processes.to_string(),
                format!("{} ms", p.interval_ms),
                seconds(p.blocked_checkpoints),
                seconds(p.blocked_total),
                seconds(p.bare),
                format!("{:.2}", p.blocked_total / p.bare),
                format!("{:.1} ms", p.longest_checkpoint * 1e3),
                seconds(p.stopped),
                seconds(p.held),
                moment(p.touched_at),
                moment(p.registered_at),
            ]
        })
        .collect();
    let Some(first) = predictions.first() else {
        return String::new();
    };
    format!(
        "{}: {TITLE}\n{} checkpoints of {:.0} MiB a process; blocked time per process by checkpoints \
         (initialisation included) and in all;\nfloor: bare copies on the device of the same bytes, \
         there and back; longest: of all checkpoints; stopped: by registration; held: launches of \
         the application between its calls\n\n{}",
        first.node,
        first.checkpoints,
        first.bytes as f64 / first.checkpoints.max(1) as f64 / f64::from(1 << 20),
        table(&head, &rows, 4)
    )
}

/// What a node is made of.
pub(super) fn figures(node: &Node) -> String {
    let rows: Vec<Vec<String>> = node
        .figures()
        .iter()
        .map(|(name, figure)| {
            let value = match figure.value {
                small if small < 1e3 => format!("{small}"),
                rate => format!("{:.1}e9", rate / 1e9),
            };
            let trust = format!("{:?}", figure.trust).to_lowercase();
            vec![(*name).to_owned(), trust, figure.source.to_owned(), value]
        })
        .collect();
    let head = ["figure", "trust", "source", "value"];
    format!(
        "{}: {} GPUs, {} to a link, {} to a memory domain; bytes, bytes a second, seconds\n\n{}\n",
        node.name,
        node.gpus,
        node.gpus_per_link,
        node.gpus_per_domain,
        table(&head, &rows, 3)
    )
}
