//! The persist backlog: checkpoints that an earlier job has written to scratch and not copied to
//! persistent, because persistent was away or the process that was to copy them was killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use super::expected::{Checks, Evidence};
use super::listing::Listing;
use super::live::check_same_ranks;
use super::opened::Opened;
use super::places::Places;
use super::proofs::Proofs;
use super::rebased::{is_same, Bases};
use super::routed::RoutedFiles;
use super::runs::proof_of;
use super::sums::Sums;
use catalog::FileLevel;
use errors::Result;
use os::{files, times};
use policy::interval::{self, LeftVersion};

/// The persist backlog.
#[derive(Debug)]
pub struct Backlog {
    places: Arc<Places>,
    listing: Arc<Listing>,
    sums: Arc<Sums>,
    proofs: Arc<Proofs>,
    checks: Arc<Checks>,
    routed: Arc<RoutedFiles>,
    bases: Arc<Bases>,
}

impl Backlog {
    pub(super) fn new(
        (places, listing): (Arc<Places>, Arc<Listing>),
        (sums, proofs, checks): (Arc<Sums>, Arc<Proofs>, Arc<Checks>),
        routed: Arc<RoutedFiles>,
        bases: Arc<Bases>,
    ) -> Backlog {
        Backlog { places, listing, sums, proofs, checks, routed, bases }
    }

