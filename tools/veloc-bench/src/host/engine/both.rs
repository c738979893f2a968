//! How long it takes until a checkpoint is persistent, beside bare writes of its two files at the same time, and
//! beside what VELOC 1.8 does: a write, and then a copy of that file through a buffer, both forced to no storage.
//!
//! Both files are in the file system of temporary files (`TMPDIR`), and once more with scratch in memory
//! (`/dev/shm`) if that is another one.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{anyhow, Context, Result};
use tempfile::TempDir;

use super::host::TouchedMemory;
use super::job::{BenchJob, NAME};
use super::storage::{seconds, BLOCK, LARGE, SMALL, VERSIONS};
use super::tell;
use crate::host::{Goal, MeasuredFigure};

/// What is forced to the storage (`sync_files`): the persistent file, or nothing.
const FORCED: [(&str, bool); 2] = [("none", false), ("data", true)];

/// The modes in which a job writes files.
const MODES: [&str; 2] = ["async", "sync"];

/// Small checkpoints in one count of those in a second.
const COUNT: i32 = 1000;

/// Bytes of one step of a copy.
const COPY: usize = 16 << 20;

/// Measures it.
pub(super) fn run(repeats: u32) -> Result<()> {
    let memory = Path::new("/dev/shm");
    let here = std::env::temp_dir();
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    let mut places = vec![("", here.clone())];
    if device(memory).is_some() && device(memory) != device(&here) {
        places.push((", scratch in memory", memory.to_owned()));
    }
    for (which, scratch) in places {
        for (sync, forced) in FORCED {
            large(&scratch, (sync, forced), which, repeats)?;
            small(&scratch, (sync, forced), which, repeats)?;
        }
    }
    Ok(())
}

/// Two folders, and the jobs of both modes with their own.
struct Folders {
    scratch: TempDir,
    persistent: TempDir,
}

impl Folders {
    fn new(scratch: &Path) -> Result<Folders> {
        let scratch = TempDir::new_in(scratch).context("making a folder")?;
        Ok(Folders { scratch, persistent: TempDir::new().context("making a folder")? })
    }

    fn configuration(&self, mode: &str, sync: &str) -> String {
        let host = if mode == "async" { "host_cache_size = 1\n" } else { "" };
        format!(
            "mode = {mode}\nscratch = {}/{mode}\npersistent = {}/{mode}\nsync_files = {sync}\n\
             max_versions = 2\nscratch_versions = 2\n{host}",
            self.scratch.path().display(),
            self.persistent.path().display(),
        )
    }

    fn bare<'a>(&'a self, memory: &'a TouchedMemory) -> [BareFiles<'a>; 2] {
        [&self.scratch, &self.persistent].map(|folder| BareFiles { folder: folder.path(), memory })
    }
}

fn large(scratch: &Path, (sync, forced): (&str, bool), more: &str, repeats: u32) -> Result<()> {
    let application = TouchedMemory::new(LARGE)?;
    for mode in MODES {
        let folders = Folders::new(scratch)?;
        let [first, second] = folders.bare(&application);
        let job = BenchJob::start(&folders.configuration(mode, sync))?;
        // SAFETY: `application` outlives the job's last call, and nothing refers to its bytes.
        unsafe { job.protect(0, application.address(), LARGE)? };
        if mode == "async" {
            job.until_touched()?;
        }
        let mut buffer = vec![0; COPY];
        let (mut floors, mut ratios, mut beside_copy) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..2 * repeats as i32 + 1 {
            let version = round % VERSIONS;
            let floor = seconds(|| {
                thread::scope(|scope| {
                    let other = scope.spawn(|| second.write(version, forced));
                    first.write(version, false)?;
                    other.join().map_err(|_| anyhow!("the other write panicked"))?
                })
            })?;
            let ours = seconds(|| {
                job.checkpoint(NAME, version)?;
                job.drain()
            })?;
            let copied = seconds(|| {
                first.write(version, false)?;
                second.copy(&first, version, &mut buffer)
            })?;
            if round > 0 {
                floors.push(1e3 * floor);
                ratios.push(ours / floor);
                beside_copy.push(ours / copied);
            }
        }
        let what = format!("sync_files = {sync}, mode = {mode}{more}");
        tell(&MeasuredFigure::new(format!("two writes of 256 MiB at once, {what}"), "ms", floors))?;
        let figure = MeasuredFigure::new(
            format!("256 MiB until persistent, {what}"),
            "x the writes",
            ratios,
        );
        tell(&figure.with_goal(Goal::AtMost(1.15)))?;
        let unit = "x a write and a copy, none forced";
        let figure =
            MeasuredFigure::new(format!("256 MiB until persistent, {what}"), unit, beside_copy);
        tell(&if forced { figure } else { figure.with_goal(Goal::AtMost(1.0)) })?;
    }
    Ok(())
}

