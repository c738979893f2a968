//! Files of results: how they are written.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use os::interrupt;
use serde::Serialize;

use super::{Floor, Results};
use crate::plan::PointPlan;

impl Results {
    /// The floor of a plan: bare copies of the same bytes.
    pub(crate) fn floor(&self, plan: &PointPlan) -> Option<&Floor> {
        Floor::of(&self.floors, plan)
    }

    /// Writes a file, whole or not at all: results are written again after each measurement, and a
    /// run that is cut short keeps its measurements.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        write_json(path, self)
    }
}

/// Refuses a file of results that cannot be written, before anything is measured for it; makes its
/// folder. The content of an existing file stays.
pub(crate) fn prepare(path: &Path) -> Result<()> {
    let what = || format!("--out {}", path.display());
    ensure!(!path.is_dir(), "{}: a file is wanted, and this is a folder", what());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(what)?;
    }
    let temporary = beside(path);
    fs::write(&temporary, "").and_then(|()| fs::remove_file(&temporary)).with_context(what)
}

/// The path of a file before it is whole. Always the same name, so that the rest of a killed run is
/// replaced.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// Writes a file of results, whole or not at all.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    write_text(path, &serde_json::to_string_pretty(value)?)
}

/// Writes a file, whole or not at all.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<()> {
    let temporary = beside(path);
    let written = interrupt::writing(path, || {
        fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path))
    });
    if written.is_err() {
        // The reason that is reported is the failed write.
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_refused_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (taken, file) = (folder.path().join("taken"), folder.path().join("new/r.json"));
        fs::create_dir(&taken).unwrap();
        let error = prepare(&taken).unwrap_err().to_string();
        assert!(error.contains("--out") && error.contains("taken"), "{error}");
        assert!(write_json(&taken, &1).is_err());
        prepare(&file).unwrap();
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 0);
        write_json(&file, &1).unwrap();
        prepare(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "1");
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["new", "taken"]);
    }
}
