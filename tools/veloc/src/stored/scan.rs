//! Finds copies by the names of files. Other files in the directories are passed over.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use config::Directories;
use format::aggregate::{self, Offsets};
use format::names;
use os::files;
use serde::Serialize;

use super::{CopyPlace, StoredCopy};

/// The name and version of a checkpoint.
pub(crate) type CheckpointKey = (String, i32);

/// The copies of one version.
#[derive(Debug, Default)]
pub(crate) struct VersionCopies {
    /// The copies, in no order.
    pub copies: Vec<StoredCopy>,
    /// Aggregated files whose ranks are not known, and why.
    pub damaged: Vec<Damaged>,
}

/// An aggregated file that cannot be read.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Damaged {
    #[serde(serialize_with = "crate::output::path")]
    pub path: std::path::PathBuf,
    /// Why the file cannot be read.
    pub reason: String,
}

/// Finds all copies of checkpoints called `name`, or of all names.
pub(crate) fn scan(
    directories: &Directories,
    name: Option<&str>,
) -> Result<BTreeMap<CheckpointKey, VersionCopies>> {
    let mut found: BTreeMap<CheckpointKey, VersionCopies> = BTreeMap::new();
    let wanted = |of: &str| name.is_none_or(|name| name == of);
    let mut add = |parsed: names::Parsed, place, path| {
        if wanted(parsed.name) {
            let stored = found.entry((parsed.name.to_owned(), parsed.version)).or_default();
            stored.copies.push(StoredCopy::new(parsed.rank, place, path, None));
        }
    };
    if let Some(scratch) = &directories.scratch {
        for file in files_in(scratch)? {
            if let Some(parsed) = names::parse(&file) {
                add(parsed, CopyPlace::Scratch, scratch.join(&file));
            } else if let Some(parsed) = names::parse_parity(&file) {
                add(parsed, CopyPlace::Parity, scratch.join(&file));
            }
        }
    }
    let Some(persistent) = &directories.persistent else { return Ok(found) };
    let mut aggregates = Vec::new();
    for file in files_in(persistent)? {
        if let Some(parsed) = names::parse(&file) {
            add(parsed, CopyPlace::Persistent, persistent.join(&file));
        } else if aggregate::parse_name(&file).is_some_and(|(name, _)| wanted(name)) {
            aggregates.push(file);
        }
    }
    for file in aggregates {
        let Some((name, version)) = aggregate::parse_name(&file) else { continue };
        let stored = found.entry((name.to_owned(), version)).or_default();
        let path = persistent.join(&file);
        match offsets(&path, directories.meta.as_deref(), &file) {
            Ok(offsets) => stored.copies.extend((0..offsets.ranks()).filter_map(|rank| {
                let part = offsets.part(rank)?;
                let copy =
                    StoredCopy::new(rank as u32, CopyPlace::Aggregated, path.clone(), Some(part));
                Some(StoredCopy { proof: offsets.proof(rank), ..copy })
            })),
            Err(reason) => stored.damaged.push(Damaged { path, reason }),
        }
    }
    Ok(found)
}

fn files_in(directory: &Path) -> Result<Vec<String>> {
    Ok(files::list(directory, |name| Some(name.to_owned()))?)
}

/// The table of an aggregated file, or why there is no table.
pub(crate) fn offsets(path: &Path, meta: Option<&Path>, file: &str) -> Result<Offsets, String> {
    let Some(meta) = meta else {
        return Err("its table is in the directory meta, which is not known".to_owned());
    };
    let table = meta.join(file);
    let read = || {
        let data = files::open(path)?;
        let len = files::len(&data, path)?;
        // Finds the parts as a restart does.
        let (offsets, without_table) = Offsets::find(&table, &data, len, path)?;
        if let Some(found) = without_table {
            eprintln!("{found}");
        }
        Ok(offsets)
    };
    read().map_err(|error: errors::Error| error.to_string())
}
