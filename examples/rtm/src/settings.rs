//! The checkpoint library's configuration for a run without a configuration file.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::options::Options;

/// Bytes of a gibibyte, the unit of the cache sizes.
const GIB: f64 = (1u64 << 30) as f64;

/// The smallest caches that are set by default, in GiB.
const LEAST_GPU_CACHE: f64 = 1.0 / 16.0;
const LEAST_HOST_CACHE: f64 = 1.0 / 8.0;

/// Room beyond the states themselves, for the library's own bytes in each.
const SPARE: f64 = 1.1;

/// A configuration file. A temporary file is removed, with its scratch folder, when this is
/// dropped.
pub(crate) struct Settings {
    path: PathBuf,
    folder: Option<tempfile::TempDir>,
}

impl Settings {
    /// The file that the options name, or a temporary one for `states` bytes of checkpoints,
    /// which are wanted until the backward pass has read them and no longer.
    pub(crate) fn new(options: &Options, states: usize) -> Result<Self> {
        if let Some(path) = &options.config {
            return Ok(Settings { path: path.clone(), folder: None });
        }
        let folder = tempfile::Builder::new().prefix("rtm-").tempdir();
        let folder = folder.context("creating a folder for the library's configuration")?;
        let path = folder.path().join("veloc.cfg");
        std::fs::write(&path, text(options, states, &folder.path().join("scratch")))
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(Settings { path, folder: Some(folder) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the checkpoints end with the run.
    pub(crate) fn temporary(&self) -> bool {
        self.folder.is_some()
    }
}

fn text(options: &Options, states: usize, scratch: &Path) -> String {
    let states = states as f64 / GIB;
    let gpu = options.gpu_cache.map_or((states / 4.0).max(LEAST_GPU_CACHE), f64::from);
    let host = options.host_cache.map_or((states * SPARE).max(LEAST_HOST_CACHE), f64::from);
    format!(
        "mode = async\n\
         scratch = {}\n\
         ephemeral = true\n\
         gpu_cache_size = {gpu:.6}\n\
         host_cache_size = {host:.6}\n",
        scratch.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn caches_follow_the_states_and_the_options() {
        let options = Options::parse_from(["rtm"]);
        let written = text(&options, 4 << 30, Path::new("/s"));
        assert!(written.contains("gpu_cache_size = 1.000000"), "{written}");
        assert!(written.contains("host_cache_size = 4.400000"), "{written}");
        let options = Options::parse_from(["rtm", "--gpu-cache", "0.5"]);
        assert!(text(&options, 4 << 30, Path::new("/s")).contains("gpu_cache_size = 0.5"));
        assert!(text(&options, 1, Path::new("/s")).contains("host_cache_size = 0.125"));
    }

    #[test]
    fn a_temporary_configuration_goes_with_its_folder() {
        let settings = Settings::new(&Options::parse_from(["rtm"]), 1 << 20).unwrap();
        let path = settings.path().to_path_buf();
        assert!(settings.temporary() && path.exists());
        drop(settings);
        assert!(!path.exists());
    }
}
