//! An aggregated file that several processes write together, beside one process that writes as many
//! bytes with bare system calls to the same file system: that of temporary files (`TMPDIR`).
//!
//! In a job the processes agree over MPI where each part begins. Here they know it: their parts are
//! of one length. From there on it is the library's own way: the scratch file, the part in its
//! place, and the file that gets its name from the last process.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{ensure, Context, Result};
use config::Config;
use engine::place::Place;
use engine::Engine;
use format::aggregate::AggregatePart;
use format::header::Header;
use format::identity::Identity;
use os::size;
use recovery::Process;
use tempfile::TempDir;

use super::host::TouchedMemory;
use super::tell;
use crate::child::{ready, say, wait, Child};
use crate::host::{Goal, MeasuredFigure};

/// Processes that write together.
const RANKS: u32 = 4;

/// Bytes of each process's checkpoint, unless a test wants fewer.
pub(super) const SIZES: &[u64] = &[256 << 20];

const NAME: &str = "bench";

/// Bytes of one bare system call.
const BLOCK: usize = 8 << 20;

/// The rate that a part of the whole has to reach, against one process.
const LEAST: Goal = Goal::AtLeast(0.9);

/// Measures the aggregated file with `bytes` of each process.
pub(super) fn run(bytes: u64, repeats: u32) -> Result<()> {
    let folder = TempDir::new().context("making a folder")?;
    let mut members = (0..RANKS)
        .map(|rank| member_process(folder.path(), rank, bytes, repeats))
        .collect::<Result<Vec<_>>>()?;
    let memory = TouchedMemory::new(bytes as usize)?;
    let (mut rates, mut copies, mut wholes) = (Vec::new(), Vec::new(), Vec::new());
    // The processes have started and wait for the first step.
    for round in 0..=repeats {
        let first = bare(folder.path(), 1, &memory)?;
        let second = bare(folder.path(), 2, &memory)?;
        let to_scratch = step(&mut members)?;
        let to_place = step(&mut members)?;
        let file = folder.path().join("persistent").join(format!("{NAME}-agg-0.dat"));
        let len = fs::metadata(&file).with_context(|| file.display().to_string())?.len();
        ensure!(len == u64::from(RANKS) * file_len(bytes)?, "the aggregated file has {len} bytes");
        if round > 0 {
            rates.push((u64::from(RANKS) * bytes) as f64 / first / 1e9);
            copies.push(first.min(second) / to_place);
            wholes.push((first + second) / (to_scratch + to_place));
        }
    }
    let whole = size::show(u64::from(RANKS) * bytes);
    tell(&MeasuredFigure::new(format!("write of {whole} by one process"), "GB/s", rates))?;
    let figure = MeasuredFigure::new(
        format!("{whole} to one aggregated file, {RANKS} processes"),
        "x its rate",
        copies,
    );
    tell(&figure.with_goal(LEAST))?;
    let figure = MeasuredFigure::new(
        format!("sync checkpoint of {whole}, scratch and aggregated, {RANKS} processes"),
        "x two writes",
        wholes,
    );
    tell(&figure.with_goal(LEAST))
}

/// One process of the job.
pub(super) fn member(folder: &Path, rank: u32, bytes: u64, repeats: u32) -> Result<()> {
    let text = "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                meta = DIR/meta\naggregated = true\nsync_files = none\n";
    let text = text.replace("DIR", &folder.to_string_lossy());
    let (config, _) = Config::from_text(&text, |_| None)?;
    let engine = Engine::start(config, Process { rank, ranks: RANKS, run: 0 }, None)?;
    let memory = TouchedMemory::new(bytes as usize)?;
    let region = Place::plain(0, memory.address().cast(), bytes as usize);
    let offset = u64::from(rank) * file_len(bytes)?;
    ready()?;
    for round in 0..=repeats {
        if round > 0 {
            wait()?;
        }
        let mut open = engine.begin(NAME, 0)?;
        // The place of the part is known only once the checkpoint is taken.
        open.decide_to_persist(Some(false));
        let id = open.id;
        engine.capturing().capture(&mut open, &[region], Vec::new())?;
        engine.capturing().commit(open)?;
        say("taken")?;
        wait()?;
        let identity = Identity { run: std::os::unix::process::parent_id().into(), generation: 0 };
        let place = AggregatePart { offset, ranks: RANKS, identity, attempt: u64::from(round) };
        let claim = engine.capturing().claim(id);
        engine.file_side().want_persistent(id, Some(place));
        claim.copy(Some(&[region]))?;
        say("copied")?;
    }
    Ok(())
}

fn member_process(folder: &Path, rank: u32, bytes: u64, repeats: u32) -> Result<Child> {
    let arguments = [
        "engine".to_owned(),
        "--parts=aggregated".to_owned(),
        format!("--detail={bytes}"),
        format!("--repeats={repeats}"),
        format!("--rank={rank}"),
        format!("--folder={}", folder.display()),
    ];
    Child::start(arguments)
}

/// Lets all processes do their next step. Returns the seconds until the last one has done it.
fn step(members: &mut [Child]) -> Result<f64> {
    let since = Instant::now();
    members.iter_mut().try_for_each(Child::go)?;
    for member in members {
        member.line()?;
    }
    Ok(since.elapsed().as_secs_f64())
}

/// Seconds to write the bytes of all processes to a new file that takes the place of the one
/// before.
fn bare(folder: &Path, number: u32, memory: &TouchedMemory) -> Result<f64> {
    let since = Instant::now();
    let temporary = folder.join("temporary");
    let output = File::create(&temporary)?;
    let len = memory.len();
    for part in 0..RANKS as usize {
        for at in (0..len).step_by(BLOCK) {
            let block = memory.bytes(at, BLOCK.min(len - at));
            output.write_all_at(block, (part * len + at) as u64)?;
        }
    }
    fs::rename(&temporary, folder.join(format!("bare-{number}")))?;
    Ok(since.elapsed().as_secs_f64())
}

/// Bytes of one process's checkpoint file.
fn file_len(bytes: u64) -> Result<u64> {
    Ok(Header::new(vec![(0, bytes)])?.file_len())
}
