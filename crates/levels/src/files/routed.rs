//! Files of the application's own (`VELOC_Route_file`), which have no header: a note beside the
//! scratch file, or a link in persistent, says so. Neither of them is the file.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::{refuse_holes, Files, Naming};
use catalog::FileLevel;
use errors::{Error, Kind, Result};
use format::names;
use os::files::{self, Durability, OtherUser};

/// The most bytes of a path that the system takes (`PATH_MAX`).
const LONGEST_PATH: u64 = 4096;

/// The path of the application's file, as the note at `path` about the file at `about` has it.
/// `None`: there is no note.
///
/// # Errors
/// [`Kind::Corrupt`] if the file is no note, or belongs neither to this user nor to the owner of
/// `about`; else the system's. All name the path.
pub fn read_note(path: &Path, about: &Path) -> Result<Option<String>> {
    let file = match files::open_beside(path, about) {
        Ok(file) => file,
        Err(error) if error.kind() == Kind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut original = String::new();
    let read = file.take(LONGEST_PATH + 1).read_to_string(&mut original);
    let is_path = original.len() as u64 <= LONGEST_PATH && original.starts_with('/');
    if read.is_ok() && is_path && !original.contains('\0') {
        return Ok(Some(original));
    }
    Err(Error::new(
        Kind::Corrupt,
        format!("{} has no path in it, as a note of a routed file has", path.display()),
    ))
}

impl Files {
    /// For a file-based checkpoint, the path that the application asked to have routed.
    pub fn routed(&self, name: &str, version: i32) -> Result<Option<String>> {
        read_note(&self.routed_note(name, version)?, &self.scratch_path(name, version)?)
    }

    /// How large the next file of the application's own under a name will be, if it is as the one
    /// before: in scratch, or at `original`, which it will replace. No other path is looked at: to
    /// list the files of all ranks may take its time. 0: there is none.
    pub fn expected_len(&self, name: &str, original: &Path) -> u64 {
        let newest = self.oldest_first(FileLevel::Scratch, name).unwrap_or_default().pop();
        let in_scratch = newest.map_or(0, |version| self.scratch_len(name, version));
        in_scratch.max(std::fs::metadata(original).map_or(0, |found| found.len()))
    }

    /// Whether scratch has room for about so many bytes, as far as the system tells: a quota shows
    /// when something is written.
    ///
    /// # Errors
    /// [`Kind::NoRoom`] if it has not, with the free bytes.
    pub fn expect_room(&self, bytes: u64) -> Result<()> {
        let free = self.scratch.as_ref().map(|scratch| (scratch, files::free_space(scratch)));
        match free {
            Some((scratch, Ok(free))) if free < bytes => Err(Error::new(
                Kind::NoRoom,
                format!(
                    "{} has room for {free} bytes, and the file before this one has {bytes}",
                    scratch.display()
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Whether a checkpoint is a file of the application's own. A note that is none is passed over.
    pub(super) fn is_routed(&self, name: &str, version: i32) -> bool {
        if self.scratch.is_none() {
            return false; // Notes are there.
        }
        self.routed(name, version).map(|original| original.is_some()).unwrap_or_else(|error| {
            self.warn_once(format!("{error}; it is passed over"));
            false
        })
    }

    /// Whether persistent has a link to the file of a file-based checkpoint in place of a file.
    pub(super) fn is_linked(&self, name: &str, version: i32) -> bool {
        self.persistent_path(name, version).is_some_and(|path| path.is_symlink() && path.is_file())
    }

    /// The nearest good file of a file-based checkpoint: the one in scratch, or the target of the
    /// link in persistent; another user's only if there is no other.
    pub(super) fn routed_copy(&self, name: &str, version: i32) -> Result<PathBuf> {
        let file = names::checkpoint_file(name, self.rank, version);
        let check = |path: &Path| -> Result<Option<OtherUser>> {
            let opened = files::open(path)?;
            self.check_run(path, || self.identity_of(&opened, path))?;
            let whose = files::other_owner_of(&opened, path);
            let sums = self.checksums.as_ref();
            let Some(sums) = sums.filter(|sums| sums.are_kept() && sums.counts(&file, path)) else {
                return Ok(whose);
            };
            let Some(kept) = sums.get(&file)? else {
                self.warn_once(format!(
                    "{}: it is not checked, as there is no {}",
                    path.display(),
                    sums.path(&file).display()
                ));
                return Ok(whose);
            };
            let len = files::len(&opened, path)?;
            refuse_holes(&opened, &(0..len), path)?;
            match self.has_content(path, len, kept, || Ok(()))? {
                true => Ok(whose),
                false => Err(Error::new(
                    Kind::Corrupt,
                    format!(
                        "{}: it has not the SHA-256 that {} says, {kept}",
                        path.display(),
                        sums.path(&file).display()
                    ),
                )),
            }
        };
        let mut last: Option<Error> = None;
        let scratch = self.scratch_path(name, version).ok();
        let mut paths: Vec<_> =
            scratch.into_iter().chain(self.persistent_path(name, version)).collect();
        paths.sort_by_key(|path| files::other_owner_at(path).is_some());
        for path in paths {
            match check(&path) {
                Ok(other) => {
                    if let Some(other) = other {
                        self.say_whose(&path, other);
                    }
                    if let Some(error) = last {
                        self.warn_once(format!("{error}; another copy is taken"));
                    }
                    return Ok(path);
                }
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => {
                    last = Some(match last {
                        Some(before) => before.followed_by(error),
                        None => error,
                    });
                }
            }
        }
        Err(last.unwrap_or_else(|| self.no_file(name, version)))
    }

    /// Brings the file of a file-based checkpoint back to scratch with its note, if only persistent
    /// has it. Returns its path there and the bytes that were copied; or where it is, if scratch
    /// cannot take it. `lock` takes the lock of names.
    pub fn fetch_routed<'a>(
        &self,
        name: &str,
        version: i32,
        lock: impl FnOnce() -> Naming<'a>,
    ) -> Result<(PathBuf, u64)> {
        let path = self.scratch_path(name, version)?;
        let source = self.routed_copy(name, version)?;
        if source == path {
            return Ok((path, 0));
        }
        match self.bring_routed(&source, &path, name, version, lock) {
            Ok(bytes) => Ok((path, bytes)),
            Err(error) => {
                self.warn_once(format!("{error}; it is read where it is: {}", source.display()));
                Ok((source, 0))
            }
        }
    }

    /// Copies the file of a file-based checkpoint to its path in scratch. Returns the bytes copied.
    fn bring_routed<'a>(
        &self,
        source: &Path,
        path: &Path,
        name: &str,
        version: i32,
        lock: impl FnOnce() -> Naming<'a>,
    ) -> Result<u64> {
        let temporary = self.temporary(path);
        let bytes = files::copy_file(source, &temporary, Durability::Unsynced, |from, to| {
            self.copy_proof((from, source), (to, path));
        })?;
        let noted = self.routed(name, version).ok().flatten();
        let original = noted.or_else(|| linked_from(source));
        let identity = files::open(&temporary).map(|file| self.identity_of(&file, &temporary))?;
        let naming = lock();
        let by = (identity, original.as_deref());
        let named = self.publish_rebuilt(&naming, &temporary, name, version, by);
        if named.is_err() {
            // The first failure is the one to report.
            let _ = files::remove(&temporary);
        }
        named.map(|()| bytes)
    }
}

/// The absolute path that a link leads to.
fn linked_from(link: &Path) -> Option<String> {
    let target = link.parent()?.join(std::fs::read_link(link).ok()?);
    std::path::absolute(target).ok()?.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::super::Found;
    use super::*;
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
            self.files.look("x", 1).map(|found| matches!(found, Found::Routed(_)))
        }
    }

    /// Catches a note that is taken for the file: a restart would begin, and have nothing to restore.
    #[test]
    fn a_note_is_not_the_file() {
        let job = Job::new();
        job.note(job.path("own").to_str().unwrap());
        assert_eq!(job.is_routed().unwrap_err().kind(), Kind::NotFound);
        // A link that leads nowhere is no file either.
        symlink(job.path("gone"), job.path("p/x-0-1.dat")).unwrap();
        assert_eq!(job.is_routed().unwrap_err().kind(), Kind::NotFound);
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
            let error = job.files.routed("x", 1).unwrap_err();
            assert!(error.to_string().contains(".x-0-1.dat.routed"), "{error}");
        }
        fs::remove_file(job.path("s/.x-0-1.dat.routed")).unwrap();
        fs::create_dir(job.path("s/.x-0-1.dat.routed")).unwrap();
        assert!(!job.is_routed().unwrap());
        // And a file without a header is no checkpoint because of such a note.
        fs::write(job.path("s/x-0-1.dat"), "the application's").unwrap();
        assert_eq!(job.is_routed().unwrap_err().kind(), Kind::Corrupt);
    }
}
