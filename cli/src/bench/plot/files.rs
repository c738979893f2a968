//! What the named files and folders hold: results, files of other kinds, and what cannot be read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use serde_json::Value;

use crate::bench::results::Results;

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Results, in the order in which they were named; those of a folder by name.
    pub results: Vec<(PathBuf, Results)>,
    /// Files that no picture is made of: what they are, and what shows them.
    pub others: Vec<String>,
    /// Files that cannot be read, each with the reason.
    pub damaged: Vec<String>,
}

/// A file that could be read.
enum Content {
    Results(Box<Results>),
    Other(String),
    /// JSON that is none of this program's.
    Foreign,
}

/// Reads everything; what cannot be read stops nothing.
pub fn read(paths: &[PathBuf]) -> Found {
    let mut found = Found::default();
    for path in paths {
        let files = match path.is_dir() {
            true => listed(path),
            false => Ok(vec![path.clone()]),
        };
        match files {
            Ok(files) => files.iter().for_each(|file| found.add(file, !path.is_dir())),
            Err(error) => found.damaged.push(format!("{error:#}")),
        }
    }
    found
}

impl Found {
    /// `named`: the user has named this very file, and takes it for results.
    fn add(&mut self, file: &Path, named: bool) {
        match content(file) {
            Ok(Content::Results(results)) => self.results.push((file.to_owned(), *results)),
            Ok(Content::Foreign) if named => {
                self.damaged.push(format!("{} holds no results", file.display()));
            }
            Ok(Content::Foreign) => {
                self.others.push(format!("{} is of another program", file.display()));
            }
            Ok(Content::Other(what)) => self.others.push(format!("{} {what}", file.display())),
            Err(error) => self.damaged.push(format!("{error:#}")),
        }
    }
}

/// The JSON files of a folder by name.
fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let reading = || format!("reading the folder {}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        if path.extension().is_some_and(|extension| extension == "json") && path.is_file() {
            files.push(path);
        }
    }
    ensure!(!files.is_empty(), "the folder {} has no files *.json", folder.display());
    files.sort();
    Ok(files)
}

fn content(file: &Path) -> Result<Content> {
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    // A timeline may be cut at its end.
    if let Some(events) = bytes.trim_ascii_start().strip_prefix(b"[") {
        if matches!(events.trim_ascii_start().first(), None | Some(b'{' | b']')) {
            return Ok(Content::Other(timeline(file)));
        }
    }
    let value: Value = serde_json::from_slice(&bytes)
        .with_context(|| format!("{} is damaged, or no JSON", file.display()))?;
    match kind(&value, file) {
        Some(other) => Ok(Content::Other(other)),
        None if value.get("schema").is_none() => Ok(Content::Foreign),
        None => Ok(Content::Results(Box::new(Results::read(file)?))),
    }
}

fn timeline(file: &Path) -> String {
    format!("is a timeline: `veloc timeline {}` draws it", file.display())
}

/// What the file is, if it is one of this program's others.
fn kind(value: &Value, file: &Path) -> Option<String> {
    if value.get("traceEvents").is_some() {
        return Some(timeline(file));
    }
    let title = value.get("title")?.as_str()?;
    if value.get("points").is_some() {
        return Some(format!(
            "holds what `veloc bench {title}` measured: that command shows it as a table, and \
             there is no picture of it"
        ));
    }
    let model = ["rows", "predictions"].iter().any(|key| value.get(key).is_some());
    model.then(|| {
        "holds answers of `veloc bench model`: that command shows them as a table, and there is no \
         picture of them"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plot::synthetic;

    #[test]
    fn a_folder_is_all_its_files_and_none_stops_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        for name in ["b.json", "a.json"] {
            synthetic::results(Vec::new()).write(&folder.path().join(name)).unwrap();
        }
        write("cut.json", r#"{"schema": 1, "#);
        write("strange.json", r#"{"schema": 1}"#);
        write("t.json", r#"[{"name":"flush","ph":"X""#);
        write("pages.json", r#"{"schema": 1, "title": "pages", "points": []}"#);
        write("model.json", r#"{"title": "predicted", "predictions": []}"#);
        write("a.txt", "no JSON");
        write("package.json", r#"{"name": "of another program"}"#);
        write("numbers.json", "[1, 2]");
        let found = read(&[folder.path().to_owned(), folder.path().join("none.json")]);
        let names: Vec<_> = found.results.iter().map(|(path, _)| path.file_name()).collect();
        assert_eq!(names, [Some("a.json".as_ref()), Some("b.json".as_ref())]);
        let others = [
            "bench model",
            "numbers.json is of another",
            "package.json",
            "bench pages",
            "timeline /",
        ];
        for (text, words) in found.others.iter().zip(others) {
            assert!(text.contains(words), "{text}");
        }
        for (text, name) in found.damaged.iter().zip(["cut", "strange", "none"]) {
            assert!(text.contains(&format!("{name}.json")), "{text}");
        }
        assert_eq!((found.others.len(), found.damaged.len()), (5, 3));
    }

    #[test]
    fn a_folder_without_results_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let found = read(&[folder.path().to_owned()]);
        assert!(found.damaged[0].contains(&folder.path().display().to_string()));
    }
}
