//! `veloc-bench drive`: an ephemeral job with a drive below a host buffer that is a third of what the job takes, beside
//! bare writes and reads of as many bytes on the same drive, of the same size and as many at a time: by fio where it is
//! installed, and by a loop of our own.
//!
//! The bare ones write and read what the host buffer has no room for, which is the least that the job must. All take
//! turns, each on a file of its own that is new.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure, Context as _, Result};
use catalog::space::Extent;
use clap::Args;
use levels::drive::Drive;
use levels::host_buffer::HostBuffer;
use levels::store::{Room, Store as _};
use os::mapping::Mapping;
use os::{interrupt, size};
use tempfile::TempDir;

use super::engine::job::{BenchJob, NAME};
use super::engine::median;
use super::snapshot::seconds;
use super::{CommonOptions, Goal, GoalOptions, MeasuredFigure, ResultsFile};
use crate::output;

/// Options of the command.
#[derive(Debug, Args)]
pub(crate) struct DriveOptions {
    /// Bytes of a checkpoint
    #[arg(long, value_parser = size::parse, default_value = "128M")]
    bytes: u64,
    /// How many checkpoints the host buffer has room for; the job takes three times as many
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..))]
    fit: u32,
    /// The directory of the drive [default: a new one in the current directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    judge: GoalOptions,
}

/// The seconds of writing and of reading, of each turn.
#[derive(Debug, Default)]
struct Times([Vec<f64>; 2]);

impl Times {
    fn add(&mut self, times: [f64; 2]) {
        for (all, time) in self.0.iter_mut().zip(times) {
            all.push(time);
        }
    }
}

