//! What this job may change under a name: nothing while another job is at work under it, and no version that a job
//! of another number of processes has left.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::listing::Listing;
use super::places::Places;
use super::runs::proof_of;
use super::warnings::Warnings;
use catalog::FileLevel;
use config::ProofPolicy as Setting;
use errors::{Error, ErrorKind, Result};
use os::live_lock::LiveLocks;
use os::sync::Mutex;

/// The names that this job is at work under, and those of which it may replace versions of other jobs.
#[derive(Debug, Default)]
pub(super) struct Live {
    locks: Mutex<Locks>,
    replaces: Mutex<HashSet<String>>,
}

#[derive(Debug, Default)]
struct Locks {
    /// `None`: not opened yet, or closed again; `Some(None)`: there are none.
    of_directory: Option<Option<LiveLocks>>,
    held: HashSet<String>,
}

/// Checks that the file at `target`, which that at `source` is to replace, is of no job with another number of
/// processes.
///
/// # Errors
/// [`ErrorKind::OtherJob`] with both numbers.
pub(super) fn check_same_ranks(source: &Path, target: &Path) -> Result<()> {
    match (ranks_of(source), ranks_of(target)) {
        (Some(ours), Some(theirs)) if ours > 0 && theirs > 0 && ours != theirs => {
            let (source, target) = (source.display(), target.display());
            Err(Error::new(
                ErrorKind::OtherJob,
                format!(
                    "{target} is of a job of {theirs} ranks, and {source} of one of {ours}: it is not replaced"
                ),
            ))
        }
        _ => Ok(()),
    }
}

/// How many processes the job had that made a file, if it says so.
fn ranks_of(path: &Path) -> Option<u32> {
    proof_of(path).map(|proof| proof.ranks)
}

/// What this job may change.
#[derive(Debug)]
pub struct Rights {
    places: Arc<Places>,
    warnings: Arc<Warnings>,
    listing: Arc<Listing>,
    live: Arc<Live>,
    /// How many processes the job has; 0: not known.
    ranks: u32,
    proof: Setting,
}

impl Rights {
    pub(super) fn new(
        (places, warnings, listing): (Arc<Places>, Arc<Warnings>, Arc<Listing>),
        live: Arc<Live>,
        ranks: u32,
        proof: Setting,
    ) -> Rights {
        Rights { places, warnings, listing, live, ranks, proof }
    }

    /// From here on this job is at work under a name.
    ///
    /// # Errors
    /// [`ErrorKind::OtherJob`], naming the process of another job that is at work under it.
    pub fn begin_work(&self, name: &str) -> Result<()> {
        if self.places.is_ephemeral() {
            return Ok(());
        }
        let mut locks = self.live.locks.lock();
        if locks.held.contains(name) {
            return Ok(());
        }
        let of_directory = locks.of_directory.get_or_insert_with(|| self.open_locks());
        if let Some(there) = of_directory {
            let subject = format!("checkpoint \"{name}\" of rank {}", self.places.rank());
            match there.take(&subject) {
                Err(error) if error.kind() == ErrorKind::OtherJob => {
                    return Err(error.followed_by(
                        "two jobs of one configuration would take each other's checkpoints; another name or \
                         other directories keep them apart (processes of one job: VELOC_Init with a communicator of \
                         them all, or VELOC_Init_single with a number for each)",
                    ));
                }
                Err(error) => {
                    self.goes_on_unlocked(&error);
                    *of_directory = None;
                }
                Ok(()) => {}
            }
        }
        locks.held.insert(name.to_owned());
        Ok(())
    }

    /// The locks in scratch or, if that takes none, in persistent.
    fn open_locks(&self) -> Option<LiveLocks> {
        let mut directories =
            [self.places.scratch(), self.places.persistent()].into_iter().flatten();
        let first = LiveLocks::open(directories.next()?);
        let opened = first.or_else(|error| match directories.next() {
            Some(next) => LiveLocks::open(next).map_err(|_| error),
            None => Err(error),
        });
        opened.inspect_err(|error| self.goes_on_unlocked(error)).ok()
    }

    fn goes_on_unlocked(&self, error: &Error) {
        if os::logging::speaks_for_all() {
            self.warnings.once(format!(
                "{error}: another job that writes the same checkpoints at the same time goes unnoticed"
            ));
        }
    }

    /// This job is at work under no name any more.
    pub fn end_work(&self) {
        *self.live.locks.lock() = Locks::default();
    }

    /// From here on this job may replace versions of a name that jobs of other numbers of processes have left: it
    /// has restored one, or removes them.
    pub fn allow_replacing(&self, name: &str) {
        let mut replaces = self.live.replaces.lock();
        if !replaces.contains(name) {
            replaces.insert(name.to_owned());
        }
    }

    /// Whether this job may replace versions of a name that jobs of other numbers of processes have left.
    pub fn may_replace(&self, name: &str) -> bool {
        self.live.replaces.lock().contains(name)
    }

