//! `veloc-bench run-overhead`: for how long `veloc run` has a program stand still while a version is made (CRUM, section
//! V). Between versions nothing of it is in the program's way.
//!
//! The peer is CRIU alone, which writes the same program to the same disk while it stands still.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use clap::Args;
use os::mapping::Mapping;
use os::{interrupt, size};
use supervisor::criu::Criu;
use tempfile::TempDir;

use super::engine::median;
use super::{CommonOptions, Goal, GoalOptions, MeasuredFigure, ResultsFile};
use crate::output;

/// Options of the command.
#[derive(Debug, Args)]
pub(crate) struct OverheadOptions {
    /// Bytes of the program's memory
    #[arg(long, value_delimiter = ',', value_parser = size::parse, default_value = "256M,1G")]
    bytes: Vec<u64>,
    /// The directory in which versions are written [default: a new one in the current directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The program veloc [default: beside this one]
    #[arg(long, value_name = "FILE")]
    veloc: Option<PathBuf>,
    #[command(flatten)]
    common: CommonOptions,
    #[command(flatten)]
    judge: GoalOptions,
    /// Be the program, with so much memory
    #[arg(long, hide = true)]
    program: bool,
}

/// Writes of the program in one step: it changes a part of its memory, as programs do.
const WRITES: usize = 1000;
/// How often it tells its longest step.
const TOLD: Duration = Duration::from_millis(100);

