//! The times of files, by which a later job tells in which order their versions were taken.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::Files;
use crate::catalog::entry::FileTier;
use crate::error::Result;
use crate::platform::times;
use crate::sync::Mutex;

/// The time of the file that came last to each tier.
#[derive(Debug, Default)]
pub(super) struct Ages([Mutex<Option<SystemTime>>; 2]);

impl Files {
    /// Makes the file at `path`, or the link, which is about to get its name in a tier, later than the
    /// one before it: files that are written within one tick of the system's clock have the same
    /// time. One that is later already stays as it is.
    pub(super) fn stamp(&self, tier: FileTier, path: &Path) {
        let mut last = self.ages.0[tier as usize].lock();
        let stamped = later_than(*last, path);
        match stamped {
            Ok(time) => *last = Some(time),
            // It may only look as old as the one before it.
            Err(error) => self.warn_once(error.to_string()),
        }
    }

    /// Gives the copy at `path` of a file that was `taken` before the time of that one, which is its
    /// place among the others: it may be made late. What persistent lacks is told by it, too.
    pub(super) fn stamp_copy(&self, tier: FileTier, path: &Path, taken: SystemTime) {
        match times::set_modified(path, taken) {
            Ok(()) => {
                let mut last = self.ages.0[tier as usize].lock();
                *last = Some(last.map_or(taken, |last| last.max(taken)));
            }
            Err(error) => {
                self.warn_once(error.to_string());
                self.stamp(tier, path);
            }
        }
    }

    /// Gives a file at `path` that scratch gets from elsewhere the time of persistent's copy of that
    /// version, if there is one: when it was taken cannot be told, and it is not newer than that because
    /// it comes later.
    pub(super) fn stamp_brought(&self, path: &Path, name: &str, version: i32) {
        let copy = self.persistent_path(name, version).and_then(|copy| times::modified(&copy).ok());
        if let Some(taken) = copy {
            if let Err(error) = times::set_modified(path, taken) {
                self.warn_once(error.to_string());
            }
        }
    }
}

/// Makes a file later than `last`. Its time.
fn later_than(last: Option<SystemTime>, path: &Path) -> Result<SystemTime> {
    let own = times::modified(path)?;
    match last.and_then(|last| last.checked_add(Duration::from_nanos(1))) {
        Some(next) if own < next => times::set_modified(path, next).map(|()| next),
        _ => Ok(own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::tier::files::Output;
    use std::fs::File;

    /// Catches a copy that looks newer than its file, so that one of an earlier run is taken for that of a
    /// newer one; and a file from elsewhere that looks newer than its copy because it comes later.
    #[test]
    fn copies_are_as_old_as_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let text = "mode = sync\nscratch = DIR/s\npersistent = DIR/p\n";
        let text = text.replace("DIR", &directory.path().display().to_string());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let files = Files::open(&config, 0).unwrap();
        let at = |path: &str| directory.path().join(path);
        let taken = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let write = |path: &str| {
            std::fs::write(at(path), "content").unwrap();
            at(path)
        };
        times::set_modified(&write("s/x-0-1.dat"), taken).unwrap();
        files.persist("x", 1, None, None).unwrap();
        assert_eq!(times::modified(&at("p/x-0-1.dat")).unwrap(), taken);
        files.publish_rebuilt(&write("s/brought"), "x", 1, None).unwrap();
        assert_eq!(times::modified(&at("s/x-0-1.dat")).unwrap(), taken);
        files.publish_rebuilt(&write("s/brought"), "x", 2, None).unwrap();
        assert!(times::modified(&at("s/x-0-2.dat")).unwrap() > taken);
    }

    /// Catches versions whose order is that of their numbers because their files have one time; and a
    /// clock that is set back.
    #[test]
    fn versions_of_one_tick_keep_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let text = "mode = sync\nscratch = DIR/s\npersistent = DIR/p\n";
        let text = text.replace("DIR", &directory.path().display().to_string());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let files = Files::open(&config, 0).unwrap();
        let tick = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let original = directory.path().join("own");
        for (version, back) in [(30, 0), (11, 0), (20, 5)] {
            let path = files.temporary(&files.scratch_path("x", version).unwrap());
            let mut output = Output::create(path.clone(), None).unwrap();
            output.put(&[0; 8]).unwrap();
            let time = tick - Duration::from_secs(back);
            File::open(&path).unwrap().set_modified(time).unwrap();
            files.publish(&output.finish(), "x", version).unwrap();
            files.persist("x", version, None, None).unwrap();
            // A link has a time of its own.
            files.persist("y", version, Some(original.to_str().unwrap()), None).unwrap_err();
            let copy = files.scratch_path("y", version).unwrap();
            std::fs::write(copy, "the application's").unwrap();
            files.persist("y", version, Some(original.to_str().unwrap()), None).unwrap();
        }
        for (tier, name) in
            [(FileTier::Scratch, "x"), (FileTier::Persistent, "x"), (FileTier::Persistent, "y")]
        {
            assert_eq!(files.oldest_first(tier, name).unwrap(), [30, 11, 20], "{tier:?} {name}");
        }
    }
}
