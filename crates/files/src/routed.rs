//! Files of the application's own (`VELOC_Route_file`), which have no header: a note beside the
//! scratch file, or a link in persistent, says so. Neither of them is the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::expected::{refuse_holes, Checks};
use super::note::note_of;
use super::places::Places;
use super::runs::Runs;
use super::sums::Sums;
use super::warnings::Warnings;
use errors::{Error, ErrorKind, Result};
use format::names;
use os::files::{self, OtherUser};

/// The files of the application's own.
#[derive(Debug)]
pub(super) struct RoutedFiles {
    places: Arc<Places>,
    warnings: Arc<Warnings>,
    sums: Arc<Sums>,
    checks: Arc<Checks>,
    runs: Arc<Runs>,
}

impl RoutedFiles {
    pub(super) fn new(
        (places, warnings, sums): (Arc<Places>, Arc<Warnings>, Arc<Sums>),
        checks: Arc<Checks>,
        runs: Arc<Runs>,
    ) -> RoutedFiles {
        RoutedFiles { places, warnings, sums, checks, runs }
    }

    /// The same, where only copies that this run may have made are taken.
    pub(super) fn of_run(&self, runs: Arc<Runs>) -> RoutedFiles {
        let RoutedFiles { places, warnings, sums, checks, .. } = self;
        let below = (places.clone(), warnings.clone(), sums.clone());
        RoutedFiles::new(below, checks.clone(), runs)
    }

    /// For a file-based checkpoint, the path that the application asked to have routed.
    pub(super) fn routed(&self, name: &str, version: i32) -> Result<Option<String>> {
        note_of(&self.places, name, version)
    }

    /// Whether a checkpoint is a file of the application's own. A note that is none is passed over.
    pub(super) fn is_routed(&self, name: &str, version: i32) -> bool {
        if self.places.scratch().is_none() {
            return false; // Notes are there.
        }
        self.routed(name, version).map(|original| original.is_some()).unwrap_or_else(|error| {
            self.warnings.once(format!("{error}; it is passed over"));
            false
        })
    }

