//! The sizes of the checkpoints of each process: all the same, from a trace, or generated with the
//! totals of the paper's traces.

use std::fs;
use std::path::Path;

use anyhow::{ensure, Context, Result};

use super::plan::splitmix;

/// Sizes are multiples of this many bytes: contents are made and compared by words.
pub(super) const WORD: u64 = 4;

/// Bytes of the checkpoints of one shot (HiPC'22, section V-D: 20 to 24 GB).
const SHOT: std::ops::RangeInclusive<f64> = 20e9..=LARGEST_SHOT;
/// The most bytes of one shot.
pub(super) const LARGEST_SHOT: f64 = 24e9;
/// The name of generated traces.
pub(super) const GENERATED: &str = "generated";
/// The sizes of single checkpoints, in bytes (the spread of the public sample of such a trace).
const CHECKPOINT: std::ops::RangeInclusive<f64> = 100e6..=155e6;
/// How far a size goes back to the mean of its shot with each checkpoint.
const BACK: f64 = 0.05;
/// How far a size departs from the one before, as a share of itself.
const STEP: f64 = 0.01;

/// Sizes of checkpoints, by process.
pub(super) type Sizes = Vec<Vec<u64>>;

/// `count` checkpoints of `bytes`, the same for all processes.
pub(super) fn uniform(bytes: u64, count: usize) -> Sizes {
    vec![vec![bytes; count]]
}

/// The traces of `processes` shots: like those of RTM with compression, the sizes wander slowly
/// about a mean of each shot. A shot has 20 to 24 GB, times `scale`.
pub(super) fn generated(processes: u32, scale: f64, seed: u64) -> Sizes {
    let mut state = seed;
    let mut between = |low: f64, high: f64| {
        low + (high - low) * (splitmix(&mut state) >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..processes)
        .map(|_| {
            let total = between(*SHOT.start() + CHECKPOINT.end(), *SHOT.end());
            let mean = between(*CHECKPOINT.start(), *CHECKPOINT.end());
            let (mut size, mut sum, mut sizes) = (mean, 0.0, Vec::new());
            while sum + size <= total {
                sizes.push(words(size * scale));
                sum += size;
                size += BACK * (mean - size) + STEP * mean * between(-1.0, 1.0);
                size = size.clamp(*CHECKPOINT.start(), *CHECKPOINT.end());
            }
            sizes
        })
        .collect()
}

fn words(bytes: f64) -> u64 {
    (bytes.max(1.0) as u64).next_multiple_of(WORD)
}

/// A trace from a file: comma-separated sizes in bytes, a row for each checkpoint, a column for
/// each process. With `rows`, so many rows are used, from the start again after the last. Each
/// size is multiplied by `scale` and rounded up to whole words.
pub(super) fn from_csv(path: &Path, rows: Option<usize>, scale: f64) -> Result<Sizes> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("--trace {}: reading it", path.display()))?;
    let table = parse(&text).with_context(|| format!("--trace {}", path.display()))?;
    let rows = rows.unwrap_or(table.len());
    Ok((0..table[0].len())
        .map(|column| {
            (0..rows).map(|row| words(table[row % table.len()][column] * scale)).collect()
        })
        .collect())
}

fn parse(text: &str) -> Result<Vec<Vec<f64>>> {
    let mut table: Vec<Vec<f64>> = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = number + 1;
        let is_size = |cell: &str| cell.trim().parse::<f64>().is_ok();
        ensure!(
            !table.is_empty() || line.split(',').any(is_size),
            "line {number}: {:?} looks like a header; a trace has none, only numbers of bytes",
            line.trim()
        );
        let row = line
            .split(',')
            .map(|cell| {
                let size: Option<u64> = cell.trim().parse().ok().filter(|size| *size > 0);
                size.map(|size| size as f64)
                    .with_context(|| format!("line {number}: {cell:?} is no number of bytes"))
            })
            .collect::<Result<Vec<_>>>()?;
        let columns = table.first().map_or(row.len(), Vec::len);
        ensure!(
            row.len() == columns,
            "line {number}: {} columns, but the first line has {columns}",
            row.len()
        );
        table.push(row);
    }
    ensure!(!table.is_empty(), "there is no checkpoint in it");
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_shots_have_the_papers_totals_and_their_own_sizes() {
        let shots = generated(8, 1.0, 1);
        for shot in &shots {
            let total = shot.iter().sum::<u64>() as f64;
            assert!(SHOT.contains(&total), "{total}");
            assert!(shot
                .iter()
                .all(|size| size % WORD == 0 && CHECKPOINT.contains(&(*size as f64))));
        }
        assert_ne!(shots[0], shots[1]);
        assert_eq!(shots, generated(8, 1.0, 1), "the same seed gives the same shots");
        assert_ne!(shots, generated(8, 1.0, 2));
    }

    #[test]
    fn a_trace_is_read_by_columns_and_repeated_on_demand() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        fs::write(&path, "100, 200\n300,401\n\n").unwrap();
        assert_eq!(from_csv(&path, None, 1.0).unwrap(), [[100, 300], [200, 404]]);
        assert_eq!(from_csv(&path, Some(3), 0.5).unwrap()[0], [52, 152, 52]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, named) in [
            ("1,2\n3", "line 2"),
            ("1\nx", "\"x\""),
            ("1,-5", "-5"),
            ("", "no checkpoint"),
            ("first,second\n1,2", "line 1: \"first,second\" looks like a header"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
