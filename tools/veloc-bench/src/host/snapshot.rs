//! `veloc-bench snapshot`: for how long a checkpoint of host memory stops the application, and what it costs
//! afterwards, in each way of `host_capture`, beside what a program does without the library: write the memory to a
//! file and force it to the storage (CRUM, tables 2 and 3).
//!
//! Each size and kind of pages is measured in a process of its own; in it all ways take turns.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::ptr;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use os::interrupt;
use os::mapping::Mapping;
use os::size;
use tempfile::TempDir;

use super::engine::job::{BenchJob, NAME};
use super::{
    changes, encoded, in_own_process, vectors, CommonOptions, Goal, GoalOptions, MeasuredFigure,
    ResultsFile,
};

/// Options of the command.
#[derive(Debug, Args)]
pub(crate) struct SnapshotOptions {
    /// Bytes of a checkpoint
    #[arg(long, value_delimiter = ',', value_parser = size::parse, default_value = "1G")]
    bytes: Vec<u64>,
    /// The pages of the application's memory
    #[arg(long, value_delimiter = ',', value_enum, default_values = ["small", "huge"])]
    pages: Vec<PageSize>,
    /// What is measured
    #[arg(long, value_delimiter = ',', value_enum, default_values = ["ways"])]
    parts: Vec<SnapshotPart>,
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    judge: GoalOptions,
    /// Measure one size and kind of pages in this process
    #[arg(long, hide = true)]
    here: bool,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SnapshotPart {
    /// The ways to capture, in memory.
    Ways,
    /// Two vectors and their dot product, with files, compressed by programs and by the library.
    Vectors,
    /// Checkpoints of what has changed, with files.
    Changes,
    /// Arrays that are encoded within an error bound, in memory.
    Encoded,
}

/// Pages of the application's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PageSize {
    /// 4 KiB.
    Small,
    /// 2 MiB, if the system has them.
    Huge,
}

/// The ways that are compared.
const WAYS: [&str; 3] = ["copy", "protect", "fork"];

pub(crate) fn run(options: &SnapshotOptions) -> Result<()> {
    if let (true, [bytes], [pages]) = (options.here, &options.bytes[..], &options.pages[..]) {
        let repeats = options.common.repeats;
        return match options.parts[..] {
            [SnapshotPart::Vectors] => vectors::measure(*bytes as usize, repeats),
            [SnapshotPart::Changes] => changes::measure(*bytes as usize, *pages, repeats),
            [SnapshotPart::Encoded] => encoded::measure(*bytes as usize, *pages, repeats),
            _ => measure(*bytes as usize, *pages, repeats),
        };
    }
    interrupt::watch()?;
    let mut report = ResultsFile::new("snapshot", options.common.out.as_deref())?;
    report.print_machine();
    MeasuredFigure::print_title();
    for bytes in &options.bytes {
        let by_pages =
            |part| options.pages.iter().map(move |pages| (part, *pages)).collect::<Vec<_>>();
        let all = by_pages(SnapshotPart::Ways)
            .into_iter()
            .chain([(SnapshotPart::Vectors, PageSize::Small)]);
        let all = all.chain(by_pages(SnapshotPart::Changes));
        let all = all.chain(by_pages(SnapshotPart::Encoded));
        for (part, pages) in all.filter(|(part, _)| options.parts.contains(part)) {
            let [part, pages] = [crate::options::name_of(&part), crate::options::name_of(&pages)];
            let arguments = [
                "snapshot".to_owned(),
                "--here".to_owned(),
                format!("--bytes={bytes}"),
                format!("--pages={pages}"),
                format!("--parts={part}"),
                format!("--repeats={}", options.common.repeats),
            ];
            in_own_process(&arguments, &[], |line| {
                let figure: MeasuredFigure = serde_json::from_str(line)?;
                figure.print();
                report.points.push(figure);
                report.save()
            })?;
        }
    }
    options.judge.judge(&report.points)
}

/// The application's memory.
struct SnapshotMemory(Mapping);

impl SnapshotMemory {
    fn new(bytes: usize, pages: PageSize) -> Result<SnapshotMemory> {
        let memory = SnapshotMemory(Mapping::reserve(bytes)?);
        // Without huge pages the figures are those of small ones.
        let _ = memory.0.advise_huge(pages == PageSize::Huge);
        memory.rewrite(1);
        Ok(memory)
    }

    /// Writes all of it.
    fn rewrite(&self, value: u8) {
        // SAFETY: the whole mapping, to whose bytes nobody has a reference.
        unsafe { ptr::write_bytes(self.0.base().as_ptr(), value, self.0.len()) };
        std::hint::black_box(self.0.base());
    }