pub(crate) fn run(options: &OverheadOptions) -> Result<()> {
    if let (true, [bytes]) = (options.program, &options.bytes[..]) {
        return be_the_program(*bytes as usize);
    }
    interrupt::watch()?;
    let criu = Criu::find()?;
    let own = std::env::current_exe().context("finding this program")?;
    let veloc = options.veloc.clone().unwrap_or_else(|| own.with_file_name("veloc"));
    if !veloc.is_file() {
        bail!("{} is no program: --veloc names it", veloc.display());
    }
    let place = options.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let mut report = ResultsFile::new("run-overhead", options.common.out.as_deref())?;
    report.print_machine();
    MeasuredFigure::print_title();
    let mut tell = |figure: MeasuredFigure| {
        figure.print();
        report.points.push(figure);
        report.save()
    };
    let repeats = options.common.repeats;
    let bar = output::steps_bar("measuring", options.bytes.len() as u64 * 3 * u64::from(repeats));
    for bytes in &options.bytes {
        let what = size::show(*bytes);
        let (mut stopped, mut gaps, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        let folder = TempDir::new_in(&place)?;
        let running = Running::start(supervised(&veloc, folder.path(), &program(&own, *bytes)))?;
        for _ in 0..repeats {
            let since = Instant::now();
            succeed(Command::new(&veloc).arg("checkpoint").arg(folder.path().join("D")))?;
            whole.push(1e3 * since.elapsed().as_secs_f64());
            gaps.push(running.longest_gap()?);
            stopped.push(stopped_ms(&veloc, &folder.path().join("D"))?);
            bar.inc(1);
        }
        drop(running);
        let (mut bare, mut in_memory) = (Vec::new(), Vec::new());
        let running = Running::start(program(&own, *bytes))?;
        for _ in 0..repeats {
            for (times, place) in
                [(&mut bare, place.as_path()), (&mut in_memory, Path::new("/dev/shm"))]
            {
                let images = TempDir::new_in(place)?;
                times.push(1e3 * dumped(&criu, running.child.id(), images.path())?);
                running.longest_gap()?;
                bar.inc(1);
            }
        }
        drop(running);
        let ratio = median(gaps.clone()) / median(bare.clone());
        for (name, values) in [
            ("the program stood still, as it saw it", gaps),
            ("the program stood still, as veloc ls tells", stopped),
            ("a version until its files are durable", whole),
            ("criu to the disk, and forced to it", bare),
            ("criu to memory", in_memory),
        ] {
            bar.suspend(|| tell(MeasuredFigure::new(format!("{name}, {what}"), "ms", values)))?;
        }
        let what = format!("stood still / all written in the stop, {what}");
        let figure = MeasuredFigure::new(what, "", vec![ratio]).with_goal(Goal::AtMost(0.03));
        bar.suspend(|| tell(figure))?;
    }
    bar.finish_and_clear();
    options.judge.judge(&report.points)
}

/// The program: it has memory, and changes some of it in each step, for ever. Ten times a second it prints the longest time
/// from one step to the next, in milliseconds.
fn be_the_program(bytes: usize) -> Result<()> {
    let memory = Mapping::reserve(bytes)?;
    // SAFETY: the whole mapping, to which nobody else has a reference.
    let words =
        unsafe { std::slice::from_raw_parts_mut(memory.base().as_ptr().cast::<u64>(), bytes / 8) };
    for (at, word) in (0..).zip(&mut *words) {
        *word = at;
    }
    let begin = Instant::now();
    let (mut random, mut last, mut told, mut longest) = (1_usize, begin, begin, Duration::ZERO);
    loop {
        for _ in 0..WRITES {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            words[(random >> 20) % (bytes / 8)] ^= random as u64;
        }
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
        if now - told >= TOLD {
            // An end of the measurement is seen here.
            writeln!(io::stdout(), "{}", 1e3 * longest.as_secs_f64())?;
            (told, longest) = (now, Duration::ZERO);
        }
    }
}

fn program(own: &Path, bytes: u64) -> Command {
    let mut command = Command::new(own);
    command.args(["run-overhead", &format!("--bytes={bytes}"), "--program"]);
    command.stdin(Stdio::null());
    command
}

/// The same below `veloc run`, with its versions in `D` in this folder.
fn supervised(veloc: &Path, folder: &Path, program: &Command) -> Command {
    let mut command = Command::new(veloc);
    command.args(["run", "--dir"]).arg(folder.join("D")).arg(program.get_program());
    command.args(program.get_args()).stdin(Stdio::null());
    command
}

fn succeed(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::piped()).output().context("starting a program")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} ended with {}: {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// How long the program stood still for its newest version, in milliseconds.
fn stopped_ms(veloc: &Path, versions: &Path) -> Result<f64> {
    let text = succeed(Command::new(veloc).args(["ls", "--json"]).arg(versions))?;
    let listed: serde_json::Value = serde_json::from_str(&text)?;
    listed["versions"][0]["stopped_ms"].as_f64().context("reading what veloc ls tells")
}

/// Has CRIU alone write the program to a folder, and forces that to its storage. Returns the seconds.
fn dumped(criu: &Criu, process: u32, images: &Path) -> Result<f64> {
    let since = Instant::now();
    let mut command = Command::new(criu.program());
    command.args(["dump", "--leave-running", "--shell-job", "--tree", &process.to_string()]);
    // What it prints to is this process's.
    command.args(["--ext-unix-sk", "--images-dir"]).arg(images);
    succeed(command.stdout(Stdio::null()))?;
    for entry in fs::read_dir(images)? {
        fs::File::open(entry?.path())?.sync_all()?;
    }
    Ok(since.elapsed().as_secs_f64())
}

/// A program that never ends, until dropped.
struct Running {
    child: Child,
    gaps: Receiver<f64>,
}

impl Running {
    fn start(mut command: Command) -> Result<Running> {
        let mut child = command.stdout(Stdio::piped()).spawn().context("starting the program")?;
        let output = child.stdout.take().context("reading what the program says")?;
        let (send, gaps) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Nobody listens any more.
                let _ = line.parse().map(|gap| send.send(gap));
            }
        });
        let running = Running { child, gaps };
        // Until it has its memory.
        running.gaps.recv().context("the program has ended")?;
        Ok(running)
    }

    /// The longest time from one step to the next since this was asked last, in milliseconds.
    fn longest_gap(&self) -> Result<f64> {
        // What it says of the time before comes with one line more at most.
        let next = self.gaps.recv().context("the program has ended")?;
        let last = self.gaps.recv().context("the program has ended")?;
        Ok(self.gaps.try_iter().chain([next, last]).fold(0.0, f64::max))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // With a supervisor its children: the program, and the first process of its name space.
        let own = self.child.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        let children = children.unwrap_or_default();
        let all = children.split_whitespace().filter_map(|child| child.parse().ok());
        for process in all.chain([own.cast_signed()]) {
            // SAFETY: no memory is involved.
            unsafe { libc::kill(process, libc::SIGKILL) };
        }
        let _ = self.child.wait();
    }
}
