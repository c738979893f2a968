//! Tables to read, and progress on a terminal. Nothing is coloured.

use std::io::IsTerminal as _;
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table, TableComponent};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

/// A table with these headings; the columns whose heading begins with `>` (which is taken off) stand
/// to the right.
pub(crate) fn table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    let names = columns.iter().map(|column| column.trim_start_matches('>'));
    table.load_preset(NOTHING).set_header(names);
    table.set_style(TableComponent::HeaderLines, '─');
    table.set_style(TableComponent::MiddleHeaderIntersections, '─');
    for (at, column) in table.column_iter_mut().enumerate() {
        if columns[at].starts_with('>') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Shows for how long something has taken whose end cannot be estimated, on standard error if that is a terminal. It
/// goes when it is dropped.
pub(crate) fn clock(what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let clock = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed}") {
        clock.set_style(style);
    }
    clock.set_message(what.to_owned());
    clock.enable_steady_tick(Duration::from_millis(200));
    clock
}

/// A bar that counts steps, on standard error if that is a terminal.
pub(crate) fn steps_bar(what: &str, steps: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps);
    if let Ok(style) =
        ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {elapsed}, {eta} left")
    {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}
