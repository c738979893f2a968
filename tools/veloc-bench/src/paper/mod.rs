//! `veloc-bench paper`: the numbers of the paper's text beside ours, as files of results have them.

mod beside;
pub(crate) mod numbers;
mod table;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use clap::Args;
use serde_json::Value;

use super::results::{prepare, write_text, Results, SCHEMA};

/// Options of the command.
#[derive(Debug, Args)]
pub(crate) struct PaperOptions {
    /// Files of results, and folders of them; files in JSON about other things are passed over
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    /// Write the table to this file, too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The results of one run, from a file.
#[derive(Debug)]
struct Source {
    /// The name of the file.
    file: String,
    results: Results,
}

impl Source {
    /// The file, and on what it was measured.
    fn origin(&self) -> String {
        let device = self.results.device.clone().unwrap_or_default();
        let driver = match &*device.driver {
            "" => String::new(),
            driver => format!(", driver {driver}"),
        };
        let commit: String = self.results.program.commit.chars().take(8).collect();
        format!("{}, {}{driver}, commit {commit}", self.file, device.name)
    }
}

pub(super) fn run(options: &PaperOptions) -> Result<()> {
    options.out.as_deref().map_or(Ok(()), prepare)?;
    let text = table::text(&read_all(&options.files)?)?;
    print!("{text}");
    options.out.as_deref().map_or(Ok(()), |path| write_text(path, &text))
}

/// What all these files have, those of a folder in the order of their names.
fn read_all(paths: &[PathBuf]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in paths {
        let mut files = vec![path.clone()];
        if path.is_dir() {
            let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
            files = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
            files.retain(|file| file.extension().is_some_and(|of| of == "json"));
            files.sort();
        }
        for file in files {
            sources.extend(read(&file).with_context(|| file.display().to_string())?);
        }
    }
    Ok(sources)
}

/// The results in a file: none if it is about something else, several if it has `files`.
fn read(file: &Path) -> Result<Vec<Source>> {
    let content: Value = serde_json::from_slice(&fs::read(file)?)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let all = match content.get("files").and_then(Value::as_array) {
        Some(files) => files.clone(),
        None => vec![content],
    };
    let is_results = |one: &Value| one.get("measurements").is_some();
    let of = |one: Value| {
        let schema = &one["schema"];
        ensure!(schema == SCHEMA, "schema {schema}; {SCHEMA} can be read");
        Ok(Source { file: name.clone(), results: serde_json::from_value(one)? })
    };
    all.into_iter().filter(is_results).map(of).collect()
}
