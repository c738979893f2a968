//! Files of results: read, also those of the version before, and written.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Context, Result};
use serde::Serialize;

use super::{Figures, Floor, Results, SCHEMA};
use crate::bench::interrupt;
use crate::bench::plan::Plan;

impl Results {
    /// Reads a file of this version, or of version 1.
    pub fn read(path: &Path) -> Result<Results> {
        let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let mut results: Results = serde_json::from_slice(&text)
            .with_context(|| format!("{} holds no results", path.display()))?;
        match results.schema {
            1 => results.update(),
            SCHEMA => {}
            found => bail!("{}: schema {found}, not 1 to {SCHEMA}", path.display()),
        }
        Ok(results)
    }

    /// From version 1: there each process had bare copies of its own beside each point.
    fn update(&mut self) {
        for measurement in &mut self.measurements {
            for run in &mut measurement.runs {
                let bare = |figures: &mut Figures| vec![std::mem::take(&mut figures.bare_copies)];
                let copies: Vec<_> = run.processes.iter_mut().map(bare).collect();
                Floor::add(&mut self.floors, &measurement.plan, &copies);
            }
        }
        self.schema = SCHEMA;
    }

    /// The bare copies of the bytes of a plan.
    pub fn floor(&self, plan: &Plan) -> Option<&Floor> {
        Floor::of(&self.floors, plan)
    }

    /// Writes a file, whole or not at all: results are written again after each measurement, and
    /// whoever cuts a run short keeps what it has.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_json(path, self)
    }
}

/// Refuses a file of results that cannot be written, before anything is measured for it; makes the
/// folder that it is to be in. What the file has in it stays.
pub fn prepare(path: &Path) -> Result<()> {
    let what = || format!("--out {}", path.display());
    ensure!(!path.is_dir(), "{}: a file is wanted, and this is a folder", what());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(what)?;
    }
    let temporary = beside(path);
    fs::write(&temporary, "").and_then(|()| fs::remove_file(&temporary)).with_context(what)
}

/// Where a file is before it is whole. Always the same name: what a killed run has left is replaced.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// Writes a file, whole or not at all.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(value)?;
    let temporary = beside(path);
    let written = interrupt::writing(path, || {
        fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path))
    });
    if written.is_err() {
        // The reason is that of the writing.
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

    /// As version 1 had it: bare copies beside each point, no causes but those of ours.
    #[test]
    fn a_file_of_version_1_is_read_and_its_bare_copies_are_one_floor() {
        use crate::bench::plan::ApproachName::{DirectPin, Ours};
        use crate::bench::plot::synthetic::{point, results};
        let new = results(vec![point(Ours, 5.0, 1.0), point(DirectPin, 5.0, 2.0)]);
        let mut old = serde_json::to_value(&new).unwrap();
        old["schema"] = 1.into();
        for key in ["floors", "left_out"] {
            old.as_object_mut().unwrap().remove(key);
        }
        for (number, point) in old["measurements"].as_array_mut().unwrap().iter_mut().enumerate() {
            point.as_object_mut().unwrap().remove("not_begun");
            for run in point["runs"].as_array_mut().unwrap() {
                let figures = run["processes"][0].as_object_mut().unwrap();
                for key in ["device_cache", "managed"] {
                    figures.remove(key);
                }
                figures.insert("device_used".into(), 7.into());
                figures.insert("bare_copies".into(), vec![1.0 + number as f64; 4].into());
                let causes = match number {
                    0 => serde_json::json!([{"name": "copy", "seconds": 0.5, "count": 8}]),
                    _ => serde_json::json!([]),
                };
                figures.insert("causes".into(), causes);
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.json");
        write_json(&path, &old).unwrap();
        let read = Results::read(&path).unwrap();
        assert_eq!((read.schema, read.floors.len()), (SCHEMA, 1));
        let floor = read.floor(&read.measurements[1].plan).unwrap();
        assert_eq!(floor.passes, [4.0, 4.0, 4.0, 8.0, 8.0, 8.0]);
        assert_eq!((floor.median, &floor.copies[..]), (6.0, &[1.5; 4][..]));
        let figures = &read.measurements[0].runs[0].processes[0];
        assert_eq!((figures.causes[0].call, figures.device_used), (None, Some(7)));
        // What is written is of this version, and is the same when it is read again.
        read.write(&path).unwrap();
        assert_eq!(Results::read(&path).unwrap().floors[0].passes, floor.passes);
        old["schema"] = 3.into();
        write_json(&path, &old).unwrap();
        let error = Results::read(&path).unwrap_err().to_string();
        assert!(error.contains("schema 3, not 1 to 2"), "{error}");
    }
}
