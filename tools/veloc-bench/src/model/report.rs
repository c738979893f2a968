//! The model's answers as text.

use super::node::{dgx_a100, NodeFigures, Trust};
use super::paper::PaperRow;
use super::predict::{PlanPrediction, TITLE};
use crate::host::number;
use crate::output;
use crate::table::name;

pub(super) const COMPARISON: &str = "a model of the DGX A100 beside the text of HiPC'22";

/// The table of the model beside the paper.
pub(super) fn comparison(rows: &[PaperRow]) -> String {
    let head = ["figure", "setting", ">paper", ">model", ">model/paper", ">within 25 %", ">note"];
    let mut table = output::table(&head);
    let mut notes: Vec<&str> = Vec::new();
    for row in rows {
        let read = row.agrees() && !row.setting.contains('[');
        let mut note = String::new();
        if !row.note.is_empty() && (!read || row.is_input()) {
            let known = notes.iter().position(|known| *known == row.note);
            let at = known.unwrap_or(notes.len());
            if known.is_none() {
                notes.push(row.note);
            }
            note = format!("({})", at + 1);
        }
        table.add_row([
            row.what.clone(),
            row.setting.to_owned(),
            format!("{} {}", row.paper, row.unit),
            format!("{} {}", number(row.model), row.unit),
            format!("{:.2}", row.ratio()),
            if row.agrees() { "yes" } else { "NO" }.to_owned(),
            note,
        ]);
    }
    let compared: Vec<&PaperRow> = rows.iter().filter(|row| !row.is_input()).collect();
    let agree = compared.iter().filter(|row| row.agrees()).count();
    let figures = dgx_a100();
    let figures = figures.figures();
    let fitted = figures.iter().filter(|(_, figure)| figure.trust == Trust::Fitted).count();
    let mut text = format!(
        "{COMPARISON}; nothing here was measured\n\n{table}\n\n{agree} of {} within 25 %, with {fitted} \
         fitted figures. A setting in [brackets] is our reading: the text gives none.\n\n",
        compared.len()
    );
    for (at, note) in notes.iter().enumerate() {
        text += &format!("({}) {note}\n", at + 1);
    }
    text
}

/// The table of predictions.
pub(super) fn predictions(predictions: &[PlanPrediction]) -> String {
    let Some(first) = predictions.first() else { return String::new() };
    let head = [
        "approach",
        ">processes",
        ">interval",
        ">checkpoints",
        ">in all",
        ">floor",
        ">over floor",
        ">longest",
        ">stopped",
        ">touched",
        ">registered",
    ];
    let mut table = output::table(&head);
    let seconds = |value: f64| format!("{value:.3} s");
    let moment = |value: f64| if value > 0.0 { format!("{value:.1} s") } else { "-".to_owned() };
    for p in predictions {
        table.add_row([
            name(&p.plan),
            p.plan.processes.to_string(),
            format!("{} ms", p.plan.interval_ms),
            seconds(p.blocked_checkpoints),
            seconds(p.blocked_total),
            seconds(p.bare),
            format!("{:.2}", p.blocked_total / p.bare),
            format!("{:.1} ms", p.longest_checkpoint * 1e3),
            seconds(p.stopped),
            moment(p.touched_at),
            moment(p.registered_at),
        ]);
    }
    let sizes = first.plan.sizes_of(0);
    format!(
        "{}: {TITLE}\n{} checkpoints of {:.0} MiB a process; blocked time per process by checkpoints \
         (initialisation included) and in all;\nfloor: bare copies on the device of the same bytes, \
         there and back; longest: of all checkpoints; stopped: by registration\n\n{table}\n",
        first.node,
        sizes.len(),
        sizes.iter().sum::<u64>() as f64 / sizes.len() as f64 / f64::from(1 << 20),
    )
}

/// The table of a node's figures.
pub(super) fn figures(node: &NodeFigures) -> String {
    let mut table = output::table(&["figure", "trust", "source", ">value"]);
    for (name, figure) in node.figures() {
        let value = match figure.value {
            small if small < 1e3 => format!("{small}"),
            rate => format!("{:.1}e9", rate / 1e9),
        };
        let trust = format!("{:?}", figure.trust).to_lowercase();
        table.add_row([name, &trust, figure.source, &value]);
    }
    format!(
        "{}: {} GPUs, {} to a link, {} to a memory domain; bytes, bytes a second, seconds\n\n{table}\n\n",
        node.name, node.gpus, node.gpus_per_link, node.gpus_per_domain,
    )
}