    /// The nearest good file of a file-based checkpoint: the one in scratch, or the target of the
    /// link in persistent; another user's only if there is no other.
    pub(super) fn routed_copy(&self, name: &str, version: i32) -> Result<PathBuf> {
        let file = names::checkpoint_file(name, self.places.rank(), version);
        let check = |path: &Path| -> Result<Option<OtherUser>> {
            let opened = files::open(path)?;
            self.runs.check_run(path, || self.runs.identity_of(&opened, path))?;
            let whose = files::other_owner_of(&opened, path);
            let Some(sums) = self.sums.kept().filter(|sums| sums.counts(&file, path)) else {
                return Ok(whose);
            };
            let Some(kept) = sums.get(&file)? else {
                self.warnings.once(format!(
                    "{}: it is not checked, as there is no {}",
                    path.display(),
                    sums.path(&file).display()
                ));
                return Ok(whose);
            };
            let len = files::len(&opened, path)?;
            refuse_holes(&opened, &(0..len), path)?;
            match self.checks.has_content(path, len, kept, || Ok(()))? {
                true => Ok(whose),
                false => Err(Error::new(
                    ErrorKind::Corrupt,
                    format!(
                        "{}: its SHA-256 is not the one in {}, {kept}",
                        path.display(),
                        sums.path(&file).display()
                    ),
                )),
            }
        };
        let mut last: Option<Error> = None;
        let scratch = self.places.scratch_path(name, version).ok();
        let mut paths: Vec<_> =
            scratch.into_iter().chain(self.places.persistent_path(name, version)).collect();
        paths.sort_by_key(|path| files::other_owner_at(path).is_some());
        for path in paths {
            match check(&path) {
                Ok(other) => {
                    if let Some(other) = other {
                        self.warnings.say_whose(&path, other);
                    }
                    if let Some(error) = last {
                        self.warnings.once(format!("{error}; another copy is taken"));
                    }
                    return Ok(path);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    last = Some(match last {
                        Some(before) => before.followed_by(error),
                        None => error,
                    });
                }
            }
        }
        Err(last.unwrap_or_else(|| self.places.no_file(name, version)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::LONGEST_PATH;
    use crate::Files;
    use crate::Found;
    use config::Config;
    use format::header::Header;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct Job {
        directory: tempfile::TempDir,
        files: Files,
    }

    impl Job {
        fn new() -> Job {
            let directory = tempfile::tempdir().unwrap();
            let text = "mode = sync\nscratch = DIR/s\npersistent = DIR/p\n";
            let text = text.replace("DIR", &directory.path().display().to_string());
            let (config, _) = Config::from_text(&text, |_| None).unwrap();
            let files = Files::open(&config, 0).unwrap();
            fs::write(directory.path().join("own"), "the application's").unwrap();
            Job { directory, files }
        }

        fn path(&self, below: &str) -> PathBuf {
            self.directory.path().join(below)
        }

        fn note(&self, content: impl AsRef<[u8]>) {
            fs::write(self.path("s/.x-0-1.dat.routed"), content).unwrap();
        }

        fn is_routed(&self) -> Result<bool> {
            self.files.copies().look("x", 1).map(|found| matches!(found, Found::Routed(_)))
        }
    }

    /// Catches a note that is taken for the file: a restart would begin, and have nothing to restore.
    #[test]
    fn a_note_is_not_the_file() {
        let job = Job::new();
        job.note(job.path("own").to_str().unwrap());
        assert_eq!(job.is_routed().unwrap_err().kind(), ErrorKind::NotFound);
        // A link that leads nowhere is no file either.
        symlink(job.path("gone"), job.path("p/x-0-1.dat")).unwrap();
        assert_eq!(job.is_routed().unwrap_err().kind(), ErrorKind::NotFound);
        fs::remove_file(job.path("p/x-0-1.dat")).unwrap();
        symlink(job.path("own"), job.path("p/x-0-1.dat")).unwrap();
        assert!(job.is_routed().unwrap());
        // A note that leads to a checkpoint's file is none either.
        fs::remove_file(job.path("s/.x-0-1.dat.routed")).unwrap();
        assert!(job.is_routed().unwrap());
        fs::write(job.path("own"), [0; 8]).unwrap();
        assert!(!job.is_routed().unwrap());
        job.note(job.path("own").to_str().unwrap());
        fs::remove_file(job.path("p/x-0-1.dat")).unwrap();
        fs::write(job.path("s/x-0-1.dat"), "the application's").unwrap();
        assert!(job.is_routed().unwrap());
    }

    /// Catches a name that is enough to make another file one of the application's own, and regions
    /// that cannot be restored because of it.
    #[test]
    fn what_is_no_note_says_nothing() {
        let job = Job::new();
        let regions = [&Header::new(vec![(1, 3)]).unwrap().encode()[..], b"abc"].concat();
        fs::write(job.path("s/x-0-1.dat"), &regions).unwrap();
        let long = format!("/{}", "x".repeat(LONGEST_PATH as usize));
        for content in [&b""[..], b"own", b"/\xff", b"/a\0b", long.as_bytes()] {
            job.note(content);
            assert!(!job.is_routed().unwrap(), "{content:?}");
            let error = job.files.copies().routed("x", 1).unwrap_err();
            assert!(error.to_string().contains(".x-0-1.dat.routed"), "{error}");
        }
        fs::remove_file(job.path("s/.x-0-1.dat.routed")).unwrap();
        fs::create_dir(job.path("s/.x-0-1.dat.routed")).unwrap();
        assert!(!job.is_routed().unwrap());
        // And a file without a header is no checkpoint because of such a note.
        fs::write(job.path("s/x-0-1.dat"), "the application's").unwrap();
        assert_eq!(job.is_routed().unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
