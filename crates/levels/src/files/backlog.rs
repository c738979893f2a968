//! Checkpoints that an earlier job has written to scratch, and whose copies in persistent it could not
//! make: persistent was away, or the process that was to make them was killed.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

use super::expected::Evidence;
use super::{Files, Opened};
use crate::level::FileLevel;
use format::proof;
use os::error::Result;
use os::{attributes, files, times};
use policy::interval::{self, LeftVersion};

impl Files {
    /// The versions of a name that scratch has, and persistent should have by `persistent_interval`
    /// and as far as it keeps them (`limit`; 0: all), and has not: the newest first. It has not what an
    /// earlier job had copied there before the version was taken again. Files of the application's own
    /// are none: where they belong there may be a newer one by now.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn backlog(&self, name: &str, interval: Option<u64>, limit: usize) -> Result<Vec<i32>> {
        if self.scratch.is_none() || self.persistent.is_none() {
            return Ok(Vec::new());
        }
        let left =
            |(taken, version), persistent| (version, LeftVersion { taken, version, persistent });
        let there = self.by_age(FileLevel::Persistent, name)?;
        let mut all: BTreeMap<i32, LeftVersion> =
            there.into_iter().map(|one| left(one, true)).collect();
        for (taken, version) in self.by_age(FileLevel::Scratch, name)? {
            if !self.is_routed(name, version) {
                let persistent = self.is_copied(name, version, taken);
                all.extend([left((taken, version), persistent)]);
            }
        }
        Ok(interval::persist_backlog(interval, limit, all.into_values().collect()))
    }

    /// Whether persistent has a copy of the scratch file of a version that was `taken` then. A file in
    /// persistent that is older is of the same version, taken before. Of an aggregated file, which has the
    /// time of its first part, that cannot be told: it counts as the copy.
    fn is_copied(&self, name: &str, version: i32, taken: SystemTime) -> bool {
        let own = self.persistent_path(name, version).filter(|path| files::is_own(path));
        match own.and_then(|path| times::modified(&path).ok()) {
            Some(copied) => !times::is_older(copied, taken),
            None => self.is_aggregated(name, version),
        }
    }

    /// Copies such a version to a file of its own in persistent: the bytes, or `None` if there is
    /// nothing to copy any more. A job may take the version meanwhile.
    ///
    /// # Errors
    /// Its file is damaged; the system's.
    pub fn copy_backlog(&self, name: &str, version: i32) -> Result<Option<u64>> {
        self.copy_owed_while(name, version, || ())
    }

    fn copy_owed_while(
        &self,
        name: &str,
        version: i32,
        meanwhile: impl FnOnce(),
    ) -> Result<Option<u64>> {
        let Some(target) = self.persistent_path(name, version) else {
            return Ok(None);
        };
        let source = self.scratch_path(name, version)?;
        let opened = Opened::read(&source)?;
        if self.expected(&opened, name, version)?.1 == Evidence::Missing
            && target.exists()
            && self.keeps_checksums()
        {
            // What cannot be compared with anything replaces nothing that may be.
            return Ok(None);
        }
        let opened = self.checked(opened, name, version, || Ok(()))?;
        let taken = times::modified(&source)?;
        let temporary = self.temporary(&target);
        self.may_change_in(self.persistent.as_deref())?;
        let durability = self.persistent_durability();
        let named = files::create(&temporary).and_then(|to| {
            let bytes =
                files::copy_between(&opened.file, &to, 0, (&source, &temporary), || Ok(()))?;
            attributes::copy((&opened.file, &source), (&to, &temporary), proof::NAME)?;
            files::finish_write(&to, &temporary, durability)?;
            meanwhile();
            self.may_change_in(self.persistent.as_deref())?;
            // Taken again, removed or copied by now.
            if !is_same(&opened.file, &source) || self.is_copied(name, version, taken) {
                files::remove(&temporary)?;
                return Ok(None);
            }
            // Its place among the others is that of when it was taken.
            times::set_modified(&temporary, taken)?;
            files::atomic_replace(&temporary, &target, durability)?;
            self.persist_checksum(name, version, None, durability)?;
            Ok(Some(bytes))
        });
        if named.is_err() {
            // The first failure is the one to report.
            let _ = files::remove(&temporary);
        }
        named
    }
}

/// Whether this open file is the one at `path`.
fn is_same(file: &File, path: &Path) -> bool {
    let of_path = std::fs::symlink_metadata(path);
    let both = file.metadata().and_then(|file| Ok((file, of_path?)));
    both.is_ok_and(|(file, there)| (file.dev(), file.ino()) == (there.dev(), there.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Config;
    use format::header::Header;
    use std::fs;

    fn content(byte: u8) -> Vec<u8> {
        [&Header::new(vec![(0, 3)]).unwrap().encode()[..], &[byte; 3]].concat()
    }

    /// Catches an old file that takes the place of one that came meanwhile, one that is younger than
    /// it was, and one that nobody asked for.
    #[test]
    fn what_is_owed_is_copied_once() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            format!("mode = sync\nscratch = {0}/s\npersistent = {0}/p\n", folder.path().display());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let files = Files::open(&config, 0).unwrap();
        let at = |path: &str| folder.path().join(path);
        let earlier = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(9);
        for version in 1..=4 {
            let path = at(&format!("s/x-0-{version}.dat"));
            fs::write(&path, content(version)).unwrap();
            times::set_modified(&path, earlier).unwrap();
        }
        fs::write(at("p/x-0-2.dat"), content(2)).unwrap();
        // Of before the version was taken again.
        fs::write(at("s/x-0-5.dat"), content(5)).unwrap();
        fs::write(at("p/x-0-5.dat"), content(6)).unwrap();
        times::set_modified(&at("p/x-0-5.dat"), earlier).unwrap();
        fs::write(at("s/.x-0-4.dat.routed"), "/own").unwrap();
        let backlog = || files.backlog("x", Some(0), 0).unwrap();
        assert_eq!(backlog(), [5, 3, 1]);
        assert_eq!(files.backlog("x", None, 0).unwrap(), [0; 0]);
        let copy = |version, between: &dyn Fn()| files.copy_owed_while("x", version, between);
        let len = content(0).len() as u64;
        assert_eq!(copy(3, &|| ()), Ok(Some(len)));
        assert_eq!(fs::read(at("p/x-0-3.dat")).unwrap(), content(3));
        assert_eq!(times::modified(&at("p/x-0-3.dat")).unwrap(), earlier);
        assert_eq!(copy(2, &|| ()), Ok(None), "it is there");
        assert_eq!(copy(5, &|| ()), Ok(Some(len)));
        assert_eq!(fs::read(at("p/x-0-5.dat")).unwrap(), content(5));
        assert_eq!(backlog(), [1]);
        // Taken again while it is copied.
        let again = || {
            fs::write(at("new"), content(9)).unwrap();
            fs::rename(at("new"), at("s/x-0-1.dat")).unwrap();
        };
        assert_eq!(copy(1, &again), Ok(None));
        fs::write(at("s/x-0-1.dat"), [1; 30]).unwrap();
        assert!(copy(1, &|| ()).is_err(), "it is damaged");
        assert_eq!(fs::read_dir(at("p")).unwrap().count(), 3);
    }
}
