//! `veloc sync`: copies checkpoints that jobs have left in scratch alone to persistent.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use ::files::Files;
use anyhow::{bail, Result};
use clap::Args;
use config::{Config, Directories};
use engine::backlog;
use format::delta;
use format::names;
use os::files;

use crate::bases::BaseFinder;
use crate::output;
use crate::stored::places::PlaceOptions;

/// Copy checkpoints that are in scratch only to persistent
///
/// A job leaves such checkpoints behind if persistent was away, or if it was killed and had no
/// veloc-backend. They are copied as the configuration says (persistent_interval, max_versions), after a
/// look at their proofs and checksums, and keep their times. What a delta (incremental = true) needs is copied with it. Where scratch is a directory of each node,
/// this is to be called on each of them, after the job.
///
/// Prints a line for each checkpoint. Ends with exit code 1 if one could not be copied.
#[derive(Debug, Args)]
pub(crate) struct Sync {
    /// Only checkpoints of this name
    name: Option<String>,
    // Without any, the environment says it all.
    #[command(flatten)]
    places: Option<PlaceOptions>,
}

impl Sync {
    /// The configuration of the job, with the directories that are named beside it.
    fn config(&self) -> Result<Config> {
        let Some(places) = &self.places else { return Ok(Config::load(Path::new(""))?) };
        let Directories { scratch, persistent, meta, .. } = places.directories()?;
        let config = match &places.config {
            Some(path) => Config::load(path)?,
            None => {
                let named = [("scratch", &scratch), ("persistent", &persistent), ("meta", &meta)];
                let named: Vec<(&str, String)> = named
                    .iter()
                    .filter_map(|(key, path)| Some((*key, path.as_ref()?.display().to_string())))
                    .collect();
                let mode = [("mode", "async")];
                let named = named.iter().map(|(key, path)| (*key, path.as_str()));
                Config::from_options(&mode.into_iter().chain(named).collect::<Vec<_>>())?
            }
        };
        Ok(Config { scratch, persistent, meta, ..config })
    }
}

pub(crate) fn run(sync: &Sync) -> Result<ExitCode> {
    if let Some(name) = &sync.name {
        names::validate_name(name)?;
    }
    let config = sync.config()?;
    let (Some(scratch), Some(persistent)) = (&config.scratch, &config.persistent) else {
        bail!("there is nothing to copy without scratch and persistent (both are keys)");
    };
    if config.ephemeral {
        bail!("a job with ephemeral = true has no checkpoints in persistent");
    }
    let found: BTreeSet<(String, u32)> = files::list(scratch, |file| {
        let file = names::parse(file)?;
        let wanted = sync.name.as_ref().is_none_or(|name| name == file.name);
        wanted.then(|| (file.name.to_owned(), file.rank))
    })?
    .into_iter()
    .collect();
    let bases =
        |directory: &Path| BaseFinder::new(vec![directory.to_owned()], config.meta.clone(), false);
    let (here, there) = (bases(scratch), bases(persistent));
    let (mut copied, mut failed) = (0, 0);
    let bar = output::bytes_bar("copying", 0);
    for (name, rank) in found {
        let files = Files::open(&config, rank)?;
        let due = files.backlog().of(&name, config.persistent_interval, config.max_versions)?;
        let mut queue = Vec::new();
        for version in due {
            let path = scratch.join(names::checkpoint_file(&name, rank, version));
            match lacking(&path, &name, rank, (&here, &there)) {
                Ok(bases) => queue.extend(bases.into_iter().rev()),
                Err(error) => {
                    failed += 1;
                    bar.suspend(|| {
                        eprintln!(
                            "error: checkpoint \"{name}\" version {version} of rank {rank}: {error}"
                        );
                    });
                    continue;
                }
            }
            queue.push(version);
        }
        let mut seen = BTreeSet::new();
        queue.retain(|version| seen.insert(*version));
        let of = |version: &i32| scratch.join(names::checkpoint_file(&name, rank, *version));
        let bytes = |version| std::fs::metadata(of(version)).map_or(0, |file| file.len());
        let queue: Vec<(i32, u64)> =
            queue.iter().map(|version| (*version, bytes(version))).collect();
        bar.inc_length(queue.iter().map(|(_, bytes)| bytes).sum());
        for (version, bytes) in queue {
            let what = format!("checkpoint \"{name}\" version {version} of rank {rank}");
            match backlog::copy(&files, &name, version) {
                Ok(Some(bytes)) => {
                    copied += 1;
                    bar.suspend(|| output::print(&format!("{what}: {bytes} bytes copied\n")))?;
                }
                Ok(None) => {}
                Err(error) => {
                    failed += 1;
                    bar.suspend(|| eprintln!("error: {what}: {error}"));
                }
            }
            bar.inc(bytes);
        }
    }
    bar.finish_and_clear();
    if (copied, failed) == (0, 0) {
        output::print("persistent lacks nothing that is due\n")?;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The versions in scratch that the file at `path` needs, and that persistent lacks, as more versions are kept of an
/// incremental job than the configuration says. The nearest is the first.
fn lacking(
    path: &Path,
    name: &str,
    rank: u32,
    (here, there): (&BaseFinder, &BaseFinder),
) -> errors::Result<Vec<i32>> {
    let base_of = |file: &delta::StoredCheckpoint| {
        let table = delta::table_of(&file.file, file.part.clone(), &file.path);
        // What is damaged is told when it is copied.
        table.ok().flatten().and_then(|table| table.needed())
    };
    let file = files::open(path)?;
    let part = 0..files::len(&file, path)?;
    let mut needed = base_of(&delta::StoredCheckpoint { file, part, path: path.to_owned() });
    let mut versions = Vec::new();
    while let Some(base) = needed.filter(|base| !versions.contains(&base.version)) {
        let stored = match there.find(name, rank, &base) {
            Ok(stored) => stored,
            Err(_) => {
                let stored = here.find(name, rank, &base).map_err(|error| {
                    error.within(format!("it is a delta of version {}", base.version))
                })?;
                versions.push(base.version);
                stored
            }
        };
        needed = base_of(&stored);
    }
    Ok(versions)
}