fn small(scratch: &Path, (sync, forced): (&str, bool), more: &str, repeats: u32) -> Result<()> {
    let application = TouchedMemory::new(SMALL)?;
    for mode in MODES {
        let folders = Folders::new(scratch)?;
        let [first, second] = folders.bare(&application);
        let job = BenchJob::start(
            &folders.configuration(mode, sync).replace("_size = 1", "_size = 64M"),
        )?;
        // SAFETY: as above.
        unsafe { job.protect(0, application.address(), SMALL)? };
        let mut buffer = vec![0; COPY];
        let (mut rates, mut ratios, mut beside_copy) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=repeats as i32 {
            let versions = round * COUNT..(round + 1) * COUNT;
            let floor = seconds(|| {
                versions.clone().try_for_each(|version| {
                    first.write(version, false)?;
                    second.write(version, forced)?;
                    [&first, &second].into_iter().try_for_each(|bare| bare.remove(version))
                })
            })?;
            let ours = seconds(|| {
                versions.clone().try_for_each(|version| job.checkpoint(NAME, version))?;
                job.drain()
            })?;
            let copied = seconds(|| {
                versions.clone().try_for_each(|version| {
                    first.write(version, false)?;
                    second.copy(&first, version, &mut buffer)?;
                    [&first, &second].into_iter().try_for_each(|bare| bare.remove(version))
                })
            })?;
            if round > 0 {
                rates.push(f64::from(COUNT) / ours);
                ratios.push(ours / floor);
                beside_copy.push(ours / copied);
            }
        }
        let what = format!("4 KiB, sync_files = {sync}, mode = {mode}{more}");
        tell(&MeasuredFigure::new(what.clone(), "a second", rates))?;
        tell(&MeasuredFigure::new(what.clone(), "x two writes", ratios))?;
        tell(&MeasuredFigure::new(what, "x a write and a copy, none forced", beside_copy))?;
    }
    Ok(())
}

/// Files of the same bytes, written without the library.
struct BareFiles<'a> {
    folder: &'a Path,
    memory: &'a TouchedMemory,
}

impl BareFiles<'_> {
    fn path(&self, version: i32) -> PathBuf {
        self.folder.join(version.to_string())
    }

    /// A new file, which takes the place of the one of before, as a checkpoint's does.
    fn write(&self, version: i32, forced: bool) -> Result<()> {
        let temporary = self.folder.join("temporary");
        let output = File::create(&temporary)?;
        let len = self.memory.len();
        for at in (0..len).step_by(BLOCK) {
            output.write_all_at(self.memory.bytes(at, BLOCK.min(len - at)), at as u64)?;
        }
        if forced {
            output.sync_all()?;
        }
        fs::rename(&temporary, self.path(version))?;
        if forced {
            File::open(self.folder)?.sync_all()?;
        }
        Ok(())
    }

    /// Removes the file that a limit of two versions removes once there is this one.
    fn remove(&self, version: i32) -> Result<()> {
        match fs::remove_file(self.path(version - VERSIONS)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The same as a copy of another one's.
    fn copy(&self, of: &BareFiles<'_>, version: i32, buffer: &mut [u8]) -> Result<()> {
        let temporary = self.folder.join("temporary");
        let (mut input, mut output) = (File::open(of.path(version))?, File::create(&temporary)?);
        loop {
            let read = input.read(buffer)?;
            if read == 0 {
                break;
            }
            output.write_all(&buffer[..read])?;
        }
        fs::rename(&temporary, self.path(version))?;
        Ok(())
    }
}