    /// The persist backlog of a name: versions in scratch that persistent lacks and should have by
    /// `persistent_interval` and by how many it keeps (`limit`; 0: all); the newest first. A copy
    /// from before the version was taken again does not count. Files of the application's own are
    /// no backlog: where they belong there may be a newer one by now.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn of(&self, name: &str, interval: Option<u64>, limit: usize) -> Result<Vec<i32>> {
        if self.places.scratch().is_none() || self.places.persistent().is_none() {
            return Ok(Vec::new());
        }
        let left =
            |(taken, version), persistent| (version, LeftVersion { taken, version, persistent });
        let there = self.listing.by_age(FileLevel::Persistent, name)?;
        let mut all: BTreeMap<i32, LeftVersion> =
            there.into_iter().map(|one| left(one, true)).collect();
        for (taken, version) in self.listing.by_age(FileLevel::Scratch, name)? {
            if !self.routed.is_routed(name, version) {
                let persistent = self.is_copied(name, version, taken);
                all.extend([left((taken, version), persistent)]);
            }
        }
        Ok(interval::persist_backlog(interval, limit, all.into_values().collect()))
    }

    /// Whether persistent has a copy of the scratch file of a version that was `taken` then. An
    /// older file in persistent is from before the version was taken again, unless its proof has
    /// the same bytes: then somebody has touched the scratch file. Of an aggregated file, which has
    /// the time of its first part, that cannot be told: it counts as the copy.
    fn is_copied(&self, name: &str, version: i32, taken: SystemTime) -> bool {
        let own = self.places.persistent_path(name, version).filter(|path| files::is_own(path));
        let own = own.and_then(|path| Some((times::modified(&path).ok()?, path)));
        let Some((copied, copy)) = own else {
            return self.listing.is_aggregated(name, version);
        };
        let original = self.places.scratch_path(name, version);
        !times::is_older(copied, taken)
            || original.is_ok_and(|original| {
                proof_of(&original).is_some_and(|p| Some(p) == proof_of(&copy))
            })
    }

    /// Copies a version of the backlog to a file of its own in persistent. Returns its bytes, or
    /// `None` if there is nothing to copy any more: a job may take the version meanwhile.
    ///
    /// # Errors
    /// The scratch file is damaged; or the system's.
    pub fn copy(&self, name: &str, version: i32) -> Result<Option<u64>> {
        self.copy_while(name, version, || ())
    }

    fn copy_while(
        &self,
        name: &str,
        version: i32,
        meanwhile: impl FnOnce(),
    ) -> Result<Option<u64>> {
        let Some(target) = self.places.persistent_path(name, version) else {
            return Ok(None);
        };
        let source = self.places.scratch_path(name, version)?;
        let opened = Opened::read(&source)?;
        if self.checks.expected(&opened, name, version)?.1 == Evidence::Missing
            && target.exists()
            && self.sums.keeps_checksums()
        {
            // A file that cannot be compared with anything replaces none that may be good.
            return Ok(None);
        }
        let opened = self.checks.checked(opened, name, version, || Ok(()))?;
        check_same_ranks(&source, &target)?;
        self.bases.let_go(name, version, &target)?;
        let taken = times::modified(&source)?;
        let temporary = self.places.temporary(&target);
        self.places.may_change_in(self.places.persistent())?;
        let durability = self.places.persistent_durability();
        let named = files::create(&temporary).and_then(|to| {
            let bytes =
                files::copy_between(&opened.file, &to, 0, (&source, &temporary), || Ok(()))?;
            self.proofs.copy_proof((&opened.file, &source), (&to, &target));
            files::finish_write(&to, &temporary, durability)?;
            meanwhile();
            self.places.may_change_in(self.places.persistent())?;
            // The version was taken again, removed or copied by now.
            if !is_same(&opened.file, &source) || self.is_copied(name, version, taken) {
                files::remove(&temporary)?;
                return Ok(None);
            }
            // The order of versions goes by the times when they were taken.
            times::set_modified(&temporary, taken)?;
            let _naming = self.places.naming_one();
            files::atomic_replace(&temporary, &target, durability)?;
            self.sums.persist_checksum(name, version, None, durability)?;
            Ok(Some(bytes))
        });
        if named.is_err() {
            // The first failure is the one to report.
            let _ = files::remove(&temporary);
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;
    use config::Config;
    use format::header::Header;
    use format::identity::Identity;
    use format::proof;
    use format::proof::{Digest, Proof, Sort};
    use os::attributes;
    use std::fs;
    use std::fs::File;

    fn content(byte: u8) -> Vec<u8> {
        [&Header::new(vec![(0, 3)]).unwrap().encode()[..], &[byte; 3]].concat()
    }

    /// Catches an old file that replaces a newer one, a copy that is younger than its file, and a
    /// copy that nobody asked for.
    #[test]
    fn the_backlog_is_copied_once() {
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
        // Copied before the version was taken again.
        fs::write(at("s/x-0-5.dat"), content(5)).unwrap();
        fs::write(at("p/x-0-5.dat"), content(6)).unwrap();
        times::set_modified(&at("p/x-0-5.dat"), earlier).unwrap();
        fs::write(at("s/.x-0-4.dat.routed"), "/own").unwrap();
        let backlog = || files.backlog().of("x", Some(0), 0).unwrap();
        assert_eq!(backlog(), [5, 3, 1]);
        assert_eq!(files.backlog().of("x", None, 0).unwrap(), [0; 0]);
        let copy = |version, between: &dyn Fn()| files.backlog().copy_while("x", version, between);
        let len = content(0).len() as u64;
        assert_eq!(copy(3, &|| ()), Ok(Some(len)));
        assert_eq!(fs::read(at("p/x-0-3.dat")).unwrap(), content(3));
        assert_eq!(times::modified(&at("p/x-0-3.dat")).unwrap(), earlier);
        assert_eq!(copy(2, &|| ()), Ok(None), "it is there");
        assert_eq!(copy(5, &|| ()), Ok(Some(len)));
        assert_eq!(fs::read(at("p/x-0-5.dat")).unwrap(), content(5));
        // The scratch file was damaged since, and persistent's copy was not.
        let digest = Digest::of(Sort::Xxh3, &content(3));
        let proof = Proof {
            name: "x".to_owned(),
            version: 3,
            rank: 0,
            ranks: 1,
            identity: Identity::UNKNOWN,
            len,
            digest: Some(digest),
        };
        for path in [at("s/x-0-3.dat"), at("p/x-0-3.dat")] {
            let file = File::open(&path).unwrap();
            assert!(attributes::set(&file, proof::NAME, &proof.encode()).is_ok());
        }
        fs::write(at("s/x-0-3.dat"), content(4)).unwrap();
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
