//! The texts of licences, and the notices, that a crate brings.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Result, While};
use crate::files;

/// What the names of such files begin with, in small letters; folders of such names are looked into.
const BEGINNINGS: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];

/// The texts in the folder of a crate, each once.
pub fn of(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for path in paths(folder)? {
        let text = read(&path)?;
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    Ok(texts)
}

/// The text of a file.
pub fn read(path: &Path) -> Result<String> {
    Ok(normalised(&files::read(path)?))
}

/// The files of such names, in order.
fn paths(folder: &Path) -> Result<Vec<PathBuf>> {
    let what = || format!("reading the folder {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).when(what)? {
        let entry = entry.when(what)?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if !BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) {
            continue;
        }
        if entry.path().is_dir() {
            for inner in fs::read_dir(entry.path()).when(what)? {
                found.push(inner.when(what)?.path());
            }
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The text without what differs between editors: ends of lines, spaces there, empty lines around.
pub fn normalised(text: &str) -> String {
    let lines: Vec<&str> = text.trim_start_matches('\u{feff}').lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches(['\n', '\u{c}']).to_owned()
}
