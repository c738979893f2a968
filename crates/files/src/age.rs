//! The times of files, by which a later job tells in which order their versions were taken.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::places::Places;
use super::warnings::Warnings;
use catalog::FileLevel;
use errors::Result;
use os::sync::Mutex;
use os::times;

/// The time of the file that came last to each level.
#[derive(Debug, Default)]
pub(super) struct LastTimes([Mutex<Option<SystemTime>>; 2]);

/// Gives files their times.
#[derive(Debug)]
pub(super) struct Ages {
    places: Arc<Places>,
    warnings: Arc<Warnings>,
    last: Arc<LastTimes>,
}

/// The time of a file, `own`, or the next one after `last` if that is later.
fn later_than(last: Option<SystemTime>, own: SystemTime) -> SystemTime {
    let next = last.and_then(|last| last.checked_add(Duration::from_nanos(1)));
    next.map_or(own, |next| own.max(next))
}

impl Ages {
    pub(super) fn new(places: Arc<Places>, warnings: Arc<Warnings>, last: Arc<LastTimes>) -> Ages {
        Ages { places, warnings, last }
    }

    /// Gives the file or link at `path`, which is about to get its name in a level, a later time
    /// than the file before it, unless it has one: files that are written within one tick of the
    /// system's clock have the same time.
    pub(super) fn stamp(&self, level: FileLevel, path: &Path) {
        let mut last = self.last.0[level as usize].lock();
        let stamped = times::modified(path).and_then(|own| {
            let time = later_than(*last, own);
            if time == own {
                Ok(own)
            } else {
                times::set_modified(path, time).map(|()| time)
            }
        });
        match stamped {
            Ok(time) => *last = Some(time),
            // At worst the file looks as old as the one before it.
            Err(error) => self.warnings.once(error.to_string()),
        }
    }

    /// Gives the copy at `path` the time when its file was `taken`, however late the copy is made:
    /// it decides the order of versions, and which of them persistent lacks.
    pub(super) fn stamp_copy(&self, level: FileLevel, path: &Path, taken: SystemTime) {
        match times::set_modified(path, taken) {
            Ok(()) => {
                let mut last = self.last.0[level as usize].lock();
                *last = Some(last.map_or(taken, |last| last.max(taken)));
            }
            Err(error) => {
                self.warnings.once(error.to_string());
                self.stamp(level, path);
            }
        }
    }

    /// When a part of an aggregated file was taken: the time `taken` of the scratch file that it
    /// copies, or, if it was written past scratch to `path`, a time after the file before it.
    pub(super) fn time_of_part(
        &self,
        path: &Path,
        taken: Option<SystemTime>,
    ) -> Result<SystemTime> {
        let mut last = self.last.0[FileLevel::Persistent as usize].lock();
        let time = match taken {
            Some(taken) => taken,
            None => later_than(*last, times::modified(path)?),
        };
        *last = (*last).max(Some(time));
        Ok(time)
    }

