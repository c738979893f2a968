//! The output of the tools: tables to read, JSON for programs, and progress on a terminal. Nothing
//! is coloured.

use std::io::{BufWriter, ErrorKind, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table, TableComponent};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use os::size;
use serde::{Serialize, Serializer};

/// Writes text to standard output. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("standard output")
        }
        _ => Ok(()),
    }
}

/// Writes a result as JSON to standard output while it is made: it can be hundreds of megabytes.
pub(crate) fn print_json(found: &impl Serialize) -> Result<()> {
    let mut output = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    let written = serde_json::to_writer_pretty(&mut output, found).map_err(std::io::Error::from);
    match written.and_then(|()| writeln!(output)).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("standard output")
        }
        _ => Ok(()),
    }
}

/// A number of things: `1 copy`, `2 copies`.
pub(crate) fn count(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// A number of bytes, exactly and rounded: `2048 bytes (2 KiB)`.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes < 1024 {
        true => format!("{bytes} bytes"),
        false => format!("{bytes} bytes ({})", size::show(bytes)),
    }
}

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

/// A bar that counts bytes, on standard error if that is a terminal.
pub(crate) fn bytes_bar(what: &str, bytes: u64) -> ProgressBar {
    let shown =
        "{msg} {bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}, {eta} left";
    bar(what, bytes, shown)
}

/// A bar that counts files, steps or crashes, on standard error if that is a terminal.
pub(crate) fn count_bar(what: &str, number: u64) -> ProgressBar {
    bar(what, number, "{msg} {bar:30} {pos}/{len}, {eta} left")
}

/// Shows for how long something has taken whose end cannot be estimated, on standard error if that is a terminal. It
/// goes when it is dropped.
pub(crate) fn clock(what: &str) -> ProgressBar {
    let clock = bar(what, 0, "{spinner} {msg}, {elapsed}").with_finish(ProgressFinish::AndClear);
    if !clock.is_hidden() {
        clock.enable_steady_tick(Duration::from_millis(200));
    }
    clock
}

fn bar(what: &str, steps: u64, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}

/// A path in JSON: letters that are not UTF-8 are replaced, where serde would give up.
pub(crate) fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// A path in JSON that may be missing.
pub(crate) fn optional_path<S: Serializer>(
    path: &Option<impl AsRef<Path>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.collect_str(&path.as_ref().display()),
        None => serializer.serialize_none(),
    }
}
