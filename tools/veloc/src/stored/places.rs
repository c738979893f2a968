//! The directories to look in.

use std::path::PathBuf;

use anyhow::{bail, Result};
use clap::Args;
use config::Directories;

/// The most ranks that a job can be said to have.
pub(crate) const MOST_RANKS: i64 = 1 << 22;

/// The options that say where the files are.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct PlaceOptions {
    /// A configuration that names the directories (VELOC_SCRATCH and the like override it)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The scratch directory
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// The persistent directory
    #[arg(long, value_name = "DIR")]
    persistent: Option<PathBuf>,
    /// The directory with checksums and with the tables of aggregated files
    #[arg(long, value_name = "DIR")]
    meta: Option<PathBuf>,
}

impl PlaceOptions {
    /// The directories: as given, else as in the configuration.
    pub(crate) fn directories(&self) -> Result<Directories> {
        let config = match &self.config {
            Some(path) => Directories::load(path)?,
            None => Directories::default(),
        };
        let found = Directories {
            scratch: self.scratch.clone().or(config.scratch),
            persistent: self.persistent.clone().or(config.persistent),
            meta: self.meta.clone().or(config.meta),
            proof: config.proof,
        };
        let wanted: Vec<_> = [&found.scratch, &found.persistent].into_iter().flatten().collect();
        if wanted.is_empty() {
            bail!("neither scratch nor persistent is known, so there is nowhere to look");
        }
        if !wanted.iter().any(|directory| directory.is_dir()) {
            let wanted: Vec<_> = wanted.iter().map(|path| path.display().to_string()).collect();
            bail!("no such directory: {}", wanted.join(", "));
        }
        Ok(found)
    }
}