    /// Gives a file at `path` that scratch gets from elsewhere the time of persistent's copy of
    /// that version, if there is one: when it was taken cannot be told, and it must not look newer
    /// because it comes later.
    pub(super) fn stamp_brought(&self, path: &Path, name: &str, version: i32) {
        let copy =
            self.places.persistent_path(name, version).and_then(|copy| times::modified(&copy).ok());
        if let Some(taken) = copy {
            if let Err(error) = times::set_modified(path, taken) {
                self.warnings.once(error.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;
    use crate::Names;
    use crate::Output;
    use config::Config;
    use format::aggregate::AggregatePart;
    use format::identity::Identity;
    use std::fs::File;

    fn in_directory() -> (tempfile::TempDir, Files) {
        let directory = tempfile::tempdir().unwrap();
        let text = "mode = sync\nscratch = DIR/s\npersistent = DIR/p\n";
        let text = text.replace("DIR", &directory.path().display().to_string());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let files = Files::open(&config, 0).unwrap();
        (directory, files)
    }

    /// Catches a copy that looks newer than its file, so that one of an earlier run is taken for that of a
    /// newer one; and a file from elsewhere that looks newer than its copy because it comes later.
    #[test]
    fn copies_are_as_old_as_their_files() {
        let (directory, files) = in_directory();
        let at = |path: &str| directory.path().join(path);
        let taken = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let write = |path: &str| {
            std::fs::write(at(path), "content").unwrap();
            at(path)
        };
        times::set_modified(&write("s/x-0-1.dat"), taken).unwrap();
        files.persistent().persist("x", 1, None, None).unwrap();
        assert_eq!(times::modified(&at("p/x-0-1.dat")).unwrap(), taken);
        files
            .scratch()
            .publish_rebuilt(
                &Names::default().lock(),
                &write("s/brought"),
                "x",
                1,
                (Identity::UNKNOWN, None),
            )
            .unwrap();
        assert_eq!(times::modified(&at("s/x-0-1.dat")).unwrap(), taken);
        files
            .scratch()
            .publish_rebuilt(
                &Names::default().lock(),
                &write("s/brought"),
                "x",
                2,
                (Identity::UNKNOWN, None),
            )
            .unwrap();
        assert!(times::modified(&at("s/x-0-2.dat")).unwrap() > taken);
    }

    /// After a kill the parts of older versions come after the files of younger ones. Catches an aggregated
    /// file that is as new as its completion, and a part without the rest as new as its file: the last version
    /// was then removed before them.
    #[test]
    fn aggregated_files_are_as_old_as_their_parts() {
        let directory = tempfile::tempdir().unwrap();
        let text =
            "mode = async\naggregated = true\nscratch = DIR/s\npersistent = DIR/p\nmeta = DIR/m\n";
        let text = text.replace("DIR", &directory.path().display().to_string());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let all = [0, 1].map(|rank| Files::open(&config, rank).unwrap());
        // Rank 1 takes each version later than rank 0 takes the next. Version 7 was taken before 5.
        let take = |rank: u32, version: i32, seconds: u64| {
            let path = all[rank as usize].places().scratch_path("x", version).unwrap();
            std::fs::write(&path, "contents").unwrap();
            let taken = Duration::from_secs(1_000_000_000 + seconds + 15 * u64::from(rank));
            times::set_modified(&path, SystemTime::UNIX_EPOCH + taken).unwrap();
        };
        let persist = |rank: u32, version, is_part| {
            let offset = u64::from(rank) * 8;
            let place = AggregatePart {
                offset,
                ranks: 2,
                identity: Identity { run: 5, generation: 1 },
                attempt: version as u64,
            };
            let place = Some(&place).filter(|_| is_part);
            all[rank as usize].persistent().persist("x", version, None, place).unwrap();
        };
        for rank in 0..2 {
            for (version, seconds) in [(3, 0), (7, 10), (5, 20)] {
                take(rank, version, seconds);
            }
            persist(rank, 5, false);
        }
        for (rank, version) in [(0, 7), (1, 7), (0, 3)] {
            persist(rank, version, true);
        }
        let of_next_job = [0, 1].map(|rank| Files::open(&config, rank).unwrap());
        of_next_job.iter().for_each(|files| files.rescue().rescue_parts().unwrap());
        let oldest_first = of_next_job.each_ref().map(|files| {
            assert!(files.listing().is_aggregated("x", 7));
            files.listing().oldest_first(FileLevel::Persistent, "x").unwrap()
        });
        assert_eq!(oldest_first, [vec![3, 7, 5], vec![7, 5]]);
    }

    /// Catches versions of one clock tick that are ordered by number because their files have one
    /// time; and a clock that is set back.
    #[test]
    fn versions_of_one_tick_keep_their_order() {
        let (directory, files) = in_directory();
        let tick = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let original = directory.path().join("own");
        for (version, back) in [(30, 0), (11, 0), (20, 5)] {
            let path =
                files.places().temporary(&files.places().scratch_path("x", version).unwrap());
            let mut output = Output::create(path.clone(), None).unwrap();
            output.put(&[0; 8]).unwrap();
            let time = tick - Duration::from_secs(back);
            File::open(&path).unwrap().set_modified(time).unwrap();
            files
                .scratch()
                .publish(&Names::default().lock(), &output.finish(), "x", version)
                .unwrap();
            files.persistent().persist("x", version, None, None).unwrap();
            // A link has a time of its own.
            files
                .persistent()
                .persist("y", version, Some(original.to_str().unwrap()), None)
                .unwrap_err();
            let copy = files.places().scratch_path("y", version).unwrap();
            std::fs::write(copy, "the application's").unwrap();
            files
                .persistent()
                .persist("y", version, Some(original.to_str().unwrap()), None)
                .unwrap();
        }
        for (level, name) in
            [(FileLevel::Scratch, "x"), (FileLevel::Persistent, "x"), (FileLevel::Persistent, "y")]
        {
            assert_eq!(
                files.listing().oldest_first(level, name).unwrap(),
                [30, 11, 20],
                "{level:?} {name}"
            );
        }
    }

    /// Catches parts of aggregated files, written past scratch within one tick, that have one time.
    #[test]
    fn parts_of_one_tick_keep_their_order() {
        let (directory, files) = in_directory();
        let ground = &files.parts.ground;
        let ages = Ages::new(ground.places.clone(), ground.warnings.clone(), ground.last.clone());
        let part = directory.path().join("part");
        std::fs::write(&part, "content").unwrap();
        let tick = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        times::set_modified(&part, tick).unwrap();
        assert_eq!(ages.time_of_part(&part, None).unwrap(), tick);
        assert!(ages.time_of_part(&part, None).unwrap() > tick);
        assert_eq!(ages.time_of_part(&part, Some(tick)).unwrap(), tick, "its scratch file tells");
    }
}