    /// Copies all of another's.
    fn copy(&self, other: &SnapshotMemory) {
        // SAFETY: two mappings of the same length, to whose bytes nobody has a reference.
        unsafe {
            ptr::copy_nonoverlapping(other.0.base().as_ptr(), self.0.base().as_ptr(), self.0.len());
        }
        std::hint::black_box(self.0.base());
    }

    /// Writes it to a file, and forces that to the storage: what a program does that waits for its checkpoints.
    fn save(&self, folder: &Path) -> Result<()> {
        let file = File::create(folder.join("naive"))?;
        // SAFETY: the whole mapping, which is written to only between these calls.
        let bytes = unsafe { std::slice::from_raw_parts(self.0.base().as_ptr(), self.0.len()) };
        file.write_all_at(bytes, 0)?;
        file.sync_all().context("forcing a file to the storage")
    }
}

pub(super) fn seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let since = Instant::now();
    work()?;
    Ok(since.elapsed().as_secs_f64())
}

fn measure(bytes: usize, pages: PageSize, repeats: u32) -> Result<()> {
    let what =
        format!("{}, {} pages", os::size::show(bytes as u64), crate::options::name_of(&pages));
    let (memory, plain) = (SnapshotMemory::new(bytes, pages)?, SnapshotMemory::new(bytes, pages)?);
    let copies = (0..repeats)
        .map(|_| {
            seconds(|| {
                plain.copy(&memory);
                Ok(())
            })
        })
        .collect::<Result<Vec<_>>>()?;
    drop(plain);
    tell("memcpy", &what, "ms", copies.iter().map(|time| 1e3 * time).collect(), None)?;
    let copy = super::engine::median(copies);
    let mut naive = Vec::new();
    for (name, folder) in [("disk", std::env::temp_dir()), ("tmpfs", "/dev/shm".into())] {
        let Ok(folder) = TempDir::new_in(folder) else { continue };
        let times = (0..repeats)
            .map(|_| seconds(|| memory.save(folder.path())))
            .collect::<Result<Vec<_>>>()?;
        tell(
            &format!("written and forced to {name}"),
            &what,
            "ms",
            times.iter().map(|time| 1e3 * time).collect(),
            None,
        )?;
        naive.push((name, super::engine::median(times)));
    }
    for way in WAYS {
        // Room for three versions, so that none waits for room.
        let room = 3 * bytes + (64 << 20);
        let job = BenchJob::start(&format!(
            "mode = async\nephemeral = true\nhost_cache_size = {room}B\nhost_capture = {way}\n"
        ))?;
        // SAFETY: `memory` outlives the job.
        unsafe { job.protect(0, memory.0.base().as_ptr().cast(), bytes)? };
        let (mut blocked, mut rewritten, mut untouched) = (Vec::new(), Vec::new(), Vec::new());
        // Two versions in turns: pages of the host buffer exist from the third on.
        for round in 0..repeats as i32 + 3 {
            let call = seconds(|| job.checkpoint(NAME, round % 2))?;
            let writing = seconds(|| {
                memory.rewrite(round as u8);
                Ok(())
            })?;
            job.drain()?;
            let after = seconds(|| {
                memory.rewrite(round as u8);
                Ok(())
            })?;
            if round > 2 {
                blocked.push(call);
                rewritten.push(writing / copy);
                untouched.push(after / copy);
            }
        }
        let milliseconds = blocked.iter().map(|time| 1e3 * time).collect();
        let is_short = way == "protect" && pages == PageSize::Huge;
        let goal = is_short.then_some(Goal::AtMost(1.0));
        tell(&format!("{way}: blocked"), &what, "ms", milliseconds, goal)?;
        for (name, naive) in &naive {
            let most = if *name == "disk" { 0.025 } else { 0.05 };
            let goal = (way != "copy").then_some(Goal::AtMost(most));
            let ratios = blocked.iter().map(|time| time / naive).collect();
            tell(&format!("{way}: blocked"), &what, &format!("x {name}"), ratios, goal)?;
        }
        let goal = (way == "protect").then_some(Goal::AtMost(2.0));
        tell(&format!("{way}: all is rewritten meanwhile"), &what, "x memcpy", rewritten, goal)?;
        tell(&format!("{way}: all is rewritten later"), &what, "x memcpy", untouched, None)?;
    }
    Ok(())
}

pub(super) fn tell(
    what: &str,
    of: &str,
    unit: &str,
    values: Vec<f64>,
    goal: Option<Goal>,
) -> Result<()> {
    let figure = MeasuredFigure::new(format!("{what}, {of}"), unit, values);
    let figure = match goal {
        Some(goal) => figure.with_goal(goal),
        None => figure,
    };
    println!("{}", serde_json::to_string(&figure)?);
    Ok(())
}