    /// Takes the versions that a job of another number of processes has left out of those whose number is limited.
    pub fn leave_other_numbers(&self, level: FileLevel, name: &str, versions: &mut Vec<i32>) {
        if self.ranks == 0 || self.proof == Setting::Off {
            return;
        }
        let theirs = |version: i32| {
            let ranks = match level {
                FileLevel::Scratch => ranks_of(&self.places.scratch_path(name, version).ok()?),
                FileLevel::Persistent => self
                    .places
                    .persistent_path(name, version)
                    .and_then(|path| ranks_of(&path))
                    .or_else(|| self.listing.ranks_of_aggregated(name, version)),
            };
            ranks.filter(|ranks| *ranks > 0 && *ranks != self.ranks)
        };
        let before = versions.len();
        versions.retain(|version| theirs(*version).is_none());
        if versions.len() < before {
            self.warnings.once(format!(
                "{} versions of \"{name}\" are of a job of another number of ranks than {}: they stay, whatever the \
                 limit of versions (VELOC_Cleanup removes those in scratch)",
                before - versions.len(),
                self.ranks
            ));
        }
    }

    /// Checks that the file at `path`, if there is one, is of no job with another number of processes.
    ///
    /// # Errors
    /// [`ErrorKind::OtherJob`] with both numbers.
    pub(super) fn check_replaced(&self, name: &str, path: &Path) -> Result<()> {
        self.check_ranks(name, path, || ranks_of(path))
    }

    /// The same, where the file's number of processes is known.
    pub(super) fn check_ranks(
        &self,
        name: &str,
        path: &Path,
        theirs: impl FnOnce() -> Option<u32>,
    ) -> Result<()> {
        if self.ranks == 0 || self.proof != Setting::Check || self.may_replace(name) {
            return Ok(());
        }
        match theirs().filter(|theirs| *theirs > 0 && *theirs != self.ranks) {
            None => Ok(()),
            Some(theirs) => Err(Error::new(
                ErrorKind::OtherJob,
                format!(
                    "{} is of a job of {theirs} ranks, and this one has {}: it is not replaced. A job that has \
                     restored a version of \"{name}\", or called VELOC_Cleanup for it, may replace it, and so may \
                     one with proof = accept; another name or other directories keep both",
                    path.display(),
                    self.ranks
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Files;
    use crate::{Names, Output};
    use config::Config;
    use format::header::Header;
    use format::identity::Identity;

    fn files(folder: &Path, more: &str, ranks: u32) -> Files {
        let text = format!("mode = sync\nscratch = {}\n{more}", folder.display());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        Files::open(&config, 0).unwrap().of_job(ranks)
    }

    fn take(files: &Files, content: &[u8]) -> Result<()> {
        let path = files.places().scratch_path("x", 1)?;
        let mut output = Output::create(files.places().temporary(&path), files.proofs().digest())?;
        output.put(&[&Header::new(vec![(1, content.len() as u64)])?.encode(), content].concat())?;
        files.scratch().seal(
            &output,
            "x",
            1,
            Identity { run: u64::from(files.parts.ground.ranks), generation: 0 },
        )?;
        files.scratch().publish(&Names::default().lock(), &output.finish(), "x", 1)
    }

    /// Catches a version of a larger job that a smaller one replaces unasked, and one that it may replace and does not.
    #[test]
    fn another_number_of_ranks_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let four = files(folder.path(), "", 4);
        take(&four, b"four").unwrap();
        let two = files(folder.path(), "", 2);
        let error = take(&two, b"two").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OtherJob);
        let text = error.to_string();
        for words in ["x-0-1.dat", "of 4 ranks", "has 2", "VELOC_Cleanup", "proof = accept"] {
            assert!(text.contains(words), "{text}");
        }
        let path = four.places().scratch_path("x", 1).unwrap();
        assert!(fs::read(&path).unwrap().ends_with(b"four"));
        take(&four, b"again").unwrap();
        // Not known, or asked for.
        take(&files(folder.path(), "", 0), b"alone").unwrap();
        take(&two, b"two").unwrap();
        take(&files(folder.path(), "proof = accept\n", 4), b"accepted").unwrap();
        let two = files(folder.path(), "", 2);
        two.rights().allow_replacing("x");
        take(&two, b"allowed").unwrap();
        assert!(fs::read(&path).unwrap().ends_with(b"allowed"));
    }

    /// Catches a second job that works under the name of a live one, one that is kept out of other names, and a lock
    /// that stays.
    #[test]
    fn two_live_jobs_do_not_share_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let _sole = os::forks::none();
        let [one, other] = [(); 2].map(|()| files(folder.path(), "", 1));
        one.rights().begin_work("x").unwrap();
        one.rights().begin_work("x").unwrap();
        let error = other.rights().begin_work("x").unwrap_err().to_string();
        assert!(error.contains("\"x\" of rank 0 is being written by process"), "{error}");
        other.rights().begin_work("y").unwrap();
        one.rights().end_work();
        other.rights().begin_work("x").unwrap();
    }
}
