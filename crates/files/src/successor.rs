//! The files of a process that has ended, for the process that goes on for it.

use std::cell::Cell;
use std::sync::Arc;

use super::directories::Inodes;
use super::{Files, Ground};
use config::Config;
use errors::Result;

impl Files {
    /// Opens the directories of a process that this one goes on for, as they were when that one
    /// began. A directory that cannot be had takes no files, and the others still do.
    ///
    /// # Errors
    /// As [`Files::open`], of all directories that checkpoints are in.
    pub fn open_for_successor(config: &Config, rank: u32, directories: &Inodes) -> Result<Files> {
        let lacks_scratch = Cell::new(config.scratch.is_none());
        let opened = Files::open_or(config, rank, |key, error| {
            if key == "scratch" {
                lacks_scratch.set(true);
            }
            let other = match key {
                "scratch" => config.persistent.is_some(),
                "persistent" => !lacks_scratch.get(),
                _ => true,
            };
            if !other {
                return Err(error);
            }
            log::error!("files of {key} are not written: {error}");
            Ok(())
        })?;
        let ground = opened.parts.ground.clone();
        let places = Arc::new(ground.places.in_directories(directories));
        Ok(Files::on(Ground { places, is_successor: true, ..ground }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that cannot be had keeps nothing from the other one.
    #[test]
    fn one_directory_is_enough_to_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let [scratch, persistent] = ["s", "p"].map(|name| folder.path().join(name));
        let (s, p) = (scratch.display(), persistent.display());
        let text = format!("mode = async\nscratch = {s}\npersistent = {p}\n");
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        for (lacking, other) in [(&persistent, &scratch), (&scratch, &persistent)] {
            std::fs::write(lacking, "no directory").unwrap();
            assert!(Files::open(&config, 0).is_err());
            Files::open_for_successor(&config, 0, &Inodes::new()).unwrap();
            assert!(other.is_dir());
            std::fs::remove_dir(other).unwrap();
            std::fs::write(other, "no directory").unwrap();
            assert!(Files::open_for_successor(&config, 0, &Inodes::new()).is_err());
            std::fs::remove_file(other).unwrap();
            std::fs::remove_file(lacking).unwrap();
        }
    }
}
