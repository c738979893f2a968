//! Checkpoints of host memory that go to files, beside bare system calls on the same bytes in the
//! same file system: that of temporary files (`TMPDIR`).

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use format::checksum::Checksum;
use tempfile::TempDir;

use super::host::TouchedMemory;
use super::job::{BenchJob, NAME};
use super::tell;
use crate::host::{Goal, MeasuredFigure};

/// Bytes of a large checkpoint.
pub(super) const LARGE: usize = 256 << 20;

/// Bytes of a small checkpoint.
pub(super) const SMALL: usize = 4 << 10;

/// Small checkpoints in one count of those in a second.
const COUNT: i32 = 20_000;

/// Versions that are written in turns, so that each is written again, as bare files are.
pub(super) const VERSIONS: i32 = 2;

/// Bytes of one bare system call, as many as a program would choose.
pub(super) const BLOCK: usize = 8 << 20;

/// Configuration that all parts share. Nothing is forced to the storage, as the bare system calls
/// do not do so either.
const FILES: &str = "scratch = DIR/scratch\nsync_files = none\n";

/// The levels of files, each with its configuration and the number of files of a checkpoint.
const TIERS: [(&str, &str, usize); 2] =
    [("scratch", "", 1), ("scratch and persistent", "persistent = DIR/persistent\n", 2)];

/// `mode = sync` against writing the bytes once per file, and a restart against reading the file.
pub(super) fn sync(repeats: u32) -> Result<()> {
    for (what, more, files) in TIERS {
        let job = BenchJob::start(&format!("mode = sync\n{FILES}{more}"))?;
        let application = TouchedMemory::new(LARGE)?;
        let bare = BareCheckpoint::new(&application)?;
        // SAFETY: `application` outlives the job's last call, and nothing refers to its bytes.
        unsafe { job.protect(0, application.address(), LARGE)? };
        let (mut rates, mut checkpoints, mut restarts) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=2 * repeats as i32 {
            let version = round % VERSIONS;
            let write = seconds(|| (0..files).try_for_each(|file| bare.write(version, file)))?;
            let checkpoint = seconds(|| job.checkpoint(NAME, version))?;
            let read = seconds(|| bare.read(version))?;
            let restart = seconds(|| job.restart(version))?;
            if round > 0 {
                rates.push((files * LARGE) as f64 / write / 1e9);
                checkpoints.push(checkpoint / write);
                restarts.push(restart / read);
            }
        }
        tell(&MeasuredFigure::new(format!("write of 256 MiB, {files} files"), "GB/s", rates))?;
        let name = format!("sync checkpoint of 256 MiB, {what}");
        let figure = MeasuredFigure::new(name, "x the writes", checkpoints);
        tell(&figure.with_goal(Goal::AtMost(1.2)))?;
        let figure = MeasuredFigure::new(format!("restart from file, {what}"), "x read", restarts);
        tell(&figure.with_goal(Goal::AtMost(1.1)))?;
    }
    Ok(())
}

/// `mode = sync` with `chksum = true`, against what takes longer: hashing the bytes, or writing or
/// reading them. To give a file its name is no part of writing it here: the system frees the pages
/// of the file before in that call, and a file has its checksum before it has its name. A restart
/// is one of the job that has written the file, or of another.
pub(super) fn checksums(repeats: u32) -> Result<()> {
    let mut rates = Vec::new();
    for (what, more, files) in TIERS {
        let configuration = format!("mode = sync\n{FILES}{more}chksum = true\nmeta = DIR/meta\n");
        let folder = TempDir::new().context("making a folder")?;
        let application = TouchedMemory::new(LARGE)?;
        let bare = BareCheckpoint::new(&application)?;
        let start = || -> Result<BenchJob> {
            let job = BenchJob::start_in(folder.path(), &configuration)?;
            // SAFETY: `application` outlives the job's last call, and nothing refers to its bytes.
            unsafe { job.protect(0, application.address(), LARGE)? };
            Ok(job)
        };
        let mut figures = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..=2 * repeats as i32 {
            let version = round % VERSIONS;
            let hash = seconds(|| {
                std::hint::black_box(Checksum::of(application.bytes(0, LARGE)));
                Ok(())
            })?;
            let first = seconds(|| bare.fill())?;
            let rest = seconds(|| {
                bare.name(version, 0)?;
                (1..files).try_for_each(|file| bare.write(version, file))
            })?;
            let job = start()?;
            let checkpoint = seconds(|| job.checkpoint(NAME, version))?;
            let read = seconds(|| bare.read(version))?;
            let restart = seconds(|| job.restart(version))?;
            drop(job);
            let job = start()?;
            let restart_of_other = seconds(|| job.restart(version))?;
            if round > 0 {
                rates.push(LARGE as f64 / hash / 1e9);
                figures[0].push(checkpoint / (first.max(hash) + rest));
                figures[1].push(restart / read.max(hash));
                figures[2].push(restart_of_other / read.max(hash));
            }
        }
        let names = [
            "sync checkpoint of 256 MiB with chksum",
            "restart with chksum",
            "restart with chksum by another job",
        ];
        for ((name, most), values) in names.into_iter().zip([1.2, 1.1, 1.1]).zip(figures) {
            let figure = MeasuredFigure::new(format!("{name}, {what}"), "x the floor", values);
            tell(&figure.with_goal(Goal::AtMost(most)))?;
        }
    }
    tell(&MeasuredFigure::new("SHA-256 of 256 MiB in memory", "GB/s", rates))
}