pub(crate) fn run(options: &DriveOptions) -> Result<()> {
    interrupt::watch()?;
    let place = options.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let mut report = ResultsFile::new("drive", options.common.out.as_deref())?;
    report.print_machine();
    MeasuredFigure::print_title();
    // The job, the bare loop, fio.
    let mut all = [Times::default(), Times::default(), Times::default()];
    let has_fio = Command::new("fio").arg("--version").output().is_ok();
    if !has_fio {
        println!("fio is not installed: the bare loop alone is the floor");
    }
    let below = u64::from(2 * options.fit) * options.bytes;
    let measured = if has_fio { 3 } else { 2 };
    let mut copies = Vec::new();
    let bar =
        output::steps_bar("measuring", u64::from(options.common.repeats) * (measured as u64 + 1));
    for round in 0..options.common.repeats as usize {
        let folder = TempDir::new_in(&place).with_context(|| place.display().to_string())?;
        // Each is first as often as the others: what one has left to the drive, the next one pays for.
        for which in (0..measured).map(|turn| (round + turn) % measured) {
            all[which].add(match which {
                0 => of_the_job(folder.path(), options)?,
                1 => of_the_loop(folder.path(), options.bytes, below)?,
                _ => of_fio(folder.path(), below)?,
            });
            bar.inc(1);
        }
        copies.push(of_memory(options)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let [own, bare, fio] = all;
    let mut tell = |figure: MeasuredFigure| {
        figure.print();
        report.points.push(figure);
        report.save()
    };
    let what = format!(
        "{} x {}, {} of them in memory",
        3 * options.fit,
        size::show(options.bytes),
        options.fit
    );
    let floors = [("the bare loop", bare), ("fio", fio)];
    for (way, name) in ["forward", "reverse"].into_iter().enumerate() {
        let mine = &own.0[way];
        let rate = |times: &[f64]| times.iter().map(|time| below as f64 / time / 1e6).collect();
        tell(MeasuredFigure::new(format!("{name}: the job, {what}"), "MB/s", rate(mine)))?;
        for (floor, times) in floors.iter().filter(|(_, times)| !times.0[way].is_empty()) {
            let times = &times.0[way];
            let verb = ["writes", "reads"][way];
            tell(MeasuredFigure::new(
                format!("{name}: {floor} {verb} {}", size::show(below)),
                "MB/s",
                rate(times),
            ))?;
            let ratio = median(mine.clone()) / median(times.clone());
            let figure = MeasuredFigure::new(
                format!("{name}: the time of the job / of {floor}"),
                "",
                vec![ratio],
            );
            tell(figure.with_goal(Goal::AtMost(1.1)))?;
        }
        let ratio = median(mine.clone()) / median(copies.clone());
        tell(MeasuredFigure::new(
            format!("{name}: the time of the job / of one memcpy of all its checkpoints"),
            "",
            vec![ratio],
        ))?;
    }
    options.judge.judge(&report.points)
}

/// A job takes its checkpoints one behind the other, and restores them in reverse order.
fn of_the_job(place: &Path, options: &DriveOptions) -> Result<[f64; 2]> {
    let (count, bytes) = (3 * options.fit as i32, options.bytes as usize);
    let host = u64::from(options.fit) * options.bytes.next_multiple_of(4096);
    let job = BenchJob::start_in(
        place,
        &format!(
            "mode = async\nephemeral = true\nhost_cache_size = {host}B\ndrive = DIR\ndrive_size = {}B\n",
            3 * host
        ),
    )?;
    let memory = Mapping::reserve(bytes)?;
    let pages = (0..bytes).step_by(4096);
    // SAFETY: all of the mapping, to whose bytes nobody has a reference during a call; the first byte of each page.
    let mark = |version: i32| unsafe {
        pages.clone().for_each(|at| memory.base().as_ptr().add(at).write(version as u8));
    };
    // SAFETY: `memory` outlives the job.
    unsafe { job.protect(0, memory.base().as_ptr().cast(), bytes)? };
    let take = |versions: std::ops::Range<i32>| {
        versions.into_iter().try_for_each(|version| {
            mark(version);
            job.checkpoint(NAME, version)
        })
    };
    // All pages of both memories are there then, as they are for the others.
    take(0..options.fit as i32)?;
    job.cleanup(NAME)?;
    let forward = seconds(|| take(0..count))?;
    let reverse = seconds(|| {
        (0..count).rev().try_for_each(|version| {
            job.restart(version)?;
            // SAFETY: as above.
            let is_it = |at: usize| unsafe { *memory.base().as_ptr().add(at) == version as u8 };
            ensure!(pages.clone().all(is_it), "version {version} came back wrong");
            Ok(())
        })
    })?;
    drop(job);
    Ok([forward, reverse])
}

/// The processor copies as many bytes as the job takes: where the drive is as fast, the application is held up by that.
fn of_memory(options: &DriveOptions) -> Result<f64> {
    let bytes = options.bytes as usize;
    let (from, to) = (Mapping::reserve(bytes)?, Mapping::reserve(bytes)?);
    // SAFETY: both whole mappings, to whose bytes nobody has a reference.
    let copy = || unsafe { from.base().as_ptr().copy_to_nonoverlapping(to.base().as_ptr(), bytes) };
    // SAFETY: as above.
    unsafe { std::ptr::write_bytes(from.base().as_ptr(), 7, bytes) };
    copy();
    seconds(|| {
        (0..3 * options.fit).for_each(|_| copy());
        Ok(())
    })
}

/// The drive alone writes and reads copies of `bytes`.
fn of_the_loop(place: &Path, bytes: u64, all: u64) -> Result<[f64; 2]> {
    let drive = Drive::open(place, all)?;
    let host = HostBuffer::reserve(bytes, 1 << 20, true)?;
    let memory = [Extent { offset: 0, len: bytes.next_multiple_of(drive.block()) }];
    // SAFETY: all of the buffer, to whose bytes nobody has a reference.
    unsafe { std::ptr::write_bytes(host.address(0), 7, bytes as usize) };
    let place_of = |copy: u64| [Extent { offset: copy * memory[0].len, len: memory[0].len }];
    let go_on = || Ok(());
    let mut full = |_| None;
    let written = seconds(|| {
        for copy in 0..all / bytes {
            let mut room = Room::new(&place_of(copy), &mut full);
            drive.write_from(&mut room, &host, &memory, bytes, &go_on)?;
        }
        Ok(())
    })?;
    let read = seconds(|| {
        for copy in (0..all / bytes).rev() {
            drive.read_to(&place_of(copy), &host, &memory, bytes, &go_on)?;
        }
        Ok(())
    })?;
    Ok([written, read])
}

/// fio writes and reads a file.
fn of_fio(place: &Path, bytes: u64) -> Result<[f64; 2]> {
    let file = place.join("fio");
    let mut times = [0.0; 2];
    for (way, time) in ["write", "read"].into_iter().zip(&mut times) {
        let output = Command::new("fio")
            .args(["--name=drive", "--direct=1", "--bs=1m", "--ioengine=io_uring", "--iodepth=32"])
            .args(["--fallocate=posix", "--thread", "--output-format=json"])
            .arg(format!("--rw={way}"))
            .arg(format!("--size={bytes}"))
            .arg(format!("--filename={}", file.display()))
            .output()
            .context("fio")?;
        if !output.status.success() {
            bail!("fio: {}", String::from_utf8_lossy(&output.stderr));
        }
        let said: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("what fio says")?;
        let runtime = said["jobs"][0][way]["runtime"].as_f64();
        *time = runtime.context("the time that fio took")? / 1e3;
    }
    std::fs::remove_file(&file)?;
    Ok(times)
}
