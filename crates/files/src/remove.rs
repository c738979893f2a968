//! Removing what is kept of a checkpoint in a level: its file, and the files beside it.

use std::sync::Arc;

use super::companions::Companions;
use super::listing::{self, Listing};
use super::places::Places;
use super::sums::Sums;
use errors::Result;
use format::names::{self, Piece};
use os::files;

/// The removal of what is kept of checkpoints.
#[derive(Debug)]
pub struct Removal {
    places: Arc<Places>,
    companions: Arc<Companions>,
    listing: Arc<Listing>,
    sums: Arc<Sums>,
}

impl Removal {
    pub(super) fn new(
        (places, companions, listing): (Arc<Places>, Arc<Companions>, Arc<Listing>),
        sums: Arc<Sums>,
    ) -> Removal {
        Removal { places, companions, listing, sums }
    }

    /// Removes the aggregated file of a checkpoint. Rank 0 does so for all processes.
    fn remove_aggregated(&self, name: &str, version: i32) -> Result<()> {
        match self.places.aggregated_paths(name, version) {
            Some((data, table)) if self.places.rank() == 0 => {
                self.places.may_change_in(self.places.meta())?;
                // In this order, should the process end here, no table stays without its data.
                files::remove(&table)?;
                files::remove(&data)
            }
            _ => Ok(()),
        }
    }

    /// Removes a file of another process from this one's scratch directory.
    pub fn remove_foreign(&self, name: &str, version: i32, rank: u32, piece: Piece) -> Result<()> {
        self.places.may_change_in(self.places.scratch())?;
        let of_other = self.places.of_rank(rank);
        match piece {
            Piece::Data => {
                files::remove(&of_other.scratch_path(name, version)?)?;
                files::remove(&of_other.routed_note(name, version)?)
            }
            Piece::Parity => files::remove(&of_other.parity_path(name, version)?),
        }
    }

    /// Removes this user's files of a name from scratch, except the versions in `keep`. A file that
    /// cannot be removed does not keep the others; the first such failure is the error.
    pub fn clean_scratch(&self, name: &str, keep: impl Fn(i32) -> bool) -> Result<()> {
        let Some(directory) = self.places.scratch() else {
            return Ok(());
        };
        self.places.may_change_in(self.places.scratch())?;
        let mut result = Ok(());
        for version in listing::versions(directory, name, self.places.rank())? {
            let path = self.places.scratch_path(name, version)?;
            if !keep(version) && files::is_own(&path) {
                let removed =
                    files::remove(&path).and_then(|()| self.remove_scratch(name, version, None));
                result = result.and(removed);
            }
        }
        // Parities can be there without the checkpoint that they belong to.
        let parities = files::list(directory, |file_name| {
            let file = names::parse_parity(file_name)?;
            let is_one = file.name == name && file.rank == self.places.rank();
            (is_one && files::is_own(&directory.join(file_name))).then_some(file.version)
        })?;
        for version in parities.into_iter().filter(|version| !keep(*version)) {
            result = result.and(files::remove(&self.places.parity_path(name, version)?));
        }
        result
    }

    /// Removes the files in scratch that this process is writing: their writers can give them no name any more.
    pub fn remove_unnamed(&self) -> Result<()> {
        let Some(directory) = self.places.scratch() else {
            return Ok(());
        };
        let own = files::list(directory, |file_name| {
            let temporary = names::parse_temporary(file_name)?;
            let of_rank = names::parse(temporary.complete)?.rank == self.places.rank();
            (of_rank && temporary.pid == std::process::id()).then(|| directory.join(file_name))
        })?;
        own.iter().try_for_each(|path| files::remove_with_folder(path))
    }

    /// Removes a checkpoint's file that this job has written to scratch, and its checksum unless
    /// `persistent` has the file too; `None`: whether it has is to be looked for.
    pub fn remove_scratch(&self, name: &str, version: i32, persistent: Option<bool>) -> Result<()> {
        self.places.may_change_in(self.places.scratch())?;
        let naming = self.places.naming_one();
        files::remove(&self.places.own_path(name, version)?)?;
        drop(naming);
        self.companions.remove_parity(name, version)?;
        self.companions.remove_note(name, version)?;
        if !self.sums.may_be_there()
            || persistent.unwrap_or_else(|| self.listing.is_persistent(name, version))
        {
            return Ok(());
        }
        self.sums.remove_checksum(name, version)
    }

    /// Removes a checkpoint's file from persistent, and its checksum unless scratch has the file too.
    pub fn remove_persistent(&self, name: &str, version: i32) -> Result<()> {
        self.places.may_change_in(self.places.persistent())?;
        if let Some(path) = self.places.persistent_path(name, version) {
            let _naming = self.places.naming_one();
            files::remove(&path)?;
        }
        self.remove_aggregated(name, version)?;
        // The scratch file is not looked for where it could need no checksum.
        if !self.sums.may_be_there()
            || self.places.scratch_path(name, version).is_ok_and(|path| path.exists())
        {
            return Ok(());
        }
        self.sums.remove_checksum(name, version)
    }
}

#[cfg(test)]
mod tests {
    use crate::Files;
    use std::fs;

    use config::Config;

    /// Rank 0 removes the aggregated file. Catches a checksum that another rank leaves for ever,
    /// because the aggregated file was still there when that rank's copy left scratch.
    #[test]
    fn a_checksum_goes_with_the_last_copy() {
        let folder = tempfile::tempdir().unwrap();
        let below = |path: &str| folder.path().join(path);
        let text = format!(
            "mode = async\nscratch = {0}/s\npersistent = {0}/p\nmeta = {0}/m\nchksum = true\n\
             aggregated = true\n",
            folder.path().display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let files = Files::open(&config, 1).unwrap();
        let there = ["s/x-1-1.dat", "m/x-1-1.dat.chksum", "p/x-agg-1.dat", "m/x-agg-1.dat"];
        there.iter().for_each(|path| fs::write(below(path), [0; 32]).unwrap());
        files.removal().remove_persistent("x", 1).unwrap();
        assert!(there.iter().all(|path| below(path).exists()));
        files.removal().remove_scratch("x", 1, Some(false)).unwrap();
        assert!(!below("s/x-1-1.dat").exists() && !below("m/x-1-1.dat.chksum").exists());
        assert!(below("p/x-agg-1.dat").exists());
    }
}