/// The seconds that `what` takes.
pub(super) fn seconds(what: impl FnOnce() -> Result<()>) -> Result<f64> {
    let since = Instant::now();
    what()?;
    Ok(since.elapsed().as_secs_f64())
}

/// `mode = async` with files: what the application waits for, against a memcpy.
pub(super) fn behind(repeats: u32) -> Result<()> {
    let job = BenchJob::start(&format!(
        "mode = async\n{FILES}persistent = DIR/persistent\nhost_cache_size = 1\n"
    ))?;
    let (application, plain) = (TouchedMemory::new(LARGE)?, TouchedMemory::new(LARGE)?);
    // SAFETY: `application` outlives the job's last call, and nothing refers to its bytes.
    unsafe { job.protect(0, application.address(), LARGE)? };
    job.until_touched()?;
    let mut checkpoints = Vec::new();
    for round in 0..2 * repeats as i32 {
        let since = Instant::now();
        plain.copy_from(0, &application, 0, LARGE);
        let copy = since.elapsed().as_secs_f64();
        let since = Instant::now();
        job.checkpoint(NAME, round % VERSIONS)?;
        checkpoints.push(since.elapsed().as_secs_f64() / copy);
        job.drain()?;
    }
    let figure =
        MeasuredFigure::new("async checkpoint of 256 MiB with files", "x memcpy", checkpoints);
    tell(&figure.with_goal(Goal::AtMost(1.2)))
}

/// Small checkpoints in both levels of files, of which the last two stay.
pub(super) fn small(repeats: u32) -> Result<()> {
    for mode in ["async", "sync"] {
        let mut rates = Vec::new();
        for _ in 0..repeats {
            let job = BenchJob::start(&format!(
                "mode = {mode}\n{FILES}persistent = DIR/persistent\nmax_versions = 2\n\
                 scratch_versions = 2\n"
            ))?;
            let application = TouchedMemory::new(SMALL)?;
            // SAFETY: `application` outlives the job's last call, and nothing refers to its bytes.
            unsafe { job.protect(0, application.address(), SMALL)? };
            let since = Instant::now();
            for version in 0..COUNT {
                job.checkpoint(NAME, version)?;
            }
            job.drain()?;
            rates.push(f64::from(COUNT) / since.elapsed().as_secs_f64());
        }
        let figure = MeasuredFigure::new(
            format!("{mode} checkpoints of 4 KiB in files, max_versions = 2"),
            "a second",
            rates,
        );
        tell(&figure.with_goal(Goal::AtLeast(15_000.0)))?;
    }
    Ok(())
}

/// The bytes of a checkpoint, written and read without the library.
struct BareCheckpoint<'a> {
    folder: TempDir,
    memory: &'a TouchedMemory,
    into: TouchedMemory,
}

impl BareCheckpoint<'_> {
    fn new(memory: &TouchedMemory) -> Result<BareCheckpoint<'_>> {
        let folder = TempDir::new().context("making a folder")?;
        Ok(BareCheckpoint { folder, memory, into: TouchedMemory::new(LARGE)? })
    }

    fn path(&self, version: i32, file: usize) -> PathBuf {
        self.folder.path().join(format!("{version}-{file}"))
    }

    /// Writes a new file, which takes the place of the one before, as a checkpoint does.
    fn write(&self, version: i32, file: usize) -> Result<()> {
        self.fill()?;
        self.name(version, file)
    }

    fn fill(&self) -> Result<()> {
        let output = File::create(self.temporary())?;
        each_block(|at, len| output.write_all_at(self.memory.bytes(at, len), at as u64))?;
        Ok(())
    }

    fn name(&self, version: i32, file: usize) -> Result<()> {
        fs::rename(self.temporary(), self.path(version, file))?;
        Ok(())
    }

    fn temporary(&self) -> PathBuf {
        self.folder.path().join("temporary")
    }

    fn read(&self, version: i32) -> Result<()> {
        let path: &Path = &self.path(version, 0);
        let input = File::open(path)?;
        each_block(|at, len| {
            // SAFETY: nobody else refers to these bytes.
            input.read_exact_at(unsafe { self.into.bytes_mut(at, len) }, at as u64)
        })?;
        Ok(())
    }
}

fn each_block(mut what: impl FnMut(usize, usize) -> std::io::Result<()>) -> std::io::Result<()> {
    (0..LARGE).step_by(BLOCK).try_for_each(|at| what(at, BLOCK.min(LARGE - at)))
}
