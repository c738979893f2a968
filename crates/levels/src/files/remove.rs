//! Removing what is kept of a checkpoint in a level: its file, and the files beside it.

use std::sync::atomic::Ordering;

use super::{find, Files};
use errors::Result;
use format::names;
use os::files;

impl Files {
    /// Removes this user's files of a name from scratch, except the versions in `keep`. A file that
    /// cannot be removed does not keep the others; the first such failure is the error.
    pub fn clean_scratch(&self, name: &str, keep: impl Fn(i32) -> bool) -> Result<()> {
        let Some(directory) = &self.scratch else {
            return Ok(());
        };
        self.may_change_in(self.scratch.as_deref())?;
        let mut result = Ok(());
        for version in find::versions(directory, name, self.rank)? {
            let path = self.scratch_path(name, version)?;
            if !keep(version) && files::is_own(&path) {
                let removed =
                    files::remove(&path).and_then(|()| self.remove_scratch(name, version, None));
                result = result.and(removed);
            }
        }
        // Parities can be there without the checkpoint that they belong to.
        let parities = files::list(directory, |file_name| {
            let file = names::parse_parity(file_name)?;
            let is_one = file.name == name && file.rank == self.rank;
            (is_one && files::is_own(&directory.join(file_name))).then_some(file.version)
        })?;
        for version in parities.into_iter().filter(|version| !keep(*version)) {
            result = result.and(files::remove(&self.parity_path(name, version)?));
        }
        result
    }

    /// Removes the files in scratch that this process is writing: their writers can give them no name any more.
    pub fn remove_unnamed(&self) -> Result<()> {
        let Some(directory) = &self.scratch else {
            return Ok(());
        };
        let own = files::list(directory, |file_name| {
            let temporary = names::parse_temporary(file_name)?;
            let of_rank = names::parse(temporary.complete)?.rank == self.rank;
            (of_rank && temporary.pid == std::process::id()).then(|| directory.join(file_name))
        })?;
        own.iter().try_for_each(|path| files::remove_with_folder(path))
    }

    pub(super) fn remove_note(&self, name: &str, version: i32) -> Result<()> {
        if self.companions.notes.load(Ordering::Relaxed) {
            files::remove(&self.routed_note(name, version)?)?;
        }
        Ok(())
    }

    pub(super) fn remove_parity(&self, name: &str, version: i32) -> Result<()> {
        if self.companions.parities.load(Ordering::Relaxed) {
            files::remove(&self.parity_path(name, version)?)?;
        }
        Ok(())
    }

    pub(super) fn remove_checksum(&self, name: &str, version: i32) -> Result<()> {
        self.checksums.as_ref().map_or(Ok(()), |checksums| {
            self.may_change_in(self.meta.as_deref())?;
            checksums.remove(&names::checkpoint_file(name, self.rank, version))
        })
    }

    /// Removes a checkpoint's file that this job has written to scratch, and its checksum unless
    /// `persistent` has the file too; `None`: whether it has is to be looked for.
    pub fn remove_scratch(&self, name: &str, version: i32, persistent: Option<bool>) -> Result<()> {
        self.may_change_in(self.scratch.as_deref())?;
        let naming = self.naming_one();
        files::remove(&self.own_path(name, version)?)?;
        drop(naming);
        self.remove_parity(name, version)?;
        self.remove_note(name, version)?;
        if self.checksums.is_none()
            || persistent.unwrap_or_else(|| self.is_persistent(name, version))
        {
            return Ok(());
        }
        self.remove_checksum(name, version)
    }

    /// Removes a checkpoint's file from persistent, and its checksum unless scratch has the file too.
    pub fn remove_persistent(&self, name: &str, version: i32) -> Result<()> {
        self.may_change_in(self.persistent.as_deref())?;
        if let Some(path) = self.persistent_path(name, version) {
            let _naming = self.naming_one();
            files::remove(&path)?;
        }
        self.remove_aggregated(name, version)?;
        // The scratch file is not looked for where it could need no checksum.
        if self.checksums.is_none()
            || self.scratch_path(name, version).is_ok_and(|path| path.exists())
        {
            return Ok(());
        }
        self.remove_checksum(name, version)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::files::Files;
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
        files.remove_persistent("x", 1).unwrap();
        assert!(there.iter().all(|path| below(path).exists()));
        files.remove_scratch("x", 1, Some(false)).unwrap();
        assert!(!below("s/x-1-1.dat").exists() && !below("m/x-1-1.dat.chksum").exists());
        assert!(below("p/x-agg-1.dat").exists());
    }
}
