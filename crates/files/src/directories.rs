//! The directories of a job, recognised by their file system: a path can lead to another one in mid-run, as one was
//! unmounted, and nobody would find files there. One that was removed and made again is used again.

use std::fs;
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{fstat, open, Mode, OFlags};

use errors::{Error, ErrorKind, Result};

/// A directory as it was when the job began.
#[derive(Debug)]
pub(super) struct Known {
    path: PathBuf,
    is: Inode,
    /// The inode that was seen last.
    seen: AtomicU64,
    /// Keeps its file system from being unmounted where nobody seems to need it, as automounters
    /// do, and its inode number from being used again.
    held: Option<OwnedFd>,
}

type Inode = (u64, u64);

/// Path, device and inode of each of a job's directories, for the process that goes on for it.
pub type Inodes = Vec<(PathBuf, u64, u64)>;

impl Known {
    /// The directory that is at `path` now; `None` if there is none.
    pub(super) fn now(path: &Path) -> Option<Known> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let held = open(path, flags, Mode::empty()).ok();
        let is = inode(path).ok()?;
        Some(Known { path: path.to_owned(), is, seen: AtomicU64::new(is.1), held })
    }

    /// A directory with this path, device and inode when the job began.
    pub(super) fn was((path, device, number): (PathBuf, u64, u64)) -> Known {
        Known { path, is: (device, number), seen: AtomicU64::new(number), held: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn inode(&self) -> (PathBuf, u64, u64) {
        (self.path.clone(), self.is.0, self.is.1)
    }

    /// Fails if the directory is gone or on another file system.
    pub(super) fn check(&self) -> Result<()> {
        let path = self.path.display();
        let why = match inode(&self.path) {
            Ok((device, number)) if device == self.is.0 => {
                if self.seen.swap(number, Ordering::Relaxed) != number {
                    log::warn!(
                        "{path} is another directory than before, on the same file system: it is used, and what the \
                         other one had is not looked for"
                    );
                }
                return Ok(());
            }
            Ok(_) => "another file system is there".to_owned(),
            Err(error) => error.to_string(),
        };
        let what = format!("{path} is not what it was when the job began: {why}");
        Err(Error::new(ErrorKind::System, what))
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        // The application may have closed the descriptor, and have a file of its own under it now.
        let found = fstat(&held).map(|found| (found.st_dev, found.st_ino));
        if found != Ok(self.is) {
            log::debug!("descriptor {} is another's by now", held.as_raw_fd());
            let _ = held.into_raw_fd();
        }
    }
}

fn inode(path: &Path) -> std::io::Result<Inode> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Files, Ground, Names};
    use config::Config;
    use format::identity::Identity;
    use std::fs::File;
    use std::sync::Arc;
    use std::time::Instant;

    /// Runs `test` with checkpoint 1 in scratch, and a way to have one directory be on another file system.
    fn with_directories(test: impl FnOnce(&Config, &dyn Fn(&str) -> Files)) {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "mode = async\nscratch = {0}/s\npersistent = {0}/p\nmeta = {0}/m\nchksum = true\n",
            folder.path().display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let open = || Files::open(&config, 0).unwrap();
        let header = format::header::Header::new(Vec::<(i32, u64)>::new()).unwrap().encode();
        let sum = format::checksum::Checksum::of(&header);
        fs::write(open().places().scratch_path("x", 1).unwrap(), header).unwrap();
        fs::write(folder.path().join("m/x-0-1.dat.chksum"), sum.as_bytes()).unwrap();
        test(&config, &|name| {
            let mut inodes = open().places().inodes();
            for (path, device, _) in &mut inodes {
                *device += u64::from(path.ends_with(name));
            }
            let files = open();
            let places = Arc::new(files.places().in_directories(&inodes));
            Files::on(Ground { places, ..files.parts.ground.clone() })
        });
    }

    fn names(what: Result<impl Sized>, directory: &str) {
        let error = what.map(|_| ()).unwrap_err().to_string();
        let expected = format!("/{directory} is not what it was when the job began: another file");
        assert!(error.contains(&expected), "{error}");
    }

    /// Catches what is written to another file system, or removed there.
    #[test]
    fn another_file_system_is_left_alone() {
        with_directories(|_, without| {
            let all_there = without("none");
            all_there.persistent().persist("x", 1, None, None).unwrap();
            all_there.removal().remove_persistent("x", 1).unwrap();
            let files = without("p");
            names(files.persistent().persist("x", 1, None, None), "p");
            names(files.removal().remove_persistent("x", 1), "p");
            names(files.persistent().create_straight("x", 1, None), "p");
            names(files.backlog().copy("x", 1), "p");
            files.removal().remove_scratch("x", 1, Some(true)).unwrap();
        });
        with_directories(|_, without| {
            names(without("m").removal().remove_scratch("x", 1, Some(false)), "m")
        });
        with_directories(|_, without| {
            let files = without("s");
            let lock = Names::default();
            let naming = lock.lock();
            names(files.removal().remove_scratch("x", 1, None), "s");
            names(files.removal().clean_scratch("x", |_| false), "s");
            let original = files.places().scratch().unwrap().with_file_name("own");
            fs::write(&original, "content").unwrap();
            names(
                files.scratch().publish_rebuilt(
                    &naming,
                    &original,
                    "x",
                    2,
                    (Identity::UNKNOWN, None),
                ),
                "s",
            );
            names(
                files.scratch().publish_routed(
                    &naming,
                    &original,
                    "x",
                    2,
                    (Identity::UNKNOWN, "/own"),
                ),
                "s",
            );
            // A checkpoint that scratch cannot take goes to persistent.
            let mut output = files.persistent().create_straight("x", 3, None).unwrap();
            output.put(b"content").unwrap();
            files.persistent().publish_straight(&naming, &output.finish(), "x", 3, None).unwrap();
        });
    }

    /// Catches a directory that is gone and the job goes on, and one that was made again and cannot be used for ever.
    #[test]
    fn a_directory_that_was_made_again_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d");
        fs::create_dir(&path).unwrap();
        let known = Known::now(&path).unwrap();
        known.check().unwrap();
        fs::remove_dir(&path).unwrap();
        let error = known.check().unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
        fs::create_dir(&path).unwrap();
        known.check().unwrap();
        assert!(Known::now(&folder.path().join("none")).is_none());
    }

    /// Catches a file of the application's that is closed because it has our descriptor's number.
    #[test]
    fn what_the_application_has_closed_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let known = Known::now(folder.path()).unwrap();
        let number = known.held.as_ref().unwrap().as_raw_fd();
        let file = File::create(folder.path().join("own")).unwrap();
        // SAFETY: two open descriptors; the one that is replaced is looked at by nothing else.
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), number) }, number);
        drop(known);
        // SAFETY: asks for the flags of a descriptor, and closes it.
        assert!(unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 && libc::close(number) == 0 });
    }

    /// Catches a backend that takes the file systems that are there now for those of the job.
    #[test]
    fn an_heir_knows_where_the_directories_were() {
        with_directories(|config, without| {
            let successor = |files: Files| {
                Files::open_for_successor(config, 0, &files.places().inodes()).unwrap()
            };
            successor(without("none")).removal().remove_scratch("x", 2, None).unwrap();
            names(successor(without("s")).removal().remove_scratch("x", 1, None), "s");
        });
    }

    /// What it costs to check a directory.
    #[test]
    #[ignore = "a measurement: it prints a time and checks nothing"]
    fn what_it_costs_to_ask() {
        with_directories(|_, without| {
            let files = without("none");
            let since = Instant::now();
            for _ in 0..1_000_000 {
                files.places().may_change_in(files.places().scratch()).unwrap();
            }
            println!("{} ns", since.elapsed().as_nanos() / 1_000_000);
        });
    }
}
